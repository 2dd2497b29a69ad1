"""A spinner for work that blocks: reading a workspace, installing a tool."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, TextIO

from releasekit.ui.frame import ASCII, UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 1.0
_BEAT = 0.125


@contextlib.contextmanager
def spinner(doing: str, stream: TextIO | None, *, unicode: bool) -> Iterator[None]:
    """Silent for the first second and where there is no stream; leaves no trace."""
    if stream is None:
        yield
        return
    over = threading.Event()
    turner = threading.Thread(target=_turn, args=(doing, stream, over, unicode), daemon=True)
    turner.start()
    try:
        yield
    finally:
        over.set()
        turner.join()


def _turn(doing: str, stream: TextIO, over: threading.Event, unicode: bool) -> None:
    started = time.monotonic()
    if over.wait(PATIENCE):
        return
    signs = (UNICODE if unicode else ASCII).spinner
    beat = 0
    with contextlib.suppress(OSError):  # a terminal that is gone needs no spinner
        while not over.wait(_BEAT):
            passed = time.monotonic() - started
            stream.write(f"\r{signs[beat % len(signs)]} {doing} ({passed:.0f} s)\x1b[K")
            stream.flush()
            beat += 1
        stream.write("\r\x1b[K")
        stream.flush()
