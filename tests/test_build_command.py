"""`releasekit build`: artifacts, hashes and logs in a folder, and no trace anywhere else."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from releasekit import config, keeper, process
from releasekit.errors import OutNotUsable
from releasekit.lock import journal_directory
from releasekit.publish.build import build_environment
from releasekit.publish.control import RunControl
from releasekit.publish.deliver import DeliverRequest, deliver
from tests.building import write_tree
from tests.sample import write_sample
from tests.test_build import in_tree, package, workspace_of
from tests.test_process import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import ReleaseKit


@pytest.fixture(autouse=True)
def _offline(build_backends: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in build_backends.items():
        monkeypatch.setenv(name, value)


def commit(root: Path) -> None:
    for command in (
        ["init", "--quiet"], ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "x"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=root, check=True)


def status(root: Path) -> str:
    return subprocess.run(
        ["git", "status", "--porcelain", "--ignored"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_everything_is_built_pinned_inspected_and_the_tree_is_as_before(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    root, out = tmp_path / "repo", tmp_path / "out"
    write_sample(root)
    commit(root)
    result = releasekit("build", "--out", out, cwd=root)
    assert result.code == 0, result.out + result.err
    assert "5 built" in result.out
    assert status(root) == ""
    manifest = json.loads((out / "manifest.json").read_text())
    assert len(manifest["artifacts"]) == 8
    assert {one["file"] for one in manifest["artifacts"]} == {
        path.name for path in out.iterdir() if path.suffix in {".whl", ".gz", ".tgz"}
    }
    for one in manifest["artifacts"]:
        content = (out / one["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"]
        assert one["integrity"].startswith("sha512-")
    assert len(list((out / "logs").iterdir())) == 5
    with zipfile.ZipFile(out / "acme_app-1.0.0-py3-none-any.whl") as wheel:
        metadata = wheel.read("acme_app-1.0.0.dist-info/METADATA").decode()
    assert "Requires-Dist: acme-models==1.0.0" in metadata
    assert not (journal_directory(root) / "scratch").exists()


def test_only_what_was_asked_for_is_built(releasekit: ReleaseKit, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    write_sample(root)
    result = releasekit(
        "build", "--package", "acme-text", "--package", "npm:@acme/cli", "--exclude", "@acme/cli",
        "--output", "json", cwd=root,
    )  # fmt: skip
    assert result.code == 0, result.err
    kinds = [event["event"] for event in result.events()]
    assert kinds == [
        "run-started", "stage-started", "build-started", "build-finished", "stage-started",
        "release-ended", "run-ended",
    ]  # fmt: skip
    assert (root / "dist/acme_text-1.0.0.tar.gz").exists()
    assert (root / "dist/.gitignore").read_text() == "*\n"
    unknown = releasekit("build", "--package", "acme-txt", cwd=root)
    assert unknown.code == 2
    assert "did you mean `acme-text`?" in unknown.err


def test_a_failed_build_shows_the_end_of_its_log_and_leaves_nothing(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    failing = in_tree("failing", "def build_wheel(*_):\n    raise ValueError('a last word')\n")
    good = package("good-one", '"flit-core"', "flit_core.buildapi")
    root = write_tree(tmp_path / "repo", workspace_of(failing, good))
    commit(root)
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 1
    assert "ValueError: a last word" in result.out
    [log] = re.findall(r"the whole output is in `([^`]+)`", result.out)
    assert "a last word" in Path(log).read_text()
    assert not (tmp_path / "out").exists()
    assert status(root) == ""


def test_what_builds_leave_in_the_repository_is_said(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    writing = in_tree("writing", "open('left-behind.txt', 'w').close()\n")
    root = write_tree(tmp_path / "repo", workspace_of(writing))
    commit(root)
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 0, result.out
    assert "the builds left files in the repository: writing/left-behind.txt" in result.out


def test_a_backend_that_writes_into_its_pinned_manifest_blocks_until_someone_decides(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    code = "open('pyproject.toml', 'a').write('# a backend was here\\n')\n"
    writing = in_tree("writing", code, dependencies='["good-one"]')
    good = package("good-one", '"flit-core"', "flit_core.buildapi")
    root = write_tree(tmp_path / "repo", workspace_of(writing, good))
    with (root / "writing/pyproject.toml").open("a") as manifest:
        manifest.write("[tool.uv.sources]\ngood-one = { workspace = true }\n")
    commit(root)
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 5, result.out + result.err
    assert not (tmp_path / "out").exists()
    assert releasekit("build", "--out", tmp_path / "out", cwd=root).code == 5


HANGING = """\
import os, subprocess, sys, time
def build_wheel(*_):
    grandchild = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print("pids", os.getpid(), grandchild.pid, os.getppid(), flush=True)
    time.sleep(600)
