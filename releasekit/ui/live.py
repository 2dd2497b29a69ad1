"""The live view: a few lines at the end of the terminal's output, repainted in place.

The cursor rests on the first of them. So a terminal that wraps or cuts lines when it is resized
keeps the place for us, and a repaint never has to know how many rows the last one took. No
thread: the event loop paints, at most twelve times a second, and not at all when nothing moves.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Self

from releasekit.events import RunEnded
from releasekit.ui.frame import Shown, cropped, frame
from releasekit.ui.lasting import lasting
from releasekit.ui.run_log import tail
from releasekit.ui.symbols import ASCII, UNICODE
from releasekit.ui.terminal import Writer, is_in_background
from releasekit.ui.view import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from releasekit.events import Event
    from releasekit.ui.frame import Line
    from releasekit.ui.symbols import Symbols
    from releasekit.ui.view import View

REPAINT_SECONDS = 1 / 12
BEAT_SECONDS = 0.25
IDLE_SECONDS = 1.0

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
# A terminal that knows it shows the frame at once; another passes over it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"

# The sixteen colours that every theme defines, so that it reads on light and on dark.
STYLES = {
    "": "",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "accent": "cyan",
    "bold": "bold",
    "dim": "dim",
}


@cache
def _painter(style: str) -> Callable[[str], str]:
    from rich.color import ColorSystem
    from rich.style import Style

    parsed = Style.parse(STYLES[style]) if STYLES[style] else Style.null()
    return lambda text: parsed.render(text, color_system=ColorSystem.STANDARD)


def painted(line: Line, *, color: bool) -> str:
    if not color:
        return "".join(text for text, _ in line)
    return "".join(_painter(style)(text) if style else text for text, style in line)


class Live:
    """Draws from `start` until `stop`; the terminal then shows the lasting lines and no more."""

    def __init__(
        self,
        view: View,
        fd: int,
        *,
        color: bool,
        unicode: bool,
        log_of: Callable[[str], os.PathLike[str] | None] = lambda _: None,
        came_back: Callable[[], None] = lambda: None,
    ) -> None:
        self.view = view
        self.keys = ""
        """Those that the last line names."""
        self.over = False
        self._fd = fd
        self._terminal = Writer(fd)
        self._color = color
        self._symbols: Symbols = UNICODE if unicode else ASCII
        self._shown = Shown()
        self._log_of = log_of
        self._came_back = came_back
        self._away = False
        self._log_open = False
        self._above: list[str] = []
        self._drawn = False
        self._suspended = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._last = 0.0

    def start(self) -> None:
        self._suspended = False
        self._soon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.over = True
        self.suspend()
        self._terminal.finish()

    def show(self, event: Event) -> None:
        self.view.apply(event)
        line = lasting(event, self.view, self._symbols)
        if line is not None:
            self._above.append(painted(cropped(line, 10_000, self._symbols), color=self._color))
        if isinstance(event, RunEnded):
            self.over = True
            self.suspend()
        else:
            self._soon()

    def say(self, text: str) -> None:
        """A line of somebody else, above the view."""
        if self._symbols.is_ascii:
            text = text.encode("ascii", "replace").decode()
        self._above += text.split("\n")
        if self._suspended:
            self._terminal.write(self._lasting_text())
        self._soon()

    def suspend(self) -> None:
        """Leave the terminal to others: no view, lines that stay, and a cursor."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        was_drawn, self._drawn, self._suspended = self._drawn, False, True
        text = self._lasting_text()
        if was_drawn:
            text = f"\r{_ERASE_BELOW}{text}{_SHOW_CURSOR}"
        if text:
            self._terminal.write(text)

    def toggle_help(self) -> None:
        self._shown = replace(self._shown, help=not self._shown.help)
        self._soon()

    def toggle_all(self) -> None:
        self._shown = replace(self._shown, all=not self._shown.all)
        self._soon()

    def toggle_log(self) -> None:
        self._log_open = not self._log_open
        self._shown = replace(self._shown, help=False)
        self._soon()

    def select_next(self, by: int = 1) -> None:
        names = list(self.view.active)
        if self._shown.all:
            names += [progress.package for progress in self.view.waiting()]
        if not names and self.view.failing:
            names = [self.view.failing]
        if names:
            chosen = self._shown.selected
            at = names.index(chosen) + by if chosen in names else min(by, 0)
            self._shown = replace(self._shown, selected=names[at % len(names)])
            self._soon()

    def resized(self) -> None:
        self._soon()

    def _soon(self) -> None:
        """Paint as soon as the rate allows."""
        if not self._suspended and not self._terminal.dead:
            self._at(max(asyncio.get_running_loop().time(), self._last + REPAINT_SECONDS))

    def _at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._paint)

    def _paint(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        self._last = loop.time()
        moving = bool(self.view.active) or not self.view.packages
        if is_in_background(self._fd):
            # Our lines may stand among others', a view that moves may not. Not every shell tells
            # a job that it is in the foreground again, so we look.
            if text := self._lasting_text():
                self._terminal.write(text)
            self._drawn, self._away = False, True
            self._at(self._last + IDLE_SECONDS)
            return
        if self._away:
            self._away = False
            self._came_back()
        if not self._terminal.is_held:
            self._terminal.write(self._frame_text())
            self._drawn = True
        if not self._terminal.dead:
            self._at(self._last + (BEAT_SECONDS if moving else IDLE_SECONDS))

    def _frame_text(self) -> str:
        size = self._size()
        lines = frame(
            self.view,
            now=time.time(),
            width=size.columns - 1,
            height=max(1, size.lines - 2),
            symbols=self._symbols,
            shown=replace(self._shown, keys=self.keys, log=self._log_lines(size.lines)),
            beat=int(self._last / BEAT_SECONDS),
        )
        body = f"{_ERASE_LINE}\n".join(painted(line, color=self._color) for line in lines)
        up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        lasting = self._lasting_text()
        # The old view goes first: a line that is written over a longer one keeps the blanks behind
        # its end, and those wrap when the terminal gets narrower.
        above = f"{_ERASE_BELOW}{lasting}" if lasting else ""
        return f"{_BEGIN}{_HIDE_CURSOR}\r{above}{body}{_ERASE_LINE}{_ERASE_BELOW}{up}\r{_END}"

    def _lasting_text(self) -> str:
        lines, self._above = self._above, []
        return "".join(f"{line}\n" for line in lines)

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return os.terminal_size((80, 24))
        # A serial line or a fresh pseudo-terminal tells none.
        return os.terminal_size((size.columns or 80, size.lines or 24))

    def _log_lines(self, room: int) -> tuple[str, Sequence[str]] | None:
        if not self._log_open:
            return None
        chosen = self._shown.selected
        selected = self.view.packages.get(chosen or "")
        if chosen != self.view.failing and (selected is None or selected.phase is Phase.ENDED):
            chosen = self.view.failing or next(iter(self.view.active), None)
        if chosen is None:
            return "nothing is being built or uploaded", ()
        path = self._log_of(chosen)
        lines = tail(path, room) if path is not None else []
        if path is None or not lines:
            return f"{chosen} has no log lines yet", ()
        return f"{chosen}: {_shortest(path)}", lines


def _shortest(path: os.PathLike[str]) -> str:
    return min(os.fspath(path), os.path.relpath(path), key=len)
