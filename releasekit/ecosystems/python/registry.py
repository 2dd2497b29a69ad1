"""A Python package index: the legacy upload API and the simple index that shows its files."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urldefrag, urlsplit

import httpx
from packaging.utils import canonicalize_name
from packaging.version import Version

from releasekit.access import TRUSTED, Access
from releasekit.attestations import Signing
from releasekit.config import Attestations, TrustedPublishing
from releasekit.ecosystems import Answer, Confirmation, Presence, untold
from releasekit.ecosystems.python import attestation, credentials, trusted
from releasekit.ecosystems.python.filenames import name_and_version
from releasekit.errors import IndexUnknown, OddAnswer, UnreadableArtifact
from releasekit.net import request_with_retry, require_answer, send
from releasekit.secrets import origin, redact, split_url, variable_part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from releasekit.attestations import Attestor
    from releasekit.config import RegistrySettings
    from releasekit.model import Package, Problem
    from releasekit.secrets import Credential

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "application/vnd.pypi.simple.v1+html"
_OK = 200
_NOT_FOUND = 404
NEW_PROJECTS_A_DAY = 4
"""How many one user, and one address, may create on the public index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleIndex:
    name: str
    address: str
    index: str
    access: Access = field(default_factory=Access, repr=False)
    confirmation: Confirmation = field(default_factory=Confirmation)
    signing: Signing = field(default_factory=Signing)
    offered: bool = True
    """Whether trusted publishing, where it is to be used, is to be had here."""

    @classmethod
    def of(cls, name: str, settings: RegistrySettings | None, environ: Mapping[str, str]) -> Self:
        """As configured; where nothing is, what twine takes for the default."""
        upload, index = (settings.upload_url, settings.index_url) if settings else (None, None)
        if upload is None:
            from twine import repository, utils

            upload = utils.DEFAULT_REPOSITORY
            index = index or f"{repository.WAREHOUSE_WEB}simple/"
        if index is None:
            raise IndexUnknown(registry=name)
        upload, in_upload = split_url(upload, source=f"the upload address of `{name}`")
        index, in_index = split_url(index, source=f"the index address of `{name}`")
        trust = settings.trusted_publishing if settings else TrustedPublishing.AUTO
        return cls(
            name=name,
            address=upload,
            index=index if index.endswith("/") else f"{index}/",
            access=_access(name, upload, index, environ, in_upload, in_index, trust),
            confirmation=Confirmation.of(index, settings),
            signing=Signing.of(settings, environ),
            offered=trusted.is_offered_at_all(environ),
        )

    @property
    def new_projects_a_day(self) -> int | None:
        return NEW_PROJECTS_A_DAY if _is_public(self.address) else None

    def objections(
        self,
        package: Package,  # noqa: ARG002
        presence: Presence | None,  # noqa: ARG002
    ) -> tuple[Problem, ...]:
        """It keeps its rules to itself until something is sent."""
        return ()

    def credential_places(self) -> str:
        return (
            f"set `RELEASEKIT_{variable_part(self.name)}_TOKEN`, add it to `~/.pypirc` or the "
            "keyring, or use trusted publishing in CI"
        )

    async def credential_source(self) -> str | None:
        source = await self.access.source()
        if source == TRUSTED and not self.offered:
            return None
        return redact(source) if source else None

    @property
    def trusts_new_projects(self) -> bool:
        return True  # by a pending publisher

    async def reach(self, client: httpx.AsyncClient) -> None:
        if origin(self.address) != origin(self.index):
            await require_answer(client, self.address)

    async def whoami(self, client: httpx.AsyncClient) -> str | None:  # noqa: ARG002
        """The upload API has no such question."""
        return None

    async def attestor(
        self,
        client: httpx.AsyncClient,  # noqa: ARG002 - what there is to know is known here
        package: Package,  # noqa: ARG002
    ) -> Attestor | None:
        if self.signing.wish is Attestations.NEVER:
            return None
        trusted = await self.access.source() == TRUSTED
        return attestation.attestor(
            self.name, self.signing, public=_is_public(self.address), trusted=trusted
        )

    async def presence(self, client: httpx.AsyncClient, package: Package) -> Presence:
        url = f"{self.index}{canonicalize_name(package.name)}/"
        answer = await request_with_retry(
            client,
            url,
            # no-cache: clients and edges keep a page for minutes unless asked to revalidate.
            headers={"Accept": f"{_JSON}, {_HTML};q=0.5, text/html;q=0.1",
                     "Cache-Control": "no-cache", **await self.access.read_headers()},
        )  # fmt: skip
        if answer.status_code == _NOT_FOUND:
            return Presence(registry=self.name, files={}, known=False)
        if answer.status_code != _OK:
            raise OddAnswer(url=url, status=answer.status_code, words=redact(answer.text))
        wanted = Version(package.version or "")
        try:
            served = _files(answer)
        except (ValueError, AttributeError, KeyError, TypeError):
            words = "this is not a simple index's answer"
            raise OddAnswer(url=url, status=answer.status_code, words=words) from None
        named = {name: built[1] for name in served if (built := name_and_version(name))}
        files = {name: served[name] for name, version in named.items() if version == wanted}
        missing = [
            kind
            for kind, suffix in (("a wheel", ".whl"), ("an sdist", ".tar.gz"))
            if files and not any(name.endswith(suffix) for name in files)
        ]
        released = max((one for one in named.values() if not one.is_devrelease), default=None)
        return Presence(
            registry=self.name,
            files=files,
            missing=" and ".join(missing),
            highest=str(released) if released else None,
        )

    async def upload(
        self,
        client: httpx.AsyncClient,
        package: Package,  # noqa: ARG002 - the file says whose it is
        file: Path,
        told: Callable[[float], None] = untold,
    ) -> Answer:
        fields = await asyncio.to_thread(_form_fields, file)
        beside = file.with_name(file.name + attestation.SUFFIX)
        if self._takes_attestations and beside.exists():
            fields["attestations"] = f"[{beside.read_text(encoding='utf-8')}]"

        async def post(headers: Mapping[str, str]) -> httpx.Response:
            with file.open("rb") as content:
                form = httpx.Request(
                    "POST",
                    self.address,
                    data=fields,
                    files={"content": (file.name, content, "application/octet-stream")},
                )
                return await send(
                    client,
                    "POST",
                    self.address,
                    pieces=cast("httpx.SyncByteStream", form.stream),
                    size=int(form.headers["Content-Length"]),
                    headers={"Content-Type": form.headers["Content-Type"], **headers},
                    told=told,
                )

        answer, source = await self.access.send(client, post)
        return Answer(
            status=answer.status_code,
            words=redact(_words(answer)),
            headers=dict(answer.headers),
            credential=redact(source),
        )

    @property
    def _takes_attestations(self) -> bool:
        if self.signing.wish is Attestations.AUTO:
            return _is_public(self.address)
        return self.signing.required


