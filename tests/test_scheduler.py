from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from releasekit.errors import (
    BadSetting,
    CyclicGraph,
    DoNotRetry,
    DuplicatePackage,
    JobCancelled,
    JobTimedOut,
    ReleaseKitError,
    RetryAt,
)
from releasekit.graph import build
from releasekit.model import Edge, EdgeKind
from releasekit.scheduler import (
    Event,
    Finished,
    OnError,
    Outcome,
    RetryScheduled,
    Scheduler,
    Started,
    Stats,
    Status,
    Stopping,
)
from tests.scheduled_work import DIAMOND, Recorded, Work, go, statuses
from tests.virtual_time import Stuck, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping


# The shape of a run


def test_everything_is_published_in_dependency_order() -> None:
    work = Work()
    result = go(Scheduler.from_graph(graph=DIAMOND), work)
    assert result.ok
    assert result.published == ("base", "left", "right", "top")
    assert work.starts == [("base", 0), ("left", 1), ("right", 1), ("top", 2)]


def test_outcome_tells_attempts_start_end_and_error() -> None:
    failure = ReleaseKitError("no")
    scheduler = Scheduler.from_graph({"a": []}, max_retries=1, retry_base_delay=0)
    result = go(scheduler, Work({"a": 2}, {"a": [ValueError(), failure]}))
    assert result.outcomes["a"] == Outcome("a", Status.FAILED, 2, 0, 4, failure)
    assert result.failed == {"a": failure}


def test_an_empty_graph_is_ok_at_once() -> None:
    result = go(Scheduler.from_graph({}), Work())
    assert result.ok
    assert not result.outcomes


def test_a_second_run_is_refused() -> None:
    async def main() -> None:
        scheduler = Scheduler.from_graph({"a": []})
        await scheduler.run(Work())
        with pytest.raises(RuntimeError, match="runs once"):
            await scheduler.run(Work())

    run(main())


def test_publish_function_with_a_second_parameter_gets_its_upstream_outcomes() -> None:
    seen = {}

    async def publish(name: str, upstream: Mapping[str, Outcome]) -> None:
        await asyncio.sleep(1)
        seen[name] = {key: (value.status, value.ended) for key, value in upstream.items()}

    async def main() -> None:
        await Scheduler.from_graph(DIAMOND, already_published=["right"]).run(publish)

    run(main())
    assert seen["base"] == {}
    assert seen["left"] == {"base": (Status.PUBLISHED, 1)}
    assert seen["top"] == {
        "left": (Status.PUBLISHED, 2),
        "right": (Status.ALREADY_PUBLISHED, None),
    }


def test_a_second_parameter_with_a_default_is_the_callers_own() -> None:
    seen = []

    async def publish(name: str, suffix: str = "!") -> None:
        seen.append(name + suffix)

    assert go(Scheduler.from_graph({"a": []}), publish).ok
    assert seen == ["a!"]


def test_any_awaitable_will_do_and_a_plain_value_is_a_failure() -> None:
    def future(_: str) -> Awaitable[object]:
        answer = asyncio.get_running_loop().create_future()
        answer.get_loop().call_later(1, answer.set_result, None)
        return answer

    assert go(Scheduler.from_graph({"a": []}), future).ok
    result = go(Scheduler.from_graph({"a": []}), lambda _: None)  # type: ignore[arg-type, return-value]
    assert isinstance(result.failed["a"], TypeError)


def test_an_error_before_the_coroutine_exists_is_a_failure_like_any_other() -> None:
    def publish(_: str) -> Awaitable[None]:
        raise ValueError

    result = go(Scheduler.from_graph({"a": []}, max_retries=2, retry_base_delay=0), publish)
    assert result.outcomes["a"].attempts == 3
    assert isinstance(result.failed["a"], ValueError)


def test_publish_function_can_say_that_it_was_there_already() -> None:
    async def publish(_: str) -> Status:
        return Status.ALREADY_PUBLISHED

    result = go(Scheduler.from_graph({"a": []}), publish)
    assert result.ok
    assert (result.published, result.already_published) == ((), ("a",))


# What goes in


def test_only_publishable_packages_run_and_the_others_count_as_satisfied() -> None:
    work = Work()
    with capture_logs() as logs:
        result = go(Scheduler.from_graph(DIAMOND, publishable={"top", "left"}), work)
    assert work.order == ["left", "top"]
    assert set(result.outcomes) == {"left", "top"}
    assert logs == []


