"""Events → what a screen shows of a run: pure, without a clock and without a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.cells import cell_len

from releasekit.events import (
    BuildFinished,
    BuildStarted,
    ConcurrencyChanged,
    Confirmed,
    Event,
    LaneClosed,
    Outcome,
    Paused,
    PlannedRelease,
    Quitting,
    ReleaseEnded,
    Resumed,
    RetryScheduled,
    RunEnded,
    RunStarted,
    Stage,
    StageStarted,
    UploadAnswered,
    UploadProgressed,
    UploadSent,
)
from releasekit.ui.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

NEXT_SHOWN = 3
_BEFORE_UPLOADS = frozenset({Stage.BUILD, Stage.INSPECT, Stage.SIGN})
_ESTIMATE_SECONDS = 1.0
_USUAL_WIDTH = 10
"""How many uploads a run makes at once unless told otherwise."""


class Phase(StrEnum):
    WAITING = "waiting"
    BUILDING = "building"
    BUILT = "built"
    UPLOADING = "uploading"
    CONFIRMING = "visible?"
    RETRYING = "again"
    ENDED = "ended"


_ACTIVE = frozenset({Phase.BUILDING, Phase.UPLOADING, Phase.CONFIRMING, Phase.RETRYING})


@dataclass(slots=True, kw_only=True)
class Progress:
    """How one package is doing just now."""

    release: PlannedRelease
    phase: Phase = Phase.WAITING
    since: float = 0.0
    """When the work that is shown began: the build, or the first byte of the upload."""
    file: str = ""
    sent: int = 0
    size: int = 0
    told: bool = False
    """The upload tells how far it is; a small file is there as soon as it is sent."""
    sizes: dict[str, int] = field(default_factory=dict)
    attempt: int = 1
    until: float = 0.0
    """When a retry starts."""
    reason: str = ""
    outcome: Outcome | None = None

    @property
    def package(self) -> str:
        return self.release.package

    @property
    def name(self) -> str:
        return clean(f"{self.package} {self.release.version}")


@dataclass(slots=True, kw_only=True)
class View:
    """The sum of the events so far, as a screen needs it; changed by `apply` alone."""

    workspace: str
    command: str = ""
    stage: Stage | None = None
    started: float | None = None
    stage_started: float = 0.0
    ended: float | None = None
    paused: bool = False
    quitting: bool = False
    concurrency: int | None = None
    lanes: dict[str, float] = field(default_factory=dict)
    """Until when a registry asked us to wait."""
    packages: dict[str, Progress] = field(default_factory=dict)
    active: dict[str, Progress] = field(default_factory=dict)
    """In the order in which they began: rows do not jump."""
    counts: dict[Outcome, int] = field(default_factory=dict)
    longest_name: int = 0
    """In cells, of all packages and not of those shown: columns stay where they are."""
    failing: str | None = None
    built: int = 0
    bytes_sent: int = 0
    _built_before: int = 0
    """What an earlier run had built."""
    _took: list[float] = field(default_factory=list)
    _estimate: tuple[float, float | None] | None = None

    def apply(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.command, self.started = event.command, event.at
                self.packages = {
                    planned.package: Progress(release=planned) for planned in event.releases
                }
                self.longest_name = max(map(cell_len, self._names()), default=0)
            case StageStarted():
                self.stage, self.stage_started = event.stage, event.at
                self.started = self.started or event.at
                self._estimate, self._built_before = None, self.built
            case Paused():
                self.paused = True
            case Resumed():
                self.paused = False
            case Quitting():
                self.quitting = True
            case ConcurrencyChanged():
                self.concurrency = event.concurrency
            case LaneClosed():
                self.lanes[event.registry] = event.at + event.seconds
            case RunEnded():
                self.ended = event.at
            case _:
                progress = self.packages.get(getattr(event, "package", None) or "")
                if progress is not None:
                    self._apply_to(progress, event)

    def _apply_to(self, progress: Progress, event: Event) -> None:
        match event:
            case BuildStarted():
                self._enter(progress, Phase.BUILDING, event.at)
            case BuildFinished():
                self.built += progress.phase in {Phase.WAITING, Phase.BUILDING}
                progress.sizes = {made.file: made.size for made in event.artifacts}
                self._enter(progress, Phase.BUILT, event.at)
            case UploadSent():
                progress.file, progress.sent, progress.told = event.file, 0, False
                progress.size = progress.sizes.get(event.file, 0)
                self._enter(progress, Phase.UPLOADING, event.at)
            case UploadProgressed():
                self.bytes_sent += max(0, event.sent - progress.sent)
                progress.sent, progress.size, progress.told = event.sent, event.size, True
            case UploadAnswered():
                self.bytes_sent += max(0, progress.size - progress.sent)
                progress.sent = progress.size
                self._enter(progress, Phase.CONFIRMING, event.at)
            case Confirmed() if progress.phase is not Phase.ENDED:
                self._enter(progress, Phase.CONFIRMING, event.at)
            case RetryScheduled():
                progress.attempt = event.attempt + 1
                progress.until, progress.reason = event.at + event.seconds, event.reason
                self._enter(progress, Phase.RETRYING, event.at)
            case ReleaseEnded():
                self._end(progress, event)

    def _enter(self, progress: Progress, phase: Phase, at: float) -> None:
        if phase in _ACTIVE:
            if progress.package not in self.active:
                progress.since = at
                self.active[progress.package] = progress
        else:
            self.active.pop(progress.package, None)
        progress.phase = phase

    def _end(self, progress: Progress, event: ReleaseEnded) -> None:
        if event.outcome is Outcome.PUBLISHED and progress.package in self.active:
            self._took.append(event.at - progress.since)
        self._enter(progress, Phase.ENDED, event.at)
        if progress.outcome is None:
            self.counts[event.outcome] = self.counts.get(event.outcome, 0) + 1
        progress.outcome = event.outcome
        progress.reason = event.reason or ""
        if event.outcome is Outcome.FAILED:
            self.failing = progress.package

    def _names(self) -> Iterable[str]:
        return (progress.name for progress in self.packages.values())

    @property
    def done(self) -> int:
        """Ended, or built while nothing else is asked for."""
        if self.stage in _BEFORE_UPLOADS and self.counts_ended() < self.built:
            return min(len(self.packages), self.built + self.counts_ended())
        return self.counts_ended()

    def counts_ended(self) -> int:
        return sum(self.counts.values())

    def waiting(self) -> Iterable[Progress]:
        before = (
            {Phase.WAITING, Phase.BUILT} if self.stage is Stage.UPLOAD else {Phase.WAITING}
        )  # fmt: skip
        return (progress for progress in self.packages.values() if progress.phase in before)

    def waits_for(self, progress: Progress) -> str | None:
        """The first of its needs that has not ended."""
        for need in progress.release.needs:
            found = self.packages.get(need)
            if found is not None and found.phase is not Phase.ENDED:
                return need
        return None

    def upcoming(self) -> tuple[int, list[str]]:
        """How many wait, and the first of those that wait for nothing but their turn."""
        waiting = list(self.waiting())
        ready: list[str] = []
        for progress in waiting:
            if self.stage is not Stage.UPLOAD or self.waits_for(progress) is None:
                ready.append(progress.package)
                if len(ready) == NEXT_SHOWN:
                    break
        return len(waiting), ready or [progress.package for progress in waiting[:NEXT_SHOWN]]

    def limited_until(self, progress: Progress, now: float) -> float | None:
        """Until when its registry wants no more from us."""
        until = self.lanes.get(progress.release.registry, 0.0)
        return until if until > now else None

    def closed_lanes(self, now: float) -> list[tuple[str, float]]:
        return [(registry, until) for registry, until in self.lanes.items() if until > now]

    def per_minute(self, now: float) -> float | None:
        published = self.counts.get(Outcome.PUBLISHED, 0)
        passed = now - self.stage_started
        if self.stage is Stage.UPLOAD and published and passed >= 1:
            return published * 60 / passed
        return None

    def bytes_per_second(self, now: float) -> float | None:
        passed = now - self.stage_started
        if self.stage is Stage.UPLOAD and self.bytes_sent and passed >= 1:
            return self.bytes_sent / passed
        return None

    def seconds_left(self, now: float) -> float | None:
        """Until all is done, as far as earlier runs or this one can tell."""
        if self._estimate is None or now - self._estimate[0] >= _ESTIMATE_SECONDS:
            self._estimate = (now, self._estimated(now))
        return self._estimate[1]

    def _estimated(self, now: float) -> float | None:
        if self.stage is Stage.UPLOAD:
            return None if self.paused else self._uploads_left(now)
        if self.stage is not Stage.BUILD:
            return None
        builds = self._builds_left(now)
        uploads = 0.0 if self.command == "build" else self._uploads_left(now)
        return None if builds is None or uploads is None else builds + uploads

    def _builds_left(self, now: float) -> float | None:
        built = self.built - self._built_before
        if not built:
            return None
        left = sum(one.phase in {Phase.WAITING, Phase.BUILDING} for one in self.packages.values())
        return (now - self.stage_started) / built * left

    def _uploads_left(self, now: float) -> float | None:
        known = [
            progress.release.expected
            for progress in self.packages.values()
            if progress.release.expected is not None
        ]
        samples = self._took or known
        if not samples:
            return None
        usual = sum(samples) / len(samples)
        chain: dict[str, float] = {}
        total = longest = 0.0
        # The plan names what is needed before what needs it.
        for progress in self.packages.values():
            if progress.phase is Phase.ENDED:
                continue
            expected = progress.release.expected
            seconds = usual if expected is None else expected
            if self.stage is Stage.UPLOAD and progress.package in self.active:
                seconds = max(0.0, seconds - (now - progress.since))
            before = max((chain.get(need, 0.0) for need in progress.release.needs), default=0.0)
            chain[progress.package] = before + seconds
            longest = max(longest, before + seconds)
            total += seconds
        closed = max((until - now for _, until in self.closed_lanes(now)), default=0.0)
        return max(longest, total / (self.concurrency or _USUAL_WIDTH), closed)
