"""Single keys from the terminal, without Enter and without a thread that could block the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import termios
import tty
from typing import TYPE_CHECKING, Self

from releasekit.ui.terminal import is_foreground

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

# Arrows and function keys come as sequences that hold letters; Alt comes as an escape before one.
_KEY = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1bO?.|.", re.DOTALL)
UP, DOWN = ("\x1b[A", "\x1bOA"), ("\x1b[B", "\x1bOB")


class Keys:
    """Listens from `start` until the block ends; the terminal is then as it was before.

    The event loop watches the descriptor, so nothing waits in a read: the end is immediate. It
    stays silent where stdin is no terminal or belongs to another process group; `start` again
    when that may have changed.
    """

    def __init__(self, actions: Mapping[str, Callable[[], None]], fd: int | None = None) -> None:
        self._actions = actions
        self._fd = _stdin() if fd is None else fd
        self._before: list[object] | None = None

    def start(self) -> None:
        if not is_foreground(self._fd):
            return
        with contextlib.suppress(termios.error):  # the terminal is gone
            if self._before is None:
                self._before = termios.tcgetattr(self._fd)
            # A shell gives a job that comes back the modes it likes: set ours again.
            tty.setcbreak(self._fd, termios.TCSANOW)
            asyncio.get_running_loop().add_reader(self._fd, self._read)

    def stop(self) -> None:
        before, self._before = self._before, None
        if before is None:
            return
        asyncio.get_running_loop().remove_reader(self._fd)
        if is_foreground(self._fd):  # else its modes are another's, and asking would stop us
            with contextlib.suppress(termios.error):
                # Not TCSADRAIN: a terminal held by Ctrl-S must not keep us from ending.
                termios.tcsetattr(self._fd, termios.TCSANOW, before)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _read(self) -> None:
        if not is_foreground(self._fd):  # what is typed is for somebody else
            asyncio.get_running_loop().remove_reader(self._fd)
            return
        try:
            typed = os.read(self._fd, 64).decode(errors="replace")
        except BlockingIOError:
            return
        except OSError:
            typed = ""
        if not typed:  # the terminal is gone; the run goes on
            asyncio.get_running_loop().remove_reader(self._fd)
        for key in _KEY.findall(typed):
            if key in self._actions:
                self._actions[key]()


def _stdin() -> int:
    """-1, which is no terminal, where stdin was closed before we started."""
    return sys.stdin.fileno() if sys.stdin else -1
