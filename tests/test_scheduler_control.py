from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from releasekit.errors import (
    JobTimedOut,
    RetryAt,
)
from releasekit.scheduler import (
    Event,
    Finished,
    LaneClosed,
    LaneOpened,
    Outcome,
    Scheduler,
    Status,
    Unblocked,
)
from tests.scheduled_work import DIAMOND, Recorded, Work, go, statuses
from tests.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Awaitable


# Pause and cancel


def test_nothing_starts_while_paused_and_what_runs_finishes() -> None:
    work = Work({"base": 3})
    scheduler = Scheduler.from_graph(DIAMOND)
    result = go(scheduler, work, (1, scheduler.pause), (10, scheduler.resume))
    assert work.starts == [("base", 0), ("left", 10), ("right", 10), ("top", 11)]
    assert work.ends[0] == ("base", 3)
    assert result.ok


def test_pause_before_the_run_holds_it() -> None:
    scheduler = Scheduler.from_graph({"a": []})
    scheduler.pause()
    assert scheduler.is_paused
    work = Work()
    go(scheduler, work, (5, scheduler.resume))
    assert work.starts == [("a", 5)]
    assert not scheduler.is_paused


def test_retry_that_comes_due_while_paused_waits_for_resume() -> None:
    work = Work(errors={"a": [ValueError()]})
    scheduler = Scheduler.from_graph({"a": []}, max_retries=1)
    go(scheduler, work, (0.5, scheduler.pause), (50, scheduler.resume))
    assert work.starts == [("a", 0), ("a", 50)]


def test_timeout_of_running_work_goes_on_while_paused() -> None:
    scheduler = Scheduler.from_graph({"a": []}, task_timeout=10)
    result = go(scheduler, Work({"a": 100}), (1, scheduler.pause))
    assert isinstance(result.failed["a"], JobTimedOut)
    assert result.outcomes["a"].ended == 10


def test_cancel_lets_what_runs_finish_and_reports_the_rest_as_cancelled() -> None:
    work = Work({"base": 3})
    scheduler = Scheduler.from_graph(DIAMOND)
    result = go(scheduler, work, (1, scheduler.cancel))
    assert result.published == ("base",)
    assert result.skipped == ("left", "right", "top")
    assert {result.outcomes[name].status for name in result.skipped} == {Status.CANCELLED}
    assert not result.ok


def test_cancelled_run_does_not_retry_what_fails_afterwards() -> None:
    work = Work({"a": 3}, {"a": [ValueError()]})
    scheduler = Scheduler.from_graph({"a": []}, max_retries=5)
    result = go(scheduler, work, (1, scheduler.cancel))
    assert set(result.failed) == {"a"}
    assert len(work.starts) == 1


def test_second_cancel_ends_what_runs() -> None:
    work = Work({"a": 100, "b": 100})
    scheduler = Scheduler.from_graph({"a": [], "b": [], "c": ["a"]})
    result = go(scheduler, work, (1, scheduler.cancel), (2, scheduler.cancel))
    assert statuses(result) == {"c": "cancelled", "a": "cancelled", "b": "cancelled"}
    assert result.outcomes["a"] == Outcome("a", Status.CANCELLED, 1, 0, 2)


def test_cancel_while_paused_ends_the_run() -> None:
    scheduler = Scheduler.from_graph(DIAMOND)
    scheduler.pause()
    result = go(scheduler, Work(), (1, scheduler.cancel))
    assert len(result.skipped) == 4


def test_cancel_before_the_run_starts_nothing() -> None:
    scheduler = Scheduler.from_graph(DIAMOND)
    scheduler.cancel()
    work = Work()
    assert len(go(scheduler, work).skipped) == 4
    assert work.starts == []


