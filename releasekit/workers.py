"""How much runs at once, and the servers of ours that run it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from releasekit import process
from releasekit.errors import ServerEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

_T = TypeVar("_T")

# Below this, another build would make those that run swap or die.
MEMORY_RESERVE = 512 << 20
_LONGEST_ANSWER = 4 << 20


def available_memory() -> int | None:
    """Bytes that may still be used: what the machine has left, or our control group."""
    left = [_machine_memory(), _group_memory()]
    return min((amount for amount in left if amount is not None), default=None)


def _machine_memory() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _group_memory(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    # `max` where there is no limit; then only the machine's memory counts.
    with contextlib.suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text())
        held = dict(
            line.split() for line in (folder / "memory.stat").read_text().splitlines() if line
        )
        used = int((folder / "memory.current").read_text())
        return limit - used + int(held.get("inactive_file", 0))
    return None


async def detached(call: Callable[[], _T], *, seconds: float, name: str) -> _T:
    """In a thread that nobody waits for in the end: what it calls may never return."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        if not answer.done():
            act()

    def run() -> None:
        act: Callable[[], None]
        try:
            act = functools.partial(answer.set_result, call())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            act = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, act)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wait_for(answer, seconds)


class Slots:
    """So many builds at once, fewer while memory is short, and no new one after `stop`."""

    def __init__(self, width: int, *, memory: Callable[[], int | None] = available_memory) -> None:
        self.width = width
        self.stopped = False
        self._memory = memory
        self._running = 0
        self._waiting: list[asyncio.Future[None]] = []

    def stop(self) -> None:
        self.stopped = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _may_start(self) -> bool:
        if self._running == 0:
            return True
        if self._running >= self.width:
            return False
        left = self._memory()
        return left is None or left >= MEMORY_RESERVE

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[bool]:
        """A place to run in; False where nothing new may start."""
        # The end of another build is what wakes us: it frees a place and memory.
        while not self.stopped and not self._may_start():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self.stopped:
            yield False
            return
        self._running += 1
        try:
            yield True
        finally:
            self._running -= 1
            self._wake()


class JobServer:
    """A keeper of ours that answers JSON lines; `run` is its life."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._log = log
        self._numbers = itertools.count(1)
        self._stdin: asyncio.StreamWriter | None = None
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ended: ServerEnded | None = None
        self.ready: asyncio.Future[dict[str, Any]] = self._expect(0)

    def _expect(self, number: int) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        # Whoever waits reads it; a server that ends unasked has nobody waiting.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending[number] = future
        return future

    async def run(self) -> None:
        """Until its input is closed, it dies or we are cancelled; nothing of it stays behind."""
        child: asyncio.subprocess.Process | None = None
        try:
            child = await self._start()
            await self._read(child)
        except OSError as error:
            self._log.write_text(f"{self._argv[0]}: {error}\n")
        finally:
            if child is not None:
                await process.end_group(child)
            self._tell_the_end(child)

    async def _start(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as sink:
            child = await asyncio.create_subprocess_exec(
                *self._argv,
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
                limit=_LONGEST_ANSWER,
            )
        self._stdin = child.stdin
        return child

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        if child.stdout is not None:
            async for line in child.stdout:
                answer = json.loads(line)
                self._pending.pop(answer["id"]).set_result(answer)
        await child.wait()

    def _tell_the_end(self, child: asyncio.subprocess.Process | None) -> None:
        returncode = -1 if child is None or child.returncode is None else child.returncode
        tail = process.read_tail(self._log)
        self._ended = ServerEnded(argv=self._argv, returncode=returncode, tail=tail)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(self._ended)
        self._pending.clear()

    async def ask(self, **request: object) -> dict[str, Any]:
        await asyncio.shield(self.ready)
        if self._ended is not None or self._stdin is None:
            raise self._ended or ServerEnded(argv=self._argv, returncode=-1, tail="")
        number = next(self._numbers)
        answer = self._expect(number)
        self._stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # its end is told by `run`
            await self._stdin.drain()
        return await answer

    def close(self) -> None:
        """Let it end: it does so when its input closes."""
        if self._stdin is not None:
            self._stdin.close()


def width_of_machine() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
