"""What would go wrong, asked before anything is built. Pure: the registries were asked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit import workspace
from releasekit.model import Order, PinPolicy, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from releasekit.config import Config
    from releasekit.ecosystems import Presence
    from releasekit.graph import Graph
    from releasekit.model import Edge, Package, Workspace
    from releasekit.plan import Plan


def cycles(graph: Graph, plan: Plan) -> Iterator[Problem]:
    """Packages that need each other go side by side: for a moment one is there without the rest."""
    released = {release.package for release in plan.releases}
    for cycle in graph.hard_cycles:
        if released.intersection(cycle):
            circle = " → ".join((*cycle, cycle[0]))
            yield Problem(
                message=f"{circle} need each other and are released side by side",
                hint="make one of these dependencies optional",
                severity=Severity.WARNING,
            )


def siblings_outside(
    found: Workspace, selected: Sequence[Package], config: Config
) -> tuple[Package, ...]:
    """Siblings that this run pins and does not release: only their registry knows of them."""
    inside = {package.id for package in selected}
    packages = found.by_id()
    outside = {
        edge.target: packages[edge.target]
        for edge in found.edges
        if edge.source in inside and edge.target not in inside and _is_pinned(edge, found, config)
    }
    return tuple(
        package
        for package in outside.values()
        if package.version is not None and _may_be_published(package, config)
    )


def pinned_siblings(
    found: Workspace, plan: Plan, asked: Mapping[str, Presence], config: Config
) -> Iterator[Problem]:
    """A pin to a version that nobody can install; of an extra it is only a warning."""
    released = {release.package for release in plan.releases}
    packages = found.by_id()
    # What is there in part is told as a failure of its own, which blocks its dependents.
    partly = {release.package for release, _ in plan.partly_there}
    told: set[tuple[str, str]] = set()
    for edge in sorted(found.edges, key=lambda edge: edge.order is not Order.HARD):
        pair = (edge.source, edge.target)
        if edge.source not in released or edge.target in released | partly or pair in told:
            continue
        presence = asked.get(edge.target)
        if not _is_pinned(edge, found, config) or (presence and presence.complete):
            continue
        told.add(pair)
        yield _problem(edge, packages[edge.target], config)


def _problem(edge: Edge, sibling: Package, config: Config) -> Problem:
    severity = Severity.ERROR if edge.order is Order.HARD else Severity.WARNING
    if not _may_be_published(sibling, config):
        message = f"{edge.source} needs {sibling.id}, which is not published: {sibling.reason}"
        hint = (
            f"publish {sibling.name}, remove the dependency, or give {edge.source} the pin policy "
            "`keep` if it is right without"
        )
    elif sibling.version is None:
        message = f"{edge.source} needs {sibling.id}, whose version only a build can tell"
        hint = f"release {sibling.name} in the same run"
    else:
        message = (
            f"{edge.source} needs {sibling.id} {sibling.version}, which is neither on its registry "
            "nor part of this run"
        )
        hint = f"add `--package {sibling.id}`, or release {sibling.name} first"
    return Problem(message=message, hint=hint, package=edge.source, severity=severity)


def _is_pinned(edge: Edge, found: Workspace, config: Config) -> bool:
    if edge.order is Order.NONE or edge.source == edge.target:
        return False
    return config.pins.policy_of(found.by_id()[edge.source]) is not PinPolicy.KEEP


def _may_be_published(package: Package, config: Config) -> bool:
    """By this run or by another one; the name of a private package is nobody else's business."""
    return package.publishable or any(workspace.matches(package, one) for one in config.exclude)
