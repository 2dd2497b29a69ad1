"""From the workspace to a plan that may be carried out: nothing here changes anything.

All that stands before a release is collected and told at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import git
from releasekit.config import FILE_NAME
from releasekit.ecosystems import all_ecosystems
from releasekit.errors import PlanChanged, TreeChanged
from releasekit.graph import Graph
from releasekit.model import Problem, Severity
from releasekit.plan import Plan, make_plan
from releasekit.publish import ask, preflight, snapshots
from releasekit.publish import registries as registry_choice
from releasekit.publish.build import left_by_builds
from releasekit.publish.durations import known_durations, with_expected
from releasekit.publish.pin import pin_edits
from releasekit.publish.resume import check_tree, kept_releases, plan_of
from releasekit.publish.selection import select, unknown_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import httpx

    from releasekit.attestations import Attestor
    from releasekit.ecosystems import Presence, Registry
    from releasekit.events import RunState
    from releasekit.model import Package, Workspace
    from releasekit.pins import Edit
    from releasekit.publish import PublishRequest
    from releasekit.publish.resume import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that is known before the first file is touched."""

    workspace: Workspace
    """With the versions that are released."""
    plan: Plan
    registries: Mapping[str, Registry]
    packages: Mapping[str, Package]
    resumed: Mapping[str, Kept]
    """What an earlier run has sent in part: its artifacts are used again."""
    to_build: tuple[Package, ...]
    edits: tuple[Edit, ...]
    attestors: Mapping[str, Attestor]
    """By package, who signs its artifacts."""
    problems: tuple[Problem, ...]
    """Errors first. With one of them nothing may be carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a release starts from."""

    workspace: Workspace
    home: Path
    """Where journals and artifacts live."""
    changed: Mapping[Path, bool] | None
    """What was not committed, and whether git tracks it, before any build system was asked."""
    aside: frozenset[Path] = frozenset()
    """What releasekit itself keeps in the repository, or has changed there for a while."""
    read: Callable[[Path], bytes | None] | None = None
    """Reads a manifest, where another run may have it pinned."""


async def prepare(
    request: PublishRequest, place: Place, client: httpx.AsyncClient, earlier: RunState | None
) -> Prepared:
    """The plan of this run; `earlier` is the one to go on with and to do no more than."""
    around = asyncio.create_task(_around(request, place))
    try:
        found = await _find(request, place.workspace, client, earlier)
        return await _judge(request, place, client, earlier, found, await around)
    finally:
        around.cancel()


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the registries said of what was selected."""

    workspace: Workspace
    selected: tuple[Package, ...]
    asked: dict[str, Presence]
    unanswered: frozenset[str]
    registries: Mapping[str, Registry]
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of a snapshot, by id."""
    problems: list[Problem] = field(default_factory=list)


async def _around(request: PublishRequest, place: Place) -> list[Problem]:
    """What can be seen on this machine alone."""
    root = place.workspace.root

    def tree() -> list[Problem]:
        changed = place.changed
        aside = {place.home, root / FILE_NAME, *place.aside}
        aside |= {one for one in (request.state, request.receipts) if one is not None}
        committed = not changed or git.head(root) is not None
        allowed = request.allow_dirty
        # As git names them: from the top of the repository, which may lie above the root.
        tops = (root, *root.parents)
        left = {top / one for one in left_by_builds(place.home) for top in tops}
        return [*preflight.tree(changed, root, aside, left, committed=committed, allowed=allowed)]

    def locks() -> list[Problem]:
        worlds = all_ecosystems()
        return [problem for world in worlds for problem in world.stale_locks(place.workspace)]

    both = await asyncio.gather(asyncio.to_thread(tree), asyncio.to_thread(locks))
    return [*both[0], *both[1]]


