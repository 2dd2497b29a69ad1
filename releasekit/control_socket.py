"""Wishes from other terminals: a Unix socket in the journal's folder, there while the lock is held.

One line of JSON asks, one answers. Whoever asks to `follow` then gets the run's events, first those
that were, then each as it happens: what the journal holds, without waiting for the journal.

The socket lies beside the lock and not in a runtime folder: containers that share the checkout
share the lock, so they must meet here too; nothing sweeps the place, and whoever may not enter the
folder cannot ask. An address takes about a hundred bytes and repositories lie deeper, so a long
path is reached through a descriptor of its folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import structlog

from releasekit import events
from releasekit.errors import (
    Interrupted,
    Locked,
    NeedsRecovery,
    NoAnswer,
    NothingRunning,
    NotListening,
    ReleaseKitError,
    UsageError,
    WishRefused,
)
from releasekit.lock import holder

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable, Iterator
    from io import BufferedReader
    from pathlib import Path

log: structlog.stdlib.BoundLogger = structlog.get_logger()

FILE_NAME = "control.sock"
VERSION = 1
LONGEST_ADDRESS = 100
ANSWER_WITHIN = 10.0
"""A loop that reads a large workspace is busy for a while; one that is stopped stays silent."""
FLUSH_WITHIN = 0.5
"""For the last events to reach who follows: a reader that hangs must not keep a run from ending."""
_BATCH = 200


class Wish(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FOLLOW = "follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a wish."""

    done: bool
    message: str
    in_flight: int = 0
    """Uploads that finish first."""


# Which of them an error is decides the exit code, also in the terminal that follows.
_FAMILIES = {kind.__name__: kind for kind in (UsageError, Interrupted, Locked, NeedsRecovery)}


class Listener:
    """The side of the run. Everything here belongs to the thread of the event loop."""

    def __init__(self, grant: Callable[[Wish], Answer]) -> None:
        self._grant = grant
        self._told: list[events.Event] = []
        self._error: dict[str, str | None] | None = None
        self._over = False
        self._followers: set[_Follower] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, event: events.Event) -> None:
        if not event.passing:
            self._told.append(event)
        for follower in self._followers:
            if not event.passing:
                follower.news.set()
            elif follower.is_idle(len(self._told)):
                follower.writer.write(_line(event))

    def fail(self, error: BaseException) -> None:
        """Tell those who follow why there is no more."""
        if isinstance(error, ReleaseKitError):
            kind = next((name for name, kind in _FAMILIES.items() if isinstance(error, kind)), "")
            self._error = {"kind": kind, "message": error.message, "hint": error.hint}
        elif isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
            self._error = {"kind": Interrupted.__name__, "message": "it was stopped", "hint": None}
        else:
            self._error = {"kind": "", "message": f"it failed: {error}", "hint": None}

    async def close(self) -> None:
        self._over = True
        for follower in self._followers:
            follower.news.set()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=FLUSH_WITHIN)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):  # it left, or sent more than a line holds
            try:
                wish = _wish(await reader.readline())
                if wish is Wish.FOLLOW:
                    await self._follow(writer)
                elif wish is None:
                    no = Answer(done=False, message="this run knows no such wish")
                    writer.write(_encoded(no))
                else:
                    writer.write(_encoded(self._grant(wish)))
                writer.close()
                await writer.wait_closed()
            finally:
                writer.transport.abort()  # what it has not read by now is lost on it

    async def _follow(self, writer: StreamWriter) -> None:
        follower = _Follower(writer)
        self._followers.add(follower)
        try:
            writer.write(_encoded({"done": True, "message": "", "replayed": len(self._told)}))
            while True:
                while follower.sent < len(self._told):
                    batch = self._told[follower.sent : follower.sent + _BATCH]
                    writer.write(b"".join(_line(event) for event in batch))
                    follower.sent += len(batch)
                    await writer.drain()
                if self._over:
                    break
                follower.news.clear()
                await follower.news.wait()
            if self._error is not None:
                writer.write(_encoded({"error": self._error}))
        finally:
            self._followers.discard(follower)


