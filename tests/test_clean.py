"""`clean` and retention: what nobody needs goes, what only its own bytes complete stays."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from releasekit import journal
from releasekit.events import (
    Artifact,
    BuildFinished,
    Event,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunEnded,
    RunStarted,
    UploadSent,
)
from releasekit.lock import hold, journal_directory
from releasekit.publish import retention
from releasekit.publish.resume import kept_releases, run_folders
from releasekit.publish.retention import clean_up, plan_cleaning
from tests.faults import Fault, faulty_registry
from tests.test_publish import outcomes, pypi_option, served
from tests.test_resume import git, half_published, publish, repository

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


def name(day: int) -> str:
    return f"202601{day:02}T000000-abcdef"


def write_run(
    home: Path, day: int, *, package: str = "pypi:a", sent: bool = True,
    outcome: Outcome | None = Outcome.PUBLISHED, fresh: bool = False, command: str = "publish",
) -> Path:  # fmt: skip
    """A run of one package, with an artifact of a thousand bytes."""
    folder = home / "runs" / name(day)
    made = folder / "artifacts" / package.replace(":", "-") / "a.whl"
    made.parent.mkdir(parents=True)
    made.write_bytes(b"x" * 1000)
    planned = PlannedRelease(package=package, version="1", registry="pypi")
    artifact = Artifact(file="a.whl", size=1000, sha256="aa", sha512="bb")
    events: list[Event] = [
        RunStarted(
            run=name(day), command=command, releasekit="1", commit=None, releases=(planned,),
            fresh=fresh,
        ),
        BuildFinished(package=package, artifacts=(artifact,)),
    ]  # fmt: skip
    if sent:
        events.append(UploadSent(package=package, file="a.whl", sha256="aa"))
    if outcome:
        events += [
            ReleaseEnded(package=package, outcome=outcome),
            RunEnded(ok=outcome is Outcome.PUBLISHED),
        ]
    with journal.Journal(folder / journal.FILE_NAME) as book:
        for event in events:
            book.append(event)
    return folder


def left(home: Path) -> dict[str, bool]:
    """The runs that are there, and whether their artifacts are."""
    return {
        folder.name: (folder / "artifacts").exists() for folder in sorted((home / "runs").iterdir())
    }


def test_finished_runs_keep_their_journal_and_lose_their_artifacts(tmp_path: Path) -> None:
    write_run(tmp_path, 1)
    write_run(tmp_path, 2, sent=False, outcome=Outcome.CANCELLED)
    cleaning = plan_cleaning(tmp_path, keep_runs=9)
    assert [(one.run, one.is_whole, one.size) for one in cleaning.removals] == [
        (name(1), False, 1000), (name(2), False, 1000)
    ]  # fmt: skip
    assert left(tmp_path) == {name(1): True, name(2): True}  # a plan changes nothing
    clean_up(cleaning)
    assert left(tmp_path) == {name(1): False, name(2): False}
    assert journal.read_state(tmp_path / "runs" / name(1) / journal.FILE_NAME).ok


def test_what_a_registry_may_hold_in_part_stays(tmp_path: Path) -> None:
    write_run(tmp_path, 1)
    write_run(tmp_path, 2, outcome=None)
    write_run(tmp_path, 3, package="pypi:b")
    write_run(tmp_path, 4, package="pypi:c", outcome=Outcome.FAILED)
    cleaning = plan_cleaning(tmp_path, keep_runs=1)
    assert [(one.run, one.releases) for one in cleaning.unfinished] == [
        (name(2), ("pypi:a 1",)), (name(4), ("pypi:c 1",))
    ]  # fmt: skip
    clean_up(cleaning)
    # The third is one too many, but newer than one that is kept.
    assert left(tmp_path) == {name(2): True, name(3): False, name(4): True}


def test_no_removal_brings_back_what_a_newer_run_has_settled(tmp_path: Path) -> None:
    write_run(tmp_path, 1, outcome=None)  # begun …
    write_run(tmp_path, 2)  # … and finished by the next
    write_run(tmp_path, 3, package="pypi:b", outcome=None)
    for day in range(4, 9):
        write_run(tmp_path, day, package="pypi:c")
    before = kept_releases(tmp_path)
    cleaning = plan_cleaning(tmp_path, keep_runs=1)
    assert [one.run for one in cleaning.removals if one.is_whole] == [name(1), name(2)]
    for one in cleaning.removals:
        clean_up(retention.Cleaning(removals=(one,), unfinished=()))
        assert kept_releases(tmp_path) == before


@pytest.mark.parametrize("stop", range(12))
def test_a_kill_at_any_step_leaves_journals_that_are_whole_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    for day in (1, 2, 3):
        write_run(tmp_path, day, outcome=None if day < 3 else Outcome.PUBLISHED)
    write_run(tmp_path, 4, package="pypi:b", outcome=None)
    before = kept_releases(tmp_path)
    steps = 0

    class Killed(BaseException):
        pass

    def counted(function: object) -> object:
        def step(*arguments: object, **keywords: object) -> object:
            nonlocal steps
            steps += 1
            if steps > stop:
                raise Killed
            return function(*arguments, **keywords)  # type: ignore[operator]

        return step

    with monkeypatch.context() as dying:
        for called in ("rename", "unlink", "rmdir"):
            dying.setattr(os, called, counted(getattr(os, called)))
        try:
            clean_up(plan_cleaning(tmp_path, keep_runs=2))
        except Killed:
            pass
        else:
            assert stop >= 8, "the cleaning has fewer steps than the test thinks"
    for folder in run_folders(tmp_path):
        journal.read_state(folder / journal.FILE_NAME)
    assert kept_releases(tmp_path) == before
    clean_up(plan_cleaning(tmp_path, keep_runs=2))
    assert left(tmp_path) == {name(3): False, name(4): True}


def test_what_a_kill_left_half_done_goes_too(tmp_path: Path) -> None:
    for folder in (f"{name(1)}.going", f"{name(2)}.incoming", name(3), "notes of mine"):
        (tmp_path / "runs" / folder / "artifacts").mkdir(parents=True)
    clean_up(plan_cleaning(tmp_path, keep_runs=1))
    assert list(left(tmp_path)) == ["notes of mine"]


def test_behind_a_damaged_journal_everything_stays(tmp_path: Path) -> None:
    write_run(tmp_path, 1)
    damaged = write_run(tmp_path, 2) / journal.FILE_NAME
    damaged.write_bytes(damaged.read_bytes().replace(b"a.whl", b"b.whl"))
    write_run(tmp_path, 3)
    cleaning = plan_cleaning(tmp_path, keep_runs=1)
    assert cleaning.removals == ()
    assert f"{name(2)}/journal.jsonl:2:" in str(cleaning.damage)
    write_run(tmp_path, 4, fresh=True)  # it gave up on all before it
    clean_up(plan_cleaning(tmp_path, keep_runs=1))
    assert left(tmp_path) == {name(4): False}


def test_giving_up_leaves_no_journal_that_still_asks_for_the_artifacts(tmp_path: Path) -> None:
    write_run(tmp_path, 1, outcome=None)
    write_run(tmp_path, 2, outcome=None)  # has taken over what the first had begun
    write_run(tmp_path, 3, package="pypi:b")
    clean_up(plan_cleaning(tmp_path, keep_runs=9, give_up=True))
    assert left(tmp_path) == {name(3): False}
    assert kept_releases(tmp_path) == {}


# The command


def test_a_publish_that_did_everything_cleans_up_after_itself(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    (root / "releasekit.toml").write_text("[journal]\nkeep-runs = 2\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "keep less")
    home = journal_directory(root)
    half_published(releasekit, root, pypi)
    [first] = left(home)
    assert left(home) == {first: True}
    refused = releasekit("clean", cwd=root)
    assert "nothing to clean" in refused.out
    assert f"run {first}: pypi:acme-text 1.0.0" in refused.out
    done = publish(releasekit, root, pypi)
    assert done.code == 0, done.err
    assert list(left(home).values()) == [False, False]
    assert publish(releasekit, root, pypi).code == 0
    assert len(left(home)) == 2
    assert first not in left(home)


def test_it_shows_what_it_would_do_and_asks(releasekit: ReleaseKit, tmp_path: Path) -> None:
    home = tmp_path / ".releasekit"
    write_run(home, 1)
    write_run(home, 2)
    write_run(home, 3, outcome=None)
    asked = releasekit("-C", tmp_path, "clean", "--keep-runs", "2")
    assert asked.code == 3
    assert f"{name(1)}" in asked.out
    assert "older than the last 2 runs" in asked.out
    assert "nothing was removed; `--yes`" in asked.err
    assert left(home) == {name(1): True, name(2): True, name(3): True}
    plan = releasekit("-C", tmp_path, "clean", "--output", "json")
    assert (plan.code, plan.json()["done"], plan.json()["bytes"]) == (3, False, 2000)
    done = releasekit("-C", tmp_path, "clean", "--yes", "--output", "json")
    assert (done.code, done.json()["done"]) == (0, True)
    assert done.json()["unfinished"] == [
        {"run": name(3), "releases": ["pypi:a 1"], "given_up": False}
    ]
    assert left(home) == {name(1): False, name(2): False, name(3): True}


def test_a_running_release_is_nobodys_leftover(releasekit: ReleaseKit, tmp_path: Path) -> None:
    home = tmp_path / ".releasekit"
    write_run(home, 1)
    with hold(home, command="releasekit publish"):
        locked = releasekit("-C", tmp_path, "clean", "--yes")
    assert locked.code == 4
    assert left(home) == {name(1): True}


def test_giving_up_is_loud_and_the_next_publish_names_what_is_missing(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    half_published(releasekit, root, pypi)
    given_up = releasekit("clean", "--unfinished", "--yes", cwd=root)
    assert given_up.code == 0
    assert "WARNING: a registry may hold a part of these" in given_up.out
    assert "pypi:acme-text 1.0.0" in given_up.out
    after = publish(releasekit, root, pypi)
    assert after.code == 1
    assert "1.0.0 is on the registry without an sdist" in after.out


def test_the_state_of_a_pipeline_does_not_grow(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root, kept = repository(tmp_path / "repo"), tmp_path / "state"
    faults = {"acme-text": [Fault(status=200, stored=True), Fault(status=400, words="not today")]}
    with faulty_registry(pypi, uploads=faults) as faulty:
        assert publish(releasekit, root, faulty, "--state", kept).code == 1
    assert list(left(kept).values()) == [True]
    shutil.rmtree(journal_directory(root))  # another runner
    done = publish(releasekit, root, pypi, "--state", kept)
    assert done.code == 0, done.err
    assert list(left(kept).values()) == [False]
    again = releasekit(
        "publish", "--yes", "--output", "json", "--state", kept, "--registry", pypi_option(pypi),
        cwd=root,
    )  # fmt: skip
    assert set(outcomes(again).values()) == {"already there"}
    assert len(served(pypi, "acme-text")) == 2
    assert json.loads(again.out.splitlines()[-1])["ok"] is True
