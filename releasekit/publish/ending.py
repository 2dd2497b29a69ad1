"""A run that stops says so in its journal: only one that was killed has no end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from releasekit.events import Event, RunEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def ending(emit: Callable[[Event], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk is told by the error itself
            emit(RunEnded(ok=False))
        raise
