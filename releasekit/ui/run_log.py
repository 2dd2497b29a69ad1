"""The log of a run beside its journal: what a closed terminal would have shown, and more."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from releasekit.events import RunEnded, RunStarted
from releasekit.secrets import redact
from releasekit.ui.plain import line_for
from releasekit.ui.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.events import Event

FILE_NAME = "run.log"
_TAIL_BYTES = 16_384


class RunLog:
    """Lines are kept until the folder of the run is known; a full disk ends no release."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._before: list[str] = []

    def open(self, folder: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            self._descriptor = os.open(folder / FILE_NAME, flags, 0o600)
        before, self._before = self._before, []
        for line in before:
            self.write(line)

    def show(self, event: Event) -> None:
        line = line_for(event, lambda text, _: text)
        if line is None and isinstance(event, (RunStarted, RunEnded)):
            line = f"{time.strftime('%H:%M:%S', time.localtime(event.at))}  {event.kind}"
        if line is not None:
            self.write(line)

    def write(self, line: str) -> None:
        if self._descriptor is None:
            self._before.append(line)
            return
        with contextlib.suppress(OSError):
            os.write(self._descriptor, f"{redact(line)}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def tail(path: os.PathLike[str], count: int) -> list[str]:
    """The last lines of a log that is still being written."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
        return [clean(line) for line in text.splitlines() if line.strip()][-count:]
    return []
