from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from releasekit import process
from releasekit.errors import ChildFailed, ChildTimedOut, ToolMissing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def has_ended(pid: int) -> bool:
    """A killed process takes a moment to go."""
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whose parent is gone is reaped by init at some later time.
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a kernel file
        return stat.read().rpartition(")")[2].split()[0] != "Z"


async def test_a_child_that_exits_zero_leaves_its_output_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    await process.run(python(script), cwd=tmp_path, env=os.environ, log=log)
    assert log.read_text() == "out\nerr\n"


async def test_every_other_exit_code_is_loud_and_shows_the_end_of_the_log(tmp_path: Path) -> None:
    script = "print('x' * 10_000); print('the last word'); raise SystemExit(7)"
    with pytest.raises(ChildFailed, match="exit code 7") as caught:
        await process.run(python(script), cwd=tmp_path, env=os.environ, log=tmp_path / "log")
    assert caught.value.message.endswith("the last word")
    assert len(caught.value.message) < 5000
    assert str(tmp_path / "log") in (caught.value.hint or "")


async def test_a_child_killed_by_a_signal_is_loud(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ChildFailed, match="signal 9"):
        await process.run(python(script), cwd=tmp_path, env=os.environ, log=tmp_path / "log")


async def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="no-such-tool"):
        await process.run(["no-such-tool"], cwd=tmp_path, env=os.environ, log=tmp_path / "log")
    with pytest.raises(ToolMissing, match="no-such-tool"):
        process.output(["no-such-tool"], cwd=tmp_path)
    with pytest.raises(ToolMissing, match="no-such-tool"):
        process.find_tool("no-such-tool", hint="none")


GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


async def test_a_timeout_ends_the_child_and_all_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ChildTimedOut):
        await process.run(
            python(GRANDCHILD + "time.sleep(600)"),
            cwd=tmp_path,
            env=os.environ,
            log=log,
            timeout=1.0,
        )
    assert has_ended(int(log.read_text()))


async def test_a_daemon_left_behind_is_ended_with_its_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await process.run(python(GRANDCHILD), cwd=tmp_path, env=os.environ, log=log)
    assert has_ended(int(log.read_text()))


async def test_cancelling_the_task_ends_the_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = asyncio.create_task(
        process.run(python(GRANDCHILD + "time.sleep(600)"), cwd=tmp_path, env=os.environ, log=log)
    )
    async with asyncio.timeout(20):
        while not (log.exists() and log.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended(int(log.read_text()))


def test_output_is_returned_and_a_failure_is_loud(tmp_path: Path) -> None:
    assert process.output(python("print('x')"), cwd=tmp_path) == "x\n"
    script = "import sys; print('no way', file=sys.stderr); sys.exit(3)"
    with pytest.raises(ChildFailed, match="exit code 3\nno way"):
        process.output(python(script), cwd=tmp_path)
    with pytest.raises(ChildTimedOut):
        process.output(python("import time; time.sleep(60)"), cwd=tmp_path, timeout=0.5)


def test_a_build_sees_no_credential() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C",
        "UV_PUBLISH_TOKEN": "secret",
        "NPM_TOKEN": "secret",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "secret",
        "MY_OWN_SECRET": "secret",
    }
    assert process.build_environment(environ, EXTRA="1") == {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C",
        "EXTRA": "1",
    }


SERVER = "import sys; print('ready', flush=True); sys.stdin.read()"


def test_a_server_runs_for_as_long_as_the_block(tmp_path: Path) -> None:
    script = f"import os, sys; print(os.getpid(), flush=True); {SERVER.partition('; ')[2]}"
    with process.server(
        python(script), cwd=tmp_path, env=os.environ, log=tmp_path / "log"
    ) as first:
        assert is_alive(int(first))
    assert has_ended(int(first))


def test_a_server_that_does_not_listen_to_its_stdin_is_ended_all_the_same(tmp_path: Path) -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with process.server(
        python(script), cwd=tmp_path, env=os.environ, log=tmp_path / "log"
    ) as first:
        pass
    assert has_ended(int(first))


def test_a_server_that_fails_to_start_is_loud(tmp_path: Path) -> None:
    script = "import sys; print('port taken', file=sys.stderr); sys.exit(4)"
    with (
        pytest.raises(ChildFailed, match="exit code 4\nport taken"),
        process.server(python(script), cwd=tmp_path, env=os.environ, log=tmp_path / "log"),
    ):
        pass


def test_a_server_that_never_answers_is_loud(tmp_path: Path) -> None:
    with (
        pytest.raises(ChildTimedOut),
        process.server(
            python("import time; time.sleep(600)"),
            cwd=tmp_path,
            env=os.environ,
            log=tmp_path / "log",
            start_within=0.5,
        ),
    ):
        pass


def test_a_server_ends_when_we_are_killed(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from releasekit import process
argv = [sys.executable, "-c", "import os; print(os.getpid(), flush=True); {SERVER}"]
log = Path({str(tmp_path / "log")!r})
with process.server(argv, cwd=log.parent, env=os.environ, log=log) as first:
    print(first, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    child = subprocess.run(python(script), capture_output=True, text=True, check=False)
    assert child.returncode == -9
    pid = int(child.stdout)
    assert has_ended(pid)