def test_a_dependency_graph_of_ours_is_taken_as_it_is() -> None:
    edges = [
        Edge(source="app", target="core", kind=EdgeKind.RUNTIME),
        Edge(source="core", target="app", kind=EdgeKind.PEER),
    ]
    work = Work()
    assert go(Scheduler.from_graph(build(["app", "core"], edges)), work).ok
    assert work.order == ["core", "app"]


def test_unknown_dependency_is_satisfied_with_a_warning() -> None:
    with capture_logs() as logs:
        scheduler = Scheduler.from_graph({"a": ["ghost"]})
    assert go(scheduler, Work()).published == ("a",)
    assert [(entry["log_level"], entry["dependency"]) for entry in logs] == [("warning", "ghost")]


def test_unlisted_dependency_that_is_publishable_is_waited_for() -> None:
    work = Work()
    with capture_logs() as logs:
        go(Scheduler.from_graph({"a": ["late"]}, publishable=["a", "late"]), work)
    assert work.order == ["late", "a"]
    assert logs == []


def test_a_dependency_named_twice_is_one_dependency() -> None:
    work = Work()
    assert go(Scheduler.from_graph({"a": [], "b": ["a", "a"]}), work).ok
    assert work.order == ["a", "b"]


def test_already_published_packages_do_not_run_and_satisfy_their_dependents() -> None:
    work = Work()
    scheduler = Scheduler.from_graph(DIAMOND, already_published={"base", "left", "elsewhere"})
    result = go(scheduler, work)
    assert work.order == ["right", "top"]
    assert set(result.already_published) == {"base", "left"}
    assert result.ok


def test_cycle_is_refused_with_its_path() -> None:
    graph = {"z": ["a"], "a": ["b"], "b": ["c"], "c": ["a", "root"], "root": []}
    with pytest.raises(CyclicGraph, match="`a` → `b` → `c` → `a`") as caught:
        Scheduler.from_graph(graph)
    assert caught.value.path == ("a", "b", "c", "a")


def test_package_that_needs_itself_is_refused() -> None:
    with pytest.raises(CyclicGraph) as caught:
        Scheduler.from_graph({"a": ["a"]})
    assert caught.value.path == ("a", "a")
    scheduler = Scheduler.from_graph({})
    with pytest.raises(CyclicGraph):
        scheduler.add_package("b", ["b"])


def test_cycle_outside_of_what_is_published_does_not_matter() -> None:
    graph = {"a": ["b"], "b": ["a"], "c": ["a"]}
    assert go(Scheduler.from_graph(graph, publishable=["c"]), Work()).ok


def test_duplicate_names_are_refused() -> None:
    with pytest.raises(DuplicatePackage, match="`a`"):
        Scheduler.from_graph([("a", []), ("b", ["a"]), ("a", [])])
    with pytest.raises(DuplicatePackage, match="`a`"):
        Scheduler.from_graph({"a": []}, publishable=["a", "a"])


@pytest.mark.parametrize(
    "setting",
    [
        {"concurrency": 0},
        {"max_retries": -1},
        {"retry_base_delay": -0.1},
        {"retry_base_delay": float("nan")},
        {"task_timeout": 0},
        {"task_timeout": -1},
        {"durations": {"a": -1}},
        {"lane_limits": {"x": 0}},
    ],
    ids=str,
)
def test_impossible_settings_are_refused_by_name(setting: dict[str, object]) -> None:
    with pytest.raises(BadSetting, match=next(iter(setting))):
        Scheduler.from_graph({"a": []}, **setting)  # type: ignore[arg-type]


def test_impossible_settings_are_refused_later_too() -> None:
    scheduler = Scheduler.from_graph({"a": []})
    with pytest.raises(BadSetting):
        scheduler.set_concurrency(0)
    with pytest.raises(BadSetting):
        scheduler.close_lane("x", float("nan"))
    with pytest.raises(BadSetting):
        scheduler.add_package("b", duration=-1)
    with pytest.raises(BadSetting):
        RetryAt("later", not_before=float("inf"))
    with pytest.raises(ValueError, match="sometimes"):
        Scheduler.from_graph({"a": []}, on_error={"a": "sometimes"})  # type: ignore[dict-item]


@pytest.mark.parametrize("shape", ["chain", "star", "wide", "ladder"])
def test_ten_thousand_packages(shape: str) -> None:
    count = 10_000
    graph: dict[str, list[str]] = {"p0": []}
    for i in range(1, count):
        needs = {
            "chain": [f"p{i - 1}"],
            "star": ["p0"],
            "wide": [],
            "ladder": [f"p{i // 2}", f"p{i - 1 - i % 3}"] if i > 3 else [],
        }
        graph[f"p{i}"] = needs[shape]
    done: set[str] = set()

    async def publish(name: str) -> None:
        assert done.issuperset(graph[name])
        done.add(name)

    result = go(Scheduler.from_graph(graph, concurrency=7), publish)
    assert len(result.published) == count


