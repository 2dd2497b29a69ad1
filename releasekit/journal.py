"""The events of a run on disk: append-only JSON lines, each with a checksum over all before it.

A line is the event's JSON with a last key `sum`: the first 16 hex digits of
sha256(previous sum + the line without `sum`). So an edited, missing or swapped line is found
where it stands, and a torn last line, as a power cut leaves it, is told apart from damage.
"""

from __future__ import annotations

import hashlib
import json
import os
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
_SEED = "0" * 16


def new_run_id(now: float | None = None) -> str:
    """Sorts by time, unique without a counter."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}-{secrets.token_hex(3)}"


def _sum(previous: str, body: str) -> str:
    return hashlib.sha256((previous + body).encode()).hexdigest()[:16]


class Journal:
    """One run's journal, open for appending by the one process that holds the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sum = _SEED
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        _sync_folder(path.parent)

    def append(self, event: events.Event) -> None:
        body = json.dumps(events.to_json(event), ensure_ascii=False, separators=(",", ":"))
        self._sum = _sum(self._sum, body)
        line = f'{body[:-1]},"sum":"{self._sum}"}}\n'.encode()
        while line:
            line = line[os.write(self._descriptor, line) :]
        if event.durable:
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
    *lines, rest = path.read_bytes().split(b"\n")
    found: list[events.Event] = []
    checksum = _SEED
    for number, line in enumerate(lines, start=1):
        checksum, event = _decode(path, number, line, checksum)
        found.append(event)
    return Replay(events=tuple(found), torn=bool(rest))


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
