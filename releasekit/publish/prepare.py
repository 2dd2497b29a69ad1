"""From the workspace to a plan that may be carried out: nothing here changes anything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import git
from releasekit.errors import PreflightFailed, ReleaseKitError
from releasekit.graph import Graph
from releasekit.model import Severity
from releasekit.plan import Plan, make_plan
from releasekit.publish import preflight
from releasekit.publish import registries as registry_choice
from releasekit.publish.durations import known_durations, with_expected
from releasekit.publish.pin import pin_edits
from releasekit.publish.resume import check_tree, kept_releases, plan_of
from releasekit.publish.selection import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import httpx

    from releasekit.ecosystems import Presence, Registry
    from releasekit.events import RunState
    from releasekit.model import Package, Problem
    from releasekit.pins import Edit
    from releasekit.publish import PublishRequest
    from releasekit.publish.frame import Opened
    from releasekit.publish.resume import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that is known before the first file is touched."""

    plan: Plan
    registries: Mapping[str, Registry]
    packages: Mapping[str, Package]
    resumed: Mapping[str, Kept]
    """What an earlier run has sent in part: its artifacts are used again."""
    to_build: tuple[Package, ...]
    edits: tuple[Edit, ...]
    warnings: tuple[Problem, ...]


async def prepare(
    request: PublishRequest, this: Opened, client: httpx.AsyncClient, earlier: RunState | None
) -> Prepared:
    """The plan of this run; `earlier` is the one to go on with and to do no more than."""
    found = this.workspace
    packages = found.by_id()
    selected = select(found, request.selection, request.config.groups)
    siblings = preflight.siblings_outside(found, selected, request.config)
    registries = registry_choice.choose(request, found, (*selected, *siblings))
    asked = await _ask_registries(client, (*selected, *siblings), registries)
    present = {package.id: asked[package.id] for package in selected}
    kept = {} if request.fresh else kept_releases(this.home)
    graph = Graph.of(found)
    plan = make_plan(found, graph, present, kept)
    if earlier is not None:
        plan = plan_of(earlier, plan, git.head(request.root))
    plan = with_expected(plan, known_durations(this.home))
    problems = (
        *preflight.cycles(graph, plan),
        *preflight.pinned_siblings(found, plan, asked, request.config),
    )
    if errors := [one for one in problems if one.severity is Severity.ERROR]:
        raise PreflightFailed([(one.message, one.hint) for one in errors])
    resumed = {
        release.package: kept[key]
        for release in plan.releases
        if (key := (release.package, release.version)) in kept
    }
    for release in plan.releases:
        if refusal := registries[release.package].refusal(packages[release.package]):
            raise refusal
    check_tree(resumed.values(), git.head(request.root))
    to_build = tuple(
        packages[release.package] for release in plan.releases if release.package not in resumed
    )
    return Prepared(
        plan=plan,
        registries=registries,
        packages=packages,
        resumed=resumed,
        to_build=to_build,
        edits=pin_edits(found, to_build, request.config.pins),
        warnings=problems,
    )


async def _ask_registries(
    client: httpx.AsyncClient, packages: Iterable[Package], registries: Mapping[str, Registry]
) -> dict[str, Presence]:
    try:
        async with asyncio.TaskGroup() as group:
            asked = {
                package.id: group.create_task(registries[package.id].presence(client, package))
                for package in packages
            }
    except* ReleaseKitError as errors:
        # One registry that does not answer fails for every package: one message is enough.
        raise errors.exceptions[0] from None
    return {package_id: task.result() for package_id, task in asked.items()}
