"""What earlier runs took decides who is uploaded first, and how long it still takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.events import (
    Event,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    UploadSent,
)
from releasekit.publish.durations import known_durations
from tests.sample import write_sample
from tests.test_publish import pypi_option

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


def write_run(
    home: Path, day: int, took: dict[str, float], *, command: str = "publish", waited: float = 0.0
) -> Path:
    run = f"202601{day:02}T000000-abcdef"
    path = home / "runs" / run / journal.FILE_NAME
    path.parent.mkdir(parents=True)
    releases = tuple(
        PlannedRelease(package=name, version="0.9.0", registry="pypi") for name in took
    )
    events: list[Event] = [
        RunStarted(run=run, command=command, releasekit="1", commit=None, releases=releases)
    ]
    for name, seconds in took.items():
        events.append(UploadSent(package=name, file="f", sha256="aa", at=100.0))
        if waited:
            events.append(RetryScheduled(package=name, attempt=1, reason="429", seconds=waited))
            events.append(UploadSent(package=name, file="f", sha256="aa", at=100.0 + waited))
        at = 100.0 + waited + seconds
        events.append(ReleaseEnded(package=name, outcome=Outcome.PUBLISHED, at=at))
    with journal.Journal(path) as book:
        for event in [*events, RunEnded(ok=True)]:
            book.append(event)
    return path


def test_the_newest_run_that_published_a_package_tells(tmp_path: Path) -> None:
    write_run(tmp_path, 1, {"pypi:a": 1.0, "pypi:b": 2.0})
    write_run(tmp_path, 2, {"pypi:a": 5.0})
    for day in range(3, 9):  # of these none tells anything
        write_run(tmp_path, day, {}, command="build")
    write_run(tmp_path, 9, {"pypi:a": 77.0}, command="rehearse")
    damaged = write_run(tmp_path, 10, {"pypi:a": 99.0})
    damaged.write_bytes(damaged.read_bytes().replace(b"pypi:a", b"pypi:x"))
    assert known_durations(tmp_path) == {"pypi:a": 5.0, "pypi:b": 2.0}


def test_the_waits_between_two_attempts_do_not_count(tmp_path: Path) -> None:
    write_run(tmp_path, 1, {"pypi:a": 3.0}, waited=1900.0)
    assert known_durations(tmp_path) == {"pypi:a": 3.0}


@pytest.mark.parametrize(
    ("took", "order"),
    [
        ({}, ["one", "three", "two"]),
        ({"pypi:two": 30.0, "pypi:three": 20.0, "pypi:one": 10.0}, ["two", "three", "one"]),
        ({"pypi:three": 20.0, "pypi:one": 10.0}, ["three", "two", "one"]),  # two: the mean
    ],
)
def test_the_longest_goes_first(
    releasekit: ReleaseKit,
    tmp_path: Path,
    pypi: RegistrySettings,
    took: dict[str, float],
    order: list[str],
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={"one": (), "two": (), "three": ()}, node={})
    if took:
        write_run(root / ".releasekit", 1, took)
    done = releasekit(
        "publish", "--yes", "--concurrency", "1", "--output", "json",
        "--registry", pypi_option(pypi), cwd=root,
    )  # fmt: skip
    assert done.code == 0, done.err
    [started, *_] = done.events()
    assert {one["package"]: one["expected"] for one in started["releases"]} == {
        f"pypi:{name}": took.get(f"pypi:{name}") for name in order
    }
    sent = [event["package"] for event in done.events() if event["event"] == "upload-sent"]
    assert list(dict.fromkeys(sent)) == [f"pypi:{name}" for name in order]
    # What they took this time is what the next run knows.
    assert known_durations(root / ".releasekit").keys() == {f"pypi:{name}" for name in order}
