"""What a terminal allows just now, and writing to one that may not take text."""

from __future__ import annotations

import contextlib
import os
import select


def is_foreground(fd: int) -> bool:
    """Whether it is a terminal, and ours to draw on and to read from just now."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def is_in_background(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:
        return False  # no terminal of our session: nobody else draws on it


class Writer:
    """Writes to a terminal; only who asks for it waits for one that is held or slow.

    Ctrl-S, a stalled connection, a terminal that reads nothing: what it does not take stays here
    and goes out first. `fd` itself must keep blocking, as it is also the shell's, so the terminal
    is opened once more.
    """

    def __init__(self, fd: int) -> None:
        self.dead = False
        """The terminal is gone; the run goes on without it."""
        self._fd = fd
        self._own: int | None = None
        self._left = b""
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            self._own = os.open(os.ttyname(fd), flags)

    @property
    def is_held(self) -> bool:
        """It has not taken yet what was written before."""
        if self._left:
            self._go_on()
        return bool(self._left)

    def write(self, text: str) -> None:
        self._left += text.encode("utf-8", "replace")
        self._go_on()

    def finish(self) -> None:
        """Wait until everything is out; nothing else depends on us any more."""
        own, self._own = self._own, None
        self._go_on()
        while self._left:  # whoever started us left it without blocking
            select.select([], [self._fd], [])
            self._go_on()
        if own is not None:
            os.close(own)

    def _go_on(self) -> None:
        if self.dead:
            self._left = b""
        try:
            while self._left:
                written = os.write(self._fd if self._own is None else self._own, self._left)
                self._left = self._left[written:]
        except BlockingIOError:
            return
        except OSError:
            self.dead, self._left = True, b""