"""


@contextmanager
def hanging(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, list[int]]]:
    """A build in the middle of it, and the processes below: hook, daemon and server."""
    stuck = in_tree("stuck", HANGING, dependencies='["good-one"]')
    good = package("good-one", '"flit-core"', "flit_core.buildapi")
    root = write_tree(tmp_path / "repo", workspace_of(stuck, good))
    with (root / "stuck/pyproject.toml").open("a") as manifest:
        manifest.write("[tool.uv.sources]\ngood-one = { workspace = true }\n")
    commit(root)
    command = [sys.executable, "-m", "releasekit", "build", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child, root, _pids(child, root)
        finally:
            child.kill()


def _pids(child: subprocess.Popen[str], root: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        for log in journal_directory(root).glob("runs/*/logs/pypi-stuck.log"):
            if found := re.findall(r"pids (\d+) (\d+) (\d+)", log.read_text()):
                return [int(pid) for pid in found[0]]
        time.sleep(0.02)
    pytest.fail(f"the build never hung: {child.communicate()}")


def test_kill_9_takes_every_child_along_and_the_next_command_clears_up(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    with hanging(tmp_path) as (child, root, pids):
        [scratch] = [Path((journal_directory(root) / "scratch").read_text())]
        assert "good-one==1.2.3" in (root / "stuck/pyproject.toml").read_text()
        child.kill()
        child.wait()
        for pid in pids:
            assert has_ended(pid)
    assert scratch.exists()
    (root / "stuck/backend.py").write_text("from flit_core.buildapi import *\n")
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 0, result.out + result.err
    assert result.err.startswith("note: restored `stuck/pyproject.toml`")
    assert "good-one==1.2.3" not in (root / "stuck/pyproject.toml").read_text()
    assert not scratch.exists()
    assert sorted(path.suffix for path in (tmp_path / "out").glob("[!.]*.*")) == [
        ".gz", ".gz", ".json", ".whl", ".whl",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_builds_and_restores_the_files(
    number: signal.Signals, tmp_path: Path
) -> None:
    with hanging(tmp_path) as (child, root, pids):
        child.send_signal(number)
        child.communicate(timeout=30)
        assert child.returncode == 3
        for pid in pids:
            assert has_ended(pid)
        assert status(root) == ""
        assert not (journal_directory(root) / "scratch").exists()
    assert not (tmp_path / "out").exists()


def test_a_build_takes_the_commits_time(releasekit: ReleaseKit, tmp_path: Path) -> None:
    curious = in_tree("curious", "import os\nprint('epoch', os.environ['SOURCE_DATE_EPOCH'])\n")
    root = write_tree(tmp_path / "repo", workspace_of(curious))
    commit(root)
    made = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert releasekit("build", "--out", tmp_path / "out", cwd=root).code == 0
    assert f"epoch {made}\n" in (tmp_path / "out/logs/pypi-curious.log").read_text()


def test_findings_of_all_packages_come_at_once_and_can_be_allowed_with_a_reason(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    packages = [
        {
            **package(f"leaky-{number}", '"hatchling"', "hatchling.build"),
            f"leaky-{number}/src/leaky_{number}/.env": "TOKEN=1\n",
        }
        for number in range(2)
    ]
    root = write_tree(tmp_path / "repo", workspace_of(*packages))
    commit(root)
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 1
    for number in range(2):
        assert f"failed: pypi:leaky-{number}" in result.out
        assert f"`leaky_{number}/.env` looks like a secret" in result.out
    assert not (tmp_path / "out").exists()
    (root / "releasekit.toml").write_text(
        '[inspect.allow]\n"leaky-*" = { secrets = "an example without a secret" }\n'
    )
    allowed = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert allowed.code == 0, allowed.out
    assert "allowed (an example without a secret)" in allowed.out
    (root / "releasekit.toml").write_text('[inspect.allow]\n"leaky-*" = { secrets = " " }\n')
    refused = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert refused.code == 2
    assert "say why `secrets` is allowed" in refused.err


def test_an_artifact_folder_is_only_ever_replaced_by_whole_files(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    root, out = tmp_path / "repo", tmp_path / "out"
    write_sample(root, node={}, python={"acme-text": ()})
    (out / ".incomplete").mkdir(parents=True)
    (out / ".incomplete/acme_text-1.0.0.tar.gz").write_bytes(b"half")
    (out / "kept.txt").write_text("mine")
    assert releasekit("build", "--out", out, cwd=root).code == 0
    assert not (out / ".incomplete").exists()
    assert (out / "kept.txt").read_text() == "mine"
    assert not (out / ".gitignore").exists()
    assert (out / "acme_text-1.0.0.tar.gz").stat().st_size > 100


def test_a_place_that_cannot_take_artifacts_is_told_before_anything_is_built(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file/below"):
        result = releasekit("build", "--out", out, cwd=root)
        assert result.code == 2
        assert f"`{tmp_path / 'file'}` is not a folder" in result.err
        assert "building" not in result.out
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("fresh", [True, False])
def test_a_full_disk_leaves_nothing_half_written(
    *, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = tmp_path / "repo", tmp_path / "out"
    if not fresh:
        out.mkdir()
        (out / "kept.txt").write_text("mine")
    write_sample(root, node={}, python={"acme-text": ()})
    real = process.move

    def move(source: Path, target: Path) -> Path:
        if source.suffix == ".whl":
            target.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device", str(source))
        return real(source, target)

    monkeypatch.setattr("releasekit.publish.deliver.process.move", move)
    monkeypatch.setattr(keeper, "hide_environment", lambda: None)  # of the tests' own process
    request = DeliverRequest(root=root, config=config.load(root), out=out)
    with pytest.raises(OutNotUsable, match=f"`{out}`: No space left on device"):
        asyncio.run(deliver(
            request, observe=lambda _: None, note_recovery=lambda _: None, control=RunControl()
        ))  # fmt: skip
    assert [path.name for path in out.glob("*")] == ([] if fresh else ["kept.txt"])
    assert out.exists() is not fresh


def test_versions_from_git_are_asked_before_the_pins_and_written_into_dependents(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    scm = '[tool.setuptools_scm]\nroot = ".."\n'
    told = package(
        "told", '"setuptools", "setuptools-scm"', "setuptools.build_meta", scm,
        dynamic='["version"]',
    )  # fmt: skip
    user = package("a-user", '"flit-core"', "flit_core.buildapi",
                   "[tool.uv.sources]\ntold = { workspace = true }\n",
                   dependencies='["told"]')  # fmt: skip
    root = write_tree(tmp_path / "repo", workspace_of(told, user))
    (root / ".gitignore").write_text("*.egg-info\n")
    commit(root)
    subprocess.run(["git", "tag", "v2.5.0"], cwd=root, check=True)
    result = releasekit("build", "--out", tmp_path / "out", cwd=root)
    assert result.code == 0, result.out + result.err
    with zipfile.ZipFile(tmp_path / "out/a_user-1.2.3-py3-none-any.whl") as wheel:
        metadata = wheel.read("a_user-1.2.3.dist-info/METADATA").decode()
    assert "Requires-Dist: told==2.5.0" in metadata
    assert (tmp_path / "out/told-2.5.0-py3-none-any.whl").exists()


def test_a_password_in_an_address_reaches_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://me:s3cret@127.0.0.1:9/")
    monkeypatch.setenv("npm_config_registry", "http://:s3cret@127.0.0.1:9/npm/")
    seen = build_environment(tmp_path)
    assert "s3cret" not in str(seen)
    assert seen["https_proxy"] == "http://127.0.0.1:9/"
    assert seen["npm_config_registry"] == "http://127.0.0.1:9/npm/"