def test_failure_at_the_root_of_a_long_chain_blocks_all_of_it() -> None:
    chain = {f"p{i}": [f"p{i - 1}"] if i else [] for i in range(10_000)}
    result = go(Scheduler.from_graph(chain), Work(errors={"p0": [ValueError()]}))
    assert len(result.skipped) == 9_999
    assert {o.blocked_by for o in result.outcomes.values()} == {None, "p0"}


# Limits and priorities


def test_limit_is_kept_and_used() -> None:
    work = Work()
    go(Scheduler.from_graph({f"p{i}": [] for i in range(9)}, concurrency=3), work)
    assert work.peak == 3
    assert work.ends[-1][1] == 3


def test_limit_can_be_raised_and_lowered_while_running() -> None:
    work = Work()
    scheduler = Scheduler.from_graph({f"p{i}": [] for i in range(8)}, concurrency=1)
    go(
        scheduler,
        work,
        (0.5, lambda: scheduler.set_concurrency(4)),
        (1.1, lambda: scheduler.set_concurrency(1)),
    )
    assert [when for _, when in work.starts] == [0, 0.5, 0.5, 0.5, 1, 2, 3, 4]


def test_longest_remaining_chain_goes_first() -> None:
    graph = {"leaf": [], "short": [], "long": [], "s1": ["short"], "l1": ["long"], "l2": ["l1"]}
    work = Work()
    go(Scheduler.from_graph(graph, concurrency=1), work)
    assert work.order == ["long", "short", "l1", "leaf", "s1", "l2"]


def test_expected_durations_weigh_the_chain() -> None:
    graph: dict[str, list[str]] = {"chain": [], "next": ["chain"], "slow": []}
    work = Work()
    durations = {"chain": 1.0, "next": 1.0, "slow": 10.0}
    go(Scheduler.from_graph(graph, concurrency=1, durations=durations), work)
    assert work.order == ["slow", "chain", "next"]


def test_unknown_durations_are_taken_as_the_mean_of_the_known() -> None:
    graph: dict[str, list[str]] = {"quick": [], "unknown": [], "slow": []}
    work = Work()
    go(Scheduler.from_graph(graph, concurrency=1, durations={"quick": 1, "slow": 9}), work)
    assert work.order == ["slow", "unknown", "quick"]


def test_ties_go_in_the_order_of_the_graph() -> None:
    names = [f"p{i * 7 % 50}" for i in range(50)]
    work = Work()
    go(Scheduler.from_graph({name: [] for name in names}, concurrency=1), work)
    assert work.order == names


# Retries and timeouts


def test_backoff_has_full_jitter_and_a_cap() -> None:
    rng = Recorded(0.5)
    scheduler = Scheduler.from_graph({"a": []}, max_retries=8, rng=rng)
    work = Work({"a": 0}, {"a": [ValueError()] * 8})
    assert go(scheduler, work).ok
    assert rng.windows == [(0, w) for w in (1, 2, 4, 8, 16, 32, 60, 60)]
    waits = [b - a for (_, a), (_, b) in zip(work.starts, work.starts[1:], strict=False)]
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30])


def test_backoff_survives_thousands_of_attempts() -> None:
    scheduler = Scheduler.from_graph({"a": []}, max_retries=2_000, rng=Recorded(0))
    assert go(scheduler, Work({"a": 0}, {"a": [ValueError()] * 2_000})).ok


def test_waiting_for_a_retry_holds_no_slot() -> None:
    work = Work(errors={"a": [ValueError()]})
    scheduler = Scheduler.from_graph(
        {"a": [], "b": [], "c": []}, concurrency=1, max_retries=1, rng=Recorded(0.5)
    )
    assert go(scheduler, work).ok
    assert work.starts == [("a", 0), ("b", 1), ("a", 2), ("c", 3)]


def test_cancel_interrupts_the_wait_for_a_retry() -> None:
    error = ValueError()
    scheduler = Scheduler.from_graph({"a": []}, max_retries=1, retry_base_delay=60, rng=Recorded(1))
    result = go(scheduler, Work(errors={"a": [error]}), (5, scheduler.cancel))
    assert result.outcomes["a"] == Outcome("a", Status.CANCELLED, 1, 0, 5, error)


