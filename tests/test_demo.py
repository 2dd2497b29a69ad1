"""The demo: an honest sample, rehearsed as anybody's repository would be."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

from releasekit import workspace
from releasekit.events import Outcome
from releasekit.model import EdgeKind, Order
from releasekit.sample import make_sample

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.conftest import ReleaseKit

# What the builds need from uv's cache; the npm registry's program from the user's own.
OFFLINE = ("UV_CACHE_DIR", "UV_OFFLINE", "UV_PYTHON")


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_sample_has_every_kind_of_edge_and_its_names_run_against_the_order(
    tmp_path: Path,
) -> None:
    make_sample(tmp_path)
    found = workspace.load(tmp_path)
    publishable = {package.id for package in found.packages if package.publishable}
    assert Counter(name.partition(":")[0] for name in publishable) == {"pypi": 12, "npm": 8}
    edges = [edge for edge in found.edges if edge.source in publishable]
    assert {edge.kind for edge in edges} == set(EdgeKind) - {EdgeKind.DEV, EdgeKind.GROUP}
    assert {edge.order for edge in edges} == {Order.HARD, Order.SOFT}
    assert all(edge.source < edge.target for edge in edges)
    assert found.warnings == ()


def test_the_sample_has_a_history_that_is_the_same_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_sample(tmp_path / "one")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text(
        "[user]\nname = x\nemail = x@x\n[commit]\ngpgsign = true\n[core]\nautocrlf = true\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "one/.git"))
    make_sample(tmp_path / "two")
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("HOME")
    one, two = tmp_path / "one", tmp_path / "two"
    assert git(one, "rev-parse", "HEAD") == git(two, "rev-parse", "HEAD")
    assert git(one, "status", "--short") == ""
    assert git(one, "describe", "--tags", "--abbrev=0") == "v1.3.0"
    subjects = git(one, "log", "--format=%s").splitlines()
    assert len(subjects) > 10
    conventional = re.compile(r"(build|chore|feat|fix)(\([a-z]+\))?!?: .+")
    assert [one for one in subjects if not conventional.fullmatch(one)] == []
    assert any("!:" in one for one in subjects)


def test_a_registry_that_misbehaves_is_outlasted_and_what_was_refused_comes_in_a_second_run(
    releasekit: ReleaseKit, tmp_path: Path, npm_modules: Path, build_backends: dict[str, str]
) -> None:
    assert npm_modules.is_dir()
    (tmp_path / "tmp").mkdir()
    shown = ("--fault", "--keep", "sample", "--output", "json")
    env = {name: build_backends[name] for name in OFFLINE}
    env |= {"TMPDIR": str(tmp_path / "tmp"), "npm_config_offline": "true"}
    result = releasekit("demo", *shown, cwd=tmp_path, env=env)
    assert result.code == 0, result.out + result.err
    events = result.events()
    assert events[-1] == {"v": 1, "event": "rehearsed", "ok": True, "differences": []}
    verdicts = [event for event in events if event["event"] == "verdict"]
    assert len(verdicts) == 20
    assert all(one["verdict"] == "ok" and one["artifacts"] for one in verdicts), verdicts
    starts = [at for at, event in enumerate(events) if event["event"] == "run-started"]
    assert len(starts) == 2

    def ended(run: list[dict[str, object]], outcome: Outcome) -> set[object]:
        return {event["package"] for event in run if event.get("outcome") == outcome}

    first, second = events[: starts[1]], events[starts[1] :]
    blocked = {"pypi:acme-app", "pypi:acme-feed", "pypi:acme-forecast"}
    assert ended(first, Outcome.FAILED) == {"pypi:acme-schedule"}
    assert ended(first, Outcome.BLOCKED) == blocked
    assert ended(second, Outcome.PUBLISHED) == {*blocked, "pypi:acme-schedule"}
    assert len(ended(second, Outcome.ALREADY_THERE)) == 16
    retried = {event["package"] for event in first if event["event"] == "retry-scheduled"}
    assert retried == {"npm:@acme/wire", "pypi:acme-units"}
    lost = [event for event in first if event.get("package") == "pypi:acme-text"]
    assert 503 in [event["status"] for event in lost if event["event"] == "upload-answered"]

    assert list((tmp_path / "tmp").iterdir()) == []
    assert git(tmp_path / "sample", "status", "--short") == ""
    assert "cd sample" in result.err
    again = releasekit("demo", "--keep", "sample", cwd=tmp_path)
    assert again.code == 2
    assert "`sample` is not empty" in again.err


def test_without_node_the_demo_says_so_and_goes_on(
    releasekit: ReleaseKit, tmp_path: Path, build_backends: dict[str, str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    for tool in ("uv", "git", "python3"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    env = {name: build_backends[name] for name in OFFLINE}
    env |= {"PATH": str(tmp_path / "bin"), "TMPDIR": str(tmp_path / "tmp")}
    result = releasekit("demo", cwd=tmp_path, env=env)
    assert result.code == 0, result.err
    assert "without `node`" in result.err
    assert "12 of 12 packages are fine" in result.out
    assert list((tmp_path / "tmp").iterdir()) == []
