"""What a person can do to a run: keys, signals and the socket all end here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from releasekit.scheduler import Scheduler


class RunControl:
    """Wishes that outlive the stage they were made in: a pause before the uploads holds them."""

    def __init__(self) -> None:
        self.paused = False
        self.quitting = False
        self._scheduler: Scheduler | None = None

    @property
    def uploading(self) -> bool:
        return self._scheduler is not None

    def attach(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        if self.paused:
            scheduler.pause()
        if self.quitting:
            scheduler.cancel()

    def pause(self) -> None:
        """Between uploads, never while files are pinned."""
        self.paused = True
        if self._scheduler is not None:
            self._scheduler.pause()

    def resume(self) -> None:
        self.paused = False
        if self._scheduler is not None:
            self._scheduler.resume()

    def quit(self) -> None:
        """Start nothing new; what is in flight finishes."""
        if not self.quitting:
            self.quitting = True
            if self._scheduler is not None:
                self._scheduler.cancel()
