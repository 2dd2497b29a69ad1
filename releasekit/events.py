"""What happened in a run, in the past tense. State is always `fold(events)`.

The JSON form of an event is `{"v": 1, "event": "<kind>", "at": <seconds>, …its fields}`. A new
optional field keeps the version; a changed meaning raises it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from releasekit.errors import ForeignEvent
from releasekit.model import Check, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION = 1


class Stage(StrEnum):
    LOAD = "load"
    PREFLIGHT = "preflight"
    BUILD = "build"
    INSPECT = "inspect"
    SIGN = "sign"
    UPLOAD = "upload"


class Outcome(StrEnum):
    PUBLISHED = "published"
    BUILT = "built"
    ALREADY_THERE = "already there"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


GOOD_OUTCOMES = frozenset({Outcome.PUBLISHED, Outcome.BUILT, Outcome.ALREADY_THERE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file and the hashes that the registries know it by."""

    file: str
    size: int
    sha256: str
    sha512: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRelease:
    """One package at one version, and the packages of this run that must be there first."""

    package: str
    version: str
    registry: str
    needs: tuple[str, ...] = ()
    expected: float | None = None
    """Seconds from the first byte to the receipt, as earlier runs took them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: ClassVar[str]
    durable: ClassVar[bool] = False
    """A promise rests on it: it is on the disk before the run goes on."""
    passing: ClassVar[bool] = False
    """Of use only while it happens: shown and printed, not kept in the journal."""

    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    kind = "run-started"
    durable = True
    run: str
    command: str
    releasekit: str
    commit: str | None
    releases: tuple[PlannedRelease, ...]
    fresh: bool = False
    """What earlier runs have sent was given up on."""
    again: str = ""
    """The command line that continues it."""
    snapshot: str | None = None
    """The id of the snapshot that this run publishes."""
    tag: str | None = None
    """The npm dist-tag asked for."""
    access: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    kind = "stage-started"
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStarted(Event):
    kind = "build-started"
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFinished(Event):
    kind = "build-finished"
    package: str
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """Something a person should know that stops nothing."""

    kind = "noted"
    message: str
    package: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld(Event):
    """A dry run came here: what would have been sent, and where."""

    kind = "withheld"
    package: str
    file: str
    size: int
    sha256: str
    registry: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Event):
    """What inspection found in an artifact."""

    kind = "found"
    package: str
    check: Check
    severity: Severity
    file: str
    message: str
    hint: str
    """Where a finding is allowed: the reason that the configuration gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested(Event):
    """A statement about this file stands in a public log for good."""

    kind = "attested"
    package: str
    file: str
    sha256: str
    log_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSent(Event):
    """From here on the registry may hold the file; `Journal.promised` precedes the first byte."""

    kind = "upload-sent"
    package: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadProgressed(Event):
    kind = "upload-progressed"
    passing = True
    package: str
    file: str
    sent: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAnswered(Event):
    kind = "upload-answered"
    package: str
    file: str
    status: int | None
    """None where the answer was lost."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    kind = "retry-scheduled"
    package: str
    attempt: int
    """The attempt that failed."""
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneClosed(Event):
    """A registry asked us to wait: nothing more goes there for a while."""

    kind = "lane-closed"
    registry: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    kind = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    kind = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quitting(Event):
    """Nothing new starts; what is in flight finishes."""

    kind = "quitting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyChanged(Event):
    kind = "concurrency-changed"
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed(Event):
    """A receipt: the registry served the file with our hash.

    On the disk with the end of its release, which follows at once; were it lost, the next run would
    ask the registry again.
    """

    kind = "confirmed"
    package: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEnded(Event):
    kind = "release-ended"
    package: str
    outcome: Outcome
    reason: str | None = None
    hint: str | None = None
    blocked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    kind = "run-ended"
    durable = True
    ok: bool
    stopped: bool = False
    """On purpose, before all was done."""
    reason: str | None = None
    """The error that ended it."""


_KINDS: dict[str, type[Event]] = {
    event.kind: event
    for event in (
        RunStarted, StageStarted, BuildStarted, BuildFinished, Noted, Found, Withheld, Attested,
        UploadSent, UploadProgressed, UploadAnswered, RetryScheduled, LaneClosed, Paused, Resumed,
        Quitting, ConcurrencyChanged, Confirmed, ReleaseEnded, RunEnded,
    )
}  # fmt: skip


def to_json(event: Event) -> dict[str, object]:
    body = {option.name: _plain(getattr(event, option.name)) for option in fields(event)}
    return {"v": VERSION, "event": event.kind, **body}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (Artifact, PlannedRelease)):
        return {option.name: _plain(getattr(value, option.name)) for option in fields(value)}
    return str(value) if isinstance(value, StrEnum) else value


def from_json(body: Mapping[str, Any]) -> Event:
    if body.get("v") != VERSION:
        raise ForeignEvent(problem=f"version {body.get('v')!r}, this releasekit reads {VERSION}")
    kind = _KINDS.get(str(body.get("event")))
    if kind is None:
        raise ForeignEvent(problem=f"unknown event {body.get('event')!r}")
    try:
        known = {option.name for option in fields(kind)}
        return kind(**{name: _rich(name, body[name]) for name in body if name in known})
    except (TypeError, ValueError, KeyError) as error:
        raise ForeignEvent(problem=f"{body.get('event')}: {error}") from error


def _rich(name: str, value: Any) -> Any:  # noqa: ANN401 - a JSON value by its field's name
    match name:
        case "releases":
            return tuple(
                PlannedRelease(**{**item, "needs": tuple(item["needs"])}) for item in value
            )
        case "artifacts":
            return tuple(Artifact(**item) for item in value)
        case "stage":
            return Stage(value)
        case "outcome":
            return Outcome(value)
        case "check":
            return Check(value)
        case "severity":
            return Severity(value)
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """How far one package has come."""

    release: PlannedRelease
    building: bool = False
    artifacts: tuple[Artifact, ...] = ()
    sent: frozenset[str] = frozenset()
    """Hashes that the registry may hold."""
    confirmed: frozenset[str] = frozenset()
    """Hashes that the registry served."""
    withheld_from: str | None = None
    """Where a dry run would have sent it."""
    outcome: Outcome | None = None
    reason: str | None = None
    hint: str | None = None
    blocked_by: str | None = None


@dataclass(slots=True)
class RunState:
    """The sum of a run's events so far; changed by `apply` alone."""

    run: str | None = None
    command: str | None = None
    commit: str | None = None
    fresh: bool = False
    again: str = ""
    snapshot: str | None = None
    tag: str | None = None
    access: str | None = None
    stage: Stage | None = None
    paused: bool = False
    quitting: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    ok: bool | None = None
    """None until the run has ended; a run without an end was killed."""
    stopped: bool = False
    reason: str | None = None
    releases: dict[str, ReleaseState] = field(default_factory=dict)

    def apply(self, event: Event) -> Self:
        match event:
            case RunStarted():
                self.run, self.command, self.commit = event.run, event.command, event.commit
                self.started_at, self.fresh, self.again = event.at, event.fresh, event.again
                self.snapshot, self.tag, self.access = event.snapshot, event.tag, event.access
                self.releases = {
                    planned.package: ReleaseState(release=planned) for planned in event.releases
                }
            case StageStarted():
                self.stage = event.stage
            case BuildStarted():
                self._change(event.package, building=True)
            case BuildFinished():
                self._change(event.package, building=False, artifacts=event.artifacts)
            case Paused() | Resumed():
                self.paused = isinstance(event, Paused)
            case Quitting():
                self.quitting = True
            case Withheld():
                self._change(event.package, withheld_from=event.address)
            case UploadSent():
                sent = self.releases[event.package].sent
                self._change(event.package, sent=sent | {event.sha256})
            case Confirmed():
                confirmed = self.releases[event.package].confirmed
                self._change(event.package, confirmed=confirmed | {event.sha256})
            case ReleaseEnded():
                self._change(
                    event.package,
                    building=False,
                    outcome=event.outcome,
                    reason=event.reason,
                    hint=event.hint,
                    blocked_by=event.blocked_by,
                )
            case RunEnded():
                self.ok, self.ended_at = event.ok, event.at
                self.stopped, self.reason = event.stopped, event.reason
        return self

    def _change(self, package: str, **changes: Any) -> None:  # noqa: ANN401 - replace's own
        self.releases[package] = replace(self.releases[package], **changes)

    def by_outcome(self, outcome: Outcome | None) -> tuple[ReleaseState, ...]:
        return tuple(state for state in self.releases.values() if state.outcome is outcome)


def fold(events: Iterable[Event]) -> RunState:
    state = RunState()
    for event in events:
        state.apply(event)
    return state