async def _find(
    request: PublishRequest,
    found: Workspace,
    client: httpx.AsyncClient,
    earlier: RunState | None,
) -> _Found:
    snapshot = request.snapshot
    selected = select(
        found, request.selection, request.config.groups, with_needs=snapshot is not None
    )
    problems = list(unknown_versions(selected))
    selected = tuple(one for one in selected if one.version is not None)
    if snapshot is not None and earlier is None:
        snapshots.require_valid(selected, snapshot)
    siblings = preflight.siblings_outside(found, selected, request.config)
    registries = registry_choice.choose(request, found, (*selected, *siblings))
    answers = await ask.presences(client, (*selected, *siblings), registries)
    problems += answers.problems
    versions: Mapping[str, str] = {}
    if snapshot is not None:
        versions = snapshots.versions(selected, answers.presences, snapshot, earlier)
        selected = tuple(
            replace(one, version=versions.get(one.id, one.version)) for one in selected
        )
        again = await _ask_for_snapshots(client, selected, versions, registries, answers.presences)
        problems += again.problems
        answers.presences |= again.presences
    wanted = {package.id for package in (*selected, *siblings)}
    return _Found(
        workspace=snapshots.with_versions(found, versions) if versions else found,
        selected=selected,
        asked=answers.presences,
        unanswered=frozenset(wanted - answers.presences.keys()),
        registries=registries,
        versions=versions,
        problems=problems,
    )


async def _ask_for_snapshots(
    client: httpx.AsyncClient,
    selected: Sequence[Package],
    versions: Mapping[str, str],
    registries: Mapping[str, Registry],
    before: Mapping[str, Presence],
) -> ask.Answers:
    """Whether the snapshot itself is there; of a name that nobody knows nothing is."""
    known = [one for one in selected if one.id in versions.keys() & before and before[one.id].known]
    return await ask.presences(client, known, registries)


async def _judge(
    request: PublishRequest,
    place: Place,
    client: httpx.AsyncClient,
    earlier: RunState | None,
    found: _Found,
    around: Sequence[Problem],
) -> Prepared:
    # It brings what signing needs; `build` does without.
    from releasekit.publish.attest import attestors

    packages = found.workspace.by_id()
    graph = Graph.of(found.workspace)
    commit = git.head(request.root)
    kept = {} if request.fresh else kept_releases(place.home)
    present = {one.id: found.asked[one.id] for one in found.selected if one.id in found.asked}
    plan = make_plan(found.workspace, graph, present, kept)
    problems = [*found.problems, *around]
    if earlier is not None:
        try:
            plan = plan_of(earlier, plan, commit)
        except (PlanChanged, TreeChanged) as error:
            if not found.unanswered:  # else they may only be missing for that reason
                problems.append(Problem.of(error))
    plan = with_expected(plan, known_durations(place.home))
    resumed = {
        release.package: kept[key]
        for release in plan.releases
        if (key := (release.package, release.version)) in kept
    }
    try:
        check_tree(resumed.values(), commit)
    except TreeChanged as error:
        problems.append(Problem.of(error))
    released = [packages[release.package] for release in plan.releases]
    to_build = tuple(package for package in released if package.id not in resumed)
    edits, unpinnable = pin_edits(
        place.workspace, to_build, request.config.pins, snapshots=found.versions, read=place.read
    )
    wanted = await attestors(client, released, found.registries, dry_run=request.dry_run)
    problems += [
        *unpinnable,
        *wanted.problems,
        *preflight.cycles(graph, plan),
        *preflight.pinned_siblings(
            found.workspace, plan, found.asked, request.config, found.unanswered
        ),
        *preflight.new_projects(plan, found.registries),
        *preflight.kept_requirements(found.workspace, plan, found.versions, request.config),
        *preflight.options_without_effect(
            found.selected, plan, tag=request.tag, access=request.access
        ),
        *_objections(released, found),
        *await ask.permissions(
            client, released, found.registries, found.asked, dry_run=request.dry_run
        ),
    ]
    told = preflight.told_once(problems)
    warnings = tuple(one for one in told if one.severity is Severity.WARNING)
    return Prepared(
        workspace=found.workspace,
        plan=replace(plan, snapshot=request.snapshot, warnings=warnings),
        registries=found.registries,
        packages=packages,
        resumed=resumed,
        to_build=to_build,
        edits=edits,
        attestors=wanted.attestors,
        problems=told,
    )


def _objections(released: Iterable[Package], found: _Found) -> Iterable[Problem]:
    for package in released:
        registry = found.registries[package.id]
        yield from registry.objections(package, found.asked.get(package.id))
