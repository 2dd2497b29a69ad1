"""uv workspaces and single Python projects, published to PyPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import (
        BuildRequest,
        Choice,
        Discovery,
        InspectRequest,
        Pinner,
        Registry,
        Standing,
        TrialRequest,
    )
    from releasekit.model import Finding, Package, PinPolicy, Problem, Workspace


class Python:
    name = "python"
    registry = "pypi"
    registry_keys = ("upload-url", "index-url")
    dist_tags = False

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
            snapshots: Mapping[str, str] = {},
            version: str | None = None,
        ) -> bytes:
            return pins.pinned(
                content,
                manifest=package.manifest,
                siblings=siblings,
                policy=policy,
                snapshots=snapshots,
                version=version,
            )

        return pin

    def snapshot(self, version: str, highest: str | None, snapshot: str) -> str:
        from releasekit.ecosystems.python.snapshot import version_of

        return version_of(version, highest, snapshot)

    def stale_locks(self, workspace: Workspace) -> Sequence[Problem]:
        from releasekit.ecosystems.python import lockfile

        return lockfile.stale(workspace)

    async def versions(self, request: BuildRequest) -> Mapping[str, str]:
        from releasekit.ecosystems.python import build, dynamic_version

        with dynamic_version.nothing_left(request):
            return await build.versions(request)

    async def build(self, request: BuildRequest) -> None:
        from releasekit.ecosystems.python import build

        await build.build(request)

    def inspect(self, request: InspectRequest) -> tuple[Finding, ...]:
        from releasekit.ecosystems.python import inspect

        return inspect.inspect(request)

    def named_registries(self, workspace: Workspace) -> Mapping[str, RegistrySettings]:
        from releasekit.ecosystems.python import indexes

        folders = [member.root for member in workspace.members if member.ecosystem == self.name]
        return indexes.named(workspace.root, folders)

    def registries_for(
        self,
        choices: Sequence[Choice],
        workspace: Workspace,  # noqa: ARG002 - a Python package says nothing of its registry
        environ: Mapping[str, str],
    ) -> Mapping[str, Registry]:
        from releasekit.ecosystems.python.registry import SimpleIndex

        # One for all its packages: they share a token.
        shared = {
            choice.registry: SimpleIndex.of(choice.registry, choice.settings, environ)
            for choice in {choice.registry: choice for choice in choices}.values()
        }
        return {choice.package.id: shared[choice.registry] for choice in choices}

    def upstreams(
        self,
        workspace: Workspace,  # noqa: ARG002 - uv takes several indexes, the first that knows a name
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> Mapping[str, str]:
        return {}

    async def try_out(self, request: TrialRequest) -> None:
        from releasekit.ecosystems.python import trial

        await trial.try_out(request)


ECOSYSTEM = Python()
