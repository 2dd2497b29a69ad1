"""What a run says: outcomes, events, statistics and the result, all frozen.

Every time is on the clock of the event loop (`loop.time()`), and None before a run has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Status(StrEnum):
    PUBLISHED = "published"
    ALREADY_PUBLISHED = "already_published"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    REMOVED = "removed"


class OnError(StrEnum):
    """What the failure of a package means for the others."""

    SKIP = "skip"
    """Its descendants are blocked, everything else goes on."""
    FAIL = "fail"
    """Nothing new starts."""
    CONTINUE = "continue"
    """Its dependents run."""


class Outcome(NamedTuple):
    """How a package ended. A tuple, because every package gets one: it is made three times faster
    than a frozen dataclass, and the scheduler is measured against a bare loop.
    """

    name: str
    status: Status
    attempts: int = 0
    started: float | None = None
    """When the first attempt started."""
    ended: float | None = None
    error: BaseException | None = None
    blocked_by: str | None = None
    """The package whose failure or removal blocks this one, however far away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    name: str
    lane: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled:
    name: str
    attempt: int
    """The attempt that failed."""
    error: BaseException
    not_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblocked:
    """The blocked outcome of this package no longer holds: what stood in its way was removed."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    name: str
    dependencies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Nothing new starts any more."""

    ends_running: bool
    """Running work was told to end, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyChanged:
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneClosed:
    lane: str
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOpened:
    lane: str


Event = (
    Started
    | RetryScheduled
    | Finished
    | Unblocked
    | Added
    | Paused
    | Resumed
    | Stopping
    | ConcurrencyChanged
    | LaneClosed
    | LaneOpened
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    ready: int
    running: int
    limit: int | None
    closed_until: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    ready: int
    running: int
    waiting: int
    """On a dependency."""
    retrying: int
    finished: int
    concurrency: int
    paused: bool
    stopping: bool
    lanes: Mapping[str, LaneStats]
    remaining_chain: float
    """The longest chain still to go: in seconds where durations are known, else in packages."""
    eta: float | None
    """Seconds to go if every slot stays busy; None where durations are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result:
    outcomes: Mapping[str, Outcome]
    """One for every package, in the order in which they were reached."""

    @property
    def published(self) -> tuple[str, ...]:
        return self._named(Status.PUBLISHED)

    @property
    def already_published(self) -> tuple[str, ...]:
        return self._named(Status.ALREADY_PUBLISHED)

    @property
    def failed(self) -> dict[str, BaseException]:
        return {
            outcome.name: outcome.error
            for outcome in self.outcomes.values()
            if outcome.status is Status.FAILED and outcome.error is not None
        }

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was blocked, cancelled or removed."""
        return self._named(Status.BLOCKED, Status.CANCELLED, Status.REMOVED)

    @property
    def ok(self) -> bool:
        fine = (Status.PUBLISHED, Status.ALREADY_PUBLISHED, Status.REMOVED)
        return all(outcome.status in fine for outcome in self.outcomes.values())

    def __repr__(self) -> str:
        # asyncio.run() formats what its task returned, only to throw the text away: an entry for
        # every package would cost half as much again as the run.
        return f"<Result of {len(self.outcomes)} packages>"

    def _named(self, *statuses: Status) -> tuple[str, ...]:
        return tuple(o.name for o in self.outcomes.values() if o.status in statuses)
