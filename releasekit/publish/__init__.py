"""One run, from the workspace to the registry and back: the stages in order, one file each."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import __version__, git, journal, pins, workspace
from releasekit.errors import Interrupted, NothingToPublish, ReleaseKitError, UnknownVersion
from releasekit.events import (
    GOOD_OUTCOMES,
    BuildFinished,
    Event,
    Outcome,
    ReleaseEnded,
    RunEnded,
    RunStarted,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.graph import Graph
from releasekit.lock import hold, journal_directory
from releasekit.plan import Plan, make_plan
from releasekit.publish import registries as registry_choice
from releasekit.publish.build import NOT_YET, Builds, build_all, with_versions
from releasekit.publish.inspect import inspect_all
from releasekit.publish.pin import pin_edits
from releasekit.publish.registries import without_secrets
from releasekit.publish.resume import check_tree, kept_releases, take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import httpx

    from releasekit.config import Config, RegistrySettings
    from releasekit.ecosystems import Presence, Registry
    from releasekit.model import Package, Workspace
    from releasekit.pins import Recovery
    from releasekit.publish.control import RunControl
    from releasekit.publish.resume import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest:
    root: Path
    config: Config
    registries: Mapping[str, RegistrySettings] = field(default_factory=dict)
    """Given for this run alone; they win over the configuration."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """Where credentials are looked for."""
    lock_timeout: float = 0.0
    fresh: bool = False
    """Build anew what an earlier run has sent in part."""
    command: str = "publish"
    """The name that the journal, the lock and the summary give to the run."""
    runs_in: Path | None = None
    """Where runs are kept; None: with the lock, in the repository."""

    def settings_of(
        self, registry: str, named: Mapping[str, RegistrySettings]
    ) -> RegistrySettings | None:
        """For this run, else as configured, else as a manifest names it; unknown is None."""
        configured = self.config.registries.get(registry)
        addresses = self.registries.get(registry)
        if addresses is None and (configured is None or not configured.has_address):
            addresses = named.get(registry)
        if addresses is None or configured is None:
            return addresses or configured
        return replace(addresses, trusted_publishing=configured.trusted_publishing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the stages share: where things lie, whom they ask, and whom they tell."""

    root: Path
    folder: Path
    plan: Plan
    builds: Builds
    resumed: Mapping[str, Kept]
    packages: Mapping[str, Package]
    registries: Mapping[str, Registry]
    client: httpx.AsyncClient
    control: RunControl
    state: RunState
    emit: Callable[[Event], None]


