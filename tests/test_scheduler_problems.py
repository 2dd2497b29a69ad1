from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from structlog.testing import capture_logs

from releasekit.scheduler import (
    Event,
    Finished,
    Paused,
    Result,
    Resumed,
    Scheduler,
)
from tests.scheduled_work import Work, at, go, statuses
from tests.virtual_time import run

# The nine problems of concurrent publishing


def test_problem_1_level_lockstep_wastes_time() -> None:
    """C and D need only the quick A: they do not wait for B, which is on A's level."""
    work = Work({"A": 1, "B": 30})
    go(Scheduler.from_graph({"A": [], "B": [], "C": ["A"], "D": ["A"], "E": ["B"]}), work)
    assert work.starts == [("A", 0), ("B", 0), ("C", 1), ("D", 1), ("E", 30)]


def test_problem_2_a_queue_has_no_remove() -> None:
    """Packages that are removed while they stand in the queue, and one that comes back."""
    names = [f"p{i}" for i in range(20)]
    work = Work()
    scheduler = Scheduler.from_graph(dict.fromkeys(names, ()), concurrency=1)

    def remove() -> None:
        for name in names[1::2]:
            assert scheduler.remove_package(name)
        assert scheduler.add_package("p1")

    result = go(scheduler, work, (0.5, remove))
    assert work.order == [*names[::2], "p1"]
    assert len(result.outcomes) == 20
    assert Counter(statuses(result).values()) == {"published": 11, "removed": 9}


def test_problem_3_join_hangs_on_blocked_dependents() -> None:
    """Nobody ever starts the dependents of a failure: the run ends with it, not a tick later."""
    graph = {"a": [], "b": ["a"], "c": ["b"], "d": ["b", "c"]}

    async def main() -> float:
        result = await Scheduler.from_graph(graph).run(Work(errors={"a": [ValueError()]}))
        assert result.skipped == ("b", "c", "d")
        return asyncio.get_running_loop().time()

    assert run(main()) == 1


@pytest.mark.parametrize("how", ["raises", "cancels its task", "is cancelled by a friend"])
def test_problem_4_cancelled_error_skips_the_bookkeeping(how: str) -> None:
    async def publish(name: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        if name != "bad":
            await asyncio.sleep(1)
        elif how == "raises":
            raise asyncio.CancelledError
        elif how == "cancels its task":
            task.cancel()
            await asyncio.sleep(1)
        else:
            at(0.5, task.cancel)
            await asyncio.sleep(1)

    graph = {"bad": [], "child": ["bad"], **{f"p{i}": [] for i in range(5)}}
    result = go(Scheduler.from_graph(graph, concurrency=1), publish)
    assert set(result.failed) == {"bad"}
    assert result.skipped == ("child",)
    assert len(result.published) == 5


@pytest.mark.parametrize("ending", ["return", "error", "cancelled", "interrupt"])
def test_problem_5_what_was_changed_is_put_back_however_the_run_ends(ending: str) -> None:
    """The scheduler's own share: signal handlers. releasekit.pins owns the files."""

    def mine(*_: object) -> None: ...

    def observe(event: Event) -> None:
        if isinstance(event, Finished) and ending == "error":
            raise OSError
        if isinstance(event, Finished) and ending == "interrupt":
            raise KeyboardInterrupt

    async def main() -> None:
        scheduler = Scheduler.from_graph({"a": []}, observe=observe)
        async with asyncio.timeout(0.5 if ending == "cancelled" else None):
            await scheduler.run(Work(), handle_signals=True)

    before = signal.signal(signal.SIGUSR1, mine), signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    expected = {"error": OSError, "cancelled": TimeoutError, "interrupt": KeyboardInterrupt}
    try:
        with pytest.raises(expected[ending]) if ending in expected else nullcontext():
            run(main())
        assert signal.getsignal(signal.SIGUSR1) is mine
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGUSR2, before[1])


# The scheduler reads no file and no key: problem 5 as a whole is tests/test_pins.py's, problem 6
# (two runs that race for the lock) tests/test_lock.py's, and problem 7 (a keyboard that blocks the
# shutdown) tests/test_keys.py's. The tests there carry the problems' numbers.


def test_problem_8_double_completion() -> None:
    """d is blocked by two failures at once and marked done, and b is done while it fails."""
    graph = {"a": [], "b": [], "c": ["a"], "d": ["a", "b", "c"], "e": ["b"], "slow": []}
    events: list[Event] = []
    scheduler = Scheduler.from_graph(graph, observe=events.append)
    work = Work({"slow": 5, "b": 2}, {"a": [ValueError()], "b": [ValueError()]})
    with capture_logs():
        result = go(
            scheduler,
            work,
            (1.5, lambda: scheduler.mark_done("b")),
            (1.6, lambda: scheduler.mark_done("b")),
            (1.7, lambda: scheduler.mark_done("d")),
            (3, lambda: scheduler.mark_done("a")),
        )
    finished = [event.outcome.name for event in events if isinstance(event, Finished)]
    assert sorted(finished) == sorted(graph)
    assert statuses(result) == {
        "a": "failed",
        "c": "blocked",
        "d": "blocked",
        "b": "published",
        "e": "published",
        "slow": "published",
    }
    assert scheduler.stats().finished == len(graph)


def test_problem_9_signal_handlers_outside_of_the_main_thread() -> None:
    def in_thread() -> Result:
        with capture_logs() as logs:
            result = asyncio.run(
                Scheduler.from_graph({"a": []}).run(Work({"a": 0}), handle_signals=True)
            )
        assert [(entry["event"], entry["log_level"]) for entry in logs] == [
            ("signals skipped", "debug")
        ]
        return result

    with ThreadPoolExecutor() as threads:
        assert threads.submit(in_thread).result().ok


# Signals


@pytest.mark.anyio
async def test_sigusr1_pauses_and_sigusr2_resumes() -> None:
    events: list[Event] = []
    changed = asyncio.Event()
    a_finished = asyncio.Event()

    def observe(event: Event) -> None:
        events.append(event)
        if isinstance(event, Paused | Resumed):
            changed.set()
        if isinstance(event, Finished):
            a_finished.set()

    gate = asyncio.Event()

    async def publish(name: str) -> None:
        if name == "a":
            await gate.wait()

    scheduler = Scheduler.from_graph({"a": [], "b": ["a"]}, observe=observe)
    running = asyncio.create_task(scheduler.run(publish, handle_signals=True))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGUSR1)
    await changed.wait()
    assert scheduler.is_paused
    gate.set()
    await a_finished.wait()
    assert scheduler.stats().ready == 1
    os.kill(os.getpid(), signal.SIGUSR2)
    assert (await running).ok


def test_signals_are_left_alone_unless_asked_for() -> None:
    before = signal.getsignal(signal.SIGUSR1)

    async def publish(_: str) -> None:
        assert signal.getsignal(signal.SIGUSR1) is before

    assert asyncio.run(Scheduler.from_graph({"a": []}).run(publish)).ok


def test_platform_without_these_signals_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGUSR1")
    monkeypatch.delattr(signal, "SIGUSR2")
    with capture_logs() as logs:
        scheduler = Scheduler.from_graph({"a": []})
        assert asyncio.run(scheduler.run(Work({"a": 0}), handle_signals=True)).ok
    assert logs[0]["reason"] == "this platform has none"


def test_importable_where_these_signals_do_not_exist() -> None:
    code = "import signal; del signal.SIGUSR1, signal.SIGUSR2; import releasekit.scheduler"
    subprocess.run([sys.executable, "-c", code], check=True)
