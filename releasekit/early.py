"""Signals that arrive before anything listens: remembered, because their default action is death.

Imported before everything else, so it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator  # noqa: TC003 - `typing` takes longer than the rest

STEERED = frozenset({"publish", "build", "rehearse", "demo"})
_NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)
_remembered: list[int] = []


def remember() -> None:
    """From here on SIGUSR1 and SIGUSR2 kill no run; `take` tells which came."""
    for number in _NUMBERS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda came, _: _remembered.append(came))


def remember_if_steered() -> None:
    if not STEERED.isdisjoint(sys.argv[1:]):
        remember()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Handlers may go inside: what comes meanwhile is remembered instead of killing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)
    try:
        yield
    finally:
        remember()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """The last step: an interpreter that ends brings the default back."""
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_IGN)


def take() -> tuple[int, ...]:
    """What came so far, in order, each told once."""
    came = tuple(_remembered)
    del _remembered[: len(came)]
    return came