def test_cancelling_run_itself_ends_all_work_and_is_not_swallowed() -> None:
    ended = []

    async def publish(name: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def main() -> None:
        events: list[Event] = []
        scheduler = Scheduler.from_graph(DIAMOND | {"b": []}, observe=events.append)
        running = asyncio.create_task(scheduler.run(publish))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(0.5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        finished = {e.outcome.name: e.outcome.status for e in events if isinstance(e, Finished)}
        assert finished == dict.fromkeys((*DIAMOND, "b"), Status.CANCELLED)

    run(main())
    assert sorted(ended) == []  # the second cancel also ended the clean-up, as asked


def test_timeout_around_run_leaves_no_task_behind() -> None:
    ended = []

    async def publish(name: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await Scheduler.from_graph({"a": [], "b": []}).run(publish)
        assert sorted(ended) == ["a", "b"]

    run(main())


# Packages that come and go


def test_package_added_while_running_runs() -> None:
    work = Work({"a": 3})
    scheduler = Scheduler.from_graph({"a": []})
    added: list[bool] = []
    actions = [
        (1.0, lambda: added.append(scheduler.add_package("b"))),
        (1.1, lambda: added.append(scheduler.add_package("c", deps=["a", "b"]))),
        (1.2, lambda: added.append(scheduler.add_package("c"))),
        (1.3, lambda: added.append(scheduler.add_package("a"))),
    ]
    assert go(scheduler, work, *actions).ok
    assert added == [True, True, False, False]
    assert work.starts == [("a", 0), ("b", 1), ("c", 3)]


def test_package_added_before_the_run_runs() -> None:
    scheduler = Scheduler.from_graph({})
    assert scheduler.add_package("b", deps=["a"]) is True
    assert go(scheduler, Work()).published == ("b",)


def test_package_added_on_a_failed_one_is_blocked_at_once() -> None:
    scheduler = Scheduler.from_graph({"bad": [], "child": ["bad"], "slow": []})
    work = Work({"slow": 5}, {"bad": [ValueError()]})
    result = go(scheduler, work, (2, lambda: scheduler.add_package("new", ["slow", "child"])))
    assert result.outcomes["new"].status is Status.BLOCKED
    assert result.outcomes["new"].blocked_by == "bad"


def test_nothing_can_be_added_after_the_end_or_a_cancel() -> None:
    scheduler = Scheduler.from_graph({"a": []})
    late: list[bool] = []
    go(
        scheduler,
        Work(),
        (0.5, scheduler.cancel),
        (0.6, lambda: late.append(scheduler.add_package("b"))),
    )
    late.extend([scheduler.add_package("c"), scheduler.remove_package("a")])
    assert late == [False, False, False]


def test_added_package_makes_what_leads_to_it_more_urgent() -> None:
    graph: dict[str, list[str]] = {"first": [], "a": [], "b": []}
    work = Work()
    scheduler = Scheduler.from_graph(graph, concurrency=1)
    go(scheduler, work, (0.5, lambda: scheduler.add_package("after-b", ["b"])))
    assert work.order == ["first", "b", "a", "after-b"]


def test_queued_package_that_is_removed_never_starts_and_its_dependents_go_on() -> None:
    work = Work()
    graph = {"a": [], "b": [], "c": ["b"]}
    scheduler = Scheduler.from_graph(graph, concurrency=1, durations={"a": 9, "b": 1, "c": 1})
    result = go(scheduler, work, (0.5, lambda: scheduler.remove_package("b")))
    assert work.order == ["a", "c"]
    assert statuses(result) == {"b": "removed", "a": "published", "c": "published"}


def test_removal_can_block_the_dependents() -> None:
    scheduler = Scheduler.from_graph({"a": [], "b": [], "c": ["b"], "d": ["c"]}, concurrency=1)
    result = go(
        scheduler,
        Work(),
        (0.5, lambda: scheduler.remove_package("b", block_dependents=True)),
        (0.6, lambda: scheduler.add_package("new", ["b"])),
    )
    for name in ("c", "d", "new"):
        assert result.outcomes[name].status is Status.BLOCKED
        assert result.outcomes[name].blocked_by == "b"


def test_waiting_package_that_is_removed_lets_its_dependents_run() -> None:
    work = Work()
    scheduler = Scheduler.from_graph({"a": [], "b": ["a"], "c": ["b"]})
    go(scheduler, work, (0.5, lambda: scheduler.remove_package("b")))
    assert work.starts == [("a", 0), ("c", 0.5)]


def test_running_package_that_is_removed_is_ended_before_its_dependents_start() -> None:
    starts = []

    async def publish(name: str) -> None:
        starts.append((name, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(1)

    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]}, max_retries=3)
    answers: list[bool] = []
    result = go(
        scheduler,
        publish,
        (2, lambda: answers.append(scheduler.remove_package("a"))),
        (2.5, lambda: answers.append(scheduler.remove_package("a"))),
    )
    assert answers == [True, False]
    assert starts == [("a", 0), ("b", 3)]
    assert statuses(result) == {"a": "removed", "b": "published"}
    assert result.ok


def test_running_package_that_is_removed_with_a_block_blocks_its_dependents() -> None:
    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]})
    work = Work({"a": 10})
    result = go(scheduler, work, (2, lambda: scheduler.remove_package("a", block_dependents=True)))
    assert result.outcomes["b"].blocked_by == "a"


