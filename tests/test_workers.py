from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit.errors import ServerEnded
from releasekit.workers import MEMORY_RESERVE, JobServer, Slots, available_memory

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Work:
    """Jobs that end when told, and how many of them ran at once."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.running: list[int] = []
        self.refused: list[int] = []
        self.most = 0
        self.ends = {number: asyncio.Event() for number in range(4)}

    async def run(self, number: int) -> None:
        async with self.slots.taken() as may_start:
            if not may_start:
                self.refused.append(number)
                return
            self.running.append(number)
            self.most = max(self.most, len(self.running))
            await self.ends[number].wait()
            self.running.remove(number)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    work = Work(Slots(2, memory=lambda: None))
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(work.run(number))
        await settle()
        assert work.running == [0, 1]
        work.ends[0].set()
        await settle()
        assert work.running == [1, 2]
        for end in work.ends.values():
            end.set()
    assert work.most == 2


async def test_short_memory_delays_starts_but_never_the_only_one() -> None:
    left = MEMORY_RESERVE - 1
    work = Work(Slots(4, memory=lambda: left))
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work.run(number))
        await settle()
        assert work.running == [0]
        left = MEMORY_RESERVE
        work.ends[0].set()
        await settle()
        assert work.running == [1, 2]
        for end in work.ends.values():
            end.set()


async def test_after_a_stop_nothing_new_starts_and_what_runs_goes_on() -> None:
    work = Work(Slots(1, memory=lambda: None))
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work.run(number))
        await settle()
        work.slots.stop()
        await settle()
        assert work.running == [0]
        assert work.refused == [1, 2]
        work.ends[0].set()


def test_memory_is_read_where_the_system_tells_it() -> None:
    left = available_memory()
    assert left is None or left > 0


SERVER = """
import json, sys
print(json.dumps({"id": 0, "problem": None}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["say"] == "die":
        sys.exit("a last word")
    print(json.dumps({"id": request["id"], "said": request["say"]}), flush=True)
"""


async def test_a_server_answers_until_it_is_closed(tmp_path: Path) -> None:
    server = JobServer([sys.executable, "-c", SERVER], cwd=tmp_path, env={}, log=tmp_path / "log")
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        answers = await asyncio.gather(*(server.ask(say=number) for number in range(5)))
        assert [answer["said"] for answer in answers] == [0, 1, 2, 3, 4]
        server.close()


async def test_who_waits_for_a_server_that_dies_is_told(tmp_path: Path) -> None:
    server = JobServer([sys.executable, "-c", SERVER], cwd=tmp_path, env={}, log=tmp_path / "log")
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        with pytest.raises(ServerEnded, match="a last word"):
            await server.ask(say="die")
        with pytest.raises(ServerEnded):
            await server.ask(say="anyone?")


async def test_a_server_that_cannot_start_is_told_to_who_asks(tmp_path: Path) -> None:
    server = JobServer(["/no/such/python"], cwd=tmp_path, env={}, log=tmp_path / "log")
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())
        with pytest.raises(ServerEnded, match="No such file"):
            await server.ask(say="hello")
