"""A real terminal for a real process: its screen emulated, its keys pressed, its modes read."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType


class Terminal:
    """A child that leads a session of its own, on a terminal of the given size."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        *,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.raw = ""
        """All that was ever written."""
        self.emulates = True
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        environment = {
            **os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(environ or {}),
        }  # fmt: skip
        self.child, self._leader = pty.fork()
        if self.child == 0:
            try:
                _set_size(0, columns, rows)
                os.chdir(cwd)
                os.execvpe(argv[0], list(argv), environment)  # noqa: S606
            finally:
                os._exit(127)
        self._code: int | None = None
        self.before = self.modes()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        self.hang_up()

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    def row_of(self, wanted: str) -> str:
        """The one line of the screen that holds it; empty where none does."""
        return next((line for line in self.lines if wanted in line), "")

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._leader)[:4]

    @property
    def is_as_before(self) -> bool:
        return self.modes() == self.before and not self.screen.cursor.hidden

    def press(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def send(self, number: signal.Signals) -> None:
        os.kill(self.child, number)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        _set_size(self._leader, columns, rows)

    def hang_up(self) -> None:
        leader, self._leader = self._leader, -1
        if leader != -1:
            os.close(leader)

    def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Read what is written until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(min(left, 0.2)):
                if condition():
                    return
                raise AssertionError(f"not shown:\n{self.text}")

    def until_shown(self, *wanted: str, seconds: float = 30) -> None:
        """All of it on the screen at once."""
        self.until(lambda: all(text in self.text for text in wanted), seconds)

    def until_said(self, wanted: str, seconds: float = 30) -> None:
        """Written at any time, also if it has left the screen."""
        self.until(lambda: wanted in self.raw, seconds)

    def end(self, seconds: float = 30) -> int:
        """The exit code, when everything written has been read."""
        deadline = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < deadline, self.text
        return self.wait()

    def wait(self) -> int:
        self._code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self._code

    def _read(self, seconds: float) -> bool:
        """False when nobody holds the other end any more."""
        if not select.select([self._leader], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._leader, 65536)
        except OSError:
            return False
        text = self._decoder.decode(data)
        self.raw += text
        if self.emulates:
            self._stream.feed(text)
        return bool(data)


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
