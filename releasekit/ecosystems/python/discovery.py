"""Python packages of a repository, and which of them need each other, as uv sees it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from releasekit.ecosystems import Discovery, Standing
from releasekit.ecosystems.python import dynamic, members, versions
from releasekit.ecosystems.python.project import Project, is_valid_name, normalize, parse
from releasekit.errors import MissingManifest, WrongManifest
from releasekit.manifest import read_toml, refuse_link_out
from releasekit.model import Edge, EdgeKind, Member, Package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from releasekit.ecosystems.python.project import Requirement, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A project at a path below the root, and the workspace it is a member of."""

    path: str
    project: Project
    workspace: Project

    @property
    def key(self) -> str:
        return normalize(self.project.name or "")


def standing(folder: Path) -> Standing:
    document = read_toml(folder / members.MANIFEST)
    if document is None:
        return Standing.NOTHING
    project = parse(folder / members.MANIFEST, document)
    if project.workspace is not None:
        return Standing.WORKSPACE
    if project.name is None or not is_valid_name(project.name):
        return Standing.NOTHING
    return Standing.PROJECT if project.unpublishable is None else Standing.TOOLING


def discover(root: Path, folders: Sequence[str]) -> Discovery:
    warnings: list[str] = []
    roots: list[Member] = []
    found: dict[str, _Found] = {}
    for folder in folders:
        workspace = _read(root, folder)
        if workspace is None or (workspace.name is None and workspace.workspace is None):
            continue
        roots.append(Member(root=folder, ecosystem="python", tool="uv"))
        for one in _members(root, folder, workspace, warnings.append):
            found.setdefault(os.path.realpath(root / one.path), one)
    index = _Index(found)
    packages = tuple(_package(root, one, warnings.append) for one in found.values())
    locks: dict[Path, dynamic.Lock] = {}
    edges: dict[tuple[str, str, EdgeKind], Edge] = {}
    for one in found.values():
        lock = locks.setdefault(one.workspace.file, dynamic.Lock(one.workspace.file.parent))
        for edge in _edges(root, one, index, lock, warnings.append):
            edges[edge.source, edge.target, edge.kind] = edge
    return Discovery(
        members=tuple(roots),
        packages=packages,
        edges=tuple(edges.values()),
        warnings=tuple(warnings),
    )


def _read(root: Path, folder: str) -> Project | None:
    file = root / folder / members.MANIFEST
    refuse_link_out(file, root)
    document = read_toml(file)
    return None if document is None else parse(file, document)


def _members(
    root: Path, folder: str, workspace: Project, warn: Callable[[str], None]
) -> Iterator[_Found]:
    if workspace.name is not None:
        yield _Found(path=folder, project=workspace, workspace=workspace)
    if workspace.workspace is None:
        return
    for relative in members.find(workspace.file, workspace.workspace, warn=warn):
        path = relative if folder == "." else f"{folder}/{relative}"
        project = _read(root, path)
        if project is None:
            # A dangling link: the name is there, the file is not.
            raise MissingManifest(
                file=root / path / members.MANIFEST, wanted_by=f"`{workspace.file}`"
            )
        if not project.managed:
            continue
        if project.name is None:
            raise WrongManifest(file=project.file, key="project", expected="there in a member")
        if project.workspace is not None:
            warn(f"{project.file}: a workspace inside a workspace; uv refuses that")
        yield _Found(path=path, project=project, workspace=workspace)


def _package(root: Path, found: _Found, warn: Callable[[str], None]) -> Package:
    project = found.project
    name = project.name or ""
    reason = project.unpublishable
    version, problem = versions.of(project, root)
    if problem is not None:
        warn(f"{project.file}: {problem}")
    if not is_valid_name(name):
        reason = f"`{name}` is not a valid name"
        warn(f"{project.file}: {reason}")
    for text in project.unreadable:
        warn(f"{project.file}: `{text}` is not a requirement")
    return Package(
        id=f"pypi:{found.key}",
        name=name,
        ecosystem="python",
        version=version,
        path=found.path,
        manifest=members.MANIFEST if found.path == "." else f"{found.path}/{members.MANIFEST}",
        publishable=reason is None,
        reason=reason,
    )


class _Index:
    """Who is called what, and who lives where."""

    def __init__(self, found: Mapping[str, _Found]) -> None:
        self._by_folder = found
        self._by_name: dict[str, list[_Found]] = {}
        for one in found.values():
            self._by_name.setdefault(one.key, []).append(one)

    def named(self, name: str) -> Sequence[_Found]:
        return self._by_name.get(name, ())

    def at(self, base: Path, path: str) -> _Found | None:
        return self._by_folder.get(os.path.realpath(base / path))


def _edges(
    root: Path, found: _Found, index: _Index, lock: dynamic.Lock, warn: Callable[[str], None]
) -> Iterator[Edge]:
    project = found.project
    more, unknown = dynamic.requirements(project, root, lock) if project.dynamic else ((), ())
    for field in unknown:
        warn(f"{project.file}: `{field}` are dynamic and no uv.lock tells them: edges may lack")
    for requirement in (*project.requirements, *more):
        target = _target(found, requirement, index, warn)
        if target is not None:
            yield Edge(
                source=f"pypi:{found.key}", target=f"pypi:{target.key}", kind=requirement.kind
            )


def _target(
    found: _Found, requirement: Requirement, index: _Index, warn: Callable[[str], None]
) -> _Found | None:
    name = requirement.name
    if requirement.url is not None:
        return _at_url(found, requirement.url, index)
    base, sources = _sources(found, requirement)
    same_workspace = [one for one in index.named(name) if one.workspace is found.workspace]
    if not sources:
        if same_workspace and name != found.key:
            warn(
                f"{found.project.file}: `{name}` is a member of the workspace,"
                f" but `[tool.uv.sources]` does not say `{name} = {{ workspace = true }}`"
            )
        return next(iter([*same_workspace, *index.named(name)]), None)
    for source in sources:
        if source.workspace and same_workspace:
            return same_workspace[0]
        if source.path is not None and (target := index.at(base, source.path)):
            return target
    return None


def _sources(found: _Found, requirement: Requirement) -> tuple[Path, Sequence[Source]]:
    """The entries for a requirement, and the folder that their paths start from."""
    for project in (found.project, found.workspace):
        if entries := project.sources.get(requirement.name):
            return project.file.parent, [
                entry
                for entry in entries
                if entry.extra in (None, requirement.extra)
                and entry.group in (None, requirement.group)
            ]
    return found.project.file.parent, ()


def _at_url(found: _Found, url: str, index: _Index) -> _Found | None:
    """`name @ file:///…` is internal where the path is a member's; any other address is not."""
    address = url.partition(";")[0].strip()
    if not address.startswith("file:"):
        return None
    return index.at(found.project.file.parent, unquote(address[5:].removeprefix("//")))
