"""Events → the lines that stay above the live view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.events import BuildFinished, Event, Found, Noted, Outcome, ReleaseEnded
from releasekit.model import Severity
from releasekit.ui.text import bytes_in_words, clean

if TYPE_CHECKING:
    from releasekit.ui.frame import Line
    from releasekit.ui.symbols import Symbols
    from releasekit.ui.view import View


def lasting(event: Event, view: View, symbols: Symbols) -> Line | None:
    """What stays on the screen of one event, which the view has already seen.

    Packages that were there before, or that were never begun, are counted in the summary: some
    hundred lines about nothing would push away what matters.
    """
    match event:
        case ReleaseEnded(outcome=Outcome.PUBLISHED):
            progress = view.packages[event.package]
            size = bytes_in_words(sum(progress.sizes.values()))
            took = f"{max(0.0, event.at - progress.since):.1f} s" if progress.since else ""
            return (
                (f"{symbols.good} ", "good"),
                (_name(view, event.package), ""),
                ("  published", "good"),
                (f"  {size}  {took}", "dim"),
            )
        case ReleaseEnded(outcome=Outcome.FAILED):
            return (
                (f"{symbols.bad} ", "bad"),
                (_name(view, event.package), ""),
                ("  failed: ", "bad"),
                (clean((event.reason or "").partition("\n")[0]), ""),
            )
        case ReleaseEnded(outcome=Outcome.BLOCKED):
            return (
                (f"{symbols.blocked} ", "warn"),
                (_name(view, event.package), ""),
                (f"  blocked by {clean(event.blocked_by or '')}", "warn"),
            )
        case BuildFinished() if view.command == "build":
            size = bytes_in_words(sum(made.size for made in event.artifacts))
            return (
                (f"{symbols.good} ", "good"),
                (_name(view, event.package), ""),
                ("  built", "good"),
                (f"  {size}", "dim"),
            )
        case Noted():
            about = f"{clean(event.package)}  " if event.package else ""
            return ((f"{symbols.note} ", "accent"), (f"{about}{clean(event.message)}", ""))
        case Found(severity=Severity.ERROR | Severity.WARNING):
            where = f"{event.file}: " if event.file else ""
            style = "bad" if event.severity is Severity.ERROR else "warn"
            return (
                (f"{symbols.note} ", style),
                (f"{clean(event.package)}  ", ""),
                (f"{event.severity}: ", style),
                (clean(where + event.message), ""),
            )
        case _:
            return None


def _name(view: View, package: str) -> str:
    progress = view.packages.get(package)
    return progress.name if progress else clean(package)
