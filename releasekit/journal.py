"""The events of a run on disk: append-only JSON lines, each with a checksum over all before it.

A line is the event's JSON with a last key `sum`: the first 16 hex digits of
sha256(previous sum + the line without `sum`). So an edited, missing or swapped line is found
where it stands, and a torn last line, as a power cut leaves it, is told apart from damage.

Beside it `journal.head` holds the number of lines and the sum after the last line that a promise
rests on, written after that line was on the disk: a journal that ends earlier was cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from releasekit import events
from releasekit.errors import DamagedJournal, ForeignEvent, ForeignJournal, JournalNotWritten

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

FILE_NAME = "journal.jsonl"
HEAD_NAME = "journal.head"
_HEAD = re.compile(r"([0-9]{12}) ([0-9a-f]{16})\n")
_SEED = "0" * 16


def new_run_id(now: float | None = None) -> str:
    """Sorts by time, unique without a counter."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}-{secrets.token_hex(3)}"


def _sum(previous: str, body: str) -> str:
    return hashlib.sha256((previous + body).encode()).hexdigest()[:16]


class Journal:
    """One run's journal, open for appending by the one process that holds the lock."""

    def __init__(self, path: Path, *, copy: Path | None = None) -> None:
        self.path = path
        self._sum = _SEED
        self._lines = 0
        self._files = [_File(path)]
        if copy is not None:
            self._files.append(_File(copy))

    def append(self, event: events.Event) -> None:
        """Wholly or not at all: half a line would make the next one look damaged."""
        body = json.dumps(events.to_json(event), ensure_ascii=False, separators=(",", ":"))
        checksum, number = _sum(self._sum, body), self._lines + 1
        line = f'{body[:-1]},"sum":"{checksum}"}}\n'.encode()
        at = self._files[0]
        try:
            for at in self._files:
                at.write(line)
            if event.durable:
                for at in self._files:
                    at.sync()
                for at in self._files:
                    at.promise(number, checksum)
        except OSError as error:
            for file in self._files:
                file.take_back()
            raise JournalNotWritten(path=at.path, reason=error.strerror or str(error)) from error
        for file in self._files:
            file.settle()
        self._sum, self._lines = checksum, number

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _File:
    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.path = path
        self._lines = os.open(path, flags | os.O_APPEND, 0o600)
        self._head = os.open(path.with_name(HEAD_NAME), flags, 0o600)
        self._size = self._written = 0
        self._promise = self._promised = b""
        _sync_folder(path.parent)

    def write(self, line: bytes) -> None:
        while line:
            count = os.write(self._lines, line)
            self._written += count
            line = line[count:]

    def sync(self) -> None:
        os.fsync(self._lines)

    def promise(self, lines: int, checksum: str) -> None:
        self._promise = f"{lines:012d} {checksum}\n".encode()
        os.pwrite(self._head, self._promise, 0)

    def settle(self) -> None:
        self._size, self._promised = self._written, self._promise

    def take_back(self) -> None:
        """To the last whole line. A full disk lets files shrink; one that is gone lets nothing."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._lines, self._size)
            os.pwrite(self._head, self._promised, 0)
            os.ftruncate(self._head, len(self._promised))
        self._written, self._promise = self._size, self._promised

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._lines)
            os.close(self._head)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    events: tuple[events.Event, ...]
    torn: bool
    """The last line was cut off while it was written; nothing before it is in doubt."""


def read(path: Path) -> Replay:
    """The events of a journal; raises where a whole line is not what was written."""
    head = _read_head(path)  # before the lines: a running release writes it after them
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        problem = "it is missing" + (f": {head[0]} lines were written" if head else "")
        raise DamagedJournal(path=path, line=1, problem=problem) from error
    found: list[events.Event] = []
    checksum = _SEED
    for number, line in enumerate(lines, start=1):
        checksum, event = _decode(path, number, line, checksum, lines[0])
        found.append(event)
        if head is not None and head[0] == number and head[1] != checksum:
            raise DamagedJournal(path=path, line=number, problem="it is not the one that was kept")
    if head is not None and len(lines) < head[0]:
        problem = f"it was cut: {head[0]} lines were written"
        raise DamagedJournal(path=path, line=len(lines) + 1, problem=problem)
    return Replay(events=tuple(found), torn=bool(rest))


def is_kept_in(folder: Path) -> bool:
    """Whether a run left a journal here, also where somebody has removed it since."""
    if (folder / FILE_NAME).is_file():
        return True
    head = folder / HEAD_NAME
    return head.is_file() and head.stat().st_size > 0


def read_state(path: Path) -> events.RunState:
    """A run as its journal tells it."""
    try:
        return events.fold(read(path).events)
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"its events do not belong together: {error!r}"
        raise DamagedJournal(path=path, line=1, problem=problem) from error


def first_event(path: Path) -> events.Event | None:
    """How a journal begins, also where it is damaged further down."""
    try:
        with path.open("rb") as file:
            line = file.readline()
        return _decode(path, 1, line[:-1], _SEED, line)[1] if line.endswith(b"\n") else None
    except (DamagedJournal, FileNotFoundError):
        return None


def ended_well(path: Path) -> events.RunStarted | None:
    """How a run began that ended well, from its first and last line alone.

    Fifty journals of 700 packages take ten seconds to read. What stands between these two lines
    matters to nobody who only asks what is unsettled.
    """
    try:
        head = _read_head(path)
        data = path.read_bytes()
        last = json.loads(data[data.rfind(b"\n", 0, -1) + 1 :])
    except (DamagedJournal, FileNotFoundError, ValueError):
        return None  # whoever reads the whole says what is wrong
    whole = data.endswith(b"\n") and head == (data.count(b"\n"), last.pop("sum", None))
    began = first_event(path)
    if not whole or last.get("event") != events.RunEnded.kind or last.get("ok") is not True:
        return None
    return began if isinstance(began, events.RunStarted) else None


def _read_head(path: Path) -> tuple[int, str] | None:
    """None where nothing was promised yet."""
    try:
        text = path.with_name(HEAD_NAME).read_text("ascii", "replace")
    except FileNotFoundError:
        # It is made before the first line.
        if path.is_file() and b"\n" in path.read_bytes():
            problem = f"`{HEAD_NAME}` beside it is missing"
            raise DamagedJournal(path=path, line=1, problem=problem) from None
        return None
    if not text:
        return None
    if (found := _HEAD.fullmatch(text)) is None:
        raise DamagedJournal(path=path, line=1, problem=f"`{HEAD_NAME}` beside it is not ours")
    return int(found[1]), found[2]


def _decode(
    path: Path, number: int, line: bytes, previous: str, first: bytes
) -> tuple[str, events.Event]:
    try:
        text = line.decode()
        body, _, tail = text.rpartition(',"sum":"')
        expected = _sum(previous, body + "}")
        if tail != f'{expected}"}}':
            raise DamagedJournal(path=path, line=number, problem="its checksum does not match")
        return expected, events.from_json(json.loads(body + "}"))
    except ForeignEvent as error:  # as it was written: only not by us
        raise ForeignJournal(path=path, line=number, writer=_writer(first)) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DamagedJournal(path=path, line=number, problem=str(error)) from error


def _writer(first: bytes) -> str | None:
    """The version of the releasekit that a run's first line names."""
    try:
        named = json.loads(first).get("releasekit")
    except (ValueError, AttributeError):
        return None
    return named if isinstance(named, str) else None
