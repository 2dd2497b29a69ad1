from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.errors import DamagedJournal
from releasekit.events import Event, RunEnded, Stage, StageStarted, UploadSent

if TYPE_CHECKING:
    from pathlib import Path

EVENTS: tuple[Event, ...] = (
    StageStarted(stage=Stage.BUILD),
    UploadSent(package="npm:ü", file="ü \u2028-1.tgz", sha256="aa"),
    RunEnded(ok=True),
)


def write(path: Path) -> bytes:
    with journal.Journal(path) as book:
        for event in EVENTS:
            book.append(event)
    return path.read_bytes()


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "journal.jsonl")
    replay = journal.read(tmp_path / "journal.jsonl")
    assert replay.events == EVENTS
    assert not replay.torn


def test_a_line_is_json_that_any_program_reads(tmp_path: Path) -> None:
    lines = write(tmp_path / "journal.jsonl").decode().split("\n")
    assert json.loads(lines[0])["event"] == "stage-started"
    assert len(json.loads(lines[0])["sum"]) == 16


def test_a_torn_last_line_is_told_and_harms_nothing_before_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write(path)
    (tmp_path / journal.HEAD_NAME).unlink()  # it is written after the line
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        replay = journal.read(path)
        assert replay.events == EVENTS[:-1]
        assert replay.torn == (end > last)


def test_every_changed_byte_of_a_whole_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write(path)
    for position in range(whole.rstrip(b"\n").rindex(b"\n")):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamagedJournal):
            journal.read(path)


def test_a_missing_a_doubled_and_a_swapped_line_are_found_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first, second, third = write(path).splitlines(keepends=True)
    for lines, where in (
        ((second, third), 1),
        ((first, third), 2),
        ((first, first, second), 2),
        ((second, first, third), 1),
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(DamagedJournal, match=f"jsonl:{where}:"):
            journal.read(path)


def test_a_journal_that_lost_whole_lines_at_its_end_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first, second, third = write(path).splitlines(keepends=True)
    for lines in ((first, second), (first, second, third[:-3]), (first,), ()):
        path.write_bytes(b"".join(lines))
        with pytest.raises(DamagedJournal, match="it was cut: 3 lines were written"):
            journal.read(path)


def test_a_copy_holds_the_same_lines_and_promises(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / journal.FILE_NAME
    with journal.Journal(tmp_path / journal.FILE_NAME, copy=copy) as book:
        for event in EVENTS[:2]:
            book.append(event)
            assert copy.read_bytes() == (tmp_path / journal.FILE_NAME).read_bytes()
    assert journal.read(copy).events == EVENTS[:2]
    copy.write_bytes(b"")
    with pytest.raises(DamagedJournal):
        journal.read(copy)


def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "journal.jsonl")
    with pytest.raises(FileExistsError):
        journal.Journal(tmp_path / "journal.jsonl")


def test_a_full_disk_is_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = journal.Journal(tmp_path / "journal.jsonl")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        book.append(EVENTS[0])
    monkeypatch.undo()
    book.close()


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from releasekit import journal
from releasekit.events import RunEnded
book = journal.Journal(Path(sys.argv[1]))
book.append(RunEnded(ok=True, at=1.0))
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "journal.jsonl"
    child = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert journal.read(path).events == (RunEnded(ok=True, at=1.0),)


def test_run_ids_sort_by_time_and_do_not_repeat() -> None:
    assert journal.new_run_id(0.0) < journal.new_run_id(1_800_000_000.0)
    assert len({journal.new_run_id(0.0) for _ in range(100)}) == 100
