"""The events of a run on disk: append-only JSON lines, each with a checksum over all before it.

A line is the event's JSON with a last key `sum`: the first 16 hex digits of
sha256(previous sum + the line without `sum`). So an edited, missing or swapped line is found
where it stands, and a torn last line, as a power cut leaves it, is told apart from damage.

Beside it `journal.head` holds the number of lines and the sum after the last line that a promise
rests on, written after that line was on the disk: a journal that ends earlier was cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from releasekit import events
from releasekit.errors import DamagedJournal, ForeignEvent

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
        body = json.dumps(events.to_json(event), ensure_ascii=False, separators=(",", ":"))
        self._sum = _sum(self._sum, body)
        self._lines += 1
        line = f'{body[:-1]},"sum":"{self._sum}"}}\n'.encode()
        for file in self._files:
            file.write(line)
        if event.durable:
            for file in self._files:
                file.promise(self._lines, self._sum)

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
        self._lines = os.open(path, flags | os.O_APPEND, 0o600)
        self._head = os.open(path.with_name(HEAD_NAME), flags, 0o600)
        _sync_folder(path.parent)

    def write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._lines, line) :]

    def promise(self, lines: int, checksum: str) -> None:
        os.fsync(self._lines)
        os.pwrite(self._head, f"{lines:012d} {checksum}\n".encode(), 0)

    def close(self) -> None:
        os.fsync(self._lines)
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
    *lines, rest = path.read_bytes().split(b"\n")
    found: list[events.Event] = []
    checksum = _SEED
    for number, line in enumerate(lines, start=1):
        checksum, event = _decode(path, number, line, checksum)
        found.append(event)
        if head is not None and head[0] == number and head[1] != checksum:
            raise DamagedJournal(path=path, line=number, problem="it is not the one that was kept")
    if head is not None and len(lines) < head[0]:
        problem = f"it was cut: {head[0]} lines were written"
        raise DamagedJournal(path=path, line=len(lines) + 1, problem=problem)
    return Replay(events=tuple(found), torn=bool(rest))


def read_state(path: Path) -> events.RunState:
    """A run as its journal tells it."""
    try:
        return events.fold(read(path).events)
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"its events do not belong together: {error!r}"
        raise DamagedJournal(path=path, line=1, problem=problem) from error


def first_event(path: Path) -> events.Event | None:
    """How a journal begins, also where it is damaged further down."""
    line, end, _ = path.read_bytes().partition(b"\n")
    try:
        return _decode(path, 1, line, _SEED)[1] if end else None
    except DamagedJournal:
        return None


def _read_head(path: Path) -> tuple[int, str] | None:
    try:
        found = _HEAD.fullmatch(path.with_name(HEAD_NAME).read_text("ascii", "replace"))
    except FileNotFoundError:
        return None
    return (int(found[1]), found[2]) if found else None


def _decode(path: Path, number: int, line: bytes, previous: str) -> tuple[str, events.Event]:
    try:
        text = line.decode()
        body, _, tail = text.rpartition(',"sum":"')
        expected = _sum(previous, body + "}")
        if tail != f'{expected}"}}':
            raise DamagedJournal(path=path, line=number, problem="its checksum does not match")
        return expected, events.from_json(json.loads(body + "}"))
    except (UnicodeDecodeError, json.JSONDecodeError, ForeignEvent) as error:
        raise DamagedJournal(path=path, line=number, problem=str(error)) from error
