"""Which packages a run is about: names, ids, globs and groups, the same for every command."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import workspace
from releasekit.errors import NothingToPublish, UnknownGroup, UnknownPackage, UnknownVersion
from releasekit.graph import Graph, reach
from releasekit.model import Order, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    found: Workspace,
    selection: Selection,
    groups: Mapping[str, tuple[str, ...]],
    *,
    with_needs: bool = False,
) -> tuple[Package, ...]:
    """The publishable packages that were asked for, in the order of a release.

    `with_needs` takes in what they need, unless it was excluded.
    """
    packages = found.by_id()
    wanted = asked_for(found, selection, groups)
    if with_needs:
        wanted |= needed(found, wanted)
    wanted -= excluded(found, selection)
    chosen = tuple(
        packages[package]
        for package in Graph.of(found).order()
        if package in wanted and packages[package].publishable
    )
    if not chosen:
        raise NothingToPublish(root=found.root)
    return chosen


def unknown_versions(packages: Iterable[Package]) -> Iterator[Problem]:
    for package in packages:
        if package.version is None:
            error = UnknownVersion(package=package.id, manifest=package.manifest)
            yield Problem.of(error, package.id)


def needed(found: Workspace, packages: Iterable[str]) -> set[str]:
    """All that these need, for development aside."""
    needs: dict[str, list[str]] = {package.id: [] for package in found.packages}
    for edge in found.edges:
        if edge.order is not Order.NONE:
            needs[edge.source].append(edge.target)
    return reach(needs, packages)


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
