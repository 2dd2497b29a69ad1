"""Which readers show a run where nobody looks: plain, quiet and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from releasekit import events
from tests.faults import faulty_registry
from tests.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


def option(settings: RegistrySettings) -> str:
    return f"--registry=pypi={settings.upload_url},{settings.index_url}"


@pytest.mark.parametrize("mode", ["auto", "live", "plain", "quiet"])
def test_modes_without_a_terminal(
    releasekit: ReleaseKit, tmp_path: Path, mode: str, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    result = releasekit(
        "publish", "--yes", "--progress", mode,
        option(pypi), cwd=tmp_path / "repo",
    )  # fmt: skip
    assert result.code == 0
    assert "1 published" in result.out
    lines = re.findall(r"^\d\d:\d\d:\d\d  pypi:acme-text  (\w+)", result.out, re.MULTILINE)
    expected = ["building", "built", "uploading", "uploading", "served", "served", "published"]
    assert lines == ([] if mode == "quiet" else expected)
    assert "\x1b" not in result.out


def test_json_is_one_event_a_line_also_of_an_error(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    manifest = tmp_path / "repo" / "python" / "acme-text" / "pyproject.toml"
    manifest.write_text(manifest.read_text().replace("A package", "Ein Paket \u009b2J für 名前,"))
    result = releasekit(
        "publish", "--yes", "--output", "json", "--registry",
        "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/simple/",
        cwd=tmp_path / "repo",
    )  # fmt: skip
    [line] = result.out.splitlines()
    assert json.loads(line)["error"]["exit_code"] == result.code == 1
    assert result.out.isascii()


def test_json_tells_all_that_happened_and_a_chosen_mode_goes_to_stderr(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    with faulty_registry(pypi, refuse="acme-models") as refusing:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--progress", "plain", option(refusing),
            cwd=tmp_path / "repo",
        )  # fmt: skip
    told = [events.from_json(line) for line in result.events()]
    assert told[0].kind == "run-started"
    assert told[-1].kind == "run-ended"
    state = events.fold(told)
    assert state.ok is False
    assert {str(release.outcome) for release in state.releases.values()} == {
        "published", "failed", "blocked",
    }  # fmt: skip
    assert "pypi:acme-models  failed" in result.err
    assert result.code == 1


def test_quiet_tells_failures_and_the_end(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    with faulty_registry(pypi, refuse="acme-models") as refusing:
        result = releasekit(
            "publish", "--yes", "--progress", "quiet", option(refusing), cwd=tmp_path / "repo"
        )
    lines = re.findall(r"^\d\d:\d\d:\d\d  (.*)", result.out, re.MULTILINE)
    assert [line.partition(":  ")[0].partition("  ")[0] for line in lines] == ["pypi:acme-models"]
    assert "1 published · 1 failed · 1 blocked" in result.out


def test_what_continues_does_not_give_up_on_what_was_sent(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    with faulty_registry(pypi, refuse="acme-text") as refusing:
        result = releasekit("publish", "--yes", "--fresh", option(refusing), cwd=tmp_path / "repo")
    assert re.search(r"to continue: releasekit publish --yes --registry=", result.out)
