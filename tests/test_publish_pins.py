"""Pins and the lock in a real publish: versions in the artifacts, no trace in the tree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from releasekit import pins
from releasekit.lock import hold, journal_directory
from tests.sample import write_sample
from tests.test_process import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit

NOWHERE = "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/"


def contents(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(file.relative_to(root)): (
            file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino
        )
        for file in sorted(root.rglob("*"))
        if file.is_file() and ".git" not in file.parts and ".releasekit" not in file.parts
    }  # fmt: skip


def requirements(root: Path, package: str) -> list[str]:
    name = package.replace("-", "_")
    [wheel] = (root.parent / "pypi-registry").rglob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(name).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]


def test_artifacts_name_the_siblings_they_were_released_with_and_the_tree_is_untouched(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root)
    manifest = root / "node/cli/package.json"
    manifest.write_text(manifest.read_text().replace('"^1.0.0"', '"workspace:^"'))
    before = contents(root)
    result = releasekit(
        "publish", "--yes", "--registry", f"npm={npm.url}",
        "--registry", f"pypi={pypi.upload_url},{pypi.index_url}", cwd=root,
    )  # fmt: skip
    assert result.code == 0, result.out + result.err
    assert contents(root) == before
    assert requirements(root, "acme-app") == ["acme-models==1.0.0"]
    assert requirements(root, "acme-models") == ["acme-text==1.0.0"]
    [tarball] = (root.parent / "npm-registry").rglob("@acme/cli/*.tgz")
    with tarfile.open(tarball) as archive:
        packed = archive.extractfile("package/package.json")
        assert packed is not None
        assert json.load(packed)["dependencies"] == {"@acme/parser": "^1.0.0"}


def test_the_policy_is_the_configurations(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    (root / "releasekit.toml").write_text(
        '[pins]\npolicy = "compatible"\npackages = { "pypi:acme-app" = "minimum" }\n'
    )
    result = releasekit(
        "publish", "--yes", "--registry", f"pypi={pypi.upload_url},{pypi.index_url}", cwd=root
    )
    assert result.code == 0, result.out + result.err
    assert requirements(root, "acme-app") == ["acme-models>=1.0.0"]
    assert requirements(root, "acme-models") == ["acme-text~=1.0.0"]


def test_a_bound_that_excludes_the_sibling_is_refused_before_anything_happens(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    manifest = root / "python/acme-app/pyproject.toml"
    manifest.write_text(manifest.read_text().replace('["acme-models"]', '["acme-models<1"]'))
    before = contents(root)
    result = releasekit(
        "publish", "--yes", "--registry", f"pypi={pypi.upload_url},{pypi.index_url}", cwd=root
    )
    assert result.code == 2
    assert "acme-models" in result.err
    assert "1.0.0" in result.err
    assert contents(root) == before


def test_a_second_release_is_told_who_holds_the_lock(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path, node={})
    with hold(journal_directory(tmp_path), command="releasekit publish", run="r1"):
        result = releasekit("publish", "--yes", "--registry", NOWHERE, cwd=tmp_path)
        assert result.code == 4
        assert f"process {os.getpid()}" in result.err
        assert releasekit("discover", cwd=tmp_path).code == 0
        assert "running: `releasekit publish`" in releasekit("status", cwd=tmp_path).out
    assert releasekit("publish", "--yes", "--registry", NOWHERE, cwd=tmp_path).code == 1


SLOW_BACKEND = """
import os, pathlib, time
def get_requires_for_build_sdist(config_settings=None): return []
def build_sdist(folder, config_settings=None):
    pathlib.Path(os.environ["TMPDIR"], "building").write_text(str(os.getpid()))
    time.sleep(600)
"""


@contextmanager
def building(
    tmp_path: Path, pypi: RegistrySettings, prepared: Callable[[Path], None] = lambda _: None
) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """A publish that has pinned its manifests and hangs in a build."""
    root = tmp_path / "repo"
    write_sample(root, node={})
    # The last in the order, so that siblings with pins are built before it.
    folder = root / "python/acme-app"
    manifest = folder / "pyproject.toml"
    manifest.write_text(
        manifest.read_text().replace(
            'requires = ["uv_build"]\nbuild-backend = "uv_build"',
            'requires = []\nbuild-backend = "slow"\nbackend-path = ["."]',
        )
    )
    (folder / "slow.py").write_text(SLOW_BACKEND)
    prepared(root)
    (tmp_path / "tmp").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "releasekit", "publish", "--yes", "--registry",
         f"pypi={pypi.upload_url},{pypi.index_url}"],
        cwd=root,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    marker = tmp_path / "tmp/building"
    try:
        deadline = time.monotonic() + 60
        while not (marker.exists() and marker.read_text()):
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield child, root, int(marker.read_text())
    finally:
        child.kill()
        child.communicate()


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_during_the_builds_ends_them_and_restores_the_files(
    tmp_path: Path, pypi: RegistrySettings, number: signal.Signals, times: int
) -> None:
    with building(tmp_path, pypi) as (child, root, build):
        manifest = root / "python/acme-app/pyproject.toml"
        assert "acme-models==1.0.0" in manifest.read_text()
        for _ in range(times):
            child.send_signal(number)
        child.communicate(timeout=20)
        assert child.returncode == 3
        assert "acme-models==1.0.0" not in manifest.read_text()
        assert ended(build)
        assert not (root / ".releasekit/pins").exists()


def test_readers_see_the_originals_during_a_live_run(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    with building(tmp_path, pypi) as (_, root, _):
        manifest = root / "python/acme-app/pyproject.toml"
        during = releasekit("discover", "--output", "json", cwd=root)
        assert during.code == 0, during.err
        assert "acme-models==1.0.0" in manifest.read_text()
        status = releasekit("status", "--output", "json", cwd=root).json()
        assert status["running"]["command"] == "releasekit publish"
        assert len(status["manifests"]) == 2
        assert status["needs_recovery"] is False


def test_discovery_reads_the_original_of_a_pinned_manifest(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path, node={}, python={"acme-text": ()})
    manifest = tmp_path / "python/acme-text/pyproject.toml"
    original = manifest.read_bytes()
    snapshot = original.replace(b'"1.0.0"', b'"9.9.9.dev1"')
    with pins.applied(
        [pins.Edit(path=manifest, original=original, pinned=snapshot)], root=tmp_path
    ):
        assert manifest.read_bytes() == snapshot
        [package] = releasekit("discover", "--output", "json", cwd=tmp_path).json()["packages"]
        assert package["version"] == "1.0.0"
    assert manifest.read_bytes() == original


def test_after_kill_9_the_next_command_restores_the_files_and_says_so(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    with building(tmp_path, pypi) as (child, root, build):
        manifest = root / "python/acme-app/pyproject.toml"
        child.kill()
        child.communicate()
        assert has_ended(build)
        assert "acme-models==1.0.0" in manifest.read_text()
        status = releasekit("status", cwd=root)
        assert "an interrupted run left manifests behind" in status.out
        result = releasekit("discover", cwd=root)
        assert result.code == 0
        assert result.err.startswith("note: restored 2 manifests")
        assert "acme-models==1.0.0" not in manifest.read_text()
        assert releasekit("discover", cwd=root).err == ""