class _Follower:
    def __init__(self, writer: StreamWriter) -> None:
        self.writer = writer
        self.sent = 0
        self.news = asyncio.Event()

    def is_idle(self, told: int) -> bool:
        """It has all that was told and has read it: then it may have what passes as well."""
        return self.sent == told and not self.writer.transport.get_write_buffer_size()


@contextlib.asynccontextmanager
async def listening(home: Path, grant: Callable[[Wish], Answer]) -> AsyncIterator[Listener]:
    """For who holds the lock of `home`. A folder that can hold no socket ends no release."""
    listener = Listener(grant)
    path = home / FILE_NAME
    try:
        server = await asyncio.start_server(listener.connected, sock=_bound(path))
    except OSError as error:
        log.warning("no socket for pause, resume and cancel", path=str(path), reason=str(error))
        yield listener
        return
    try:
        yield listener
    except BaseException as error:
        listener.fail(error)
        raise
    finally:
        server.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        await listener.close()


def _bound(path: Path) -> socket.socket:
    """What lies there is a dead run's: the lock is ours."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # no moment in which others could connect
    try:
        with _address(path) as address:
            listening.bind(address)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(home: Path, wish: Wish) -> Answer:
    """Tell the running release; `WishRefused` where it does not do it."""
    with _connected(home, wish) as (_, answers):
        body = _answer(home, answers)
    answer = Answer(**{name: body[name] for name in ("done", "message", "in_flight")})
    if not answer.done:
        raise WishRefused(message=answer.message)
    return answer


@contextlib.contextmanager
def followed(home: Path) -> Iterator[tuple[int, Iterator[events.Event]]]:
    """How many events were before, and all of them, to the last one of the run."""
    with _connected(home, Wish.FOLLOW) as (connection, lines):
        body = _answer(home, lines)
        connection.settimeout(None)  # a paused run is silent
        yield int(body["replayed"]), _events(lines)


def _events(lines: BufferedReader) -> Iterator[events.Event]:
    for line in lines:
        if not line.endswith(b"\n"):
            return  # it was killed in this moment
        body = json.loads(line)
        if "error" in body:
            error = body["error"]
            kind = _FAMILIES.get(error["kind"], ReleaseKitError)
            raise kind(error["message"], hint=error["hint"])
        yield events.from_json(body)


@contextlib.contextmanager
def _connected(home: Path, wish: Wish) -> Iterator[tuple[socket.socket, BufferedReader]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_WITHIN)
        try:
            with _address(home / FILE_NAME) as address:
                connection.connect(address)
            connection.sendall(_encoded({"wish": wish}))
        except TimeoutError as error:
            raise NoAnswer(holder=str(holder(home))) from error
        except OSError as error:
            running = holder(home)
            if running is None:
                raise NothingRunning from error
            raise NotListening(holder=str(running), reason=error.strerror or "") from error
        with connection.makefile("rb") as answers:
            yield connection, answers


def _answer(home: Path, answers: BufferedReader) -> dict[str, Any]:
    try:
        line = answers.readline()
    except TimeoutError as error:
        raise NoAnswer(holder=str(holder(home))) from error
    except ConnectionError:
        line = b""
    if not line.endswith(b"\n"):  # it ended in this moment
        raise NothingRunning
    body: dict[str, Any] = json.loads(line)
    return body


def _wish(line: bytes) -> Wish | None:
    try:
        return Wish(json.loads(line)["wish"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _line(event: events.Event) -> bytes:
    return json.dumps(events.to_json(event), ensure_ascii=False).encode() + b"\n"


def _encoded(body: Answer | dict[str, Any]) -> bytes:
    fields = asdict(body) if isinstance(body, Answer) else body
    return json.dumps({"v": VERSION, **fields}, ensure_ascii=False).encode() + b"\n"
