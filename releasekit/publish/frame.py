"""What every run has around its stages: the lock, recovery, the workspace, and a journal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from releasekit import __version__, git, journal, pins, workspace
from releasekit.control_socket import listening
from releasekit.errors import LockHeld, StoppedBySignal
from releasekit.events import (
    GOOD_OUTCOMES,
    PlannedRelease,
    RunEnded,
    RunStarted,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.lock import hold, journal_directory
from releasekit.publish.build import with_versions
from releasekit.publish.ending import ending
from releasekit.publish.registries import without_secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from releasekit.config import Config
    from releasekit.events import Event
    from releasekit.journal import Journal
    from releasekit.lock import Held
    from releasekit.model import Workspace
    from releasekit.pins import Recovery
    from releasekit.publish.control import BuildControl

_ASK_AGAIN = 0.1


class Request(Protocol):
    """What the frame needs to know of a request."""

    @property
    def root(self) -> Path: ...

    @property
    def config(self) -> Config: ...

    @property
    def lock_timeout(self) -> float: ...

    @property
    def again(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the journal keeps of how a run was asked for, so that another can go on with it."""

    fresh: bool = False
    snapshot: str | None = None
    tag: str | None = None
    access: str | None = None
    again: str = ""
    """The command line that continues it, where that is not its own."""


PLAIN = About()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A repository that is ours alone for now, as it was before anybody pinned it."""

    root: Path
    home: Path
    """Where journals and artifacts live."""
    command: str
    run: str
    held: Held
    workspace: Workspace
    again: str
    changed: Mapping[Path, bool] | None
    """What is not committed, and whether git tracks it."""
    observe: Callable[[Event], None]

    @property
    def folder(self) -> Path:
        """The run's own; it is there once the run is recorded."""
        return self.home / "runs" / self.run


@contextlib.asynccontextmanager
async def opened(
    request: Request,
    *,
    command: str,
    observe: Callable[[Event], None],
    note_recovery: Callable[[Recovery], None],
    control: BuildControl,
    runs_in: Path | None = None,
) -> AsyncIterator[Opened]:
    """Lock, listen, recover, load. `command` is what another process is told of the holder."""
    home = journal_directory(request.root)
    run = journal.new_run_id()
    control.begin(asyncio.current_task())
    async with contextlib.AsyncExitStack() as stack:
        held = stack.enter_context(
            await _held(home, request.lock_timeout, f"releasekit {command}", run, runs_in or home)
        )
        stack.enter_context(_stopped_from_outside(control))
        listener = await stack.enter_async_context(listening(home, control.grant))

        def tell(event: Event) -> None:
            observe(event)
            listener.tell(event)

        # Told, not written: nothing is known yet that a journal could be about.
        tell(StageStarted(stage=Stage.LOAD))
        recovery = pins.recover(held)
        note_recovery(recovery)
        recovery.require_done()
        settings = request.config
        found = workspace.load(request.root, exclude=settings.exclude, roots=settings.roots)
        changed = git.uncommitted(found.root)
        yield Opened(
            root=request.root,
            home=runs_in or home,
            command=command,
            run=run,
            held=held,
            workspace=await with_versions(found, settings, home),
            again=request.again,
            changed=changed,
            observe=tell,
        )


async def _held(home: Path, patience: float, command: str, run: str, runs: Path) -> Held:
    """The lock, as soon as it is free. The loop goes on: signals end the waiting."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return hold(home, command=command, run=run, runs=str(runs / "runs"))
        except LockHeld as error:
            if time.monotonic() >= deadline:
                raise LockHeld(lock=error.lock, holder=error.holder, waited=patience) from error
        await asyncio.sleep(_ASK_AGAIN)


@contextlib.contextmanager
def _stopped_from_outside(control: BuildControl) -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        if control.cancelled:
            raise StoppedBySignal(signal="`releasekit cancel`") from None
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run from its first event to its last: on the disk, in the sum, and before the reader."""

    folder: Path
    book: Journal
    observe: Callable[[Event], None]
    state: RunState = field(default_factory=RunState)

    def emit(self, event: Event) -> None:
        event = without_secrets(event)
        if not event.passing:
            self.book.append(event)
        self.state.apply(event)
        self.observe(event)

    def keep(self, event: Event) -> None:
        """Write what the reader was told before there was a journal."""
        self.book.append(without_secrets(event))


@contextlib.contextmanager
def recorded(
    this: Opened,
    releases: Sequence[PlannedRelease],
    *,
    about: About = PLAIN,
    copy: Path | None = None,
) -> Iterator[Record]:
    """The stages of a run go inside. Every line of its journal is written to `copy` as well."""
    this.folder.mkdir(parents=True, exist_ok=True)  # artifacts of another run may be there
    if copy is not None:
        copy.mkdir()
    with journal.Journal(
        this.folder / journal.FILE_NAME, copy=copy and copy / journal.FILE_NAME
    ) as book:
        record = Record(folder=this.folder, book=book, observe=this.observe)
        record.emit(
            RunStarted(
                run=this.run,
                command=this.command,
                releasekit=__version__,
                commit=git.head(this.root),
                releases=tuple(releases),
                fresh=about.fresh,
                again=about.again or this.again,
                snapshot=about.snapshot,
                tag=about.tag,
                access=about.access,
            )
        )
        with ending(record.emit):
            yield record
        outcomes = {release.outcome for release in record.state.releases.values()}
        record.emit(RunEnded(ok=outcomes <= GOOD_OUTCOMES))
