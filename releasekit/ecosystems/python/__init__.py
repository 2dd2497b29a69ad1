"""uv workspaces and single Python projects, published to PyPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import (
        BuildRequest,
        Discovery,
        InspectRequest,
        Pinner,
        Registry,
        Standing,
    )
    from releasekit.model import Finding, Package, PinPolicy, Workspace


class Python:
    name = "python"
    registry = "pypi"
    registry_keys = ("upload-url", "index-url")

    def standing(self, folder: Path) -> Standing:
        from releasekit.ecosystems.python import discovery

        return discovery.standing(folder)

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        from releasekit.ecosystems.python import discovery

        return discovery.discover(root, folders)

    def pinner(self, workspace: Workspace) -> Pinner:  # noqa: ARG002 - pyproject.toml says it all
        from releasekit.ecosystems.python import pins

        def pin(
            package: Package,
            content: bytes,
            siblings: Mapping[str, str | None],
            policy: PinPolicy,
        ) -> bytes:
            return pins.pinned(content, manifest=package.manifest, siblings=siblings, policy=policy)

        return pin

    async def versions(self, request: BuildRequest) -> Mapping[str, str]:
        from releasekit.ecosystems.python import build

        return await build.versions(request)

    async def build(self, request: BuildRequest) -> None:
        from releasekit.ecosystems.python import build

        await build.build(request)

    def inspect(self, request: InspectRequest) -> tuple[Finding, ...]:
        from releasekit.ecosystems.python import inspect

        return inspect.inspect(request)

    def registry_for(
        self,
        package: Package,  # noqa: ARG002 - a Python package says nothing of its registry
        root: Path,  # noqa: ARG002
        settings: RegistrySettings | None,
        environ: Mapping[str, str],
    ) -> Registry:
        from releasekit.ecosystems.python.registry import SimpleIndex

        return SimpleIndex.of(self.registry, settings, environ)


ECOSYSTEM = Python()
