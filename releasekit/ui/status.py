"""A run as another terminal sees it: what its journal tells, in words and as data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.events import Outcome, Stage
from releasekit.ui.summary import summary
from releasekit.ui.text import clean
from releasekit.ui.view import Phase, Progress, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from releasekit.events import Event, ReleaseState, RunState

_SHOWN = 10
_DOING = {
    Stage.LOAD: "reading the workspace",
    Stage.PREFLIGHT: "asking the registries, then the terminal",
    Stage.BUILD: "building",
    Stage.INSPECT: "inspecting",
    Stage.UPLOAD: "uploading",
}
_BAD, _WARN = "1;31", "33"


@dataclass(slots=True)
class Status:
    """One run so far: what happened, and how it looks."""

    state: RunState
    view: View
    folder: Path | None
    live: bool
    torn: bool = False

    def apply(self, event: Event) -> None:
        self.state.apply(event)
        self.view.apply(event)

    @property
    def killed(self) -> bool:
        return self.state.run is not None and self.state.ok is None and not self.live

    @property
    def again(self) -> str:
        return self.state.again or f"releasekit {self.state.command or 'publish'}"


def as_text(status: Status, paint: Callable[[str, str], str], now: float) -> list[str]:
    """Who and when; then, of a run that goes on, what it does, else how it ended."""
    state = status.state
    if state.run is None:
        stage = status.view.stage  # told by the run itself: there is no journal yet
        doing = _DOING[stage] if stage else "it reads, asks the registries or asks its terminal"
        return [f"it has not begun to build: {doing}"] if status.live else []
    commit = f" of commit {state.commit[:12]}" if state.commit else ""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.started_at or 0))
    spent = _span((state.ended_at or now) - (state.started_at or now))
    lines = [f"run {state.run}: `releasekit {clean(state.command or '')}`{commit}"]
    if status.live:
        lines.append(f"began {began}, {spent} ago")
        return lines + _going_on(status, paint, now)
    if status.killed:
        lines.append(f"began {began}; {paint('it was killed: its journal has no end', _BAD)}")
    else:
        lines.append(f"began {began}, took {spent}")
    if status.torn:
        lines.append("the last line of its journal is cut off; nothing before it is in doubt")
    if state.reason:
        lines.append(paint(f"it ended with an error: {clean(state.reason, lines=True)}", _BAD))
    return lines + summary(state, paint, again=status.again, folder=status.folder).split("\n")


def _going_on(status: Status, paint: Callable[[str, str], str], now: float) -> list[str]:
    state, view = status.state, status.view
    doing = _DOING[state.stage] if state.stage else "about to build"
    wishes = {"paused": state.paused, "quitting": state.quitting}
    wished = [word for word, wish in wishes.items() if wish]
    told = paint(", ".join([doing, *wished]), _WARN) if wished else doing
    left = view.seconds_left(now)
    lines = [told + (f", about {_span(left)} left" if left is not None else "")]
    lines.append(f"{view.done} of {len(view.packages)} done" + _counted(view))
    active = list(view.active.values())
    lines += [f"  {_row(progress, now)}" for progress in active[:_SHOWN]]
    if len(active) > _SHOWN:
        lines.append(f"  and {len(active) - _SHOWN} more")
    lines += [
        f"{clean(registry)} asked us to wait until {time.strftime('%H:%M:%S', time.localtime(end))}"
        for registry, end in view.closed_lanes(now)
    ]
    count, upcoming = view.upcoming()
    if count:
        lines.append(f"{count} waiting, next: {', '.join(map(clean, upcoming))}")
    for held in state.by_outcome(Outcome.FAILED):
        reason = clean((held.reason or "").partition("\n")[0])
        lines.append(f"{paint('failed:', _BAD)} {clean(held.release.package)}: {reason}")
        if held.hint:
            lines.append(f"  hint: {clean(held.hint)}")
    for held in state.by_outcome(Outcome.BLOCKED):
        blocker = clean(held.blocked_by or "")
        lines.append(f"{paint('blocked:', _WARN)} {clean(held.release.package)} by {blocker}")
    if state.paused:
        lines.append("to go on: releasekit resume")
    lines.append(f"to continue it, should it end early: {clean(status.again)}")
    return lines


def _counted(view: View) -> str:
    told = [f"{count} {outcome}" for outcome, count in view.counts.items() if count]
    return f" ({' · '.join(told)})" if told else ""


def _row(progress: Progress, now: float) -> str:
    name = clean(f"{progress.package} {progress.release.version}")
    match progress.phase:
        case Phase.RETRYING:
            wait = max(0.0, progress.until - now)
            doing = f"try {progress.attempt} in {_span(wait)}: {_first_line(progress.reason)}"
        case Phase.UPLOADING:
            share = f" {100 * progress.sent // progress.size} %" if progress.size else ""
            doing = f"uploading {clean(progress.file)}{share if progress.sent else ''}"
        case Phase.CONFIRMING:
            doing = "uploaded; waiting until the registry shows it"
        case phase:
            doing = str(phase)
    return f"{name}  {doing}, {_span(now - progress.since)}"


def as_data(status: Status, now: float) -> dict[str, object]:
    state, view = status.state, status.view
    return {
        "run": state.run,
        "command": state.command,
        "commit": state.commit,
        "live": status.live,
        "killed": status.killed,
        "torn": status.torn,
        "started": state.started_at,
        "ended": state.ended_at,
        "ok": state.ok,
        "stopped": state.stopped,
        "reason": state.reason,
        "stage": state.stage or view.stage,
        "paused": state.paused,
        "quitting": state.quitting,
        "done": view.done,
        "total": len(view.packages),
        "seconds_left": view.seconds_left(now) if status.live else None,
        "to_continue": None if state.ok else status.again,
        "journal": str(status.folder) if status.folder else None,
        "packages": [
            _package(held, view.packages[name], view) for name, held in state.releases.items()
        ],
    }


def _package(held: ReleaseState, progress: Progress, view: View) -> dict[str, object]:
    return {
        "package": held.release.package,
        "version": held.release.version,
        "registry": held.release.registry,
        "doing": str(progress.phase) if held.outcome is None else None,
        "waits_for": view.waits_for(progress) if progress.phase in _BEFORE else None,
        "attempt": progress.attempt,
        "outcome": held.outcome,
        "reason": held.reason,
        "hint": held.hint,
        "blocked_by": held.blocked_by,
        "unconfirmed": bool(held.sent - held.confirmed),
    }


_BEFORE = frozenset({Phase.WAITING, Phase.BUILT})


def folded(
    events: Iterable[Event], *, workspace: str, folder: Path | None, live: bool, torn: bool = False
) -> Status:
    from releasekit.events import RunState

    status = Status(
        state=RunState(), view=View(workspace=workspace), folder=folder, live=live, torn=torn
    )
    for event in events:
        status.apply(event)
    return status


def _first_line(text: str) -> str:
    return clean(text.partition("\n")[0])


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