def test_removed_package_whose_work_gets_done_nevertheless_is_published() -> None:
    async def publish(_: str) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]})
    result = go(scheduler, publish, (2, lambda: scheduler.remove_package("a", True)))
    assert result.published == ("a", "b")


def test_package_waiting_for_a_retry_can_be_removed() -> None:
    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]}, max_retries=1, rng=Recorded(1))
    work = Work(errors={"a": [ValueError()]})
    result = go(scheduler, work, (1.5, lambda: scheduler.remove_package("a")))
    assert work.starts == [("a", 0), ("b", 1.5)]
    assert result.outcomes["a"].status is Status.REMOVED


def test_removing_a_blocked_package_frees_what_only_it_blocked() -> None:
    graph = {
        "bad": [],
        "middle": ["bad"],
        "end": ["middle"],
        "further": ["end"],
        "both": ["middle", "bad"],
        "slow": [],
    }
    events: list[Event] = []
    scheduler = Scheduler.from_graph(graph, observe=events.append)
    work = Work({"slow": 5}, {"bad": [ValueError()]})
    result = go(scheduler, work, (2, lambda: scheduler.remove_package("middle")))
    assert statuses(result) == {
        "bad": "failed",
        "both": "blocked",
        "middle": "removed",
        "end": "published",
        "further": "published",
        "slow": "published",
    }
    assert [e.name for e in events if isinstance(e, Unblocked)] == ["end", "further"]
    assert ("end", 2) in work.starts


def test_removing_one_of_two_blocked_dependencies_names_the_other_blocker() -> None:
    graph = {"bad": [], "worse": [], "x": ["bad"], "y": ["worse"], "z": ["x", "y"], "slow": []}
    scheduler = Scheduler.from_graph(graph)
    work = Work({"slow": 5, "worse": 1.5}, {"bad": [ValueError()], "worse": [ValueError()]})
    result = go(scheduler, work, (2, lambda: scheduler.remove_package("x")))
    assert result.outcomes["z"].blocked_by == "worse"


def test_removing_a_blocked_package_after_a_cancel_leaves_the_rest_cancelled() -> None:
    graph = {"bad": [], "middle": ["bad"], "slow": [], "x": ["slow"], "end": ["middle", "x"]}
    scheduler = Scheduler.from_graph(graph)
    work = Work({"slow": 5}, {"bad": [ValueError()]})
    actions = (2, scheduler.cancel), (3, lambda: scheduler.remove_package("middle"))
    result = go(scheduler, work, *actions)
    assert statuses(result)["end"] == "cancelled"
    assert result.outcomes["end"].blocked_by is None


def test_finished_dependency_of_a_running_package_cannot_be_removed() -> None:
    answers: list[bool] = []
    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]})
    result = go(scheduler, Work(), (1.5, lambda: answers.append(scheduler.remove_package("a"))))
    assert answers == [False]
    assert result.published == ("a", "b")


def test_removed_package_can_be_added_again() -> None:
    work = Work()
    scheduler = Scheduler.from_graph({"a": [], "b": []}, concurrency=1)
    result = go(
        scheduler,
        work,
        (0.5, lambda: scheduler.remove_package("b")),
        (0.6, lambda: scheduler.add_package("b", ["a"])),
    )
    assert result.published == ("a", "b")
    assert len(result.outcomes) == 2


