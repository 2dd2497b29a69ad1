"""The view as lines that fit a terminal: columns, widths and what to leave out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from releasekit.events import Outcome, Stage
from releasekit.ui.text import bytes_in_words, clean
from releasekit.ui.view import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from releasekit.ui.symbols import Symbols
    from releasekit.ui.view import Progress, View

    Span = tuple[str, str]
    Line = tuple[Span, ...]
    """Texts, each with the name of a style: good, bad, warn, accent, bold, dim or none."""

_NARROW = 60
_BAR = 20
_NAME_SHARE = 0.4
_LOG_SHARE = 0.6


HELP = (
    ("p r", "pause between uploads, and go on; what is in flight finishes"),
    ("q", "quit after what is in flight; the same command continues"),
    ("+ -", "more or fewer uploads at once"),
    ("l", "the last log lines of the selected or failing package"),
    ("Tab", "select the next package; so do the arrow keys"),
    ("a", "all rows, also the waiting ones"),
    ("?", "this help"),
)
_DOING = {
    None: "starting",
    Stage.LOAD: "reading the workspace",
    Stage.PREFLIGHT: "asking the registries",
    Stage.BUILD: "building",
    Stage.INSPECT: "inspecting",
    Stage.SIGN: "signing",
    Stage.UPLOAD: "uploading",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a person chose to see, and what the keys may do."""

    help: bool = False
    all: bool = False
    selected: str | None = None
    log: tuple[str, Sequence[str]] | None = None
    """A title and the lines of a log."""
    keys: str = "pq+-la?"


def frame(
    view: View,
    *,
    now: float,
    width: int,
    height: int,
    symbols: Symbols,
    shown: Shown,
    beat: int = 0,
) -> list[Line]:
    """At most `height` lines of at most `width` cells."""
    header = _header(view, now, width, symbols, beat)
    if shown.help:
        told = [((f"  {key:4}", "bold"), (text, "")) for key, text in HELP]
        return [cropped(line, width, symbols) for line in (header, *told)][:height]
    head = [header]
    head += [
        (("  ", ""), (f"{clean(name)} asked us to wait until {_clock(until)}", "warn"),
         (f" ({_span(until - now)})", "dim"))
        for name, until in view.closed_lanes(now)[:2]
    ]  # fmt: skip
    foot = [_footer(view, shown)] if view.packages else []
    room = max(0, height - len(head) - len(foot))
    panel = _log(shown, max(0, int(room * _LOG_SHARE)))
    body = [*_rows(view, now, width, room - len(panel), symbols, shown, beat), *panel]
    return [cropped(line, width, symbols) for line in (*head, *body, *foot)][:height]


def _header(view: View, now: float, width: int, symbols: Symbols, beat: int) -> Line:
    doing = _DOING[view.stage]
    if not view.packages:
        return ((_spin(symbols, beat), "accent"), (f" {doing}", ""))
    state, style = _state(view, doing)
    total = len(view.packages)
    parts: list[Line] = [
        ((clean(view.workspace), "bold"),),
        ((f"{state} ", style), (f"{view.done}/{total}", "bold")),
    ]
    if failed := view.counts.get(Outcome.FAILED, 0):
        parts.append(((f"{failed} failed", "bad"),))
    if view.started is not None:
        parts.append(((_span((view.ended or now) - view.started), ""),))
    if (left := view.seconds_left(now)) is not None:
        parts.append(((f"about {_span(left)} left", ""),))
    if (rate := view.per_minute(now)) is not None:
        parts.append(((f"{rate:.0f}/min", "dim"),))
    if (speed := view.bytes_per_second(now)) is not None:
        parts.append(((f"{bytes_in_words(int(speed))}/s", "dim"),))
    if view.concurrency is not None:
        parts.append(((f"{view.concurrency} at once", "dim"),))
    line = _joined(parts, width, symbols)
    if _cells(line) + _BAR + 2 <= width:
        line = (*line, ("  ", ""), *_bar(view.done, total, _BAR, symbols))
    return line


def _state(view: View, doing: str) -> Span:
    if view.quitting:
        return "quitting", "warn"
    if view.paused:  # between uploads, never before
        return "paused" if view.stage is Stage.UPLOAD else f"{doing}, then paused", "warn"
    return doing, "accent"


def _joined(parts: Sequence[Line], width: int, symbols: Symbols) -> Line:
    """As many of the parts as fit; the first say the most."""
    line: Line = ()
    for part in parts:
        longer = (*line, *(((symbols.dot, "dim"),) if line else ()), *part)
        if line and _cells(longer) > width:
            break
        line = longer
    return line


def _bar(done: int, total: int, width: int, symbols: Symbols) -> Line:
    filled = width * done // total if total else 0
    return ((symbols.full * filled, "good"), (symbols.empty * (width - filled), "dim"))