async def run(
    request: PublishRequest,
    *,
    observe: Callable[[Event], None],
    approve: Callable[[Plan, Mapping[str, Registry]], bool],
    note_recovery: Callable[[Recovery], None],
    control: RunControl,
) -> RunState:
    """Publish what is not on its registry yet. Not one upload before all is built and inspected."""
    from releasekit.net import http_client  # only uploads need HTTP; `build` starts without

    home = journal_directory(request.root)
    kept_in = request.runs_in or home
    run_id = journal.new_run_id()
    command = f"releasekit {request.command}"
    with hold(home, command=command, timeout=request.lock_timeout, run=run_id) as held:
        recovery = pins.recover(held)
        note_recovery(recovery)
        recovery.require_done()
        found = workspace.load(
            request.root, exclude=request.config.exclude, roots=request.config.roots
        )
        found = await with_versions(found, request.config, held)
        registries = _registries(request, found)
        packages = found.by_id()
        async with http_client() as client:
            present = await _ask_registries(client, packages, registries)
            kept = {} if request.fresh else kept_releases(kept_in)
            plan = make_plan(found, Graph.of(found), present, kept)
            resumed = {
                release.package: kept[key]
                for release in plan.releases
                if (key := (release.package, release.version)) in kept
            }
            for release in plan.releases:
                if refusal := registries[release.package].refusal(packages[release.package]):
                    raise refusal
            check_tree(resumed.values(), git.head(request.root))
            edits = pin_edits(
                found,
                (
                    packages[release.package]
                    for release in plan.releases
                    if release.package not in resumed
                ),
                request.config.pins,
            )
            if plan.releases and not approve(plan, registries):
                raise Interrupted(
                    "nothing was published", hint="add `--yes` to go on without asking"
                )
            folder = kept_in / "runs" / run_id
            folder.mkdir(parents=True)
            take_over(resumed, folder)
            with journal.Journal(folder / journal.FILE_NAME) as book:
                state = RunState()

                def emit(event: Event) -> None:
                    event = without_secrets(event)
                    if not event.passing:
                        book.append(event)
                    state.apply(event)
                    observe(event)

                this = Run(
                    root=request.root,
                    folder=folder,
                    plan=plan,
                    builds=Builds(
                        workspace=found,
                        config=request.config,
                        packages=tuple(
                            packages[release.package]
                            for release in plan.releases
                            if release.package not in resumed
                        ),
                        edits=edits,
                        held=held,
                        folder=folder,
                        emit=emit,
                    ),
                    resumed=resumed,
                    packages=packages,
                    registries=registries,
                    client=client,
                    control=control,
                    state=state,
                    emit=emit,
                )
                emit(_started(this, run_id, request.command))
                control.tell(emit)
                await _stages(this)
                outcomes = {release.outcome for release in state.releases.values()}
                emit(RunEnded(ok=outcomes <= GOOD_OUTCOMES))
    return state


def _registries(request: PublishRequest, found: Workspace) -> dict[str, Registry]:
    publishable = tuple(package for package in found.packages if package.publishable)
    if not publishable:
        raise NothingToPublish(root=request.root)
    for package in publishable:
        if package.version is None:
            raise UnknownVersion(package=package.id, manifest=package.manifest)
    return registry_choice.choose(request, found, publishable)


async def _stages(run: Run) -> None:
    for release in run.plan.already_there:
        run.emit(ReleaseEnded(package=release.package, outcome=Outcome.ALREADY_THERE))
    for release, missing in run.plan.partly_there:
        reason = f"{release.version} is on the registry without {missing}"
        hint = "release a new version: files of one version must come from one build"
        run.emit(
            ReleaseEnded(package=release.package, outcome=Outcome.FAILED, reason=reason, hint=hint)
        )
    for package, kept in run.resumed.items():
        run.emit(BuildFinished(package=package, artifacts=kept.artifacts))
    run.emit(StageStarted(stage=Stage.BUILD))
    built = await build_all(run.builds)
    if built:
        run.emit(StageStarted(stage=Stage.INSPECT))
        built = await inspect_all(run.builds)
    if not built:
        for package in run.resumed:
            run.emit(ReleaseEnded(package=package, outcome=Outcome.CANCELLED, reason=NOT_YET))
        return
    from releasekit.publish.upload import upload_all

    run.emit(StageStarted(stage=Stage.UPLOAD))
    await upload_all(run)


def _started(run: Run, run_id: str, command: str) -> RunStarted:
    partly = tuple(release for release, _ in run.plan.partly_there)
    return RunStarted(
        run=run_id,
        command=command,
        releasekit=__version__,
        commit=git.head(run.root),
        releases=(*run.plan.already_there, *partly, *run.plan.releases),
    )


async def _ask_registries(
    client: httpx.AsyncClient, packages: Mapping[str, Package], registries: Mapping[str, Registry]
) -> dict[str, Presence]:
    try:
        async with asyncio.TaskGroup() as group:
            asked = {
                package_id: group.create_task(registry.presence(client, packages[package_id]))
                for package_id, registry in registries.items()
            }
    except* ReleaseKitError as errors:
        # One registry that does not answer fails for every package: one message is enough.
        raise errors.exceptions[0] from None
    return {package_id: task.result() for package_id, task in asked.items()}
