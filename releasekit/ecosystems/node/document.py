"""The document that npm PUTs: what a package.json says, as npm words it, and the tarball itself."""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.node import provenance
from releasekit.ecosystems.node.tarball import read_package, without_build

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# A multiple of three, so that the pieces of base64 make one text.
_CHUNK = 3 << 14
_PERSON = re.compile(r"([^<(]*)(?:<([^>]*)>)?\s*(?:\(([^)]*)\))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """JSON with the tarball in it, read on the way and in base64.

    It is the first of the attachments, as npm sends it: some registries look no further.
    """

    head: Mapping[str, Any]
    attachment: str
    file: Path
    length: int
    attached: str = ""
    """What is attached after the tarball, as JSON members."""

    @property
    def size(self) -> int:
        encoded = -(-self.length // 3) * 4
        return len(self._before()) + encoded + len(self._after())

    def pieces(self) -> Iterator[bytes]:
        yield self._before()
        with self.file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                yield base64.b64encode(chunk)
        yield self._after()

    def _before(self) -> bytes:
        name = json.dumps(self.attachment)
        head = json.dumps(self.head, separators=(",", ":"))
        kind = f'"content_type":"application/octet-stream","length":{self.length}'
        return f'{head[:-1]},"_attachments":{{{name}:{{{kind},"data":"'.encode()

    def _after(self) -> bytes:
        return f'"}}{self.attached}}}}}'.encode()


def document(
    file: Path, *, address: str, tag: str | None, access: str | None, bundle: str | None
) -> Document:
    manifest, readme = read_package(file)
    name, version = manifest["name"], without_build(manifest["version"])
    settings = manifest.get("publishConfig") or {}
    attachment = f"{name}-{version}.tgz"
    sha512, sha1, length = _digests(file)
    described = {"description": manifest["description"]} if "description" in manifest else {}
    head = {
        "_id": name,
        "name": name,
        **described,
        "dist-tags": {tag or settings.get("tag") or "latest": version},
        "access": access or settings.get("access"),
        "versions": {
            version: {
                **_as_npm_words_it(manifest, version),
                **({"readme": readme[1], "readmeFilename": readme[0]} if readme else {}),
                "_id": f"{name}@{version}",
                "dist": {
                    "integrity": f"sha512-{sha512}",
                    "shasum": sha1,
                    "tarball": f"{address}{name}/-/{attachment}",
                },
            }
        },
    }
    return Document(
        head=head,
        attachment=attachment,
        file=file,
        length=length,
        attached=_attached(f"{name}-{version}.sigstore", bundle) if bundle else "",
    )


def _as_npm_words_it(manifest: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Registries and clients read these fields in their long form; npm expands them as it sends."""
    told = {key: value for key, value in manifest.items() if not key.startswith("_")}
    told["version"] = version
    if isinstance(repository := told.get("repository"), str):
        told["repository"] = {"type": "git", "url": provenance.repository_url(repository)}
    if isinstance(binary := told.get("bin"), str):
        told["bin"] = {told["name"].rpartition("/")[2]: binary}
    if isinstance(told.get("bin"), dict):
        told["bin"] = {
            name.rpartition("/")[2]: posixpath.normpath(f"/{target}").lstrip("/")
            for name, target in told["bin"].items()
            if isinstance(target, str)
        }
    if isinstance(bugs := told.get("bugs"), str):
        told["bugs"] = {"url" if "/" in bugs else "email": bugs}
    if isinstance(author := told.get("author"), str):
        told["author"] = _person(author)
    for key in ("contributors", "maintainers"):
        if isinstance(people := told.get(key), list):
            told[key] = [_person(one) if isinstance(one, str) else one for one in people]
    return told


def _person(text: str) -> dict[str, str]:
    """`Name <mail> (address)`."""
    match = _PERSON.match(text)
    parts = match.groups() if match else (text, None, None)
    fields = zip(("name", "email", "url"), parts, strict=True)
    return {field: value.strip() for field, value in fields if value and value.strip()}


def _attached(name: str, bundle: str) -> str:
    kind = json.loads(bundle)["mediaType"]
    body = {"content_type": kind, "data": bundle, "length": len(bundle)}
    return f",{json.dumps(name)}:{json.dumps(body, separators=(',', ':'))}"


def _digests(file: Path) -> tuple[str, str, int]:
    # The registry's protocol asks for SHA-1 beside the integrity.
    sha512, sha1, length = hashlib.sha512(), hashlib.sha1(usedforsecurity=False), 0
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            sha512.update(chunk)
            sha1.update(chunk)
            length += len(chunk)
    return base64.b64encode(sha512.digest()).decode(), sha1.hexdigest(), length
