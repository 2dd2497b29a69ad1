"""One run, from the workspace to the registry and back: the stages in order, one file each."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import DryRunWithReceipts, Interrupted, ResumeOrFresh
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
    Withheld,
)
from releasekit.publish import receipts, retention, snapshots
from releasekit.publish import state as state_folder
from releasekit.publish.build import NOT_YET, Builds, build_all
from releasekit.publish.frame import About, opened, recorded
from releasekit.publish.inspect import inspect_all
from releasekit.publish.preflight import NEW_VERSION, stop_at_errors
from releasekit.publish.prepare import Place, prepare
from releasekit.publish.resume import run_to_resume, take_over, torn_run
from releasekit.publish.selection import Selection
from releasekit.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
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

    Approve = Callable[[Plan, Mapping[str, Registry]], Awaitable[bool]]

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
    again: str = ""
    """The command line that continues it."""
    fresh: bool = False
    """Build anew what an earlier run has sent in part."""
    dry_run: bool = False
    """Go as far as inspection, tell what would be sent, and send nothing."""
    allow_dirty: bool = False
    """Release what lies here, committed or not."""
    tag: str | None = None
    """The npm dist-tag."""
    access: str | None = None
    """`public` or `restricted`, for npm."""
    snapshot: str | None = None
    """A snapshot's id, or `snapshots.NEW`; None: no snapshot."""
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
    promised: Callable[[], Awaitable[None]]
    """What was told so far is on the disk."""
    copy: Path | None
    """The run's folder in `--state`."""


async def run(
    request: PublishRequest,
    *,
    observe: Callable[[Event], None],
    approve: Approve,
    note_recovery: Callable[[Recovery], None],
    control: RunControl,
) -> RunState:
    """Publish what is not on its registry yet. Not one upload before all is built and inspected."""
    # Only uploads need HTTP; `build` starts without.
    from releasekit.net import POOL_SIZE, http_client

    if request.resume is not None and request.fresh:
        raise ResumeOrFresh
    if request.receipts is not None:
        if request.dry_run:
            raise DryRunWithReceipts
        receipts.check_place(request.receipts)
    wanted = request.concurrency
    if wanted is not None:
        control.set_concurrency(wanted)
    frame = opened(
        request,
        command=f"{request.command} --dry-run" if request.dry_run else request.command,
        observe=observe,
        note_recovery=note_recovery,
        control=control,
        runs_in=request.runs_in,
    )
    async with frame as this, http_client(max(POOL_SIZE, wanted or 0)) as client:
        if request.state is not None:
            state_folder.prepare(request.state)
            if not request.fresh:
                state_folder.exchange(request.state, this.home)
        torn = torn_run(this.home)
        earlier = None if request.resume is None else run_to_resume(this.home, request.resume)
        request = with_what_was_asked(request, earlier)
        this.observe(StageStarted(stage=Stage.PREFLIGHT))
        place = Place(workspace=this.workspace, home=this.home, changed=this.changed)
        prepared = await prepare(request, place, client, earlier)
        stop_at_errors(prepared.problems)
        await _require_approval(prepared, approve)
        take_over(prepared.resumed, this.folder)
        keep = request.state is not None and not request.dry_run
        copy = request.state / "runs" / this.run if request.state and keep else None
        with (
            _receipts_at_the_end(request, this, prepared),
            recorded(
                this, prepared.plan.all_releases, about=_about(request, this), copy=copy
            ) as record,
        ):
            control.tell(record.emit)
            if torn is not None:
                record.emit(Noted(message=f"the journal of run {torn} {TORN}"))
            for warning in prepared.plan.warnings:
                hint = f" (hint: {warning.hint})" if warning.hint else ""
                record.emit(Noted(package=warning.package, message=f"{warning.message}{hint}"))
            run = _run(request, this, client, prepared, record, control, copy)
            if await _stages(run):
                await (_withhold(run) if request.dry_run else _send(run))
        if record.state.ok and not request.dry_run:
            last = request.config.journal.keep_runs
            await asyncio.to_thread(retention.tidy, this.home, last, state=request.state)
    return record.state


def with_what_was_asked(request: PublishRequest, earlier: RunState | None) -> PublishRequest:
    """With what the run to go on with was asked for, and the id of a snapshot that has none."""
    return replace(
        request,
        snapshot=snapshots.snapshot_id(request.snapshot, earlier),
        tag=request.tag or (earlier.tag if earlier else None),
        access=request.access or (earlier.access if earlier else None),
    )


def _about(request: PublishRequest, this: Opened) -> About:
    # The command line of a snapshot alone could mean another one.
    repeats = request.snapshot is None or request.resume is not None or not this.again
    return About(
        again=this.again if repeats else f"{this.again} --resume {this.run}",
        # A dry run gives up on nothing.
        fresh=request.fresh and not request.dry_run,
        snapshot=request.snapshot,
        tag=request.tag,
        access=request.access,
    )


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


async def _require_approval(prepared: Prepared, approve: Approve) -> None:
    if prepared.plan.releases and not await approve(prepared.plan, prepared.registries):
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
            workspace=prepared.workspace,
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
        attestors=prepared.attestors,
        client=client,
        control=control,
        state=record.state,
        emit=record.emit,
        promised=record.book.promised,
        copy=copy,
    )


async def _stages(run: Run) -> bool:
    """All that is reversible; False where something of it failed."""
    for release in run.plan.already_there:
        run.emit(ReleaseEnded(package=release.package, outcome=Outcome.ALREADY_THERE))
    for release, missing in run.plan.partly_there:
        reason = f"{release.version} is on the registry without {missing}"
        run.emit(
            ReleaseEnded(
                package=release.package, outcome=Outcome.FAILED, reason=reason, hint=NEW_VERSION
            )
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
    return built


async def _withhold(run: Run) -> None:
    """A dry run ends here: what would go where, and which of it could not."""
    refused = {release.package for release, _ in run.plan.partly_there}
    blocked: dict[str, str] = {}
    for release in run.plan.releases:
        blocker = next((need for need in release.needs if need in refused | blocked.keys()), None)
        if blocker is not None:
            blocked[release.package] = blocker
            run.emit(
                ReleaseEnded(package=release.package, outcome=Outcome.BLOCKED, blocked_by=blocker)
            )
            continue
        for artifact in run.state.releases[release.package].artifacts:
            run.emit(
                Withheld(
                    package=release.package,
                    file=artifact.file,
                    size=artifact.size,
                    sha256=artifact.sha256,
                    registry=release.registry,
                    address=redact(run.registries[release.package].address),
                )
            )
        run.emit(ReleaseEnded(package=release.package, outcome=Outcome.BUILT))


async def _send(run: Run) -> None:
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
