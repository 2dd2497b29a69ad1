"""Node packages of a repository, and which of them need each other, as their tool sees it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit.ecosystems import Discovery, Standing
from releasekit.ecosystems.node import links, members, package_json, tools
from releasekit.ecosystems.node.tools import Dialect
from releasekit.errors import MissingManifest
from releasekit.manifest import refuse_link_out
from releasekit.model import Edge, Member, Package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from releasekit.ecosystems.node.package_json import PackageJson
    from releasekit.ecosystems.node.tools import Setup


def standing(folder: Path) -> Standing:
    setup = tools.read(folder, warn=lambda _: None)
    if setup is None:
        return Standing.NOTHING
    if setup.patterns:
        return Standing.WORKSPACE
    if setup.root is None or "{{" in setup.root.name:
        return Standing.NOTHING
    return Standing.TOOLING if setup.root.unpublishable else Standing.PROJECT


def discover(root: Path, folders: Sequence[str]) -> Discovery:
    warnings: list[str] = []
    roots: list[Member] = []
    found: dict[str, links.Located] = {}
    for folder in folders:
        for name in (package_json.FILE_NAME, tools.PNPM_WORKSPACE):
            refuse_link_out(root / folder / name, root)
        setup = tools.read(root / folder, warn=warnings.append)
        if setup is None:
            continue
        roots.append(Member(root=folder, ecosystem="node", tool=setup.tool))
        for path, manifest in _members(root, setup, warnings.append):
            below_root = os.path.normpath(f"{folder}/{path}")
            one = links.Located(path=below_root, manifest=manifest, setup=setup)
            found.setdefault(os.path.realpath(root / below_root), one)
    index = links.Index(found)
    edges = {
        (edge.source, edge.target, edge.kind): edge
        for one in found.values()
        for edge in _edges(one, index, warnings.append)
    }
    return Discovery(
        members=tuple(roots),
        packages=tuple(_package(one) for one in found.values()),
        edges=tuple(edges.values()),
        warnings=tuple(warnings),
    )


def _members(
    root: Path, setup: Setup, warn: Callable[[str], None]
) -> Iterator[tuple[str, PackageJson]]:
    """The root and its members; for yarn, also the members of members."""
    pending = [(".", setup.root, setup.patterns)]
    seen: set[str] = set()
    while pending:
        folder, manifest, patterns = pending.pop()
        if folder in seen:
            continue
        seen.add(folder)
        if manifest is not None and _is_member(setup, folder, manifest, warn):
            yield folder, manifest
        if not patterns:
            continue
        here = replace(setup, folder=setup.folder / folder) if folder != "." else setup
        for relative in members.find(here, patterns, warn=warn):
            path = os.path.normpath(f"{folder}/{relative}")
            file = setup.folder / path / package_json.FILE_NAME
            refuse_link_out(file, root)
            member = package_json.read(file, warn=warn)
            if member is None:
                raise MissingManifest(file=file, wanted_by=f"`{setup.declared_in}`")
            nested = member.workspaces if setup.dialect is Dialect.YARN else None
            pending.append((path, member, nested))


def _is_member(
    setup: Setup, folder: str, manifest: PackageJson, warn: Callable[[str], None]
) -> bool:
    if setup.dialect is not Dialect.YARN_1 or folder == ".":
        return True
    for missing in ("name", "version"):
        if not getattr(manifest, missing):
            warn(f"{manifest.file}: no `{missing}`, so yarn 1 leaves it out")
            return False
    return True


def _package(found: links.Located) -> Package:
    manifest = found.manifest
    reason = manifest.unpublishable
    name = package_json.FILE_NAME
    return Package(
        id=found.id,
        name=manifest.name,
        ecosystem="node",
        version=manifest.version,
        path=found.path,
        manifest=name if found.path == "." else f"{found.path}/{name}",
        publishable=reason is None,
        reason=reason,
    )


def _edges(found: links.Located, index: links.Index, warn: Callable[[str], None]) -> Iterator[Edge]:
    for dependency in found.manifest.dependencies:
        target = links.target(found, dependency, index, warn)
        if target is not None:
            yield Edge(source=found.id, target=target.id, kind=dependency.kind)
