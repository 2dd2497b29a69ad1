"""Events → one line each, for logs and for terminals that want no more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from releasekit.events import (
    BuildFinished,
    BuildStarted,
    Confirmed,
    Event,
    Found,
    Noted,
    Outcome,
    ReleaseEnded,
    RetryScheduled,
    RunState,
    UploadAnswered,
    UploadSent,
)
from releasekit.model import Severity
from releasekit.ui.text import bytes_in_words, clean

if TYPE_CHECKING:
    from collections.abc import Callable

_GOOD, _BAD, _WARN, _DIM = "32", "1;31", "33", "2"


def line_for(event: Event, paint: Callable[[str, str], str]) -> str | None:
    """What a person reads of one event; None for those that say nothing new."""
    match event:
        case BuildStarted():
            text = f"{event.package}  building"
        case BuildFinished():
            sizes = ", ".join(
                f"{artifact.file} ({bytes_in_words(artifact.size)})" for artifact in event.artifacts
            )
            text = f"{event.package}  built {clean(sizes)}"
        case Noted():
            about = f"{event.package}  " if event.package else ""
            text = f"{about}note: {clean(event.message)}"
        case Found(severity=Severity.ALLOWED):
            text = f"{event.package}  allowed ({clean(event.hint)}): {_finding(event)}"
        case Found():
            color = _BAD if event.severity is Severity.ERROR else _WARN
            text = f"{event.package}  {paint(event.severity, color)}: {_finding(event)}"
        case ReleaseEnded(outcome=Outcome.BUILT):
            return None  # its files were shown
        case UploadSent():
            text = f"{event.package}  uploading {clean(event.file)}"
        case UploadAnswered():
            text = f"{event.package}  the registry said: {clean(event.words)}"
        case RetryScheduled():
            text = f"{event.package}  again in {event.seconds:.0f} s: {_first_line(event.reason)}"
        case Confirmed():
            text = f"{event.package}  served {clean(event.file)} sha256:{event.sha256[:12]}…"
        case ReleaseEnded(outcome=Outcome.PUBLISHED):
            text = paint(f"{event.package}  published", _GOOD)
        case ReleaseEnded(outcome=Outcome.FAILED):
            text = paint(f"{event.package}  failed", _BAD) + f": {_first_line(event.reason)}"
        case ReleaseEnded(outcome=Outcome.BLOCKED):
            text = paint(f"{event.package}  blocked", _BAD) + f" by {event.blocked_by}"
        case ReleaseEnded(outcome=Outcome.ALREADY_THERE):
            text = paint(f"{event.package}  already there", _DIM)
        case _:
            return None
    return f"{time.strftime('%H:%M:%S', time.localtime(event.at))}  {text}"


def _finding(event: Found) -> str:
    return clean(f"{event.file}: {event.message}" if event.file else event.message)


def _first_line(reason: str | None) -> str:
    return clean((reason or "").partition("\n")[0])


def summary(state: RunState, paint: Callable[[str, str], str]) -> str:
    """The last words of a run: the counts, every failure with its hint, and how to go on."""
    lines = [""]
    for release in state.by_outcome(Outcome.FAILED):
        lines.append(paint(f"failed: {release.release.package}", _BAD))
        lines += [f"  {line}" for line in clean(release.reason or "", lines=True).splitlines()]
        if release.hint:
            lines.append(f"  hint: {clean(release.hint)}")
    for release in state.by_outcome(Outcome.BLOCKED):
        blocker = release.blocked_by
        lines.append(f"blocked: {release.release.package}, which needs {blocker}")
    counts = [
        f"{len(found)} {outcome}" for outcome in Outcome if (found := state.by_outcome(outcome))
    ]
    lines.append(paint(" · ".join(counts), _GOOD if state.ok else _BAD))
    if not state.ok:
        lines.append(f"to continue: releasekit {state.command or 'publish'}")
    return "\n".join(lines)
