"""What would go wrong, asked before anything is built. Pure: the registries were asked before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit import workspace
from releasekit.ecosystems import ecosystem_of
from releasekit.errors import DirtyTree, PreflightFailed
from releasekit.graph import reach
from releasekit.model import Order, PinPolicy, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from releasekit.config import Config
    from releasekit.ecosystems import Presence, Registry
    from releasekit.events import PlannedRelease
    from releasekit.graph import Graph
    from releasekit.model import Edge, Package, Workspace
    from releasekit.plan import Plan


_NAMES = 8


def stop_at_errors(problems: Iterable[Problem]) -> None:
    """All at once; one alone keeps its kind, and with it its exit code."""
    errors = [one for one in problems if one.severity is Severity.ERROR]
    if len(errors) == 1 and errors[0].error is not None:
        raise errors[0].error
    if errors:
        raise PreflightFailed(errors)


def told_once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Errors first; what several packages share is not said for each."""
    found: dict[str, Problem] = {}
    for one in sorted(problems, key=lambda one: one.severity is not Severity.ERROR):
        before = found.setdefault(one.message, one)
        if before.package != one.package:
            found[one.message] = replace(before, package=None)
    return tuple(found.values())


def tree(
    changed: Mapping[Path, bool] | None,
    root: Path,
    aside: Collection[Path],
    left: Collection[Path],
    *,
    committed: bool,
    allowed: bool,
) -> Iterator[Problem]:
    """What is built is what is committed.

    `aside` is what releasekit itself keeps there, `left` what earlier builds left behind: the
    latter does not count where git does not track it.
    """
    if changed is None:
        yield Problem(
            message="git does not tell whether this tree is clean",
            hint="see what `git status` says here, or go on with `--allow-dirty`",
            severity=Severity.WARNING if allowed else Severity.ERROR,
        )
        return
    others = [
        path.relative_to(root).as_posix()
        for path, tracked in changed.items()
        if not any(path == one or one in path.parents for one in aside)
        and (tracked or not any(path == one or one in path.parents for one in left))
    ]
    if others:
        problem = Problem.of(DirtyTree(changed=others, committed=committed))
        if allowed:
            problem = replace(problem, severity=Severity.WARNING, hint="commit it first if you can")
        yield problem


def options_without_effect(
    selected: Sequence[Package], plan: Plan, *, tag: str | None, access: str | None
) -> Iterator[Problem]:
    """A dist-tag given for nothing would be believed to be set."""
    tagged = {package.id for package in selected if ecosystem_of(package).dist_tags}
    given = [f"`--{name} {value}`" for name, value in (("tag", tag), ("access", access)) if value]
    if not given or tagged & {release.package for release in plan.releases}:
        return
    why = (
        "every npm package of this run is on its registry already, and only an upload sets it"
        if tagged
        else "none of these packages goes to an npm registry"
    )
    yield Problem(
        message=f"{' and '.join(given)} would change nothing: {why}",
        hint="leave it out, or set a dist-tag with `npm dist-tag add`",
        severity=Severity.WARNING,
    )


def partly_there(plan: Plan) -> Iterator[Problem]:
    for release, missing in plan.partly_there:
        yield Problem(
            message=f"{release.version} is on the registry without {missing}",
            hint=NEW_VERSION,
            package=release.package,
        )


NEW_VERSION = "release a new version: files of one version must come from one build"


def new_projects(plan: Plan, registries: Mapping[str, Registry]) -> Iterator[Problem]:
    """More new projects than a registry takes in a day: some of this release must wait.

    A warning: what goes first is complete in itself, and the same command goes on the next day.
    """
    lanes: dict[str, list[PlannedRelease]] = {}
    for release in plan.releases:
        if release.package in plan.new:
            lanes.setdefault(registries[release.package].address, []).append(release)
    for releases in lanes.values():
        registry = registries[releases[0].package]
        limit = registry.new_projects_a_day
        if limit is None or len(releases) <= limit:
            continue
        ordered = _as_scheduled(plan, {release.package for release in releases})
        needed_by: dict[str, list[str]] = {release.package: [] for release in plan.releases}
        for release in plan.releases:
            for need in release.needs:
                if need in needed_by:
                    needed_by[need].append(release.package)
        late = reach(needed_by, ordered[limit:]) - set(ordered[limit:])
        others = f", and with them {_names(sorted(late))}" if late else ""
        yield Problem(
            message=f"{len(releases)} projects are new on {registry.name}, which takes {limit} a "
            f"day: {_names(ordered[:limit])} go first; {_names(ordered[limit:])} must "
            f"wait{others}",
            hint="run the same command again a day later: it continues; or choose the first with "
            "`--package`",
            severity=Severity.WARNING,
        )


def _as_scheduled(plan: Plan, new: Collection[str]) -> list[str]:
    """The new ones as uploads start: after what they need, the longest chain first."""
    chain: dict[str, int] = {}
    for release in reversed(plan.releases):
        length = chain.setdefault(release.package, 1)
        for need in release.needs:
            chain[need] = max(chain.get(need, 1), length + 1)
    place = {release.package: number for number, release in enumerate(plan.releases)}
    return sorted(new, key=lambda name: (-chain[name], place[name]))


def _names(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def kept_requirements(
    found: Workspace, plan: Plan, snapshots: Mapping[str, str], config: Config
) -> Iterator[Problem]:
    packages = found.by_id()
    for release in plan.releases:
        package = packages[release.package]
        siblings = {
            edge.target
            for edge in found.edges
            if edge.source == package.id and edge.order is not Order.NONE
        }
        if siblings & snapshots.keys() and config.pins.policy_of(package) is PinPolicy.KEEP:
            yield Problem(
                message="its pin policy is `keep`: the requirements on its siblings stay as "
                "written, which may not admit their snapshots",
                hint="give it another pin policy",
                package=package.id,
                severity=Severity.WARNING,
            )


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
    found: Workspace,
    plan: Plan,
    asked: Mapping[str, Presence],
    config: Config,
    unanswered: Collection[str] = (),
) -> Iterator[Problem]:
    """A pin to a version that nobody can install; of an extra it is only a warning.

    Of those that are `unanswered` nothing is known, and that is told by itself.
    """
    released = {release.package for release in plan.releases}
    packages = found.by_id()
    # What is there in part is told as a failure of its own, which blocks its dependents.
    partly = {release.package for release, _ in plan.partly_there} | set(unanswered)
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