def test_error_that_says_do_not_retry_is_final() -> None:
    class RefusedError(ReleaseKitError):
        def __init__(self) -> None:
            super().__init__("refused", hint="ask")

    class FinalError(RefusedError, DoNotRetry):
        pass

    work = Work(errors={"a": [DoNotRetry("never")], "b": [FinalError()], "c": [RefusedError()]})
    result = go(Scheduler.from_graph({"a": [], "b": [], "c": []}, max_retries=5), work)
    assert Counter(work.order) == {"a": 1, "b": 1, "c": 2}
    assert statuses(result) == {"a": "failed", "b": "failed", "c": "published"}


def test_error_that_says_not_before_is_obeyed() -> None:
    work = Work(errors={"a": [RetryAt("busy", not_before=100)]})
    assert go(Scheduler.from_graph({"a": [], "b": []}, max_retries=1), work).ok
    assert work.starts == [("a", 0), ("b", 0), ("a", 100)]


def test_timeout_ends_the_work_before_it_is_tried_again() -> None:
    log: list[tuple[str, float]] = []

    async def publish(_: str) -> None:
        now = asyncio.get_running_loop().time
        log.append(("start", now()))
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(3)
            log.append(("cleaned up", now()))

    scheduler = Scheduler.from_graph({"a": []}, task_timeout=10, max_retries=1, retry_base_delay=0)
    result = go(scheduler, publish)
    assert log == [("start", 0), ("cleaned up", 13), ("start", 13), ("cleaned up", 26)]
    assert isinstance(result.failed["a"], JobTimedOut)
    assert result.outcomes["a"].attempts == 2


def test_each_attempt_has_its_own_timeout() -> None:
    work = Work({"a": 9, "b": 11, "c": 9, "d": 11})
    scheduler = Scheduler.from_graph(dict.fromkeys("abcd", ()), concurrency=2, task_timeout=10)
    result = go(scheduler, work)
    assert work.ends == [("a", 9), ("b", 10), ("c", 18), ("d", 20)]
    assert set(result.failed) == {"b", "d"}


def test_work_that_gets_done_in_spite_of_its_timeout_is_published() -> None:
    async def publish(_: str) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    assert go(Scheduler.from_graph({"a": []}, task_timeout=10), publish).published == ("a",)


