"""What the tests of the scheduler share."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from releasekit.scheduler import (
        Result,
        Scheduler,
    )


class Work:
    """A publish function that takes time, may fail, and remembers when everything happened."""

    def __init__(
        self,
        seconds: Mapping[str, float] | None = None,
        errors: Mapping[str, Sequence[Exception]] | None = None,
    ) -> None:
        self.seconds = seconds or {}
        self.errors = {name: list(queue) for name, queue in (errors or {}).items()}
        self.starts: list[tuple[str, float]] = []
        self.ends: list[tuple[str, float]] = []
        self.running: set[str] = set()
        self.peak = 0

    async def __call__(self, name: str) -> None:
        now = asyncio.get_running_loop().time
        self.starts.append((name, now()))
        self.running.add(name)
        self.peak = max(self.peak, len(self.running))
        try:
            await asyncio.sleep(self.seconds.get(name, 1))
            if self.errors.get(name):
                raise self.errors[name].pop(0)
        finally:
            self.running.discard(name)
            self.ends.append((name, now()))

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.starts]


def at(seconds: float, action: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_at(seconds, action)


def go(
    scheduler: Scheduler, work: Callable[[str], Awaitable[object]], *actions: tuple[float, object]
) -> Result:
    """Run on virtual time, with calls at given seconds."""

    async def main() -> Result:
        for seconds, action in actions:
            assert callable(action)
            at(seconds, action)
        return await scheduler.run(work)

    return run(main())


def statuses(result: Result) -> dict[str, str]:
    return {name: str(outcome.status) for name, outcome in result.outcomes.items()}


DIAMOND = {"base": [], "left": ["base"], "right": ["base"], "top": ["left", "right"]}


class Recorded(random.Random):
    def __init__(self, fraction: float) -> None:
        super().__init__()
        self.fraction = fraction
        self.windows: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.windows.append((a, b))
        return a + self.fraction * (b - a)
