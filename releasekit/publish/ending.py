"""A run that stops says so in its journal: only one that was killed has no end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from releasekit.errors import Interrupted, JournalNotWritten, ReleaseKitError
from releasekit.events import Event, RunEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def ending(emit: Callable[[Event], None]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        stopped = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, Interrupted))
        reason = None if stopped else _words(error)
        with contextlib.suppress(JournalNotWritten):  # a full disk is told by the error itself
            emit(RunEnded(ok=False, stopped=stopped, reason=reason))
        raise


def _words(error: BaseException) -> str:
    return (
        error.message if isinstance(error, ReleaseKitError) else f"{type(error).__name__}: {error}"
    )
