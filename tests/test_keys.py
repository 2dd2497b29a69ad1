from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit.ui.keys import Keys
from tests.faults import faulty_registry
from tests.sample import write_sample
from tests.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings

CHILD = """
import asyncio, sys, threading
from releasekit.ui.keys import Keys

async def main():
    done = asyncio.Event()
    with Keys({"x": lambda: print("pressed", flush=True), "q": done.set}) as keys:
        keys.start()
        print("listening", threading.active_count(), flush=True)
        if sys.argv[1] == "wait":
            await done.wait()
    # Nothing may be left that waits for a key: no task, no thread, no descriptor.
    watched = asyncio.get_running_loop()._selector.get_map()
    print("left", len(asyncio.all_tasks()), threading.active_count(), 0 in watched, flush=True)

asyncio.run(main())
print("ended", flush=True)
"""


def test_a_key_acts_without_enter_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", CHILD, "wait"], tmp_path) as terminal:
        terminal.until_shown("listening 1")
        assert terminal.modes() != terminal.before
        terminal.press("zx")
        terminal.until_shown("pressed")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before


def test_problem_7_keyboard_input_never_blocks_the_shutdown(tmp_path: Path) -> None:
    """Nobody presses a key; a listener that waits in a read would keep the end waiting."""
    with Terminal([sys.executable, "-c", CHILD, "leave"], tmp_path) as terminal:
        assert terminal.end() == 0
        assert "left 1 1 False\nended" in terminal.text
        assert terminal.is_as_before


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
