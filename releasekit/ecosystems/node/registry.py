"""An npm registry: one PUT a version, and the packument that shows it."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from releasekit import process
from releasekit.access import TRUSTED, Access
from releasekit.attestations import Attestor, Signing
from releasekit.config import Attestations, TrustedPublishing
from releasekit.ecosystems import Answer, Confirmation, Presence, untold
from releasekit.ecosystems.node import credentials, provenance, rules, trusted
from releasekit.ecosystems.node.credentials import Npmrc
from releasekit.ecosystems.node.document import document
from releasekit.ecosystems.node.tarball import NEEDS_NODE, without_build
from releasekit.errors import CredentialRefused, OddAnswer, SigningRefused
from releasekit.net import request_with_retry, send
from releasekit.secrets import origin, redact, split_url, variable_part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import httpx

    from releasekit.ecosystems import Choice
    from releasekit.model import Package, Problem, Workspace
    from releasekit.secrets import Credential

_OK = 200
_NOT_FOUND = 404
_REFUSED = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmRegistry:
    name: str
    address: str
    tag: str | None = None
    """The dist-tag that was asked for, or that the package asks for."""
    package_access: str | None = None
    """`public` or `restricted`, where that was asked for."""
    offered: bool = True
    """Whether trusted publishing, where it is to be used, is to be had here."""
    access: Access = field(default_factory=Access, repr=False)
    confirmation: Confirmation = field(default_factory=Confirmation)
    signing: Signing = field(default_factory=Signing)
    repository: object = None
    """As the package.json writes it."""

    @property
    def new_projects_a_day(self) -> None:
        """No limit is documented."""

    def objections(self, package: Package, presence: Presence | None) -> Sequence[Problem]:
        access = self.package_access
        return tuple(rules.objections(package, presence, tag=self.tag, access=access))

    def credential_places(self) -> str:
        return (
            f"set `RELEASEKIT_{variable_part(self.name)}_TOKEN`, or put `_authToken` for its "
            "address into an `.npmrc`"
        )

    async def credential_source(self) -> str | None:
        source = await self.access.source()
        if source == TRUSTED and not self.offered:
            return None
        return redact(source) if source else None

    @property
    def trusts_new_projects(self) -> bool:
        return False

    async def reach(self, client: httpx.AsyncClient) -> None:
        """One address serves both."""

    async def whoami(self, client: httpx.AsyncClient) -> str | None:
        credential = self.access.found
        if credential is None:
            return None
        answer = await request_with_retry(
            client, f"{self.address}-/whoami", headers=credential.headers
        )
        try:
            name = answer.json().get("username") if answer.status_code == _OK else None
        except (ValueError, AttributeError):
            return None
        if name:
            return str(name)
        # verdaccio answers 200 and names nobody, npm's own registry 401.
        if answer.status_code == _OK or answer.status_code in _REFUSED:
            raise CredentialRefused(
                registry=self.name,
                credential=redact(credential.source),
                words=redact(_words(answer)),
                anonymous=answer.status_code == _OK,
            )
        return None

    async def attestor(self, client: httpx.AsyncClient, package: Package) -> Attestor | None:
        """npm's own rules; where it is not required, only trusted publishing brings provenance."""
        signing, trusted_only = self.signing, not self.signing.required
        if signing.wish is Attestations.NEVER:
            return None
        if trusted_only and not (signing.is_offered and await self.access.source() == TRUSTED):
            return None
        signing.require_signer(self.name)
        provenance.require_source(
            package.id, self.repository, signing.environ, required=signing.required
        )
        if not trusted_only:
            await self._require_public(client, package)
        return Attestor(
            signing=signing,
            suffix=provenance.SUFFIX,
            needs_public_source=True,
            sign=functools.partial(provenance.sign, environ=signing.environ),
            check=provenance.check,
            ready=functools.partial(self._ready, package=package) if trusted_only else None,
        )

    async def _ready(self, client: httpx.AsyncClient, package: Package) -> None:
        """Whether this registry does trusted publishing, as npm itself finds out."""
        token = await self.access.minter.credential(client) if self.access.minter else None
        if token is None:
            raise SigningRefused(
                what=package.id,
                problem=f"`{self.name}` has no trusted publishing",
                hint='set `attestations = "never"` there, or `always` if it takes provenance',
                required=False,
            )
        await self._require_public(client, package, token.headers)

    async def _require_public(
        self, client: httpx.AsyncClient, package: Package, headers: Mapping[str, str] | None = None
    ) -> None:
        """A name without a scope is public; of others the registry tells, once it knows them."""
        asked = self.package_access
        if asked == "public" or (asked is None and not package.name.startswith("@")):
            return
        public = False
        if asked is None:
            answer = await request_with_retry(
                client,
                f"{self.address}-/package/{quote(package.name, safe='@')}/visibility",
                headers=headers or await self.access.read_headers(),
            )
            try:
                public = answer.status_code == _OK and answer.json().get("public") is True
            except (ValueError, AttributeError):
                public = False
        if not public:
            raise SigningRefused(
                what=package.id,
                problem="npm takes provenance of public packages alone, and this one is new or not",
                hint='write `"publishConfig": { "access": "public" }` in its package.json',
                required=self.signing.required,
            )

    async def presence(self, client: httpx.AsyncClient, package: Package) -> Presence:
        url = self._document(package.name)
        answer = await request_with_retry(
            client, url, headers={**await self.access.read_headers(), "Cache-Control": "no-cache"}
        )
        if answer.status_code == _NOT_FOUND:
            return Presence(registry=self.name, files={}, known=False)
        if answer.status_code != _OK:
            raise OddAnswer(url=url, status=answer.status_code, words=redact(answer.text))
        try:
            body = _document_of(answer, package.name)
            versions, times = body.get("versions") or {}, body.get("time") or {}
            version = versions.get(without_build(package.version or ""))
            files = (
                {tarball_name(package.name, package.version or ""): _digest(version["dist"])}
                if version is not None
                else {}
            )
            supported = [name for name, held in versions.items() if not held.get("deprecated")]
        except (ValueError, AttributeError, KeyError, TypeError):
            words = "this is not an npm registry's answer"
            raise OddAnswer(url=url, status=answer.status_code, words=words) from None
        return Presence(
            registry=self.name,
            files=files,
            known=bool(versions),
            highest=rules.highest(versions),
            supported=rules.highest(supported),
            withdrawn=version is None and package.version in times,
        )

    async def upload(
        self,
        client: httpx.AsyncClient,
        package: Package,
        file: Path,
        told: Callable[[float], None] = untold,
    ) -> Answer:
        beside = file.with_name(file.name + provenance.SUFFIX)
        wanted = self.signing.wish is not Attestations.NEVER and beside.exists()
        made = await asyncio.to_thread(
            document,
            file,
            address=self.address,
            tag=self.tag,
            access=self.package_access,
            bundle=beside.read_text(encoding="utf-8") if wanted else None,
        )
        url = self._document(package.name)

        async def put(headers: Mapping[str, str]) -> httpx.Response:
            return await send(
                client,
                "PUT",
                url,
                pieces=made.pieces(),
                size=made.size,
                headers={"Content-Type": "application/json", **headers},
                told=told,
            )

        answer, source = await self.access.send(client, put)
        return Answer(
            status=answer.status_code,
            words=redact(_words(answer)),
            headers=dict(answer.headers),
            credential=redact(source),
        )

    def _document(self, name: str) -> str:
        return self.address + quote(name, safe="@")


