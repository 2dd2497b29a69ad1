"""What a person can do to a run: keys, signals and the socket all end here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.control_socket import Answer, Wish
from releasekit.errors import JournalNotWritten
from releasekit.events import ConcurrencyChanged, Event, Noted, Paused, Quitting, Resumed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from releasekit.scheduler import Scheduler

IN_FLIGHT = "in flight when we stopped: unknown until the next run asks the registry"


class BuildControl:
    """A build is short and reversible: it ends at once, or goes on."""

    def __init__(self) -> None:
        self.cancelled = False
        """From another terminal, before anything was in flight."""
        self._run: asyncio.Task[object] | None = None

    def begin(self, run: asyncio.Task[object] | None) -> None:
        self._run = run

    def grant(self, wish: Wish) -> Answer:
        """A wish from another terminal, and what comes of it."""
        if wish is not Wish.CANCEL:
            return Answer(done=False, message="a build cannot be paused")
        return self._end_now()

    def _end_now(self) -> Answer:
        if self._run is not None and not self.cancelled:
            self.cancelled = True
            self._run.cancel()
        return Answer(
            done=True, message="ending now: nothing was uploaded, and the manifests are restored"
        )


class RunControl(BuildControl):
    """Wishes that outlive the stage they were made in: a pause before the uploads holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False
        self.quitting = False
        self.concurrency: int | None = None
        """As wished for; None leaves it to the run."""
        self._scheduler: Scheduler | None = None
        self._emit: Callable[[Event], None] = lambda _: None

    @property
    def uploading(self) -> bool:
        return self._scheduler is not None

    def tell(self, emit: Callable[[Event], None]) -> None:
        """From here on every wish is an event of the run, and so are those made before."""
        self._emit = emit
        if self.paused:
            emit(Paused())
        if self.quitting:
            emit(Quitting())
        if self.concurrency is not None:
            emit(ConcurrencyChanged(concurrency=self.concurrency))

    def attach(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        if self.concurrency is not None:
            scheduler.set_concurrency(self.concurrency)
        if self.paused:
            scheduler.pause()
        if self.quitting:
            scheduler.cancel()

    def grant(self, wish: Wish) -> Answer:
        match wish:
            case Wish.PAUSE:
                already = "already " if self.paused else ""
                self.pause()
                return self._told(f"{already}paused", before="the uploads wait for `resume`")
            case Wish.RESUME:
                told = "going on" if self.paused else "it was not paused"
                self.resume()
                return Answer(done=True, message=told)
            case _ if self.uploading or self.cancelled:
                already = "already " if self.quitting else ""
                self.quit()
                return self._told(f"{already}quitting", before="it ends")
            case _:
                self.quit()
                return self._end_now()

    def _told(self, what: str, *, before: str) -> Answer:
        if self._scheduler is None:
            return Answer(done=True, message=f"{what}: {before}")
        running = self._scheduler.stats().running
        first = {0: "nothing is in flight", 1: "1 upload in flight finishes first"}
        told = first.get(running, f"{running} uploads in flight finish first")
        return Answer(done=True, message=f"{what}: {told}", in_flight=running)

    def pause(self) -> None:
        """Between uploads, never while files are pinned."""
        if not self.paused:
            self.paused = True
            if self._scheduler is not None:
                self._scheduler.pause()
            self._record(Paused())

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._record(Resumed())
            if self._scheduler is not None:
                self._scheduler.resume()

    def quit(self) -> None:
        """Start nothing new; what is in flight finishes."""
        if not self.quitting:
            self.quitting = True
            self._record(Quitting())
            if self._scheduler is not None:
                self._scheduler.cancel()

    def abandon(self, packages: Iterable[str]) -> None:
        """Keep in the journal what was in flight when we had to stop."""
        for package in packages:
            self._record(Noted(package=package, message=IN_FLIGHT))

    def change_concurrency(self, by: int) -> None:
        from releasekit.publish.upload import CONCURRENT_UPLOADS

        if self._scheduler is not None:
            current = self._scheduler.stats().concurrency
        else:
            current = self.concurrency or CONCURRENT_UPLOADS
        self.set_concurrency(current + by)

    def set_concurrency(self, concurrency: int) -> None:
        self.concurrency = max(1, concurrency)
        self._record(ConcurrencyChanged(concurrency=self.concurrency))
        if self._scheduler is not None:
            self._scheduler.set_concurrency(self.concurrency)

    def _record(self, event: Event) -> None:
        """A key and a signal have no caller who could be told that the disk is full."""
        try:
            self._emit(event)
        except JournalNotWritten:
            if self._scheduler is not None:
                self._scheduler.cancel()  # an upload that cannot be journalled ends the run
