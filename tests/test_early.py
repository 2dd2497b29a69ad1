"""SIGUSR1 in the first moments of a run pauses it; its default action would be death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sample import write_sample
from tests.test_publish import pypi_option, served

if TYPE_CHECKING:
    from releasekit.config import RegistrySettings


def wait_until_caught(process: int, number: signal.Signals) -> None:
    """Python itself needs a moment before any of our lines runs."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) >> (number - 1) & 1:
                return
    raise AssertionError(number)


def test_a_pause_before_the_loop_runs_holds_the_uploads_and_kills_nothing(
    tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    child = subprocess.Popen(
        [sys.executable, "-m", "releasekit", "publish", "--yes", "--output", "json",
         "--registry", pypi_option(pypi)],
        cwd=tmp_path / "repo", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until_caught(child.pid, signal.SIGUSR1)
    os.kill(child.pid, signal.SIGUSR1)
    assert child.stdout is not None
    seen = []
    for line in child.stdout:
        seen.append(json.loads(line))
        if seen[-1].get("stage") == "upload":
            break
    assert served(pypi, "acme-text") == {}
    os.kill(child.pid, signal.SIGUSR2)
    rest, _ = child.communicate(timeout=60)
    kinds = [event["event"] for event in seen] + [
        json.loads(line)["event"] for line in rest.splitlines()
    ]
    assert child.returncode == 0
    assert "resumed" in kinds
    assert kinds.index("resumed") < kinds.index("upload-sent")
    assert len(served(pypi, "acme-text")) == 2


def test_signals_are_remembered_before_anything_is_imported() -> None:
    script = """
import sys; sys.argv = ["releasekit", "publish"]
import os, signal
from releasekit import early
early.remember_if_steered()
assert not {"click", "typer", "asyncio"} & set(sys.modules)
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR2)
assert early.take() == (signal.SIGUSR1, signal.SIGUSR2)
assert early.take() == ()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
