"""A spinner for work that blocks: reading a workspace, installing a tool."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from typing import TYPE_CHECKING, Self

from releasekit.ui.symbols import ASCII, UNICODE
from releasekit.ui.terminal import Writer, is_in_background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

PATIENCE = 1.0
_BEAT = 0.125
_ERASE = "\r\x1b[K"


class Spinner:
    """Silent for the first second; leaves no trace, and waits for no terminal."""

    def __init__(self, doing: str, fd: int, *, unicode: bool) -> None:
        self._doing = doing
        self._fd = fd
        self._signs = (UNICODE if unicode else ASCII).spinner
        self._terminal = Writer(fd)
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._drawn = False
        self._turner = threading.Thread(target=self._turn, daemon=True)

    def __enter__(self) -> Self:
        self._turner.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._turner.join()
        self._erase()
        self._terminal.finish()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """A line may be printed: the spinner comes back below it."""
        with self._drawing:
            self._erase()
            yield

    def _turn(self) -> None:
        started = time.monotonic()
        pause = PATIENCE
        beat = 0
        while not self._over.wait(pause):
            with self._drawing:
                if not self._terminal.is_held and not is_in_background(self._fd):
                    self._draw(beat, time.monotonic() - started)
            pause, beat = _BEAT, beat + 1

    def _draw(self, beat: int, passed: float) -> None:
        text = f"{self._signs[beat % len(self._signs)]} {self._doing} ({passed:.0f} s)"
        width = shutil.get_terminal_size().columns - 1
        self._terminal.write(f"\r{text[:width]}\x1b[K")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._terminal.write(_ERASE)
            self._drawn = False
