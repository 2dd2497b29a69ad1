"""The scheduler as its callers see it: how to make one, run it, and talk to it meanwhile."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, cast

from releasekit.errors import BadSetting, CyclicGraph
from releasekit.scheduler import words
from releasekit.scheduler.board import Board
from releasekit.scheduler.engine import Engine, Interruption
from releasekit.scheduler.jobs import DONE, RUNNING, Graph, link
from releasekit.scheduler.settings import Settings, check, needs_upstream
from releasekit.scheduler.signals import pause_and_resume
from releasekit.scheduler.words import OnError, Result, Stats, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from releasekit.scheduler.settings import Backpressure, Observe, Publish, PublishWithUpstream


class Scheduler(Engine):
    """Runs once. Everything here belongs to the thread of the event loop."""

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        publishable: Iterable[str] | None = None,
        concurrency: int = 5,
        max_retries: int = 0,
        retry_base_delay: float = 1.0,
        task_timeout: float | None = 600.0,
        already_published: Iterable[str] = (),
        *,
        durations: Mapping[str, float] | None = None,
        lanes: Mapping[str, str] | None = None,
        lane_limits: Mapping[str, int] | None = None,
        on_error: Mapping[str, OnError] | OnError = OnError.SKIP,
        backpressure: Backpressure | None = None,
        observe: Observe | None = None,
        rng: random.Random | None = None,
    ) -> Self:
        """`graph` maps a name to the names it needs; without `publishable` all of it runs."""
        settings = Settings(
            max_retries=max_retries,
            retry_base_delay=retry_base_delay,
            task_timeout=task_timeout,
            backpressure=backpressure,
            observe=observe,
            rng=rng or random.Random(),  # noqa: S311 - spreads retries, guards nothing
        )
        for name, duration in (durations or {}).items():
            check(f"durations[{name}]", duration, at_least=0)
        for lane, limit in (lane_limits or {}).items():
            check(f"lane_limits[{lane}]", limit, at_least=1)
        board = Board(
            link(graph, publishable),
            durations=durations or {},
            lane_of=lanes or {},
            lane_limits=lane_limits or {},
            on_error=on_error,
            observed=observe is not None,
        )
        scheduler = cls(board, settings, concurrency)
        for name in already_published:
            scheduler.mark_done(name)
        return scheduler

    async def run(
        self, publish_fn: Publish | PublishWithUpstream, *, handle_signals: bool = False
    ) -> Result:
        """Publish everything. A failed package is an outcome; only a caller's hook can raise.

        `publish_fn(name)` is awaited for each package; one that needs a second argument also gets
        the outcomes of the package's dependencies by name. Returning
        `Status.ALREADY_PUBLISHED` records just that.
        """
        if self._started:
            raise RuntimeError("a Scheduler runs once: make another one")
        self._started = self._live = True
        self._loop = asyncio.get_running_loop()
        self._finished = self._loop.create_future()
        self._publish = self._with_upstream(publish_fn)
        with pause_and_resume(self) if handle_signals else nullcontext():
            try:
                for lane in self._board.lanes.values():
                    self._set_gate(lane)
                self._pump()
                await self._finished
            except BaseException:
                await self._end_running()
                raise
            finally:
                self._live = False
                self._drop_timers()
        if self._fault is not None:
            raise self._fault
        return Result(outcomes=MappingProxyType(self._board.outcomes))

    @property
    def is_paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        """Nothing starts until `resume`; what is in flight goes on, and so do its timeouts."""
        if not self._paused:
            self._paused = True
            self._emit(words.Paused())
            self._pump()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._emit(words.Resumed())
            self._pump()

    def cancel(self) -> None:
        """Nothing new starts and what is in flight finishes; called again, that is ended, too."""
        self._cancels += 1
        self._stop()
        if self._cancels > 1:
            self._emit(words.Stopping(ends_running=True))
            for task in self._running:
                task.cancel()
        self._pump()

    def set_concurrency(self, concurrency: int) -> None:
        """Takes effect at once for starts; a lower limit ends nothing that runs."""
        check("concurrency", concurrency, at_least=1)
        self._concurrency = concurrency
        self._emit(words.ConcurrencyChanged(concurrency=concurrency))
        self._pump()

    def close_lane(self, lane: str, until: float) -> None:
        """Start nothing of this lane before a time of the loop's clock; a past one opens it."""
        if math.isnan(until):
            raise BadSetting(setting="until", value=until, rule="a time")
        self._close(self._board.lane(lane), until)
        self._pump()

    def mark_done(self, name: str) -> list[str]:
        """Say that a package is published; return the names that became ready by that.

        Work on it that is already running goes on, but its end changes nothing any more.
        """
        job = self._board.jobs.get(name)
        if job is None or job.phase == DONE:
            return []
        self._drop_retry(job)
        status = Status.PUBLISHED if job.phase == RUNNING else Status.ALREADY_PUBLISHED
        newly_ready = self._board.publish(job, status, self._now())
        self._pump()
        return newly_ready

    def add_package(
        self,
        name: str,
        deps: Iterable[str] = (),
        *,
        lane: str | None = None,
        duration: float | None = None,
    ) -> bool:
        """False if the package is already part of the run, or the run takes no more packages.

        A package that was removed can be added again. One that needs a failed or blocked package
        is blocked at once.
        """
        deps = tuple(deps)
        if name in deps:
            raise CyclicGraph(path=(name, name))
        if duration is not None:
            check("duration", duration, at_least=0)
        if self._over or self._board.stopping:
            return False
        added = self._board.add(name, deps, lane, duration, self._now())
        self._pump()
        return added

    def remove_package(self, name: str, block_dependents: bool = False) -> bool:
        """False if the package is unknown or already has an outcome other than blocked.

        Dependents no longer wait for it, or are blocked by it. Running work is ended first; if it
        gets done nevertheless, the package is published.
        """
        job = self._board.jobs.get(name)
        if job is None or self._over or not self._board.removable(job):
            return False
        if job.phase == RUNNING:
            if self._interrupted.get(job, Interruption.TIMEOUT) is not Interruption.TIMEOUT:
                return False
            self._interrupted[job] = (
                Interruption.REMOVAL_THAT_BLOCKS if block_dependents else Interruption.REMOVAL
            )
            for task in [task for task, running in self._running.items() if running is job]:
                task.cancel()
            return True
        self._drop_retry(job)
        self._board.remove(job, self._now(), block=block_dependents)
        self._pump()
        return True

    def stats(self) -> Stats:
        return self._board.stats(self._now(), concurrency=self._concurrency, paused=self._paused)

    def _with_upstream(self, publish_fn: Publish | PublishWithUpstream) -> Publish:
        if not needs_upstream(publish_fn):
            return cast("Publish", publish_fn)
        publish = cast("PublishWithUpstream", publish_fn)
        return lambda name: publish(name, self._board.upstream(name))
