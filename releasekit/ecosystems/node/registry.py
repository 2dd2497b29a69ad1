"""An npm registry: one PUT a version, and the packument that shows it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from releasekit import process
from releasekit.ecosystems import Answer, Presence
from releasekit.ecosystems.node.tarball import NEEDS_NODE, read_manifest
from releasekit.errors import OddAnswer, TagNeeded
from releasekit.net import request_with_retry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import httpx

    from releasekit.config import RegistrySettings
    from releasekit.model import Package

_OK = 200
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmRegistry:
    name: str
    address: str
    tag: str | None = None
    """The dist-tag that the package asks for."""
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        package: Package,
        root: Path,
        settings: RegistrySettings | None,
        environ: Mapping[str, str],
    ) -> Self:
        """As configured, else as the package's publishConfig says, else npm's own registry."""
        address = settings.url if settings else None
        publish = json.loads((root / package.manifest).read_bytes()).get("publishConfig") or {}
        if address is None:
            address = publish.get("registry") or _npm_default(root)
        return cls(
            tag=publish.get("tag"),
            name=name,
            address=address if address.endswith("/") else f"{address}/",
            token=environ.get("NODE_AUTH_TOKEN") or environ.get("NPM_TOKEN"),
        )

    def refusal(self, package: Package) -> TagNeeded | None:
        version = package.version or ""
        if "-" in version.partition("+")[0] and not self.tag:
            return TagNeeded(name=package.name, version=version)
        return None

    async def presence(self, client: httpx.AsyncClient, package: Package) -> Presence:
        url = self._document(package.name)
        answer = await request_with_retry(
            client, url, headers={**self._headers(), "Cache-Control": "no-cache"}
        )
        if answer.status_code == _NOT_FOUND:
            return Presence(registry=self.name, files={})
        if answer.status_code != _OK:
            raise OddAnswer(url=url, status=answer.status_code, words=answer.text)
        version = answer.json().get("versions", {}).get(package.version)
        if version is None:
            return Presence(registry=self.name, files={})
        return Presence(
            registry=self.name,
            files={tarball_name(package.name, package.version or ""): _digest(version["dist"])},
        )

    async def upload(self, client: httpx.AsyncClient, package: Package, file: Path) -> Answer:
        document = await asyncio.to_thread(self._publish_document, file)
        answer = await client.put(
            self._document(package.name), json=document, headers=self._headers()
        )
        return Answer(status=answer.status_code, words=_words(answer), headers=dict(answer.headers))

    def _document(self, name: str) -> str:
        return self.address + quote(name, safe="@")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

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


def tarball_name(name: str, version: str) -> str:
    """As `npm pack` names it: `@scope/name` becomes `scope-name`."""
    return f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"


def _npm_default(root: Path) -> str:
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
