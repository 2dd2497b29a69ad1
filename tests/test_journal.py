from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from releasekit import events, journal
from releasekit.errors import DamagedJournal, ForeignJournal, JournalNotWritten
from releasekit.events import Event, RunEnded, RunStarted, Stage, StageStarted, UploadSent
from tests.faults import faulty_registry
from tests.sample import write_sample
from tests.test_control_socket import running
from tests.test_publish import pypi_option, served

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit

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
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    promised = json.loads(whole[:last].splitlines()[-1])["sum"]
    (tmp_path / journal.HEAD_NAME).write_text(f"{2:012d} {promised}\n")
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


def test_a_run_that_ended_well_is_known_by_its_first_and_last_line(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    began = RunStarted(run="r", command="publish", releasekit="1", commit=None, releases=())
    with journal.Journal(path) as book:
        book.append(began)
        assert journal.ended_well(path) is None
        book.append(StageStarted(stage=Stage.BUILD))
        book.append(RunEnded(ok=True))
    assert journal.ended_well(path) == began
    whole = path.read_bytes()
    for changed in (
        whole.replace(b'"ok":true', b'"ok":false'),
        whole[:-1],
        whole + b"{",
        b"".join([*whole.splitlines(keepends=True)[:1], *whole.splitlines(keepends=True)[2:]]),
        whole.replace(b'"releasekit":"1"', b'"releasekit":"2"'),
    ):
        path.write_bytes(changed)
        assert journal.ended_well(path) is None
    path.write_bytes(whole)
    path.with_name(journal.HEAD_NAME).unlink()
    assert journal.ended_well(path) is None


def test_a_run_that_ended_badly_did_not_end_well(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    with journal.Journal(path) as book:
        book.append(
            RunStarted(run="r", command="publish", releasekit="1", commit=None, releases=())
        )
        book.append(RunEnded(ok=False))
    assert journal.ended_well(path) is None


def test_a_full_disk_is_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / journal.FILE_NAME
    book = journal.Journal(path)
    book.append(EVENTS[0])
    real = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 20:  # the rest of a line, after a write that took what still fits
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:-10])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(JournalNotWritten, match="No space left"):
        book.append(EVENTS[1])
    monkeypatch.undo()
    assert journal.read(path) == journal.Replay(events=EVENTS[:1], torn=False)
    book.append(EVENTS[2])  # there is room again
    book.close()
    assert journal.read(path) == journal.Replay(events=(EVENTS[0], EVENTS[2]), torn=False)


@pytest.mark.parametrize("broken", ["fsync", "pwrite"])
def test_a_promise_that_cannot_be_kept_is_taken_back_in_both_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    (tmp_path / "copy").mkdir()
    paths = [tmp_path / journal.FILE_NAME, tmp_path / "copy" / journal.FILE_NAME]
    book = journal.Journal(paths[0], copy=paths[1])
    book.append(EVENTS[1])
    real, calls = getattr(os, broken), []

    def once_only(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:  # the copy's
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments)

    monkeypatch.setattr(os, broken, once_only)
    with pytest.raises(JournalNotWritten, match="Input/output error"):
        book.append(EVENTS[2])
    monkeypatch.undo()
    for path in paths:
        assert journal.read(path).events == EVENTS[1:2]
    book.append(EVENTS[2])
    book.close()
    for path in paths:
        assert journal.read(path).events == EVENTS[1:]


def test_a_journal_that_is_gone_is_missed_where_something_was_promised(tmp_path: Path) -> None:
    write(tmp_path / journal.FILE_NAME)
    (tmp_path / journal.FILE_NAME).unlink()
    assert journal.is_kept_in(tmp_path)
    with pytest.raises(DamagedJournal, match="it is missing: 3 lines were written") as caught:
        journal.read(tmp_path / journal.FILE_NAME)
    assert "releasekit publish --fresh" in str(caught.value.hint)


def test_a_head_that_is_gone_or_not_ours_is_missed(tmp_path: Path) -> None:
    write(tmp_path / journal.FILE_NAME)
    (tmp_path / journal.HEAD_NAME).write_text("000000000009 nonsense\n")
    with pytest.raises(DamagedJournal, match=r"journal\.head` beside it is not ours"):
        journal.read(tmp_path / journal.FILE_NAME)
    (tmp_path / journal.HEAD_NAME).unlink()
    with pytest.raises(DamagedJournal, match=r"journal\.head` beside it is missing"):
        journal.read(tmp_path / journal.FILE_NAME)


def test_a_kill_before_the_first_word_leaves_nothing_to_miss(tmp_path: Path) -> None:
    journal.Journal(tmp_path / journal.FILE_NAME).close()
    assert journal.read(tmp_path / journal.FILE_NAME).events == ()
    (tmp_path / journal.FILE_NAME).unlink()
    assert not journal.is_kept_in(tmp_path)


def test_a_journal_of_another_version_is_told_from_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / journal.FILE_NAME
    with monkeypatch.context() as later:
        later.setattr(events, "VERSION", 2)
        with journal.Journal(path) as book:
            book.append(
                RunStarted(run="r", command="publish", releasekit="9.1", commit=None, releases=())
            )
    with pytest.raises(ForeignJournal, match=r":1: written by releasekit 9\.1") as caught:
        journal.read(path)
    assert str(caught.value.hint).startswith("continue with releasekit 9.1; ")
    path.write_bytes(path.read_bytes().replace(b'"9.1"', b'"9.2"'))
    with pytest.raises(DamagedJournal, match="checksum"):
        journal.read(path)


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


def test_a_disk_that_is_full_while_uploading_stops_new_uploads_and_says_so(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={"one": (), "two": ("one",), "three": ()}, node={})
    gate = threading.Event()
    with (
        faulty_registry(pypi, gate=gate) as held,
        running(
            root, "publish", "--yes", "--concurrency", "1", "--registry", pypi_option(held)
        ) as run,
    ):
        first = run.until("upload-sent")
        [path] = root.glob(".releasekit/runs/*/journal.jsonl")
        # No file of that process may grow beyond the next half line.
        room = path.stat().st_size + 40
        resource.prlimit(run.child.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        gate.set()
        code, err = run.end()
    assert code == 1
    assert f"`{path}` cannot be written: File too large; nothing new was started" in err
    assert "hint: make room, then run the same command again" in err
    assert [event["file"] for event in run.events if event["event"] == "upload-sent"] == [
        first["file"]
    ]
    replay = journal.read(path)
    assert not replay.torn
    assert isinstance(replay.events[-1], UploadSent)
    there = {name: served(pypi, name) for name in ("one", "two", "three")}
    assert [len(files) for files in there.values()].count(0) == 2
    shown = releasekit("status", cwd=root)
    assert "unknown: pypi:" in shown.out
    again = releasekit("publish", "--yes", "--registry", pypi_option(pypi), cwd=root)
    assert again.code == 0, again.out + again.err
    for name, files in there.items():
        assert served(pypi, name).items() >= files.items()
        assert len(served(pypi, name)) == 2