def test_error_raised_while_a_timeout_ends_the_work_is_its_cause() -> None:
    async def publish(_: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise KeyError

    error = go(Scheduler.from_graph({"a": []}, task_timeout=10), publish).failed["a"]
    assert isinstance(error, JobTimedOut)
    assert isinstance(error.__cause__, KeyError)


def test_without_a_timeout_work_may_take_forever() -> None:
    assert go(Scheduler.from_graph({"a": []}, task_timeout=None), Work({"a": 1e6})).ok


# Failures


GRAPH = {"bad": [], "child": ["bad"], "grandchild": ["child"], "other": [], "late": ["other"]}


def test_failure_blocks_descendants_only() -> None:
    error = ValueError()
    result = go(Scheduler.from_graph(GRAPH), Work(errors={"bad": [error]}))
    assert result.published == ("other", "late")
    assert result.failed == {"bad": error}
    assert result.skipped == ("child", "grandchild")
    assert result.outcomes["grandchild"].blocked_by == "bad"
    assert not result.ok


def test_policy_fail_starts_nothing_new() -> None:
    work = Work({"other": 2}, {"bad": [ValueError()]})
    result = go(Scheduler.from_graph(GRAPH, on_error={"bad": OnError.FAIL}), work)
    assert statuses(result) == {
        "bad": "failed",
        "child": "blocked",
        "grandchild": "blocked",
        "late": "cancelled",
        "other": "published",
    }


def test_policy_continue_lets_dependents_run() -> None:
    work = Work(errors={"bad": [ValueError()]})
    result = go(Scheduler.from_graph(GRAPH, on_error=OnError.CONTINUE), work)
    assert set(result.published) == {"child", "grandchild", "other", "late"}
    assert not result.ok


def test_policy_belongs_to_the_package_that_fails() -> None:
    work = Work(errors={"bad": [ValueError()]})
    result = go(Scheduler.from_graph(GRAPH, on_error={"child": OnError.CONTINUE}), work)
    assert result.skipped == ("child", "grandchild")


def test_removed_package_does_not_spoil_ok() -> None:
    scheduler = Scheduler.from_graph({"a": [], "b": []})
    assert scheduler.remove_package("b")
    result = go(scheduler, Work())
    assert statuses(result) == {"b": "removed", "a": "published"}
    assert result.ok


# Observation


def test_observer_sees_every_start_retry_and_outcome_once() -> None:
    error = ValueError()
    events: list[Event] = []
    scheduler = Scheduler.from_graph(
        {"a": [], "b": ["a"], "c": []},
        max_retries=1,
        rng=Recorded(1),
        already_published=["c"],
        observe=events.append,
    )
    result = go(scheduler, Work(errors={"a": [error]}))
    assert events == [
        Finished(outcome=result.outcomes["c"]),
        Started(name="a", lane="default", attempt=1),
        RetryScheduled(name="a", attempt=1, error=error, not_before=2),
        Started(name="a", lane="default", attempt=2),
        Finished(outcome=result.outcomes["a"]),
        Started(name="b", lane="default", attempt=1),
        Finished(outcome=result.outcomes["b"]),
    ]


def test_observer_may_call_back() -> None:
    def observe(event: Event) -> None:
        if isinstance(event, Finished) and event.outcome.name == "base":
            scheduler.add_package("extra", ["base"])
            scheduler.remove_package("right")
        if isinstance(event, Finished) and event.outcome.name == "top":
            scheduler.cancel()

    scheduler = Scheduler.from_graph(DIAMOND, observe=observe, concurrency=1)
    result = go(scheduler, Work())
    assert statuses(result) == {
        "base": "published",
        "right": "removed",
        "left": "published",
        "top": "published",
        "extra": "published",
    }


def test_error_in_the_observer_stops_the_run_and_is_raised() -> None:
    seen: list[Event] = []

    def observe(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Finished) and event.outcome.name == "base":
            raise OSError("disk full")

    work = Work()
    with pytest.raises(OSError, match="disk full"):
        go(Scheduler.from_graph(DIAMOND, concurrency=1, observe=observe), work)
    assert Stopping(ends_running=False) in seen
    assert work.order == ["base", "left"]


def test_stats_at_any_time() -> None:
    lanes = dict.fromkeys(("left", "right"), "npm")
    durations = {"base": 4.0, "left": 2.0, "right": 6.0, "top": 1.0, "bad": 1.0}
    scheduler = Scheduler.from_graph(
        DIAMOND | {"bad": []},
        concurrency=2,
        durations=durations,
        lanes=lanes,
        lane_limits={"npm": 1},
        max_retries=1,
        rng=Recorded(1),
    )
    before = scheduler.stats()
    assert (before.ready, before.waiting, before.running) == (2, 3, 0)
    assert (before.remaining_chain, before.eta) == (11, 11)
    snapshots: list[Stats] = []

    def close_and_look() -> None:
        scheduler.close_lane("npm", 99)
        snapshots.append(scheduler.stats())

    scheduler.pause()
    go(
        scheduler,
        Work(durations, {"bad": [ValueError()]}),
        (0, scheduler.resume),
        (1.5, lambda: snapshots.append(scheduler.stats())),
        (4.5, close_and_look),
    )
    early, late = snapshots
    assert (early.running, early.retrying, early.waiting, early.finished) == (1, 1, 3, 0)
    assert early.remaining_chain == pytest.approx(9.5)
    assert late.lanes["npm"].running == 1
    assert late.lanes["npm"].ready == 1
    assert late.lanes["npm"].limit == 1
    assert late.lanes["npm"].closed_until == 99
    assert (late.finished, late.concurrency, late.paused, late.stopping) == (2, 2, False, False)
    after = scheduler.stats()
    assert (after.finished, after.remaining_chain, after.eta) == (5, 0, 0)


def test_without_durations_there_is_no_eta() -> None:
    stats = Scheduler.from_graph(DIAMOND).stats()
    assert stats.eta is None
    assert stats.remaining_chain == 3


def test_the_virtual_loop_notices_a_lost_wake_up() -> None:
    scheduler = Scheduler.from_graph({"a": []})
    scheduler.pause()
    with pytest.raises(Stuck):
        run(scheduler.run(Work()))


def test_job_that_cancels_itself_is_final() -> None:
    async def publish(_: str) -> None:
        raise asyncio.CancelledError

    result = go(Scheduler.from_graph({"a": [], "b": ["a"]}, max_retries=3), publish)
    assert isinstance(result.failed["a"], JobCancelled)
    assert result.outcomes["a"].attempts == 1
    assert result.outcomes["b"].blocked_by == "a"


def test_it_loads_nothing_of_releasekit_but_its_errors() -> None:
    code = "import sys, releasekit.scheduler; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    loaded = answer.stdout.split()
    ours = {name for name in loaded if name.partition(".")[0] == "releasekit"}
    allowed = ("releasekit.scheduler", "releasekit.errors")
    assert {name for name in ours if not name.startswith(allowed)} == {"releasekit"}
    assert not {"typer", "httpx"} & set(loaded)
