"""The moving part: what starts, what an end means, and the timers for what comes later.

Whatever happens (a job ends, a retry is due, a lane opens, somebody resumes) changes the board and
then calls `_pump`, which starts what may start now. There is no other loop, and nothing polls.
"""

from __future__ import annotations

import asyncio
import math
from enum import Enum
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, TypeVar

import structlog

from releasekit.errors import (
    DoNotRetry,
    JobCancelled,
    JobTimedOut,
    RetryAt,
)
from releasekit.scheduler import words
from releasekit.scheduler.jobs import DONE, RETRYING, Job, Lane
from releasekit.scheduler.settings import Settings, check
from releasekit.scheduler.words import OnError, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from releasekit.scheduler.board import Board
    from releasekit.scheduler.settings import Backpressure, Publish

_T = TypeVar("_T")

log = structlog.get_logger(__name__)

LONGEST_BACKOFF = 60.0


class Interruption(Enum):
    """Why the scheduler itself cancelled the task of a job."""

    TIMEOUT = 1
    REMOVAL = 2
    REMOVAL_THAT_BLOCKS = 3


class Engine:
    _loop: asyncio.AbstractEventLoop
    _finished: asyncio.Future[None]
    _publish: Publish

    def __init__(self, board: Board, settings: Settings, concurrency: int) -> None:
        check("concurrency", concurrency, at_least=1)
        self._board = board
        self._settings = settings
        self._concurrency = concurrency
        self._started = False
        self._live = False
        """Between the start of `run` and its last outcome."""
        self._paused = False
        self._cancels = 0
        self._fault: BaseException | None = None
        """A hook of the caller's raised this: the run stops and raises it, too."""
        self._pumping = False
        self._delivering = False
        self._running: dict[asyncio.Task[object], Job] = {}
        """In the order of their starts, which is also the order of their deadlines."""
        self._interrupted: dict[Job, Interruption] = {}
        self._retries: dict[Job, tuple[BaseException, asyncio.TimerHandle]] = {}
        self._watchdog: asyncio.TimerHandle | None = None
        self._admission: asyncio.Task[bool | None] | None = None
        self._granted: Job | None = None
        self._refused = False

    @property
    def _over(self) -> bool:
        return self._started and not self._live

    def _now(self) -> float | None:
        return self._loop.time() if self._started else None

    def _emit(self, event: words.Event) -> None:
        if self._board.events is not None:
            self._board.events.append(event)

    def _pump(self, now: float | None = None) -> None:
        """Start what may start, tell the observer, and notice the end."""
        if self._pumping or not self._started:
            return
        board, running = self._board, self._running
        if self._live:
            # publish_fn may call back before it has returned its coroutine.
            self._pumping = True
            try:
                now = now or self._loop.time()
                while len(running) < self._concurrency and not (self._paused or board.stopping):
                    job = board.next_ready()
                    if job is None:
                        break
                    if self._settings.backpressure is not None and job is not self._granted:
                        self._ask(self._settings.backpressure, job)
                        break
                    self._start(job, now)
            finally:
                self._pumping = False
        if board.events:
            self._deliver()
        if not board.unfinished:
            self._finish()

    def _finish(self) -> None:
        if self._live and not (self._running or self._admission or self._finished.done()):
            self._live = False
            self._finished.set_result(None)

    def _deliver(self) -> None:
        observe, events = self._settings.observe, self._board.events
        if observe is None or events is None or self._delivering:
            return
        self._delivering = True
        try:
            while events:
                try:
                    observe(events.popleft())
                except Exception as error:  # noqa: BLE001 - run() raises it
                    self._stop_with(error)
        finally:
            self._delivering = False

    def _start(self, job: Job, now: float) -> None:
        self._board.begin(job, now)
        try:
            work = self._publish(job.name)
        except Exception as error:  # noqa: BLE001 - it becomes the outcome
            work = _raise(error)
        if type(work) is not CoroutineType:
            work = _wait(work)
        task: asyncio.Task[object] = self._loop.create_task(work)
        self._running[task] = job
        task.add_done_callback(self._ended)
        if self._cancels > 1 or (self._interrupted and job in self._interrupted):
            task.cancel()  # publish_fn asked for its own end before it returned its coroutine
        if self._watchdog is None:
            self._watch(job)
        if self._board.events is not None:
            self._emit(words.Started(name=job.name, lane=job.lane.name, attempt=job.attempts))

    def _ended(self, task: asyncio.Task[object]) -> None:
        job = self._running.pop(task)
        job.lane.running -= 1
        self._refused = False
        now = self._loop.time()
        why = self._interrupted.pop(job, None) if self._interrupted else None
        cancelled = task.cancelled()
        error = None if cancelled else task.exception()
        if job.phase == DONE:
            if error is not None:
                log.warning("work failed after it was marked done", package=job.name, error=error)
        elif error is not None or cancelled:
            self._ended_badly(job, error, why, now)
        elif task.result() is Status.ALREADY_PUBLISHED:
            self._board.publish(job, Status.ALREADY_PUBLISHED, now)
        else:
            self._board.publish(job, Status.PUBLISHED, now)
        self._pump(now)

    def _ended_badly(
        self, job: Job, error: BaseException | None, why: Interruption | None, now: float
    ) -> None:
        """Without an error the task was cancelled."""
        if why is Interruption.TIMEOUT:
            overdue = JobTimedOut(name=job.name, seconds=self._settings.task_timeout or 0)
            overdue.__cause__ = error
            self._failed(job, overdue, now)
        elif why is not None:
            blocks = why is Interruption.REMOVAL_THAT_BLOCKS
            self._board.remove(job, now, block=blocks, error=error)
        elif error is not None:
            self._failed(job, error, now)
        elif self._cancels > 1:
            self._board.conclude(job, Status.CANCELLED, now)
        else:
            self._give_up(job, JobCancelled(name=job.name), now)

    def _failed(self, job: Job, error: BaseException, now: float) -> None:
        not_before = now
        if isinstance(error, RetryAt):
            not_before = error.not_before
            if error.closes_lane and not_before > (job.lane.closed_until or now):
                self._close(job.lane, not_before)
        last = job.attempts > self._settings.max_retries or self._board.stopping
        if last or isinstance(error, DoNotRetry) or not isinstance(error, Exception):
            self._give_up(job, error, now)
            return
        longest = self._settings.retry_base_delay * 2.0 ** min(job.attempts - 1, 1000)
        delay = self._settings.rng.uniform(0, min(longest, LONGEST_BACKOFF))
        due = max(not_before, now + delay)
        job.phase = RETRYING
        self._retries[job] = error, self._loop.call_at(due, self._retry, job)
        self._emit(
            words.RetryScheduled(name=job.name, attempt=job.attempts, error=error, not_before=due)
        )

    def _give_up(self, job: Job, error: BaseException, now: float) -> None:
        if self._board.fail(job, error, now) is OnError.FAIL:
            self._stop()

    def _retry(self, job: Job) -> None:
        del self._retries[job]
        self._board.make_ready(job)
        self._pump()

    def _drop_retry(self, job: Job) -> None:
        if job in self._retries:
            self._retries.pop(job)[1].cancel()

    def _watch(self, first: Job) -> None:
        """One timer serves all jobs: with one timeout for all, they expire in order."""
        timeout = self._settings.task_timeout
        if timeout is not None:
            self._watchdog = self._loop.call_at(first.started + timeout, self._end_overdue, timeout)

    def _end_overdue(self, timeout: float) -> None:
        self._watchdog = None
        now = self._loop.time()
        for task, job in self._running.items():
            if job in self._interrupted:
                continue
            if job.started + timeout > now:
                self._watch(job)
                return
            self._interrupted[job] = Interruption.TIMEOUT
            task.cancel()

    def _ask(self, backpressure: Backpressure, job: Job) -> None:
        if self._admission is not None or self._refused:
            return
        admission = self._loop.create_task(_call(backpressure, job.name))
        admission.add_done_callback(partial(self._answered, job))
        self._admission = admission

    def _answered(self, job: Job, admission: asyncio.Task[bool | None]) -> None:
        """A refusal holds until a running job ends; with none, no later cause would ask again."""
        self._admission = None
        if admission.cancelled():
            if not self._board.stopping:
                self._stop_with(JobCancelled(name=job.name))
        elif (error := admission.exception()) is not None:
            self._stop_with(error)
        elif admission.result() is False and self._running:
            self._refused = True
        else:
            self._granted = job
        self._pump()
        self._granted = None

    def _close(self, lane: Lane, until: float) -> None:
        lane.closed_until = until
        self._emit(words.LaneClosed(lane=lane.name, until=until))
        if self._live:
            self._set_gate(lane)

    def _set_gate(self, lane: Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if lane.closed_until is not None and lane.closed_until < math.inf:
            lane.timer = self._loop.call_at(lane.closed_until, self._open, lane)

    def _open(self, lane: Lane) -> None:
        lane.closed_until = lane.timer = None
        self._emit(words.LaneOpened(lane=lane.name))
        self._pump()

    def _stop(self) -> None:
        if self._board.stopping:
            return
        self._emit(words.Stopping(ends_running=False))
        self._board.cancel_rest(
            self._now(), {job: error for job, (error, _) in self._retries.items()}
        )
        for job in tuple(self._retries):
            self._drop_retry(job)
        if self._admission is not None:
            self._admission.cancel()

    def _stop_with(self, fault: BaseException) -> None:
        self._fault = self._fault or fault
        self._stop()

    async def _end_running(self) -> None:
        """`run` itself was cancelled: no task may outlive it."""
        self._cancels += 2
        self._stop()
        while tasks := [*self._running, *filter(None, [self._admission])]:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                continue  # run() raises the first one when the tasks have ended
        self._pump()

    def _drop_timers(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        for lane in self._board.lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()


async def _call(function: Callable[[str], Awaitable[_T]], name: str) -> _T:
    return await function(name)


async def _wait(work: Awaitable[object]) -> object:
    return await work


async def _raise(error: Exception) -> None:
    raise error
