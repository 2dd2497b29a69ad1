"""A repository on disk → `Workspace`: every package of every ecosystem, and their edges."""

from __future__ import annotations

import os
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit.ecosystems import Standing, all_ecosystems
from releasekit.errors import (
    AmbiguousPackage,
    ManifestError,
    MemberOutside,
    NoPackages,
    UnknownPackage,
)
from releasekit.folders import NEVER_ENTERED, VIRTUAL_ENVIRONMENT
from releasekit.manifest import reading_through
from releasekit.model import Workspace
from releasekit.pins.originals import Originals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from releasekit.ecosystems import Discovery, Ecosystem
    from releasekit.model import Package

_SEARCH_DEPTH = 3
# Where a person would not look for what a repository publishes.
_NOT_SEARCHED = (
    NEVER_ENTERED
    | {"build", "dist", "doc", "docs", "env", "example", "examples", "fixtures", "template"}
    | {"templates", "test", "testdata", "tests", "third_party", "vendor", "venv"}
)


def find_root(start: Path) -> Path:
    """The nearest folder upwards with a configuration or a git repository; else `start`."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "releasekit.toml").is_file() or (folder / ".git").exists():
            return folder
    return start


def load(root: Path, *, exclude: tuple[str, ...] = (), roots: tuple[str, ...] = ()) -> Workspace:
    root = root.resolve()
    # A live run may have the manifests pinned; what counts is what the person wrote.
    with reading_through(Originals(root).read):
        found = _discover(root, roots or (".",))
    packages = [package for discovery in found for package in discovery.packages]
    warnings = [warning for discovery in found for warning in discovery.warnings]
    packages = [_excluded(package, exclude) for package in packages]
    packages = list(_told_apart(packages, warnings))
    return Workspace(
        root=root,
        members=tuple(member for discovery in found for member in discovery.members),
        packages=tuple(sorted(packages, key=lambda package: (package.id, package.path))),
        edges=tuple(
            sorted(
                (edge for discovery in found for edge in discovery.edges),
                key=lambda edge: (edge.source, edge.target, edge.kind),
            )
        ),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _discover(root: Path, roots: Sequence[str]) -> list[Discovery]:
    starts = {start: _search_all(root, start) for start in roots}
    for start, folders in starts.items():
        if not any(folders.values()):
            raise NoPackages(folder=root / start)
    return [
        ecosystem.discover(
            root, tuple(dict.fromkeys(one for folders in starts.values() for one in folders[name]))
        )
        for name, ecosystem in _by_name().items()
    ]


def find_package(found: Workspace, wanted: str) -> str:
    """The id of a package by its id or, where only one is called so, its name."""
    import difflib

    ids = {package.id for package in found.packages}
    if wanted in ids:
        return wanted
    named = sorted(
        {one.id for one in found.packages if wanted in (one.name, one.id.partition(":")[2])}
    )
    if len(named) == 1:
        return named[0]
    if named:
        raise AmbiguousPackage(package=wanted, candidates=named)
    known = [*ids, *(package.name for package in found.packages)]
    close = difflib.get_close_matches(wanted, known, n=1)
    raise UnknownPackage(package=wanted, did_you_mean=close[0] if close else None)


def matches(package: Package, pattern: str) -> bool:
    # By path only where it looks like one: `@scope/name` is a name.
    names = (package.id, package.name, f"./{package.path}")
    return any(fnmatchcase(name, pattern) for name in names)


def _excluded(package: Package, exclude: Iterable[str]) -> Package:
    for pattern in exclude:
        if matches(package, pattern):
            return replace(
                package, publishable=False, reason=f"excluded by `{pattern}` in the configuration"
            )
    return package


def _told_apart(packages: Sequence[Package], warnings: list[str]) -> Iterator[Package]:
    """Of several packages with one id, none is publishable, unless the others are private."""
    claims: dict[str, list[str]] = {}
    paths: dict[str, list[str]] = {}
    for package in packages:
        paths.setdefault(package.id, []).append(package.path)
        if package.publishable:
            claims.setdefault(package.id, []).append(package.path)
    for identifier, where in paths.items():
        if len(where) > 1:
            warnings.append(f"{identifier} is in several folders: {', '.join(sorted(where))}")
    for package in packages:
        if package.publishable and len(claims[package.id]) > 1:
            others = ", ".join(path for path in claims[package.id] if path != package.path)
            yield replace(package, publishable=False, reason=f"`{package.id}` is also in {others}")
        else:
            yield package


def _by_name() -> dict[str, Ecosystem]:
    return {ecosystem.name: ecosystem for ecosystem in all_ecosystems()}


def _search_all(root: Path, start: str) -> dict[str, list[str]]:
    return {name: _search(ecosystem, root, start) for name, ecosystem in _by_name().items()}


def _search(ecosystem: Ecosystem, root: Path, start: str) -> list[str]:
    """The folders of an ecosystem that a person would find, starting from one.

    A workspace or a project to publish ends the search. Otherwise the workspaces below it count,
    and if there are none, the projects that lie nearest.
    """
    folder = Path(os.path.normpath(root / start))
    if not folder.resolve().is_relative_to(root):
        raise MemberOutside(file=root, pattern=start)
    here = ecosystem.standing(folder)
    relative = folder.relative_to(root).as_posix()
    if here >= Standing.PROJECT:
        return [relative]
    workspaces, projects = _below(ecosystem, folder)
    found = workspaces or projects
    names = [path.relative_to(root).as_posix() for path in found]
    return [relative, *names] if here is Standing.TOOLING else names


def _below(ecosystem: Ecosystem, start: Path) -> tuple[list[Path], list[Path]]:
    workspaces: list[Path] = []
    projects: list[Path] = []
    front = [start]
    for _ in range(_SEARCH_DEPTH):
        nearest: list[Path] = []
        following: list[Path] = []
        for folder in front:
            for child in _subfolders(folder):
                if (child / VIRTUAL_ENVIRONMENT).exists():
                    continue
                standing = _standing(ecosystem, child)
                if standing is Standing.WORKSPACE:
                    workspaces.append(child)
                    continue
                if standing is not Standing.NOTHING:
                    nearest.append(child)
                following.append(child)
        projects = projects or nearest
        front = following
    return workspaces, projects


def _standing(ecosystem: Ecosystem, folder: Path) -> Standing:
    try:
        return ecosystem.standing(folder)
    except ManifestError:
        return Standing.NOTHING


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            listing = list(entries)
    except OSError:
        return []
    return sorted(
        Path(entry.path)
        for entry in listing
        if not entry.name.startswith(".")
        and entry.name not in _NOT_SEARCHED
        and entry.is_dir(follow_symlinks=False)
    )
