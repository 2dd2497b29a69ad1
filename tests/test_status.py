"""`status`: what another terminal sees of a run, also of one that was killed or damaged."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.errors import NothingRunning
from releasekit.events import (
    Artifact,
    BuildFinished,
    BuildStarted,
    Confirmed,
    Event,
    LaneClosed,
    Outcome,
    Paused,
    PlannedRelease,
    ReleaseEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    Stage,
    StageStarted,
    UploadSent,
)
from releasekit.lock import hold
from releasekit.ui.status import as_data, as_text, folded
from tests.faults import faulty_registry
from tests.sample import write_sample
from tests.terminals import Terminal
from tests.test_control_socket import running
from tests.test_publish import pypi_option

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit

RUN = "20260102T030405-abcdef"
NOW = 1_000_060.0


def planned(name: str, *needs: str, expected: float | None = None) -> PlannedRelease:
    return PlannedRelease(
        package=name, version="1.0", registry="pypi", needs=needs, expected=expected
    )


def started(*releases: PlannedRelease) -> RunStarted:
    return RunStarted(
        run=RUN, command="publish", releasekit="1", commit="0123456789abcdef", releases=releases,
        again="releasekit publish --yes", at=1_000_000.0,
    )  # fmt: skip


MIDDLE: tuple[Event, ...] = (
    started(
        planned("pypi:core", expected=30.0),
        planned("pypi:app", "pypi:core", expected=60.0),
        planned("pypi:bad"),
        planned("pypi:late"),
        planned("pypi:needy", "pypi:bad"),
        planned("pypi:odd"),
    ),
    StageStarted(stage=Stage.UPLOAD, at=1_000_010.0),
    BuildFinished(
        package="pypi:core", at=1_000_010.0,
        artifacts=(Artifact(file="core.whl", size=100, sha256="aa", sha512="bb"),),
    ),
    UploadSent(package="pypi:core", file="core.whl", sha256="aa", at=1_000_050.0),
    ReleaseEnded(
        package="pypi:bad", outcome=Outcome.FAILED, reason="the registry\x1b[2J said no\nlong",
        hint="ask it", at=1_000_020.0,
    ),
    ReleaseEnded(package="pypi:needy", outcome=Outcome.BLOCKED, blocked_by="pypi:bad"),
    UploadSent(package="pypi:odd", file="odd.whl", sha256="cc", at=1_000_040.0),
    RetryScheduled(
        package="pypi:odd", attempt=1, reason="503", seconds=30.0, at=1_000_045.0
    ),
    LaneClosed(registry="pypi", seconds=20.0, at=1_000_050.0),
    Paused(at=1_000_055.0),
)  # fmt: skip


def plain(text: str, _: str) -> str:
    return text


def test_a_run_that_goes_on_tells_what_it_does_and_what_went_wrong() -> None:
    told = "\n".join(as_text(folded(MIDDLE, workspace="w", folder=None, live=True), plain, NOW))
    for expected in (
        f"run {RUN}: `releasekit publish` of commit 0123456789ab",
        "1 min 0 s ago",
        "uploading, paused",
        "2 of 6 done (1 failed · 1 blocked)",
        "pypi:core 1.0  uploading core.whl, 10 s",
        "pypi:odd 1.0  try 2 in 15 s: 503",
        "pypi asked us to wait until",
        "2 waiting, next: pypi:late",
        "failed: pypi:bad: the registry�[2J said no",
        "  hint: ask it",
        "blocked: pypi:needy by pypi:bad",
        "to go on: releasekit resume",
        "releasekit publish --yes",
    ):
        assert expected in told, told
    assert "\x1b" not in told


def test_the_time_left_comes_from_earlier_runs() -> None:
    going = [event for event in MIDDLE if not isinstance(event, (Paused, LaneClosed))]
    data = as_data(folded(going, workspace="w", folder=None, live=True), NOW)
    # core has 20 of its 30 s to go and app takes 60 s after it.
    assert data["seconds_left"] == pytest.approx(80.0)


def test_a_program_reads_the_same() -> None:
    data = as_data(folded(MIDDLE, workspace="w", folder=None, live=True), NOW)
    assert json.loads(json.dumps(data)) == data
    assert (data["paused"], data["stage"], data["done"], data["total"]) == (True, "upload", 2, 6)
    packages = {one["package"]: one for one in data["packages"]}  # type: ignore[attr-defined]
    assert packages["pypi:app"]["waits_for"] == "pypi:core"
    assert packages["pypi:core"]["doing"] == "uploading"
    assert packages["pypi:core"]["unconfirmed"] is True
    assert packages["pypi:needy"]["blocked_by"] == "pypi:bad"
    assert packages["pypi:odd"]["attempt"] == 2


def test_a_killed_run_is_told_from_one_that_ended() -> None:
    killed = folded(MIDDLE, workspace="w", folder=None, live=False)
    told = "\n".join(as_text(killed, plain, NOW))
    assert "it was killed: its journal has no end" in told
    assert "unknown: pypi:core" in told
    assert "to continue: releasekit publish --yes" in told
    ended = folded(
        (*MIDDLE, RunEnded(ok=False, reason="the disk\nis full")),
        workspace="w", folder=None, live=False,
    )  # fmt: skip
    told = "\n".join(as_text(ended, plain, NOW))
    assert "killed" not in told
    assert "it ended with an error: the disk\nis full" in told


# The command


def write_run(root: Path, events: Iterable[Event], run: str = RUN) -> Path:
    folder = root / ".releasekit/runs" / run
    folder.mkdir(parents=True)
    with journal.Journal(folder / journal.FILE_NAME) as book:
        for event in events:
            book.append(event)
    return folder / journal.FILE_NAME


DONE: tuple[Event, ...] = (
    started(planned("pypi:core")),
    BuildStarted(package="pypi:core"),
    Confirmed(package="pypi:core", file="core.whl", sha256="aa"),
    ReleaseEnded(package="pypi:core", outcome=Outcome.PUBLISHED),
    RunEnded(ok=True),
)


def test_nothing_ever_ran_here(releasekit: ReleaseKit, tmp_path: Path) -> None:
    shown = releasekit("-C", tmp_path, "status")
    assert (shown.code, shown.out) == (0, "no release is running here\n")
    assert releasekit("-C", tmp_path, "status", "--output", "json").json()["run"] is None
    watched = releasekit("-C", tmp_path, "status", "--watch", "--output", "json")
    assert watched.code == 1
    assert watched.json()["error"]["kind"] == NothingRunning.__name__


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ((RunEnded(ok=True),), 0),
        ((RunEnded(ok=False),), 1),
        ((RunEnded(ok=False, stopped=True),), 3),
        ((), 1),
    ],
)
def test_watching_a_run_that_is_over_ends_with_its_code(
    releasekit: ReleaseKit, tmp_path: Path, last: tuple[Event, ...], code: int
) -> None:
    events = (*DONE[:-1], *last)
    write_run(tmp_path, events)
    watched = releasekit("-C", tmp_path, "status", "--watch")
    assert watched.code == code, watched.err
    assert "1 published" in watched.out
    lines = releasekit("-C", tmp_path, "status", "--watch", "--output", "json")
    assert lines.code == code
    assert [event["event"] for event in lines.events()] == [event.kind for event in events]


def test_the_newest_run_is_shown_and_the_lock_is_left_alone(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_run(tmp_path, MIDDLE, "20250102T030405-abcdef")
    write_run(tmp_path, DONE)
    before = sorted(tmp_path.rglob("*"))
    with hold(tmp_path / ".releasekit", command="releasekit recover"):
        shown = releasekit("-C", tmp_path, "status")
    assert shown.code == 0
    assert "running: `releasekit recover`" in shown.out
    assert "1 published" in shown.out
    assert [one for one in sorted(tmp_path.rglob("*")) if one in before] == before


@pytest.mark.parametrize("damage", ["torn", "edited", "missing", "cut", "later"])
def test_a_journal_that_is_not_whole_is_explained(
    releasekit: ReleaseKit, tmp_path: Path, damage: str
) -> None:
    path = write_run(tmp_path, DONE)
    whole = path.read_bytes()
    match damage:
        case "torn":
            path.write_bytes(whole + b'{"v":1,"ev')
        case "edited":
            path.write_bytes(whole.replace(b"core.whl", b"cure.whl"))
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
        case "later":
            path.unlink()
            path.with_name(journal.HEAD_NAME).unlink()
            with journal.Journal(path) as book:
                book.append(ReleaseEnded(package="pypi:other", outcome=Outcome.PUBLISHED))
    shown = releasekit("-C", tmp_path, "status")
    assert shown.code == 0, shown.err
    data = releasekit("-C", tmp_path, "status", "--output", "json").json()
    if damage == "torn":
        assert "the last line of its journal is cut off" in shown.out
        assert data["run"]["torn"] is True
        return
    assert "journal.jsonl:" in shown.out
    assert "hint: it may tell of sent files: `releasekit publish --fresh`" in shown.out
    assert "journal.jsonl:" in data["damage"]["message"]
    assert releasekit("-C", tmp_path, "status", "--watch").code == 1


def test_a_live_run_is_shown_and_followed_to_its_end(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    gate = threading.Event()
    command = [sys.executable, "-m", "releasekit", "status", "--watch"]
    with (
        faulty_registry(pypi, refuse="acme-models", gate=gate) as held,
        running(root, "publish", "--yes", "--registry", pypi_option(held)) as run,
    ):
        run.until("upload-sent")
        data = releasekit("status", "--output", "json", cwd=root).json()
        assert data["running"]["id"] == data["run"]["run"]
        assert (data["run"]["live"], data["run"]["stage"]) == (True, "upload")
        [text, lines] = [
            subprocess.Popen([*command, *more], cwd=root, stdout=subprocess.PIPE, text=True)
            for more in ((), ("--output", "json"))
        ]
        assert text.stdout is not None
        assert text.stdout.readline().startswith(f"run {data['run']['run']}: ")
        assert lines.stdout is not None
        first = lines.stdout.readline()
        gate.set()
        with text, lines:  # `communicate` would pass over what the first line's read took along
            told, rest = text.stdout.read(), lines.stdout.read()
        assert run.end()[0] == text.returncode == lines.returncode == 1
    assert "pypi:acme-text  published" in told
    assert "failed: pypi:acme-models" in told
    assert "to continue: releasekit publish --yes" in told
    [path] = root.glob(".releasekit/runs/*/journal.jsonl")
    followed = [json.loads(line) for line in (first + rest).splitlines()]
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    before = [event["stage"] for event in followed[:2]]
    assert before == ["load", "preflight"]  # told before there is a journal
    assert [one["event"] for one in followed[2:]] == [one["event"] for one in kept]


def test_whoever_watches_a_run_that_never_began_is_told_why(
    tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    command = [sys.executable, "-m", "releasekit", "publish", "--registry", pypi_option(pypi)]
    with Terminal(command, root) as terminal:
        terminal.until_said("Publish?")
        watcher = subprocess.Popen(
            [sys.executable, "-m", "releasekit", "status", "--watch"],
            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watcher.stdout is not None
        for line in watcher.stdout:
            if "it has not begun to build: asking the registries, then the terminal" in line:
                break
        terminal.press("n\n")
        code = terminal.end()
    _, err = watcher.communicate(timeout=60)
    assert "nothing was published" in err
    assert watcher.returncode == code == 3
