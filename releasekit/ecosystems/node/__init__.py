"""npm, pnpm and yarn workspaces and single packages, published to npm."""

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


class Node:
    name = "node"
    registry = "npm"
    registry_keys = ("url",)
    dist_tags = True

    def standing(self, folder: Path) -> Standing:
        from releasekit.ecosystems.node import discovery

        return discovery.standing(folder)

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        from releasekit.ecosystems.node import discovery

        return discovery.discover(root, folders)

    def pinner(self, workspace: Workspace) -> Pinner:
        from releasekit.ecosystems.node import pins, tools

        catalogs = {
            member.root: setup.catalogs
            for member in workspace.members
            if member.ecosystem == self.name
            and (setup := tools.read(workspace.root / member.root, warn=lambda _: None))
        }

        def pin(
            package: Package,
            content: bytes,
            siblings: Mapping[str, str | None],
            policy: PinPolicy,
            snapshots: Mapping[str, str] = {},
            version: str | None = None,
        ) -> bytes:
            member = workspace.member_of(package)
            return pins.pinned(
                content,
                manifest=package.manifest,
                siblings=siblings,
                policy=policy,
                catalogs=catalogs.get(member.root) if member else None,
                snapshots=snapshots,
                version=version,
            )

        return pin

    def snapshot(self, version: str, highest: str | None, snapshot: str) -> str:
        from releasekit.ecosystems.node.snapshot import version_of

        return version_of(version, highest, snapshot)

    def stale_locks(self, workspace: Workspace) -> Sequence[Problem]:
        from releasekit.ecosystems.node import lockfile

        return lockfile.stale(workspace)

    async def versions(self, request: BuildRequest) -> Mapping[str, str]:  # noqa: ARG002
        return {}  # package.json says it, or the package is not publishable

    async def build(self, request: BuildRequest) -> None:
        from releasekit.ecosystems.node import build

        await build.build(request)

    def inspect(self, request: InspectRequest) -> tuple[Finding, ...]:
        from releasekit.ecosystems.node import inspect

        return inspect.inspect(request)

    def named_registries(self, workspace: Workspace) -> Mapping[str, RegistrySettings]:  # noqa: ARG002 - .npmrc names no registry but by scope
        return {}

    def registries_for(
        self, choices: Sequence[Choice], workspace: Workspace, environ: Mapping[str, str]
    ) -> Mapping[str, Registry]:
        from releasekit.ecosystems.node import registry

        return registry.registries_for(choices, workspace, environ)

    def upstreams(self, workspace: Workspace, environ: Mapping[str, str]) -> Mapping[str, str]:
        from releasekit.ecosystems.node import trial

        return trial.upstreams(workspace, environ)

    async def try_out(self, request: TrialRequest) -> None:
        from releasekit.ecosystems.node import trial

        await trial.try_out(request)


ECOSYSTEM = Node()
