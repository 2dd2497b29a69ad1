"""What every run has around its stages: the lock, recovery, the workspace, and a journal."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from releasekit import __version__, git, journal, pins, workspace
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


class Request(Protocol):
    """What the frame needs to know of a request."""

    @property
    def root(self) -> Path: ...

    @property
    def config(self) -> Config: ...

    @property
    def lock_timeout(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the journal keeps of how a run was asked for, so that another can go on with it."""

    fresh: bool = False
    snapshot: str | None = None
    tag: str | None = None
    access: str | None = None


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
    runs_in: Path | None = None,
) -> AsyncIterator[Opened]:
    """Lock, recover, load. `command` is what another process is told of who holds the lock."""
    home = journal_directory(request.root)
    run = journal.new_run_id()
    with hold(home, command=f"releasekit {command}", timeout=request.lock_timeout, run=run) as held:
        # Told, not written: nothing is known yet that a journal could be about.
        observe(StageStarted(stage=Stage.LOAD))
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
            changed=changed,
            observe=observe,
        )


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
                snapshot=about.snapshot,
                tag=about.tag,
                access=about.access,
            )
        )
        with ending(record.emit):
            yield record
        outcomes = {release.outcome for release in record.state.releases.values()}
        record.emit(RunEnded(ok=outcomes <= GOOD_OUTCOMES))
