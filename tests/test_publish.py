"""The first true slice: real builds, real registries, and every way it can go wrong said aloud."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from releasekit import journal
from releasekit.events import Outcome, UploadSent, fold
from tests.faults import faulty_registry
from tests.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result

PYTHON_ORDER = ["pypi:acme-text", "pypi:acme-models", "pypi:acme-app"]


def pypi_option(settings: RegistrySettings) -> str:
    return f"pypi={settings.upload_url},{settings.index_url}"


def outcomes(result: Result) -> dict[str, str]:
    return {
        event["package"]: event["outcome"]
        for event in result.events()
        if event["event"] == "release-ended"
    }


def served(settings: RegistrySettings, name: str) -> dict[str, str]:
    page = httpx.get(f"{settings.index_url}{name}/")
    return dict(re.findall(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"', page.text))


def test_three_python_packages_reach_the_registry_in_order_with_our_bytes(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    result = releasekit(
        "-C", tmp_path / "repo", "publish", "--yes", "--output", "json",
        "--registry", pypi_option(pypi),
    )  # fmt: skip
    assert result.code == 0, result.err
    assert list(outcomes(result)) == PYTHON_ORDER
    assert set(outcomes(result).values()) == {"published"}
    [file] = tmp_path.glob("repo/.releasekit/runs/*/journal.jsonl")
    releases = journal.read_state(file).releases
    for name in ("acme-app", "acme-models", "acme-text"):
        built = {made.file: made.sha256 for made in releases[f"pypi:{name}"].artifacts}
        assert len(built) == 2
        assert served(pypi, name) == built


def test_what_was_published_installs_and_imports(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    result = releasekit("publish", "--yes", "--registry", pypi_option(pypi), cwd=tmp_path / "repo")
    assert result.code == 0, result.err
    assert "3 published" in result.out
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--python", python, "--index-url", str(pypi.index_url),
         "acme-app"],
        check=True,
    )  # fmt: skip
    subprocess.run([python, "-c", "import acme_app"], check=True, cwd=tmp_path)


def test_two_node_packages_reach_the_registry_and_install(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", python={})
    result = releasekit(
        "-C", tmp_path / "repo", "publish", "--yes", "--output", "json",
        "--registry", f"npm={npm.url}",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert outcomes(result) == {"npm:@acme/parser": "published", "npm:@acme/cli": "published"}
    assert list(outcomes(result)) == ["npm:@acme/parser", "npm:@acme/cli"]
    (tmp_path / "user").mkdir()
    environment = os.environ | {"npm_config_registry": str(npm.url)}
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", "@acme/cli"],
        check=True,
        cwd=tmp_path / "user",
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    script = "console.log(JSON.stringify(require('@acme/cli')))"
    shown = subprocess.run(
        ["node", "-e", script], check=True, cwd=tmp_path / "user", capture_output=True, text=True
    )
    assert json.loads(shown.stdout)["needs"][0]["name"] == "@acme/parser"


@pytest.mark.parametrize("shell", ["{} | head -1", "{} <&-", "{} >&-"])
def test_a_reader_who_leaves_and_closed_streams_end_no_release(
    tmp_path: Path, pypi: RegistrySettings, shell: str
) -> None:
    write_sample(tmp_path / "repo", node={})
    command = f"{sys.executable} -m releasekit publish --yes --registry {pypi_option(pypi)}"
    shown = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell.format(command)],
        cwd=tmp_path / "repo",
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    assert all(len(served(pypi, name)) == 2 for name in ("acme-text", "acme-models", "acme-app"))


def test_publishing_again_finds_everything_already_there(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    arguments = ("publish", "--yes", "--output", "json", "--registry", pypi_option(pypi))
    assert releasekit(*arguments, cwd=tmp_path / "repo").code == 0
    before = served(pypi, "acme-app")
    again = releasekit(*arguments, cwd=tmp_path / "repo")
    assert again.code == 0, again.err
    assert set(outcomes(again).values()) == {"already there"}
    assert not [event for event in again.events() if event["event"] == "build-started"]
    assert served(pypi, "acme-app") == before


def test_nothing_is_sent_without_a_yes(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    result = releasekit("publish", "--registry", pypi_option(pypi), cwd=tmp_path / "repo")
    assert result.code == 3
    assert "pypi:acme-text 1.0.0" in result.out
    assert "`--yes`" in result.err
    assert served(pypi, "acme-text") == {}
    assert not (tmp_path / "repo/.releasekit/runs").exists()


def test_a_failing_build_is_loud_and_nothing_is_uploaded(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    (tmp_path / "repo/python/acme-models/src/acme_models/__init__.py").unlink()
    result = releasekit("publish", "--yes", "--registry", pypi_option(pypi), cwd=tmp_path / "repo")
    assert result.code == 1
    assert "failed: pypi:acme-models" in result.out
    assert "Expected a Python module" in result.out
    assert "1 failed · 2 cancelled" in result.out
    assert served(pypi, "acme-text") == {}


@pytest.mark.parametrize("code", ["0", "9"])
def test_a_build_tool_that_leaves_nothing_is_loud_whatever_it_says(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, code: str
) -> None:
    write_sample(tmp_path / "repo", node={})
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/uv"
    tool.write_text(f'#!/bin/sh\n[ "$1" = build ] && exit {code}\nexec {shutil.which("uv")} "$@"\n')
    tool.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    result = releasekit(
        "publish", "--yes", "--registry", pypi_option(pypi), cwd=tmp_path / "repo",
        env={"PATH": path},
    )  # fmt: skip
    assert result.code == 1
    expected = "exit code 9" if code == "9" else "the build left no sdist"
    assert expected in result.out
    assert served(pypi, "acme-text") == {}


def test_a_refused_upload_is_loud_and_blocks_only_its_dependents(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(
        tmp_path / "repo",
        node={},
        python={"acme-app": ("acme-models",), "acme-models": (), "acme-other": ()},
    )
    with faulty_registry(pypi, refuse="acme-models") as faulty:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--registry", pypi_option(faulty),
            cwd=tmp_path / "repo",
        )  # fmt: skip
    assert result.code == 1
    assert outcomes(result) == {
        "pypi:acme-models": "failed",
        "pypi:acme-other": "published",
        "pypi:acme-app": "blocked",
    }
    [failed] = [event for event in result.events() if event.get("outcome") == "failed"]
    assert "does not let us publish" in failed["reason"]
    assert "403 Forbidden" in failed["reason"]


def test_a_wrong_hash_is_loud(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    with faulty_registry(pypi, corrupt="acme-text") as faulty:
        result = releasekit(
            "publish", "--yes", "--registry", pypi_option(faulty), cwd=tmp_path / "repo"
        )
    assert result.code == 1
    assert "the registry serves other bytes as `acme_text-1.0.0" in result.out
    assert "1 failed · 2 blocked" in result.out


def test_a_lost_answer_is_settled_by_the_hash(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    with faulty_registry(pypi, drop_answer="acme-text") as faulty:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--registry", pypi_option(faulty),
            cwd=tmp_path / "repo",
        )  # fmt: skip
    assert result.code == 0, result.err
    assert any(
        event["event"] == "upload-answered" and event["status"] is None for event in result.events()
    )
    assert set(outcomes(result).values()) == {"published"}


def test_a_version_that_is_only_partly_there_stops_with_the_missing_file_named(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    arguments = ("publish", "--yes", "--registry", pypi_option(pypi))
    assert releasekit(*arguments, cwd=tmp_path / "repo").code == 0
    packages = tmp_path / "pypi-registry/packages"
    next(packages.glob("acme_text-*.tar.gz")).unlink()
    for file in packages.glob("acme_models-*"):
        file.unlink()
    result = releasekit(*arguments, cwd=tmp_path / "repo")
    assert result.code == 1
    assert "1.0.0 is on the registry without an sdist" in result.out
    assert "blocked: pypi:acme-models, which needs pypi:acme-text" in result.out


def test_a_registry_that_is_down_is_loud_before_anything_is_built(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", node={})
    result = releasekit(
        "publish", "--yes", "--registry", "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/simple/",
        cwd=tmp_path / "repo",
    )  # fmt: skip
    assert result.code == 1
    assert "http://127.0.0.1:9/simple/acme-" in result.err
    assert not (tmp_path / "repo/.releasekit/runs").exists()


def test_the_fence_keeps_a_publish_without_registries_on_this_machine(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    """The default registries are the public ones; the tests' dead proxy must stand before them."""
    write_sample(tmp_path / "repo")
    result = releasekit("publish", "--yes", cwd=tmp_path / "repo")
    assert result.code == 1
    assert "cannot be read: ConnectError" in result.err
    assert not (tmp_path / "repo/.releasekit/runs").exists()


