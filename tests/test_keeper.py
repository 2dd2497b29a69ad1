from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from releasekit import keeper, process
from tests.test_process import has_ended

pytestmark = pytest.mark.anyio

DAEMON = """\
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[1]))
"""


def test_a_log_keeps_its_beginning_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LOG_LIMIT", 10)
    monkeypatch.setattr(keeper, "_LOG_END", 5)
    log = keeper.Log(str(tmp_path / "log"))
    for part in (b"beginning-", b"lost ", b"more", b"-the end"):
        log.write(part)
    log.close()
    assert (tmp_path / "log").read_bytes() == (b"beginning-\n[12 bytes were left out here]\ne end")


async def test_a_daemon_in_a_session_of_its_own_ends_with_its_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    argv = [sys.executable, "-c", DAEMON, "0.3"]
    await process.run(argv, cwd=tmp_path, env=os.environ, log=log)
    assert has_ended(int(log.read_text()))


def test_everything_ends_when_we_are_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"""
import asyncio, os, sys
from pathlib import Path
from releasekit import process
argv = [sys.executable, "-c", {DAEMON!r}, "600"]
asyncio.run(process.run(argv, cwd=Path.cwd(), env=os.environ, log=Path({str(log)!r})))
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parent.parent) as us:
        while not (log.exists() and log.read_text().endswith("\n")):
            assert us.poll() is None
        us.send_signal(signal.SIGKILL)
    assert has_ended(int(log.read_text()))


LOOK = """
import os, subprocess, sys
namespace = {"__name__": "keeper"}
exec(sys.argv[1], namespace)
namespace["hide_environment"]()
script = f"open('/proc/{os.getpid()}/environ').read()"
child = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
print("PermissionError" in child.stderr)
"""


def test_other_processes_of_the_user_cannot_read_our_environment() -> None:
    nobody = 65534 if os.getuid() == 0 else None  # root reads everything
    source = Path(keeper.__file__).read_text()
    try:
        child = subprocess.run(
            ["/usr/bin/python3", "-I", "-c", LOOK, source],
            user=nobody, check=True, capture_output=True, text=True, cwd="/", env={"TOKEN": "x"},
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no Python that another user may run")
    assert child.stdout == "True\n"


async def test_a_keeper_that_waits_takes_the_next_child_and_ends_when_there_is_none(
    tmp_path: Path,
) -> None:
    keepers = process.Keepers()
    await keepers.prepare(2, os.environ)
    waiting = [child.pid for child in keepers._waiting]
    log = tmp_path / "log"
    argv = [sys.executable, "-c", "import os; print(os.getppid(), os.getcwd(), os.environ['MINE'])"]
    await keepers.run(argv, cwd=tmp_path, env={**os.environ, "MINE": "a word"}, log=log, timeout=60)
    parent, words = log.read_text().split(" ", 1)
    assert int(parent) in waiting
    assert words == f"{tmp_path} a word\n"
    await keepers.close()
    assert all(has_ended(pid) for pid in waiting)


def test_a_keeper_that_waits_ends_when_we_are_killed() -> None:
    script = """
import asyncio, os
from releasekit import process
async def main():
    keepers = process.Keepers()
    await keepers.prepare(1, os.environ)
    print(keepers._waiting[0].pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE
    ) as us:
        assert us.stdout is not None
        keeper = int(us.stdout.readline())
        us.send_signal(signal.SIGKILL)
    assert has_ended(keeper)