def _access(
    name: str,
    upload: str,
    index: str,
    environ: Mapping[str, str],
    in_upload: Credential | None,
    in_index: Credential | None,
    trust: TrustedPublishing,
) -> Access:
    home = environ.get("HOME")
    pypirc = Path(home) / ".pypirc" if home else None
    same_origin = origin(upload) == origin(index)
    reading = in_index or credentials.from_own_variables(name, environ)
    if trust is TrustedPublishing.ALWAYS:
        return Access(minter=trusted.minter(upload, environ), reading=reading)
    found = in_upload or credentials.resolve(
        name=name, address=upload, environ=environ, pypirc=pypirc
    )
    user = credentials.user_in_pypirc(name, upload, pypirc) if pypirc and not found else None
    offered = trust is TrustedPublishing.AUTO and trusted.is_offered(environ)
    return Access(
        found=found,
        # Without a home there is no user, and a user's keyring is not ours to open.
        search=functools.partial(credentials.from_keyring, upload, user) if home else None,
        # Any other index could name the public one's audience, and so get a token for it.
        minter=trusted.minter(upload, environ) if offered and _is_public(upload) else None,
        reading=reading,
        reads_as_it_writes=same_origin,
    )


def _is_public(upload: str) -> bool:
    from twine import utils

    return upload.startswith((utils.DEFAULT_REPOSITORY, utils.TEST_REPOSITORY))


def _form_fields(file: Path) -> dict[str, list[str] | str]:
    from twine.exceptions import TwineException
    from twine.package import PackageFile

    try:
        package = PackageFile.from_filename(str(file), comment=None)
    except TwineException as error:
        raise UnreadableArtifact(file=file, problem=str(error)) from error
    # Its names are the form's; twine's own way from here to pairs would load requests.
    fields: dict[str, list[str] | str] = {":action": "file_upload", "protocol_version": "1"}
    for key, value in package.metadata_dictionary().items():
        match value:
            case dict():
                fields[key] = [f"{name}, {url}" for name, url in value.items()]
            case list() if key == "keywords":
                fields[key] = ", ".join(value)
            case list():
                fields[key] = [str(one) for one in value]
            case _:
                fields[key] = str(value)
    return fields


def _words(answer: httpx.Response) -> str:
    """The registry's own words: the reason phrase is where the upload API puts them."""
    return f"{answer.status_code} {answer.reason_phrase}".strip()


def _files(answer: httpx.Response) -> dict[str, str]:
    if answer.headers.get("content-type", "").partition(";")[0].strip() == _JSON:
        return {
            file["filename"]: f"sha256:{file['hashes']['sha256']}"
            for file in answer.json()["files"]
            if "sha256" in file.get("hashes", {})
        }
    links = _Links()
    links.feed(answer.text)
    if not links.is_index:
        raise ValueError
    return links.files


class _Links(HTMLParser):
    """PEP 503: an anchor per file, its hash in the fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self._text = ""

    @property
    def is_index(self) -> bool:
        """A page of logging in or of maintenance, served as 200, would mean: nothing is there."""
        told = self._text.strip().lower()
        return bool(self.files) or not told or "links for" in told or "index" in told

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") if tag == "a" else None
        if href is None:
            return
        url, fragment = urldefrag(href)
        algorithm, _, digest = fragment.partition("=")
        if algorithm == "sha256":
            self.files[unquote(urlsplit(url).path.rpartition("/")[2])] = f"sha256:{digest}"