def test_the_journal_tells_the_run_again(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    subprocess.run(["git", "init", "--quiet", tmp_path / "repo"], check=True)
    arguments = ("publish", "--yes", "--allow-dirty", "--registry", pypi_option(pypi))
    assert releasekit(*arguments, cwd=tmp_path / "repo").code == 0
    [run] = (tmp_path / "repo/.git/releasekit/runs").iterdir()
    replay = journal.read(run / journal.FILE_NAME)
    state = fold(replay.events)
    assert state.ok is True
    assert len(state.by_outcome(Outcome.PUBLISHED)) == 3
    for event in replay.events:
        if isinstance(event, UploadSent):
            assert event.sha256 in state.releases[event.package].confirmed


def test_a_prerelease_without_a_tag_is_refused(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", python={}, version="1.0.0-beta.1", node={"@acme/parser": ()})
    arguments = ("publish", "--yes", "--registry", f"npm={npm.url}")
    result = releasekit(*arguments, cwd=tmp_path / "repo")
    assert result.code == 2
    assert "needs a dist-tag of its own" in result.err
    manifest = tmp_path / "repo/node/parser/package.json"
    body = json.loads(manifest.read_text())
    body["publishConfig"]["tag"] = "beta"
    manifest.write_text(json.dumps(body))
    assert releasekit(*arguments, cwd=tmp_path / "repo").code == 0
    tags = httpx.get(f"{npm.url}@acme%2fparser").json()["dist-tags"]
    assert tags["beta"] == "1.0.0-beta.1"
