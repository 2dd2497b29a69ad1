"""`--state`: another machine finishes what a killed job left behind, with the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.errors import DamagedJournal, ForeignState
from releasekit.events import (
    Artifact,
    BuildFinished,
    PlannedRelease,
    RunStarted,
    UploadSent,
)
from releasekit.publish import state
from tests.faults import Fault, faulty_registry
from tests.test_publish import outcomes, pypi_option, served
from tests.test_resume import publish, repository

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit

NAMES = ("acme-text", "acme-models", "acme-app")
RUN = "20260102T030405-abcdef"


def clone(root: Path, target: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", root, target], check=True)
    return target


def killed_at(root: Path, pypi: RegistrySettings, kind: str, *extra: str | Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "releasekit", "publish", "--yes", "--output", "json",
         "--registry", pypi_option(pypi), *extra],
        cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        if f'"{kind}"' in line:
            os.killpg(child.pid, signal.SIGKILL)
            break
    child.communicate()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["upload-sent", "confirmed"])
def test_another_machine_finishes_a_killed_run_with_the_same_bytes(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, kind: str
) -> None:
    root, kept = repository(tmp_path / "repo"), tmp_path / "state"
    other = clone(root, tmp_path / "other")
    killed_at(root, pypi, kind, "--state", kept)
    shutil.rmtree(root)  # that machine is gone
    done = publish(releasekit, other, pypi, "--state", kept)
    assert done.code == 0, done.out + done.err
    assert set(outcomes(done).values()) <= {"published", "already there"}
    states = [
        journal.read_state(file) for file in other.glob(".git/releasekit/runs/*/journal.jsonl")
    ]
    assert len(states) == 2
    assert len(list(kept.glob("runs/*"))) == 1  # nothing of the first is needed any more
    assert not list(kept.glob("runs/*/artifacts"))
    for name in NAMES:
        sent = {sha for one in states for sha in one.releases[f"pypi:{name}"].sent}
        assert len(served(pypi, name)) == 2
        assert set(served(pypi, name).values()) == sent  # no other bytes ever left a machine
    third = publish(releasekit, clone(other, tmp_path / "third"), pypi, "--state", kept)
    assert set(outcomes(third).values()) == {"already there"}


def test_with_state_a_half_sent_version_is_completed_and_without_it_is_named(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root, kept = repository(tmp_path / "repo"), tmp_path / "state"
    faults = {"acme-text": [Fault(status=200, stored=True), Fault(status=400, words="not today")]}
    with faulty_registry(pypi, uploads=faults) as faulty:
        first = publish(
            releasekit, root, faulty, "--state", kept, "--receipts", tmp_path / "receipts.json"
        )
    assert first.code == 1
    receipts = json.loads((tmp_path / "receipts.json").read_text())
    assert receipts["ok"] is False
    mine = [one for one in receipts["receipts"] if one["package"] == "pypi:acme-text"]
    assert [one["confirmed"] for one in mine] == [None, None]  # hashes are read back together
    assert {one["outcome"] for one in mine} == {"failed"}

    bare = publish(releasekit, clone(root, tmp_path / "bare"), pypi)
    assert bare.code == 1
    assert "1.0.0 is on the registry without an sdist" in bare.out
    assert outcomes(bare) == {
        "pypi:acme-text": "failed",
        "pypi:acme-models": "blocked",
        "pypi:acme-app": "blocked",
    }

    [sdist] = kept.glob("runs/*/artifacts/pypi-acme-text/*.tar.gz")
    whole = sdist.read_bytes()
    sdist.write_bytes(whole + b"x")
    refused = publish(releasekit, clone(root, tmp_path / "wary"), pypi, "--state", kept)
    assert refused.code == 1
    assert refused.json()["error"]["kind"] == "ForeignState"
    sdist.write_bytes(whole)
    done = publish(releasekit, clone(root, tmp_path / "other"), pypi, "--state", kept)
    assert done.code == 0, done.out + done.err
    assert {one["file"]: one["sha256"] for one in mine} == served(pypi, "acme-text")


def test_what_only_this_machine_knows_is_left_in_the_state(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root, kept = repository(tmp_path / "repo"), tmp_path / "state"
    faults = {"acme-text": [Fault(status=200, stored=True), Fault(status=400, words="not today")]}
    with faulty_registry(pypi, uploads=faults) as faulty:
        assert publish(releasekit, root, faulty).code == 1
    state.prepare(kept)
    state.exchange(kept, root / ".git/releasekit")
    done = publish(releasekit, clone(root, tmp_path / "other"), pypi, "--state", kept)
    assert done.code == 0, done.out + done.err


def foreign(
    root: Path,
    *,
    package: str = "pypi:a",
    file: str = "a.whl",
    run: str = RUN,
    content: bytes = b"",
) -> Path:
    """A state as a stranger could write it, with sums that hold."""
    folder = root / "state" / "runs" / RUN
    folder.mkdir(parents=True)
    artifact = Artifact(file=file, size=0, sha256="0" * 64, sha512="")
    planned = PlannedRelease(package=package, version="1", registry="pypi")
    with journal.Journal(folder / journal.FILE_NAME) as book:
        book.append(
            RunStarted(run=run, command="publish", releasekit="1", commit=None, releases=(planned,))
        )
        book.append(BuildFinished(package=package, artifacts=(artifact,)))
        book.append(UploadSent(package=package, file=file, sha256="0" * 64))
    if content:
        (folder / "artifacts/pypi-a").mkdir(parents=True)
        (folder / "artifacts/pypi-a/a.whl").write_bytes(content)
    return root / "state"


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        ({"package": "../../../escaped"}, "no package's id"),
        ({"package": "pypi:../../escaped"}, "no package's id"),
        ({"file": "../../escaped"}, "no artifact's name"),
        ({"file": "/etc/passwd"}, "no artifact's name"),
        ({"run": "20260102T030405-000000"}, "another run"),
        ({}, "missing"),
        ({"content": b"other"}, "not the file that the journal tells of"),
    ],
)
def test_a_state_from_a_stranger_is_refused_and_nothing_is_written(
    tmp_path: Path, hostile: dict[str, object], problem: str
) -> None:
    kept = foreign(tmp_path, **hostile)  # type: ignore[arg-type]
    with pytest.raises(ForeignState, match=problem):
        state.exchange(kept, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_links_and_damage_in_a_state_are_refused(tmp_path: Path) -> None:
    kept = foreign(tmp_path)
    folder = kept / "runs" / RUN
    (folder / "artifacts/pypi-a").mkdir(parents=True)
    (folder / "artifacts/pypi-a/a.whl").symlink_to("/etc/hostname")
    with pytest.raises(ForeignState, match="leads elsewhere"):
        state.exchange(kept, tmp_path / "home")
    file = folder / journal.FILE_NAME
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"pypi:a", b"pypi:b"))
    with pytest.raises(DamagedJournal):
        state.exchange(kept, tmp_path / "home")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignState, match="not a run's folder"):
        state.exchange(kept, tmp_path / "home")