def test_removing_an_unknown_package_is_false() -> None:
    assert Scheduler.from_graph({}).remove_package("ghost") is False


def test_mark_done_returns_what_became_ready_and_is_idempotent() -> None:
    scheduler = Scheduler.from_graph(DIAMOND)
    assert scheduler.mark_done("base") == ["left", "right"]
    assert scheduler.mark_done("base") == []
    assert scheduler.mark_done("left") == []
    assert scheduler.mark_done("right") == ["top"]
    assert scheduler.mark_done("ghost") == []


def test_mark_done_while_its_work_runs_releases_the_dependents() -> None:
    work = Work({"a": 5}, {"a": [ValueError()]})
    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]})
    with capture_logs() as logs:
        result = go(scheduler, work, (1, lambda: scheduler.mark_done("a")))
    assert work.starts == [("a", 0), ("b", 1)]
    assert work.ends[-1] == ("a", 5)
    assert result.published == ("a", "b")
    assert [entry["event"] for entry in logs] == ["work failed after it was marked done"]


def test_publish_function_may_call_back_before_it_returns_its_coroutine() -> None:
    def publish(name: str) -> Awaitable[None]:
        if name == "self-done":
            scheduler.mark_done(name)
        elif name == "self-removed":
            assert scheduler.remove_package(name)
        return asyncio.sleep(1)

    graph = {"self-done": [], "self-removed": [], "after": ["self-done", "self-removed"]}
    scheduler = Scheduler.from_graph(graph)
    result = go(scheduler, publish)
    assert statuses(result) == {
        "self-done": "published",
        "self-removed": "removed",
        "after": "published",
    }


# Lanes


def test_lane_has_its_own_limit() -> None:
    lanes = {f"n{i}": "npm" for i in range(4)} | {f"p{i}": "pypi" for i in range(4)}
    work = Work()
    scheduler = Scheduler.from_graph(
        dict.fromkeys(lanes, ()), concurrency=10, lanes=lanes, lane_limits={"npm": 1}
    )
    go(scheduler, work)
    assert [when for name, when in work.starts if name[0] == "n"] == [0, 1, 2, 3]
    assert [when for name, when in work.starts if name[0] == "p"] == [0, 0, 0, 0]


def test_lanes_share_scarce_slots() -> None:
    lanes = {f"n{i:02}": "npm" for i in range(20)} | {f"p{i:02}": "pypi" for i in range(20)}
    for concurrency in (1, 2, 4):
        work = Work()
        scheduler = Scheduler.from_graph(
            dict.fromkeys(lanes, ()), concurrency=concurrency, lanes=lanes
        )
        go(scheduler, work)
        first = Counter(name[0] for name in work.order[:20])
        assert first == {"n": 10, "p": 10}


def test_urgent_lane_cannot_starve_another() -> None:
    chain = {f"n{i}": [f"n{i - 1}"] if i else [] for i in range(50)}
    wide: dict[str, list[str]] = {f"w{i}": [] for i in range(50)}
    lanes = dict.fromkeys(chain, "npm") | dict.fromkeys(wide, "npm") | {"lonely": "pypi"}
    work = Work()
    go(Scheduler.from_graph(chain | wide | {"lonely": []}, concurrency=1, lanes=lanes), work)
    assert work.order.index("lonely") <= 1


def test_closed_lane_holds_neither_a_slot_nor_another_lane() -> None:
    lanes = {"n1": "npm", "n2": "npm", "p1": "pypi", "p2": "pypi"}
    work = Work()
    scheduler = Scheduler.from_graph(dict.fromkeys(lanes, ()), concurrency=1, lanes=lanes)
    scheduler.close_lane("npm", until=50)
    go(scheduler, work)
    assert work.starts == [("p1", 0), ("p2", 1), ("n1", 50), ("n2", 51)]


