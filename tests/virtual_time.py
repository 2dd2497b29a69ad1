"""An event loop whose clock jumps to the next timer, so that nothing ever sleeps.

Where nothing is ready and no timer is set, a real loop would hang; this one raises `Stuck`.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Stuck(AssertionError):
    """A wake-up was lost."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        arrived = super().select(0)
        if not arrived:
            if timeout is None:
                raise Stuck
            self.now += max(timeout, 0)
        return arrived


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[object, object, T]) -> T:
    """Like asyncio.run; fails if a task or timer outlives `main`, or an error is only logged."""
    loop = VirtualLoop()
    complaints: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        result = loop.run_until_complete(main)
        left = asyncio.all_tasks(loop)
        timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert not left, left
        assert not timers, timers
        assert not complaints, complaints
        return result
    finally:
        loop.run_until_complete(_end_tasks())
        loop.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
