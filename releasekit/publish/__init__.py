"""One run, from the workspace to the registry and back: the stages in order, one file each."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import Interrupted, ResumeOrFresh
from releasekit.events import (
    Artifact,
    BuildFinished,
    Event,
    Noted,
    Outcome,
    ReleaseEnded,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.publish import receipts
from releasekit.publish import state as state_folder
from releasekit.publish.build import NOT_YET, Builds, build_all
from releasekit.publish.frame import opened, recorded
from releasekit.publish.inspect import inspect_all
from releasekit.publish.prepare import prepare
from releasekit.publish.resume import run_to_resume, take_over, torn_run
from releasekit.publish.selection import Selection
from releasekit.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import httpx

    from releasekit.attestations import Attestor
    from releasekit.config import Config, RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.model import Package
    from releasekit.pins import Recovery
    from releasekit.plan import Plan
    from releasekit.publish.control import RunControl
    from releasekit.publish.frame import Opened, Record
    from releasekit.publish.prepare import Prepared
    from releasekit.publish.resume import Kept

TORN = "ends within a line, as a kill or a power cut leaves it; nothing before it is in doubt"


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
    resume: str | None = None
    """A run's id, or `resume.LAST`: do what it was about and nothing else."""
    state: Path | None = None
    """Where journals and artifacts are kept for another machine."""
    receipts: Path | None = None
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
        chosen = addresses or configured
        if addresses is not None and configured is not None:
            chosen = replace(
                addresses,
                trusted_publishing=configured.trusted_publishing,
                attestations=configured.attestations,
                trust_config=configured.trust_config,
                settle=configured.settle,
                confirm_within=configured.confirm_within,
            )
        if chosen is None or chosen.trust_config is None:
            return chosen
        return replace(chosen, trust_config=str(self.root / chosen.trust_config))


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
    attestors: Mapping[str, Attestor]
    """By package: how its files are signed; those that are missing here are not."""
    client: httpx.AsyncClient
    control: RunControl
    state: RunState
    emit: Callable[[Event], None]
    copy: Path | None
    """The run's folder in `--state`."""


async def run(
    request: PublishRequest,
    *,
    observe: Callable[[Event], None],
    approve: Callable[[Plan, Mapping[str, Registry]], bool],
    note_recovery: Callable[[Recovery], None],
    control: RunControl,
) -> RunState:
    """Publish what is not on its registry yet. Not one upload before all is built and inspected."""
    # Only uploads need HTTP; `build` starts without.
    from releasekit.net import POOL_SIZE, http_client
    from releasekit.publish.attest import attestors

    if request.resume is not None and request.fresh:
        raise ResumeOrFresh
    if request.receipts is not None:
        receipts.check_place(request.receipts)
    wanted = request.concurrency
    if wanted is not None:
        control.set_concurrency(wanted)
    frame = opened(
        request,
        command=request.command,
        observe=observe,
        note_recovery=note_recovery,
        runs_in=request.runs_in,
    )
    async with frame as this, http_client(max(POOL_SIZE, wanted or 0)) as client:
        if request.state is not None:
            state_folder.prepare(request.state)
            if not request.fresh:
                state_folder.exchange(request.state, this.home)
        torn = torn_run(this.home)
        earlier = None if request.resume is None else run_to_resume(this.home, request.resume)
        observe(StageStarted(stage=Stage.PREFLIGHT))
        prepared = await prepare(request, this, client, earlier)
        signing = await attestors(prepared, client)
        _require_approval(prepared, approve)
        take_over(prepared.resumed, this.folder)
        copy = None if request.state is None else request.state / "runs" / this.run
        with (
            _receipts_at_the_end(request, this, prepared),
            recorded(this, prepared.plan.all_releases, fresh=request.fresh, copy=copy) as record,
        ):
            control.tell(record.emit)
            if torn is not None:
                record.emit(Noted(message=f"the journal of run {torn} {TORN}"))
            for warning in prepared.warnings:
                record.emit(Noted(package=warning.package, message=warning.message))
            for reason in signing.unsigned:
                record.emit(Noted(message=reason))
            run = _run(request, this, client, prepared, record, control, copy)
            await _stages(replace(run, attestors=signing.attestors))
    return record.state


@contextlib.contextmanager
def _receipts_at_the_end(
    request: PublishRequest, this: Opened, prepared: Prepared
) -> Iterator[None]:
    """Of a run that failed too: what it did publish is published."""
    try:
        yield
    finally:
        path = this.folder / journal.FILE_NAME
        if request.receipts is not None and path.exists():
            addresses = {
                package: redact(registry.address)
                for package, registry in prepared.registries.items()
            }
            receipts.write(request.receipts, journal.read(path).events, addresses)


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
    copy: Path | None,
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
        attestors={},
        client=client,
        control=control,
        state=record.state,
        emit=record.emit,
        copy=copy,
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
    if run.copy is not None:
        await asyncio.to_thread(state_folder.keep_artifacts, run.folder, run.copy, _to_send(run))
    if run.attestors:
        from releasekit.publish.attest import attest_all

        run.emit(StageStarted(stage=Stage.SIGN))
        if not await attest_all(run):
            return
    from releasekit.publish.upload import upload_all

    run.emit(StageStarted(stage=Stage.UPLOAD))
    await upload_all(run)


def _to_send(run: Run) -> list[tuple[str, Artifact]]:
    return [
        (release.package, artifact)
        for release in run.plan.releases
        for artifact in run.state.releases[release.package].artifacts
    ]