def test_lane_can_be_closed_for_good_and_opened_by_hand() -> None:
    work = Work()
    events: list[Event] = []
    scheduler = Scheduler.from_graph({"a": []}, observe=events.append)
    scheduler.close_lane("default", until=float("inf"))
    go(scheduler, work, (7, lambda: scheduler.close_lane("default", until=0)))
    assert work.starts == [("a", 7)]
    assert LaneOpened(lane="default") in events


def test_error_can_close_the_whole_lane() -> None:
    lanes = {"n1": "npm", "n2": "npm", "n3": "npm", "p1": "pypi"}
    limited = RetryAt("429", not_before=60, closes_lane=True)
    sooner = RetryAt("429", not_before=30, closes_lane=True)
    work = Work(errors={"n1": [limited], "n2": [sooner]})
    events: list[Event] = []
    scheduler = Scheduler.from_graph(
        dict.fromkeys(lanes, ()),
        max_retries=1,
        lanes=lanes,
        lane_limits={"npm": 2},
        observe=events.append,
    )
    assert go(scheduler, work).ok
    later = [(name, when) for name, when in work.starts if when]
    assert later == [("n1", 60), ("n2", 60), ("n3", 61)]
    assert [e for e in events if isinstance(e, LaneClosed)] == [LaneClosed(lane="npm", until=60)]


def test_package_can_be_added_to_a_new_lane() -> None:
    work = Work()
    scheduler = Scheduler.from_graph({"a": []}, concurrency=2)
    scheduler.add_package("b", lane="slow")
    scheduler.close_lane("slow", until=9)
    go(scheduler, work)
    assert work.starts == [("a", 0), ("b", 9)]


# Backpressure


def test_backpressure_can_delay_starts() -> None:
    async def wait(_: str) -> None:
        await asyncio.sleep(2)

    work = Work({"a": 10, "b": 10})
    go(Scheduler.from_graph({"a": [], "b": []}, backpressure=wait), work)
    assert work.starts == [("a", 2), ("b", 4)]


def test_refused_start_is_asked_for_again_when_a_job_ends() -> None:
    work = Work({"a": 3, "b": 4})
    asked: list[tuple[str, float]] = []

    async def one_at_a_time(name: str) -> bool:
        asked.append((name, asyncio.get_running_loop().time()))
        return not work.running

    go(Scheduler.from_graph({"a": [], "b": [], "c": []}, backpressure=one_at_a_time), work)
    assert work.starts == [("a", 0), ("b", 3), ("c", 7)]
    assert asked == [("a", 0), ("b", 0), ("b", 3), ("c", 3), ("c", 7)]


def test_refusal_with_nothing_in_flight_cannot_stop_the_run_for_ever() -> None:
    async def never(_: str) -> bool:
        return False

    work = Work()
    assert go(Scheduler.from_graph({"a": [], "b": []}, backpressure=never), work).ok
    assert work.starts == [("a", 0), ("b", 1)]


def test_pause_during_backpressure_holds_the_start() -> None:
    async def wait(_: str) -> None:
        await asyncio.sleep(2)

    work = Work()
    scheduler = Scheduler.from_graph({"a": []}, backpressure=wait)
    go(scheduler, work, (1, scheduler.pause), (10, scheduler.resume))
    assert work.starts == [("a", 12)]


def test_cancel_and_removal_during_backpressure() -> None:
    async def wait(_: str) -> None:
        await asyncio.sleep(1000)

    scheduler = Scheduler.from_graph({"a": []}, backpressure=wait)
    assert go(scheduler, Work(), (1, scheduler.cancel)).skipped == ("a",)

    async def brief(_: str) -> None:
        await asyncio.sleep(2)

    scheduler = Scheduler.from_graph({"a": [], "b": []}, backpressure=brief)
    work = Work()
    go(scheduler, work, (1, lambda: scheduler.remove_package("a")))
    assert work.starts == [("b", 4)]


def test_error_in_the_backpressure_hook_stops_the_run_and_is_raised() -> None:
    async def broken(name: str) -> bool:
        if name == "b":
            raise ZeroDivisionError
        return True

    work = Work({"a": 5})
    with pytest.raises(ZeroDivisionError):
        go(Scheduler.from_graph({"a": [], "b": []}, backpressure=broken), work)
    assert work.ends == [("a", 5)]
