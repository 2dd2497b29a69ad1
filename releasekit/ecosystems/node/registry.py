"""An npm registry: one PUT a version, and the packument that shows it."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from releasekit import process
from releasekit.access import Access
from releasekit.config import TrustedPublishing
from releasekit.ecosystems import Answer, Presence
from releasekit.ecosystems.node import credentials, trusted
from releasekit.ecosystems.node.credentials import Npmrc
from releasekit.ecosystems.node.tarball import NEEDS_NODE, read_manifest
from releasekit.errors import OddAnswer, TagNeeded
from releasekit.net import request_with_retry
from releasekit.secrets import origin, redact, split_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import httpx

    from releasekit.ecosystems import Choice
    from releasekit.model import Package, Workspace
    from releasekit.secrets import Credential

_OK = 200
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmRegistry:
    name: str
    address: str
    tag: str | None = None
    """The dist-tag that the package asks for."""
    access: Access = field(default_factory=Access, repr=False)

    def refusal(self, package: Package) -> TagNeeded | None:
        version = package.version or ""
        if "-" in version.partition("+")[0] and not self.tag:
            return TagNeeded(name=package.name, version=version)
        return None

    async def presence(self, client: httpx.AsyncClient, package: Package) -> Presence:
        url = self._document(package.name)
        answer = await request_with_retry(
            client, url, headers={**await self.access.read_headers(), "Cache-Control": "no-cache"}
        )
        if answer.status_code == _NOT_FOUND:
            return Presence(registry=self.name, files={})
        if answer.status_code != _OK:
            raise OddAnswer(url=url, status=answer.status_code, words=redact(answer.text))
        version = answer.json().get("versions", {}).get(package.version)
        if version is None:
            return Presence(registry=self.name, files={})
        return Presence(
            registry=self.name,
            files={tarball_name(package.name, package.version or ""): _digest(version["dist"])},
        )

    async def upload(self, client: httpx.AsyncClient, package: Package, file: Path) -> Answer:
        document = await asyncio.to_thread(self._publish_document, file)
        url = self._document(package.name)

        async def put(headers: Mapping[str, str]) -> httpx.Response:
            return await client.put(url, json=document, headers=headers)

        answer, source = await self.access.send(client, put)
        return Answer(
            status=answer.status_code,
            words=redact(_words(answer)),
            headers=dict(answer.headers),
            credential=redact(source),
        )

    def _document(self, name: str) -> str:
        return self.address + quote(name, safe="@")

    def _publish_document(self, file: Path) -> dict[str, Any]:
        content = file.read_bytes()
        manifest = read_manifest(file)
        name, version = manifest["name"], manifest["version"]
        settings = manifest.get("publishConfig") or {}
        tag = settings.get("tag") or "latest"
        attachment = f"{name}-{version}.tgz"
        sha512 = base64.b64encode(hashlib.sha512(content).digest()).decode()
        return {
            "_id": name,
            "name": name,
            "description": manifest.get("description"),
            "dist-tags": {tag: version},
            "access": settings.get("access"),
            "versions": {
                version: {
                    **manifest,
                    "_id": f"{name}@{version}",
                    "dist": {
                        "integrity": f"sha512-{sha512}",
                        # The registry's protocol asks for SHA-1 beside the integrity.
                        "shasum": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
                        "tarball": f"{self.address}{name}/-/{attachment}",
                    },
                }
            },
            "_attachments": {
                attachment: {
                    "content_type": "application/octet-stream",
                    "data": base64.b64encode(content).decode(),
                    "length": len(content),
                }
            },
        }


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
            tag=publish.get("tag"),
            access=_access(name, address, package.name, npmrc, environ, in_address, trust),
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


def _words(answer: httpx.Response) -> str:
    try:
        error = answer.json().get("error")
    except (ValueError, AttributeError):
        error = None
    return f"{answer.status_code} {error or answer.reason_phrase}".strip()
