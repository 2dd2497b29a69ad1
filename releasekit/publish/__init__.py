"""One run, from the workspace to the registry and back: the stages in order, one file each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit.errors import Interrupted
from releasekit.events import (
    BuildFinished,
    Event,
    Noted,
    Outcome,
    ReleaseEnded,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.publish.build import NOT_YET, Builds, build_all
from releasekit.publish.frame import opened, recorded
from releasekit.publish.inspect import inspect_all
from releasekit.publish.prepare import prepare
from releasekit.publish.resume import take_over
from releasekit.publish.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import httpx

    from releasekit.config import Config, RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.model import Package
    from releasekit.pins import Recovery
    from releasekit.plan import Plan
    from releasekit.publish.control import RunControl
    from releasekit.publish.frame import Opened, Record
    from releasekit.publish.prepare import Prepared
    from releasekit.publish.resume import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest:
    root: Path
    config: Config
    registries: Mapping[str, RegistrySettings] = field(default_factory=dict)
    """Given for this run alone; they win over the configuration."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """Where credentials are looked for."""
    selection: Selection = field(default_factory=Selection)
    concurrency: int | None = None
    """How many uploads at once, unless a person changes it meanwhile."""
    lock_timeout: float = 0.0
    fresh: bool = False
    """Build anew what an earlier run has sent in part."""

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
    from releasekit.net import (
        POOL_SIZE,
        http_client,
    )  # only uploads need HTTP; `build` starts without

    frame = opened(
        request, command="releasekit publish", observe=observe, note_recovery=note_recovery
    )
    wanted = request.concurrency
    if wanted is not None:
        control.set_concurrency(wanted)
    async with frame as this, http_client(max(POOL_SIZE, wanted or 0)) as client:
        observe(StageStarted(stage=Stage.PREFLIGHT))
        prepared = await prepare(request, this, client)
        _require_approval(prepared, approve)
        with recorded(this, command="publish", releases=prepared.plan.all_releases) as record:
            control.tell(record.emit)
            for warning in prepared.warnings:
                record.emit(Noted(package=warning.package, message=warning.message))
            take_over(prepared.resumed, record.folder)
            await _stages(_run(request, this, client, prepared, record, control))
    return record.state


def _require_approval(
    prepared: Prepared, approve: Callable[[Plan, Mapping[str, Registry]], bool]
) -> None:
    if prepared.plan.releases and not approve(prepared.plan, prepared.registries):
        raise Interrupted("nothing was published", hint="add `--yes` to go on without asking")


def _run(
    request: PublishRequest,
    this: Opened,
    client: httpx.AsyncClient,
    prepared: Prepared,
    record: Record,
    control: RunControl,
) -> Run:
    return Run(
        root=request.root,
        folder=record.folder,
        plan=prepared.plan,
        builds=Builds(
            workspace=this.workspace,
            config=request.config,
            packages=prepared.to_build,
            edits=prepared.edits,
            held=this.held,
            folder=record.folder,
            emit=record.emit,
        ),
        resumed=prepared.resumed,
        packages=prepared.packages,
        registries=prepared.registries,
        client=client,
        control=control,
        state=record.state,
        emit=record.emit,
    )


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