def _rows(
    view: View,
    now: float,
    width: int,
    room: int,
    symbols: Symbols,
    shown: Shown,
    beat: int,
) -> list[Line]:
    active = list(view.active.values())
    waiting, names = view.upcoming()
    others = list(view.waiting()) if shown.all else []
    listed = [*active, *others]
    tail: Line | None = None
    kept_free = 1 if waiting and not shown.all and room > 1 else 0
    fits = max(0, room - kept_free)
    if len(listed) > fits:
        fits = max(0, fits - 1) if shown.all or fits > 1 else fits
        kept = _around(listed, fits, shown.selected)
        hidden = len(listed) - len(kept)
        what = "more" if shown.all else "more at work"
        tail = (("  ", ""), (f"{hidden} {what}", "dim"))
    else:
        kept = listed
    column = min(view.longest_name, int(width * _NAME_SHARE))
    rows = [_row(view, one, now, width, column, symbols, shown, beat) for one in kept]
    if tail is not None and len(rows) < room - kept_free:
        rows.append(tail)
    if waiting and not shown.all and len(rows) < room:
        following = f", next: {', '.join(clean(name) for name in names)}" if names else ""
        rows.append((("  ", ""), (f"{waiting} waiting{following}", "dim")))
    return rows[: max(0, room)]


def _around(listed: Sequence[Progress], fits: int, selected: str | None) -> Sequence[Progress]:
    at = next((n for n, one in enumerate(listed) if one.package == selected), 0)
    start = max(0, min(at - fits + 1, len(listed) - fits))
    return listed[start : start + fits]


def _row(
    view: View,
    progress: Progress,
    now: float,
    width: int,
    column: int,
    symbols: Symbols,
    shown: Shown,
    beat: int,
) -> Line:
    active = progress.phase is not Phase.WAITING and progress.phase is not Phase.BUILT
    mark = _spin(symbols, beat) if active else " "
    if progress.package == shown.selected:
        mark = symbols.selected
    name = progress.name
    if cell_len(name) > column:
        name = set_cell_size(name, max(0, column - 1)) + symbols.ellipsis
    spent = _span(now - progress.since) if active else ""
    detail = _detail(view, progress, now, width, symbols)
    left: Line = ((f"{mark} ", "accent"), (f"{set_cell_size(name, column)}  ", ""))
    room = width - _cells(left) - len(spent) - 1
    line = cropped((*left, *detail), _cells(left) + max(0, room), symbols)
    gap = max(1, width - _cells(line) - len(spent))
    return (*line, (" " * gap, ""), (spent, "dim"))


def _detail(view: View, progress: Progress, now: float, width: int, symbols: Symbols) -> Line:
    tries = f"  try {progress.attempt}" if progress.attempt > 1 else ""
    limited = view.limited_until(progress, now) if view.stage is Stage.UPLOAD else None
    match progress.phase:
        case Phase.UPLOADING if progress.told and progress.size:
            share = min(1.0, progress.sent / progress.size)
            size = bytes_in_words(progress.size)
            bar = _bar(progress.sent, progress.size, 10, symbols) if width >= _NARROW else ()
            words = f"uploading {share:4.0%} of {size}"
            return ((words, "accent"), ("  ", ""), *bar, (tries, "warn"))
        case Phase.UPLOADING:
            size = f" {bytes_in_words(progress.size)}" if progress.size else ""
            return ((f"uploading{size}", "accent"), (tries, "warn"))
        case Phase.RETRYING if limited and progress.until <= limited + 1:
            return ((f"rate-limited until {_clock(limited)}", "warn"), (tries, "warn"))
        case Phase.RETRYING:
            wait = max(0.0, progress.until - now)
            words = clean(progress.reason.partition("\n")[0])
            when = f"again in {_span(wait)}" if wait else "again as soon as there is room"
            return ((when, "warn"), (tries, "warn"), (f"  {words}", "dim"))
        case Phase.WAITING | Phase.BUILT:
            need = view.waits_for(progress) if view.stage is Stage.UPLOAD else None
            if limited and need is None:
                return ((f"rate-limited until {_clock(limited)}", "warn"),)
            return ((f"waiting for {clean(need)}" if need else "waiting for its turn", "dim"),)
        case Phase.CONFIRMING:
            return (("visible?", "good"), (tries, "warn"))
        case _:
            return ((str(progress.phase), "accent"), (tries, "warn"))


def _log(shown: Shown, room: int) -> list[Line]:
    if shown.log is None or room < 2:  # noqa: PLR2004 - a title alone says nothing
        return []
    title, lines = shown.log
    told = [clean(line.expandtabs(4)) for line in lines[-(room - 1) :]]
    return [((f"  {clean(title)}", "bold"),), *(((f"  | {line}", "dim"),) for line in told)]


def _footer(view: View, shown: Shown) -> Line:
    if view.quitting:
        return (("  what is in flight finishes; Ctrl-C stops now", "dim"),)
    words = {
        "p": "r goes on" if view.paused else "p pause",
        "q": "q quit",
        "+-": "+/- at once",
        "l": "l log",
        "a": "a fewer rows" if shown.all else "a all rows",
        "?": "? help",
    }
    told = [text for key, text in words.items() if key[0] in shown.keys]
    return (("  " + "  ".join(told), "dim"),)


def cropped(line: Line, width: int, symbols: Symbols) -> Line:
    """No wider than `width`; what is left out is shown by one character."""
    if symbols.is_ascii:
        line = tuple((text.encode("ascii", "replace").decode(), style) for text, style in line)
    if _cells(line) <= width:
        return line
    kept: list[Span] = []
    left = width - 1
    for text, style in line:
        size = cell_len(text)
        if size > left:
            kept.append((set_cell_size(text, left) if left else "", style))
            break
        kept.append((text, style))
        left -= size
    return (*kept, (symbols.ellipsis, "dim"))


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _spin(symbols: Symbols, beat: int) -> str:
    return symbols.spinner[beat % len(symbols.spinner)]


def _span(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
