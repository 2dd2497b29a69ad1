"""Events → one line each, for logs and for terminals that want no more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from releasekit.events import (
    Attested,
    BuildFinished,
    BuildStarted,
    ConcurrencyChanged,
    Confirmed,
    Event,
    Found,
    LaneClosed,
    Noted,
    Outcome,
    Paused,
    Quitting,
    ReleaseEnded,
    Resumed,
    RetryScheduled,
    Stage,
    StageStarted,
    UploadAnswered,
    UploadSent,
)
from releasekit.model import Severity
from releasekit.ui.text import bytes_in_words, clean

if TYPE_CHECKING:
    from collections.abc import Callable

_REFUSED = 300
_STAGES = {
    Stage.LOAD: "reading the workspace",
    Stage.PREFLIGHT: "asking the registries",
    Stage.BUILD: "building",
    Stage.INSPECT: "inspecting",
    Stage.SIGN: "signing",
    Stage.UPLOAD: "uploading by dependency",
}
_GOOD, _BAD, _WARN, _DIM = "32", "1;31", "33", "2"


def line_for(event: Event, paint: Callable[[str, str], str]) -> str | None:
    """What a person reads of one event; None for those that say nothing new."""
    package = clean(getattr(event, "package", None) or "")
    match event:
        case BuildStarted():
            text = f"{package}  building"
        case BuildFinished():
            sizes = ", ".join(
                f"{artifact.file} ({bytes_in_words(artifact.size)})" for artifact in event.artifacts
            )
            text = f"{package}  built {clean(sizes)}"
        case Noted():
            about = f"{package}  " if package else ""
            text = f"{about}note: {clean(event.message)}"
        case Found(severity=Severity.ALLOWED):
            text = f"{package}  allowed ({clean(event.hint)}): {_finding(event)}"
        case Found():
            color = _BAD if event.severity is Severity.ERROR else _WARN
            text = f"{package}  {paint(event.severity, color)}: {_finding(event)}"
        case ReleaseEnded(outcome=Outcome.BUILT):
            return None  # its files were shown
        case Attested():
            text = f"{package}  signed {clean(event.file)}, entry {event.log_index} of the log"
        case UploadSent():
            text = f"{package}  uploading {clean(event.file)}"
        case UploadAnswered(status=status) if status is not None and status < _REFUSED:
            return None  # the receipt says more
        case UploadAnswered():
            text = f"{package}  the registry said: {clean(event.words)}"
        case RetryScheduled():
            text = f"{package}  again in {event.seconds:.0f} s: {_first_line(event.reason)}"
        case Confirmed():
            text = f"{package}  served {clean(event.file)} sha256:{event.sha256[:12]}…"
        case ReleaseEnded(outcome=Outcome.PUBLISHED):
            text = paint(f"{package}  published", _GOOD)
        case ReleaseEnded(outcome=Outcome.FAILED):
            text = paint(f"{package}  failed", _BAD) + f": {_first_line(event.reason)}"
        case ReleaseEnded(outcome=Outcome.BLOCKED):
            text = paint(f"{package}  blocked", _BAD) + f" by {clean(event.blocked_by or '')}"
        case ReleaseEnded(outcome=Outcome.ALREADY_THERE):
            text = paint(f"{package}  already there", _DIM)
        case StageStarted():
            text = paint(_STAGES[event.stage], _DIM)
        case LaneClosed():
            until = time.strftime("%H:%M:%S", time.localtime(event.at + event.seconds))
            text = paint(f"{clean(event.registry)} asked us to wait until {until}", _WARN)
        case Paused():
            text = paint("paused between uploads: `r` or SIGUSR2 goes on", _WARN)
        case Resumed():
            text = "going on"
        case Quitting():
            text = paint("quitting after what is in flight; a second Ctrl-C does not wait", _WARN)
        case ConcurrencyChanged():
            text = f"{event.concurrency} uploads at once"
        case _:
            return None
    return f"{time.strftime('%H:%M:%S', time.localtime(event.at))}  {text}"


def _finding(event: Found) -> str:
    return clean(f"{event.file}: {event.message}" if event.file else event.message)


def _first_line(reason: str | None) -> str:
    return clean((reason or "").partition("\n")[0])
