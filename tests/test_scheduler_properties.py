"""Random graphs, durations, failures and meddling; the rules hold in every case."""

from __future__ import annotations

import asyncio
import inspect
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from releasekit.scheduler import (
    DoNotRetry,
    Event,
    Finished,
    LaneClosed,
    LaneOpened,
    OnError,
    Outcome,
    Result,
    RetryAt,
    Scheduler,
    Started,
    Status,
    Unblocked,
)
from tests.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

T = TypeVar("T")
LANES = ("pypi", "npm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    graph: dict[str, list[str]]
    concurrency: int
    max_retries: int
    lane_limit: int
    lanes: dict[str, str]
    policies: dict[str, OnError]
    seconds: dict[str, float]
    faults: dict[str, list[str]]
    """What happens on each attempt; after the last one it works."""
    already: frozenset[str]
    actions: list[tuple[float, str, str]]
    seed: int


FAULTS = ["error", "final", "later", "lane", "cancel", "hang", "stubborn"]
ACTIONS = ["pause", "remove", "block", "add", "readd", "done", "limit", "gate", "cancel"]
SECONDS = [0.0, 0.5, 1.0, 3.0]
MOMENTS = [0.0, 0.25, 1.0, 1.25, 2.5, 4.0, 6.0]


class Choices:
    """Decisions read from bytes: one draw a case, ten times faster than a draw a decision."""

    def __init__(self, source: bytes) -> None:
        self._bytes = iter(source)

    def one_of(self, options: Sequence[T]) -> T:
        return options[next(self._bytes, 0) % len(options)]

    def up_to(self, most: int) -> range:
        return range(self.one_of(range(most + 1)))


def build(source: bytes) -> Case:
    choose = Choices(source)
    names = [f"p{i}" for i in range(choose.one_of(range(11)))]
    graph = {
        name: [choose.one_of(names[:i]) for _ in choose.up_to(3 if i else 0)]
        for i, name in enumerate(names)
    }
    some = [*names, "p0"]
    return Case(
        graph=dict(sorted(graph.items(), key=lambda _: choose.one_of(range(256)))),
        concurrency=1 + choose.one_of(range(4)),
        max_retries=choose.one_of(range(3)),
        lane_limit=1 + choose.one_of(range(3)),
        lanes={name: choose.one_of(LANES) for name in names},
        policies={choose.one_of(some): choose.one_of([*OnError]) for _ in choose.up_to(3)},
        seconds={name: choose.one_of(SECONDS) for name in names},
        faults={
            choose.one_of(some): [choose.one_of(FAULTS) for _ in choose.up_to(3)]
            for _ in choose.up_to(4)
        },
        already=frozenset(choose.one_of(some) for _ in choose.up_to(2)),
        actions=[
            (choose.one_of(MOMENTS), choose.one_of(ACTIONS), choose.one_of(some))
            for _ in choose.up_to(6)
        ],
        seed=choose.one_of(range(100)),
    )


CASES = st.binary(min_size=150, max_size=150).map(build)


@dataclass
class Watch:
    """Runs a case and checks, at every start, what must be true at every start."""

    case: Case
    works: dict[str, Coroutine[None, None, None]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    paused: bool = False
    cancelled: bool = False
    limit: int = 0
    dependencies: dict[str, list[str]] = field(default_factory=dict)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    freed: set[tuple[str, str]] = field(default_factory=set)
    """A package that was removed and added again is not waited for by those it was taken from."""
    violations: list[str] = field(default_factory=list)
    """Collected, because an assertion inside a job would only make the job fail."""

    def __post_init__(self) -> None:
        case = self.case
        self.limit = case.concurrency
        self.dependencies = dict(case.graph)
        self.faults = {name: list(faults) for name, faults in case.faults.items()}
        self.scheduler = Scheduler.from_graph(
            case.graph,
            concurrency=case.concurrency,
            max_retries=case.max_retries,
            task_timeout=5,
            already_published=case.already,
            lanes=case.lanes,
            lane_limits={"npm": case.lane_limit},
            on_error=case.policies,
            observe=self.events.append,
            backpressure=self.backpressure if case.seed % 3 == 0 else None,
            rng=random.Random(case.seed),  # noqa: S311
        )

    async def backpressure(self, _: str) -> bool:
        await asyncio.sleep(0.1 if self.case.seed % 2 else 0)
        return len(self.running) < 2

    def check_start(self, name: str, lane: str) -> None:
        outcomes = self.scheduler._board.outcomes
        rules = {
            "paused": not self.paused,
            "cancelled": not self.cancelled,
            "twice": name not in self.running,
            "limit": len(self.running) < self.limit,
            "order": all(
                (name, need) in self.freed or self.satisfied(outcomes.get(need))
                for need in self.dependencies[name]
            ),
            "lane": lane != "npm"
            or [self.lane(other) for other in self.running].count(lane) < self.case.lane_limit,
        }
        self.violations += [f"{rule}: {name}" for rule, kept in rules.items() if not kept]

    def satisfied(self, outcome: Outcome | None) -> bool:
        if outcome is None:
            return False
        if outcome.status is Status.FAILED:
            return self.case.policies.get(outcome.name) is OnError.CONTINUE
        return outcome.status in {Status.PUBLISHED, Status.ALREADY_PUBLISHED, Status.REMOVED}

    def publish(self, name: str) -> Coroutine[None, None, None]:
        self.check_start(name, self.lane(name))
        self.works[name] = self.attempt(name)
        return self.works[name]

    def lane(self, name: str) -> str:
        return self.case.lanes.get(name, "default")

    @property
    def running(self) -> list[str]:
        states = {name: inspect.getcoroutinestate(work) for name, work in self.works.items()}
        return [name for name, state in states.items() if state != inspect.CORO_CLOSED]

    async def attempt(self, name: str) -> None:
        fault = self.faults[name].pop(0) if self.faults.get(name) else ""
        now = asyncio.get_running_loop().time
        if fault == "hang":
            await asyncio.sleep(1000)
        if fault == "stubborn":
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
            return
        await asyncio.sleep(self.case.seconds.get(name, 1.0))
        match fault:
            case "error":
                raise ValueError
            case "final":
                raise DoNotRetry("never")
            case "later":
                raise RetryAt("later", not_before=now() + 7)
            case "lane":
                raise RetryAt("lane", not_before=now() + 7, closes_lane=True)
            case "cancel":
                raise asyncio.CancelledError
            case _:
                return

    def act(self, action: str, name: str) -> None:
        scheduler = self.scheduler
        match action:
            case "pause":
                self.paused = True
                scheduler.pause()
                self.timers.append(asyncio.get_running_loop().call_later(2, self.resume))
            case "remove" | "block":
                scheduler.remove_package(name, block_dependents=action == "block")
            case "add":
                self.add(f"new-{name}", [name])
            case "readd":
                waited = {
                    (other, name) for other, needs in self.dependencies.items() if name in needs
                }
                before, self.freed = self.freed, self.freed | waited
                if not self.add(name, []):
                    self.freed = before
            case "done":
                scheduler.mark_done(name)
            case "limit":
                self.limit = 1 + self.case.seed % 4
                scheduler.set_concurrency(self.limit)
            case "gate":
                scheduler.close_lane("npm", asyncio.get_running_loop().time() + 3)
            case _:
                self.cancelled = True
                scheduler.cancel()

    def add(self, name: str, needs: list[str]) -> bool:
        before = self.dependencies.copy()
        self.dependencies[name] = needs  # it may start before the call returns
        added = self.scheduler.add_package(name, needs)
        if not added:
            self.dependencies = before
        return added

    def resume(self) -> None:
        self.paused = False
        self.scheduler.resume()

    async def main(self) -> Result:
        loop = asyncio.get_running_loop()
        for when, action, name in self.case.actions:
            self.timers.append(loop.call_at(when, self.act, action, name))
        result = await self.scheduler.run(self.publish)
        for timer in self.timers:
            timer.cancel()
        assert not self.running
        assert not self.violations
        return result


def check_outcomes(watch: Watch, result: Result) -> None:
    """Exactly one outcome each, and the events tell the same story."""
    told: dict[str, Status] = {}
    closed: set[str] = set()
    for event in watch.events:
        match event:
            case Finished(outcome=outcome):
                previous = told.get(outcome.name)
                assert previous in {None, Status.BLOCKED, Status.REMOVED}
                told[outcome.name] = outcome.status
            case Unblocked(name=name):
                assert told.pop(name) is Status.BLOCKED
            case LaneClosed(lane=lane):
                closed.add(lane)
            case LaneOpened(lane=lane):
                closed.discard(lane)
            case Started(lane=lane):
                assert lane not in closed
            case _:
                pass
    assert told == {name: outcome.status for name, outcome in result.outcomes.items()}
    assert set(watch.case.graph) <= set(told)
    stats = watch.scheduler.stats()
    assert stats.finished == len(told)
    assert (stats.ready, stats.running, stats.waiting, stats.retrying) == (0, 0, 0, 0)
    for outcome in result.outcomes.values():
        assert outcome.attempts <= 1 + watch.case.max_retries
        if outcome.status in {Status.PUBLISHED, Status.FAILED}:
            assert outcome.started is not None
            assert outcome.ended is not None
            assert outcome.started <= outcome.ended
        if outcome.status is Status.BLOCKED:
            assert outcome.blocked_by is not None
            cause = result.outcomes[outcome.blocked_by].status
            assert cause in {Status.FAILED, Status.REMOVED} or "readd" in str(watch.case.actions)
        else:
            assert outcome.blocked_by is None


@settings(max_examples=4_000, deadline=None)
@given(CASES)
def test_every_run_keeps_the_rules(case: Case) -> None:
    watch = Watch(case)
    check_outcomes(watch, run(watch.main()))


@settings(max_examples=500, deadline=None)
@given(CASES)
def test_without_meddling_the_outcomes_follow_from_the_faults(case: Case) -> None:
    """An oracle: a package is published if its dependencies allow it and an attempt is left."""
    simple = Case(
        graph=case.graph,
        concurrency=case.concurrency,
        max_retries=case.max_retries,
        lane_limit=case.lane_limit,
        lanes=case.lanes,
        policies={n: p for n, p in case.policies.items() if p is not OnError.FAIL},
        seconds=case.seconds,
        faults={n: [f for f in fs if f == "error"] for n, fs in case.faults.items()},
        already=case.already,
        actions=[],
        seed=case.seed,
    )
    expected: dict[str, Status] = {}

    def decide(name: str) -> Status:
        if name not in expected:
            statuses = [
                decide(dependency)
                for dependency in simple.graph[name]
                if not (
                    decide(dependency) is Status.FAILED
                    and simple.policies.get(dependency) is OnError.CONTINUE
                )
            ]
            if name in simple.already:
                expected[name] = Status.ALREADY_PUBLISHED
            elif Status.FAILED in statuses or Status.BLOCKED in statuses:
                expected[name] = Status.BLOCKED
            elif len(simple.faults.get(name, [])) > simple.max_retries:
                expected[name] = Status.FAILED
            else:
                expected[name] = Status.PUBLISHED
        return expected[name]

    for name in simple.graph:
        decide(name)
    watch = Watch(simple)
    result = run(watch.main())
    assert {name: outcome.status for name, outcome in result.outcomes.items()} == expected


@settings(max_examples=300, deadline=None)
@given(CASES)
def test_no_slot_is_idle_while_a_package_could_run(case: Case) -> None:
    """Without faults, lanes or hooks this is list scheduling: Graham's bound holds."""
    concurrency = case.concurrency

    async def publish(name: str) -> None:
        await asyncio.sleep(case.seconds[name])

    async def main() -> float:
        await Scheduler.from_graph(case.graph, concurrency=concurrency).run(publish)
        return asyncio.get_running_loop().time()

    chain: dict[str, float] = {}
    for name in sorted(case.graph, key=lambda name: int(name[1:])):
        longest = max((chain[dependency] for dependency in case.graph[name]), default=0.0)
        chain[name] = longest + case.seconds[name]
    total, critical = sum(case.seconds.values()), max(chain.values(), default=0.0)
    makespan = run(main())
    assert makespan >= max(critical, total / concurrency) - 1e-6
    assert makespan <= total / concurrency + (1 - 1 / concurrency) * critical + 1e-6
