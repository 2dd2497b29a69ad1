"""Workspace + what the registries hold → what a run would do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.events import PlannedRelease

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from releasekit.ecosystems import Presence
    from releasekit.graph import Graph
    from releasekit.model import Problem, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Releases in the order of their uploads. Each package is in exactly one of the three."""

    releases: tuple[PlannedRelease, ...]
    already_there: tuple[PlannedRelease, ...]
    partly_there: tuple[tuple[PlannedRelease, str], ...]
    """With the files that are missing."""
    new: frozenset[str] = frozenset()
    """Packages of which their registry knows no version yet."""
    snapshot: str | None = None
    """The id of the snapshot that these releases are."""
    warnings: tuple[Problem, ...] = ()
    """What a person should know before saying yes."""

    @property
    def all_releases(self) -> tuple[PlannedRelease, ...]:
        partly = (release for release, _ in self.partly_there)
        return (*self.already_there, *partly, *self.releases)


def make_plan(
    workspace: Workspace,
    graph: Graph,
    present: Mapping[str, Presence],
    kept: Container[tuple[str, str]] = (),
) -> Plan:
    """Of the packages that were asked about, those not on their registry yet, ordered.

    `kept` tells ids and versions whose artifacts an earlier run left: those can be completed.
    """
    packages = workspace.by_id()
    ordered = [packages[package_id] for package_id in graph.order()]
    releases, there, partly = [], [], []
    for package in ordered:
        if package.id not in present or package.version is None:
            continue
        presence = present[package.id]
        planned = PlannedRelease(
            package=package.id,
            version=package.version,
            registry=presence.registry,
            needs=tuple(need for need in graph.dependencies[package.id] if need in present),
        )
        if presence.complete:
            there.append(planned)
        elif presence.files and (package.id, package.version) not in kept:
            partly.append((planned, presence.missing))
        else:
            releases.append(planned)
    return Plan(
        releases=tuple(releases),
        already_there=tuple(there),
        partly_there=tuple(partly),
        new=frozenset(name for name, presence in present.items() if not presence.known),
    )
