"""SIGUSR1 pauses a run and SIGUSR2 resumes it, where the platform and the thread allow that."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = structlog.get_logger(__name__)


class Pausable(Protocol):
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@contextmanager
def pause_and_resume(run: Pausable) -> Iterator[None]:
    """Not by `loop.add_signal_handler`: removing that leaves the default, which is to die."""
    loop = asyncio.get_running_loop()
    with ExitStack() as restored:
        for name, control in (("SIGUSR1", run.pause), ("SIGUSR2", run.resume)):
            number = getattr(signal, name, None)
            if number is None:
                log.debug("signals skipped", reason="this platform has none")
                break
            if threading.current_thread() is not threading.main_thread():
                log.debug("signals skipped", reason="not in the main thread")
                break
            previous = signal.getsignal(number)
            if previous is None:
                log.debug("signals skipped", reason="handled outside of Python")
                break
            signal.signal(number, partial(_from_signal, loop, control))
            restored.callback(signal.signal, number, previous)
        yield


def _from_signal(loop: asyncio.AbstractEventLoop, control: Callable[[], None], *_: object) -> None:
    loop.call_soon_threadsafe(control)
