"""Who waits, who is ready, who is done: the state of a run, without a clock or a loop."""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

from releasekit.scheduler.jobs import (
    DONE,
    READY,
    RETRYING,
    RUNNING,
    WAITING,
    Job,
    Lane,
    attach,
    weigh,
)
from releasekit.scheduler.words import (
    Added,
    Event,
    Finished,
    LaneStats,
    OnError,
    Outcome,
    Stats,
    Status,
    Unblocked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_LANE = "default"


class Board:
    """Outcomes are written here and nowhere else, so that each job has exactly one."""

    def __init__(
        self,
        jobs: dict[str, Job],
        *,
        durations: Mapping[str, float],
        lane_of: Mapping[str, str],
        lane_limits: Mapping[str, int],
        on_error: Mapping[str, OnError] | OnError,
        observed: bool,
    ) -> None:
        self.jobs = jobs
        self.outcomes: dict[str, Outcome] = {}
        self.unfinished = len(jobs)
        self.stopping = False
        """Nothing new starts any more."""
        self.events: deque[Event] | None = deque() if observed else None
        self.lanes = {name: Lane(name, limit) for name, limit in lane_limits.items()}
        self._durations = durations
        self._usual_duration = weigh(jobs, durations)
        self._lane_of = lane_of
        self._policy, self._policies = OnError.SKIP, dict[str, OnError]()
        if isinstance(on_error, str):
            self._policy = OnError(on_error)
        else:
            self._policies = {name: OnError(policy) for name, policy in on_error.items()}
        self._indices = count(len(jobs))
        self._starts = 0
        self._barred: set[Job] = set()
        """Removed with the wish that their dependents be blocked."""
        for name, job in jobs.items():
            job.lane = self.lane(lane_of.get(name, DEFAULT_LANE))
            if not job.pending:
                self.make_ready(job)

    def lane(self, name: str) -> Lane:
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name, None)
        return lane

    def make_ready(self, job: Job) -> None:
        job.phase = READY
        heappush(job.lane.ready, (-job.chain, job.index, job))

    def next_ready(self) -> Job | None:
        """The job to start next: of the lane that holds the fewest slots, or waited longest."""
        best: Lane | None = None
        for lane in self.lanes.values():
            ready = lane.ready
            while ready and ready[0][2].phase != READY:
                heappop(ready)
            if not ready or lane.closed_until is not None:
                continue
            if lane.limit is not None and lane.running >= lane.limit:
                continue
            if best is None or (lane.running, lane.served) < (best.running, best.served):
                best = lane
        return None if best is None else best.ready[0][2]

    def begin(self, job: Job, now: float) -> None:
        lane = job.lane
        lane.running += 1
        self._starts = lane.served = self._starts + 1
        job.phase = RUNNING
        job.started = now
        if not job.attempts:
            job.began = now
        job.attempts += 1

    def conclude(
        self,
        job: Job,
        status: Status,
        now: float | None,
        error: BaseException | None = None,
        blocked_by: str | None = None,
    ) -> None:
        """Write the outcome. What it means for the dependents is the caller's next line."""
        if job.phase == DONE:
            del self.outcomes[job.name]
        else:
            job.phase = DONE
            self.unfinished -= 1
        outcome = Outcome(job.name, status, job.attempts, job.began, now, error, blocked_by)
        job.outcome = self.outcomes[job.name] = outcome
        if self.events is not None:
            self.events.append(Finished(outcome=outcome))

    def release(self, job: Job) -> list[str]:
        """The job counts as done for its dependents; which of them are ready now?"""
        newly = []
        for dependent in job.dependents:
            left = dependent.pending = dependent.pending - 1
            if not left and dependent.phase == WAITING:
                dependent.phase = READY
                heappush(dependent.lane.ready, (-dependent.chain, dependent.index, dependent))
                newly.append(dependent.name)
        return newly

    def fail(self, job: Job, error: BaseException, now: float | None) -> OnError:
        self.conclude(job, Status.FAILED, now, error)
        policy = self._policies.get(job.name, self._policy)
        if policy is OnError.CONTINUE:
            self.release(job)
        else:
            self._block_descendants(job, now)
        return policy

    def publish(self, job: Job, status: Status, now: float | None) -> list[str]:
        self.conclude(job, status, now)
        return self.release(job)

    def remove(
        self, job: Job, now: float | None, *, block: bool, error: BaseException | None = None
    ) -> None:
        was_blocked = job.phase == DONE
        self.conclude(job, Status.REMOVED, now, error)
        if block:
            self._barred.add(job)
            self._block_descendants(job, now)
        else:
            self.release(job)
        if was_blocked:
            self._unblock(job.dependents, now)

    def add(
        self,
        name: str,
        deps: tuple[str, ...],
        lane: str | None,
        duration: float | None,
        now: float | None,
    ) -> bool:
        old = self.jobs.get(name)
        if old is not None and (old.outcome is None or old.outcome.status is not Status.REMOVED):
            return False
        job = Job(name, next(self._indices))
        attach(job, deps, self.jobs, {})
        job.lane = self.lane(lane or self._lane_of.get(name, DEFAULT_LANE))
        usual = self._durations.get(name, self._usual_duration)
        job.chain = job.duration = usual if duration is None else duration
        self._lengthen(job)
        self.jobs[name] = job
        self.outcomes.pop(name, None)
        self.unfinished += 1
        if self.events is not None:
            self.events.append(Added(name=name, dependencies=deps))
        job.pending = sum(not self._satisfied(dependency) for dependency in job.dependencies)
        blocker = self._blocker(job)
        if blocker is not None:
            self.conclude(job, Status.BLOCKED, now, blocked_by=blocker)
        elif not job.pending:
            self.make_ready(job)
        return True

    def removable(self, job: Job) -> bool:
        return job.outcome is None or job.outcome.status is Status.BLOCKED

    def upstream(self, name: str) -> Mapping[str, Outcome]:
        dependencies = self.jobs[name].dependencies
        return MappingProxyType({d.name: d.outcome for d in dependencies if d.outcome is not None})

    def stats(self, now: float | None, *, concurrency: int, paused: bool) -> Stats:
        phases = Counter((job.lane.name, job.phase) for job in self.jobs.values())
        total = chain = 0.0
        for job in self.jobs.values():
            if job.phase != DONE:
                spent = 0.0
                if job.phase == RUNNING and now is not None and self._durations:
                    spent = min(job.duration, now - job.started)
                total += job.duration - spent
                chain = max(chain, job.chain - spent)
        return Stats(
            ready=sum(phases[lane, READY] for lane in self.lanes),
            running=sum(lane.running for lane in self.lanes.values()),
            waiting=sum(phases[lane, WAITING] for lane in self.lanes),
            retrying=sum(phases[lane, RETRYING] for lane in self.lanes),
            finished=len(self.jobs) - self.unfinished,
            concurrency=concurrency,
            paused=paused,
            stopping=self.stopping,
            lanes=MappingProxyType(
                {
                    name: LaneStats(
                        ready=phases[name, READY],
                        running=lane.running,
                        limit=lane.limit,
                        closed_until=lane.closed_until,
                    )
                    for name, lane in self.lanes.items()
                }
            ),
            remaining_chain=chain,
            eta=max(chain, total / concurrency) if self._durations else None,
        )

    def cancel_rest(self, now: float | None, errors: Mapping[Job, BaseException]) -> None:
        """Everything that neither runs nor has an outcome is cancelled; nothing starts again."""
        self.stopping = True
        for job in self.jobs.values():
            if job.phase in (WAITING, READY, RETRYING):
                self.conclude(job, Status.CANCELLED, now, errors.get(job))

    def _block_descendants(self, job: Job, now: float | None) -> None:
        found = list(job.dependents)
        for descendant in found:
            if descendant.phase == WAITING:
                self.conclude(descendant, Status.BLOCKED, now, blocked_by=job.name)
                found += descendant.dependents

    def _unblock(self, jobs: Iterable[Job], now: float | None) -> None:
        """Look again at blocked jobs: is anything still in the way, and who?"""
        found = list(jobs)
        for job in found:
            outcome = job.outcome
            if outcome is None or outcome.status is not Status.BLOCKED:
                continue
            blocker = self._blocker(job)
            if blocker == outcome.blocked_by:
                continue
            found += job.dependents
            if blocker is not None:
                self.conclude(job, Status.BLOCKED, now, blocked_by=blocker)
            elif self.stopping:
                self.conclude(job, Status.CANCELLED, now)
            else:
                self._revive(job)

    def _revive(self, job: Job) -> None:
        del self.outcomes[job.name]
        job.outcome = None
        job.phase = WAITING
        self.unfinished += 1
        if self.events is not None:
            self.events.append(Unblocked(name=job.name))
        if not job.pending:
            self.make_ready(job)

    def _blocker(self, job: Job) -> str | None:
        for dependency in job.dependencies:
            outcome = dependency.outcome
            if outcome is None or outcome.status is Status.CANCELLED:
                continue
            if not self._satisfied(dependency):
                return outcome.blocked_by or outcome.name
        return None

    def _satisfied(self, job: Job) -> bool:
        if job.outcome is None:
            return False
        match job.outcome.status:
            case Status.PUBLISHED | Status.ALREADY_PUBLISHED:
                return True
            case Status.FAILED:
                return self._policies.get(job.name, self._policy) is OnError.CONTINUE
            case Status.REMOVED:
                return job not in self._barred
            case Status.BLOCKED | Status.CANCELLED:
                return False

    def _lengthen(self, job: Job) -> None:
        """A new job hangs on its dependencies: what leads to it may have become more urgent."""
        found = [job]
        for longer in found:
            for dependency in longer.dependencies:
                chain = longer.chain + dependency.duration
                if chain > dependency.chain:
                    dependency.chain = chain
                    found.append(dependency)
                    if dependency.phase == READY:
                        self.make_ready(dependency)
