"""Which packages a run is about: names, ids, globs and groups, the same for every command."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import workspace
from releasekit.errors import NothingToPublish, UnknownGroup, UnknownPackage, UnknownVersion
from releasekit.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from releasekit.model import Package, Workspace

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """As asked for on the command line; nothing asked for means all."""

    packages: tuple[str, ...] = ()
    """Names, ids, `./folders` or globs of them."""
    groups: tuple[str, ...] = ()
    """Names of groups in the configuration."""
    exclude: tuple[str, ...] = ()


def select(
    found: Workspace, selection: Selection, groups: Mapping[str, tuple[str, ...]]
) -> tuple[Package, ...]:
    """The publishable packages that were asked for, in the order of a release."""
    packages = found.by_id()
    wanted = asked_for(found, selection, groups) - excluded(found, selection)
    chosen = tuple(
        packages[package]
        for package in Graph.of(found).order()
        if package in wanted and packages[package].publishable
    )
    if not chosen:
        raise NothingToPublish(root=found.root)
    for package in chosen:
        if package.version is None:
            raise UnknownVersion(package=package.id, manifest=package.manifest)
    return chosen


def asked_for(
    found: Workspace, selection: Selection, groups: Mapping[str, tuple[str, ...]]
) -> set[str]:
    if not selection.packages and not selection.groups:
        return {package.id for package in found.packages}
    wanted: set[str] = set()
    for pattern in selection.packages:
        wanted |= _matching(found, pattern)
    for name in selection.groups:
        wanted |= _group(found, name, groups)
    return wanted


def excluded(found: Workspace, selection: Selection) -> set[str]:
    unwanted: set[str] = set()
    for pattern in selection.exclude:
        unwanted |= _matching(found, pattern)
    return unwanted


def _matching(found: Workspace, pattern: str) -> set[str]:
    """A name that is nobody's and a glob that matches nothing are mistakes of the person."""
    if not _GLOB.isdisjoint(pattern) or pattern.startswith("./"):
        matching = {one.id for one in found.packages if workspace.matches(one, pattern)}
        if not matching:
            raise UnknownPackage(package=pattern, did_you_mean=None)
        return matching
    return {workspace.find_package(found, pattern)}


def _group(found: Workspace, name: str, groups: Mapping[str, tuple[str, ...]]) -> set[str]:
    if name not in groups:
        close = difflib.get_close_matches(name, groups, n=1)
        raise UnknownGroup(
            group=name, did_you_mean=close[0] if close else None, known=tuple(groups)
        )
    members: set[str] = set()
    for pattern in groups[name]:
        members |= _matching(found, pattern)
    return members