def registries_for(
    choices: Sequence[Choice], workspace: Workspace, environ: Mapping[str, str]
) -> dict[str, NpmRegistry]:
    """As configured, else as npm would choose; npm itself is asked once, if at all."""
    default = functools.cache(functools.partial(npm_default, workspace.root))
    read = functools.cache(functools.partial(Npmrc.read, environ=environ))
    found = {}
    for choice in choices:
        package = choice.package
        member = workspace.member_of(package)
        folders = (package.path, *((member.root,) if member else ()))
        npmrc = read(credentials.files_of(workspace.root, folders, environ))
        name, address = choice.registry, choice.settings.url if choice.settings else None
        manifest = json.loads((workspace.root / package.manifest).read_bytes())
        publish = manifest.get("publishConfig") or {}
        if address is None:
            name, address = _chosen_by_npm(name, package.name, publish, npmrc, default)
        address, in_address = split_url(address, source=f"the address of `{name}`")
        address = address if address.endswith("/") else f"{address}/"
        trust = choice.settings.trusted_publishing if choice.settings else TrustedPublishing.AUTO
        found[package.id] = NpmRegistry(
            name=name,
            address=address,
            tag=choice.tag or publish.get("tag"),
            package_access=choice.access or publish.get("access"),
            offered=trusted.is_offered(address, environ),
            confirmation=Confirmation.of(address, choice.settings),
            access=_access(name, address, package.name, npmrc, environ, in_address, trust),
            signing=Signing.of(choice.settings, environ),
            repository=manifest.get("repository"),
        )
    return found


def _chosen_by_npm(
    name: str,
    package: str,
    publish: Mapping[str, str],
    npmrc: Npmrc,
    default: Callable[[], str],
) -> tuple[str, str]:
    """npm's own order. Another host is another registry: the default one's token is not for it."""
    scope = package.partition("/")[0]
    address = (
        publish.get(f"{scope}:registry") or npmrc.registry_of(package) or publish.get("registry")
    )
    if not address or origin(address) == origin(default()):
        return name, address or default()
    return urlsplit(address).netloc.rpartition("@")[2], address


def _access(
    name: str,
    address: str,
    package: str,
    npmrc: Npmrc,
    environ: Mapping[str, str],
    in_address: Credential | None,
    trust: TrustedPublishing,
) -> Access:
    found = in_address or credentials.resolve(
        name=name, url=f"{address}{package}", npmrc=npmrc, environ=environ
    )
    required = trust is TrustedPublishing.ALWAYS
    offered = trust is TrustedPublishing.AUTO and trusted.is_offered(address, environ)
    wanted = required or (offered and found is None)
    return Access(
        found=None if required else found,
        minter=trusted.minter(address, package, environ, required=required) if wanted else None,
        reading=found,
    )


def tarball_name(name: str, version: str) -> str:
    """As `npm pack` names it: `@scope/name` becomes `scope-name`."""
    return f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"


def npm_default(root: Path) -> str:
    npm = process.find_tool("npm", hint=NEEDS_NODE)
    return process.output([npm, "config", "get", "registry"], cwd=root).strip()


def _digest(dist: dict[str, str]) -> str:
    """The sha512 of a packument's entry as `sha512:<hex>`; an entry may list several."""
    for part in dist.get("integrity", "").split():
        algorithm, _, encoded = part.partition("-")
        if algorithm == "sha512":
            return f"sha512:{base64.b64decode(encoded).hex()}"
    return f"sha1:{dist.get('shasum', '')}"


def _document_of(answer: httpx.Response, name: str) -> dict[str, Any]:
    """A page of something else, served as 200, would mean: nothing is there."""
    body: dict[str, Any] = answer.json()
    if body["name"] != name:
        raise ValueError(body["name"])
    return body


def _words(answer: httpx.Response) -> str:
    try:
        error = answer.json().get("error")
    except (ValueError, AttributeError):
        error = None
    return f"{answer.status_code} {error or answer.reason_phrase}".strip()
