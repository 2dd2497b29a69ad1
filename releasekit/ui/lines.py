"""Lines of a run, written by a thread: a reader that reads nothing holds no run.

Behind a pager that waits for a key, or at Ctrl-S, a write does not return. With the event loop in
it, manifests would stay pinned and no signal would be heard.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


class Lines:
    """`put` never waits; `drain` and `close` do, for all that was put before."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[int, bytes] | threading.Event | None]
        self._queue = queue.SimpleQueue()
        self._gone: set[int] = set()
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def put(self, stream: TextIO, text: str) -> None:
        # Past Python's buffer: its lock, held by a thread that waits, would not let us exit.
        data = f"{text}\n".encode(stream.encoding or "utf-8", "replace")
        self._queue.put((stream.fileno(), data))

    def drain(self) -> None:
        reached = threading.Event()
        self._queue.put(reached)
        reached.wait()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            elif item[0] not in self._gone:
                self._write(*item)

    def _write(self, fd: int, data: bytes) -> None:
        try:
            while data:
                try:
                    data = data[os.write(fd, data) :]
                except BlockingIOError:  # whoever started us left it so
                    select.select([], [fd], [])
        except OSError:  # a reader who left (`| head`), a terminal that is gone
            self._gone.add(fd)
