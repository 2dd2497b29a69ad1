"""What a person can do to a run: keys, signals and the socket all end here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.events import ConcurrencyChanged, Event, Noted, Paused, Quitting, Resumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from releasekit.scheduler import Scheduler

IN_FLIGHT = "in flight when we stopped: unknown until the next run asks the registry"


class RunControl:
    """Wishes that outlive the stage they were made in: a pause before the uploads holds them."""

    def __init__(self) -> None:
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

    def pause(self) -> None:
        """Between uploads, never while files are pinned."""
        if not self.paused:
            self.paused = True
            self._emit(Paused())
            if self._scheduler is not None:
                self._scheduler.pause()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._emit(Resumed())
            if self._scheduler is not None:
                self._scheduler.resume()

    def quit(self) -> None:
        """Start nothing new; what is in flight finishes."""
        if not self.quitting:
            self.quitting = True
            self._emit(Quitting())
            if self._scheduler is not None:
                self._scheduler.cancel()

    def abandon(self, packages: Iterable[str]) -> None:
        """Keep in the journal what was in flight when we had to stop."""
        for package in packages:
            self._emit(Noted(package=package, message=IN_FLIGHT))

    def change_concurrency(self, by: int) -> None:
        from releasekit.publish.upload import CONCURRENT_UPLOADS

        if self._scheduler is not None:
            current = self._scheduler.stats().concurrency
        else:
            current = self.concurrency or CONCURRENT_UPLOADS
        self.set_concurrency(current + by)

    def set_concurrency(self, concurrency: int) -> None:
        self.concurrency = max(1, concurrency)
        self._emit(ConcurrencyChanged(concurrency=self.concurrency))
        if self._scheduler is not None:
            self._scheduler.set_concurrency(self.concurrency)
