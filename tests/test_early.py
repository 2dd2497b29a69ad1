"""SIGUSR1 in the first moments of a run pauses it; its default action would be death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults import faulty_registry
from tests.sample import write_sample
from tests.test_control_socket import Run, running, wish
from tests.test_publish import pypi_option, served

if TYPE_CHECKING:
    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


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


def test_a_pause_while_the_registries_are_asked_holds_the_uploads(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    runs: list[Run] = []
    signalled = threading.Event()

    def signal_once() -> None:
        if not signalled.is_set():
            signalled.set()
            os.kill(runs[0].child.pid, signal.SIGUSR1)

    with (
        faulty_registry(pypi, on_read=signal_once) as asked,
        running(tmp_path / "repo", "publish", "--yes", "--registry", pypi_option(asked)) as run,
    ):
        runs.append(run)
        run.until("stage-started", stage="upload")
        told = wish(releasekit, tmp_path / "repo", "pause")
        assert told == "already paused: nothing is in flight"
        run.child.send_signal(signal.SIGUSR2)
        assert run.end()[0] == 0
    assert run.kinds.index("paused") < run.kinds.index("build-started")
    assert run.kinds.index("resumed") < run.kinds.index("upload-sent")


def test_a_pause_while_building_lets_the_builds_end_and_holds_the_uploads(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    option = pypi_option(pypi)
    with running(tmp_path / "repo", "publish", "--yes", "--registry", option) as run:
        run.until("build-started")
        run.child.send_signal(signal.SIGUSR1)
        run.until("paused")
        run.until("stage-started", stage="upload")
        told = wish(releasekit, tmp_path / "repo", "pause")
        assert told == "already paused: nothing is in flight"
        assert run.kinds.count("build-finished") == 3
        run.child.send_signal(signal.SIGUSR2)
        assert run.end()[0] == 0


def test_a_pause_while_uploading_stops_the_next_starts(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    gate = threading.Event()
    with (
        faulty_registry(pypi, gate=gate) as held,
        running(tmp_path / "repo", "publish", "--yes", "--registry", pypi_option(held)) as run,
    ):
        run.until("upload-sent")
        run.child.send_signal(signal.SIGUSR1)
        run.until("paused")
        gate.set()
        run.until("release-ended", package="pypi:acme-text", outcome="published")
        told = wish(releasekit, tmp_path / "repo", "pause")
        assert told == "already paused: nothing is in flight"
        assert served(pypi, "acme-models") == {}
        run.child.send_signal(signal.SIGUSR2)
        assert run.end()[0] == 0


def test_no_moment_of_a_run_dies_of_a_signal_that_steers_it(
    tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    option = pypi_option(pypi)
    with running(tmp_path / "repo", "publish", "--yes", "--registry", option) as run:
        wait_until_caught(run.child.pid, signal.SIGUSR1)
        reader = threading.Thread(target=lambda: run.events.append({"code": run.end()[0]}))
        reader.start()
        while reader.is_alive():
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                run.child.send_signal(number)
            reader.join(0.002)
        assert run.events[-1] == {"code": 0}
    assert len(served(pypi, "acme-app")) == 2
