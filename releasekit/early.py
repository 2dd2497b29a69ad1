"""Signals that arrive before anything listens: remembered, because their default action is death.

Imported before everything else, so it imports next to nothing.
"""

from __future__ import annotations

import signal
import sys

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


def take() -> tuple[int, ...]:
    """What came so far, in order, each told once."""
    came = tuple(_remembered)
    del _remembered[: len(came)]
    return came
