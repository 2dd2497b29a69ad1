from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.events import Noted, fold
from releasekit.ui.keys import Keys
from tests.faults import faulty_registry
from tests.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings

# A child that leads a session of its own with the terminal as its controlling one.
CHILD = """
import asyncio, os, sys, time
from releasekit.ui.keys import Keys

async def main():
    done = asyncio.Event()
    with Keys({"x": lambda: print("pressed", flush=True), "q": done.set}) as keys:
        keys.start()
        print("listening", flush=True)
        if sys.argv[1] == "wait":
            await done.wait()
        else:
            await asyncio.sleep(0.2)
        started = time.perf_counter()
    print(f"ended {time.perf_counter() - started:.3f}", flush=True)

asyncio.run(main())
"""


def read_until(fd: int, wanted: str, seconds: float = 30) -> str:
    shown = ""
    os.set_blocking(fd, False)
    deadline = time.monotonic() + seconds
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        try:
            shown += os.read(fd, 65536).decode()
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break
    return shown


def spawn(argv: list[str], cwd: Path) -> tuple[int, int]:
    pid, leader = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execv(sys.executable, [sys.executable, *argv])  # noqa: S606
    return pid, leader


def modes(fd: int) -> list[object]:
    return termios.tcgetattr(fd)[:4]


def test_a_key_acts_without_enter_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    pid, leader = spawn(["-c", CHILD, "wait"], tmp_path)
    before = modes(leader)
    read_until(leader, "listening")
    assert modes(leader) != before
    os.write(leader, b"zx")
    read_until(leader, "pressed")
    os.write(leader, b"q")
    read_until(leader, "ended")
    assert modes(leader) == before
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(leader)


def test_problem_7_keyboard_input_never_blocks_the_shutdown(tmp_path: Path) -> None:
    """Nobody presses a key; a listener that waits in a read would keep the end waiting."""
    pid, leader = spawn(["-c", CHILD, "leave"], tmp_path)
    shown = read_until(leader, "ended")
    assert float(shown.split("ended ")[1].split()[0]) < 0.1
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(leader)


def test_it_is_silent_where_stdin_is_no_terminal() -> None:
    read, write = os.pipe()
    os.write(write, b"x")

    async def main() -> None:
        with Keys({"x": lambda: pytest.fail("a pipe is not a keyboard")}, fd=read) as keys:
            keys.start()
            await asyncio.sleep(0.05)

    asyncio.run(main())
    os.close(read)
    os.close(write)


def publish_command(pypi: RegistrySettings, *extra: str) -> list[str]:
    option = f"pypi={pypi.upload_url},{pypi.index_url}"
    return ["-m", "releasekit", "publish", "--progress", "plain", *extra, "--registry", option]


def test_a_person_answers_pauses_goes_on_and_quits(tmp_path: Path, pypi: RegistrySettings) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    with faulty_registry(pypi, delay=0.5) as slow:
        pid, leader = spawn(publish_command(slow), root)
        read_until(leader, "Publish?")
        os.write(leader, b"y\n")
        read_until(leader, "uploading")
        os.write(leader, b"p")
        read_until(leader, "paused between uploads")
        # What is in flight finishes; then nothing starts.
        read_until(leader, "pypi:acme-text  published")
        with pytest.raises(AssertionError):
            read_until(leader, "pypi:acme-models  uploading", seconds=1.5)
        os.write(leader, b"r")
        read_until(leader, "pypi:acme-models  uploading")
        os.write(leader, b"q")
        shown = read_until(leader, "to continue:")
        assert "1 cancelled" in shown
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        os.close(leader)


def in_background(pypi: RegistrySettings, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *publish_command(pypi, "--yes")],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines_until(child: subprocess.Popen[str], wanted: str) -> str:
    assert child.stdout is not None
    shown = ""
    for line in child.stdout:
        shown += line
        if wanted in line:
            return shown
    raise AssertionError(shown)


def test_signals_pause_and_resume_from_outside(tmp_path: Path, pypi: RegistrySettings) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    with faulty_registry(pypi, delay=0.3) as slow:
        child = in_background(slow, root)
        lines_until(child, "to publish")
        child.send_signal(signal.SIGUSR1)  # before the uploads: the wish is kept
        lines_until(child, "paused between uploads")
        child.send_signal(signal.SIGUSR2)
        shown, _ = child.communicate(timeout=60)
    assert "going on" in shown
    assert "3 published" in shown
    assert child.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_uploading_stops_gently_or_at_once(
    tmp_path: Path, pypi: RegistrySettings, number: signal.Signals
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    # Longer than the two seconds that SIGTERM grants.
    with faulty_registry(pypi, delay=0.5 if number is signal.SIGINT else 4) as slow:
        child = in_background(slow, root)
        lines_until(child, "uploading acme_text")
        child.send_signal(number)
        shown, _ = child.communicate(timeout=60)
    assert child.returncode == 3
    if number is signal.SIGTERM:
        assert "stopped by SIGTERM" in shown
        [file] = root.glob(".releasekit/runs/*/journal.jsonl")
        state = fold(journal.read(file).events)
        assert state.ok is False
        held = state.releases["pypi:acme-text"]
        assert held.sent > held.confirmed  # may be there: only the registry knows
        assert "unknown: pypi:acme-text" in shown
        noted = [event for event in journal.read(file).events if isinstance(event, Noted)]
        assert [note.package for note in noted] == ["pypi:acme-text"]
    else:
        assert "pypi:acme-text  published" in shown
        assert "2 cancelled" in shown
        again = in_background(pypi, root)
        shown, _ = again.communicate(timeout=60)
        assert again.returncode == 0
        assert "2 published · 1 already there" in shown
