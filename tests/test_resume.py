"""Running it again is the repair: nothing twice, nothing lost, the same bytes."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.faults import Fault, faulty_registry
from tests.sample import write_sample
from tests.test_publish import outcomes, pypi_option, served

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True)


def repository(root: Path, **sample: object) -> Path:
    write_sample(root, node={}, **sample)  # type: ignore[arg-type]
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "one")
    return root


def publish(
    releasekit: ReleaseKit, root: Path, pypi: RegistrySettings, *extra: str | Path
) -> Result:
    return releasekit(
        "publish", "--yes", "--output", "json", "--registry", pypi_option(pypi), *extra, cwd=root
    )


def half_published(releasekit: ReleaseKit, root: Path, pypi: RegistrySettings) -> dict[str, str]:
    """The wheel of acme-text is up and its sdist is refused."""
    faults = {"acme-text": [Fault(status=200, stored=True), Fault(status=400, words="not today")]}
    with faulty_registry(pypi, uploads=faults) as faulty:
        first = publish(releasekit, root, faulty)
    assert first.code == 1
    assert len(served(pypi, "acme-text")) == 1
    return served(pypi, "acme-text")


def test_wheel_up_and_sdist_not_is_finished_with_the_same_bytes(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    wheel = half_published(releasekit, root, pypi)
    again = publish(releasekit, root, pypi)
    assert again.code == 0, again.err
    assert set(outcomes(again).values()) == {"published"}
    built = [event["package"] for event in again.events() if event["event"] == "build-started"]
    assert "pypi:acme-text" not in built
    assert served(pypi, "acme-text").items() >= wheel.items()
    assert len(served(pypi, "acme-text")) == 2
    sent = [event["file"] for event in again.events() if event["event"] == "upload-sent"]
    assert "acme_text-1.0.0-py3-none-any.whl" not in sent
    assert set(outcomes(publish(releasekit, root, pypi)).values()) == {"already there"}


def test_a_changed_commit_is_explained_and_refused(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    half_published(releasekit, root, pypi)
    git(root, "commit", "--allow-empty", "--quiet", "-m", "two")
    refused = publish(releasekit, root, pypi)
    assert refused.code == 2
    assert refused.json()["error"]["kind"] == "TreeChanged"
    fresh = publish(releasekit, root, pypi, "--fresh")
    assert fresh.code == 1
    assert "is on the registry without an sdist" in fresh.out


def test_a_kept_artifact_that_changed_is_never_sent(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    half_published(releasekit, root, pypi)
    [sdist] = root.glob(".git/releasekit/runs/*/artifacts/pypi-acme-text/*.tar.gz")
    sdist.write_bytes(sdist.read_bytes() + b"x")
    again = publish(releasekit, root, pypi)
    assert again.code == 1
    assert again.json()["error"]["kind"] == "KeptArtifactChanged"
    assert len(served(pypi, "acme-text")) == 1


def test_a_damaged_journal_is_explained(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    half_published(releasekit, root, pypi)
    [file] = root.glob(".git/releasekit/runs/*/journal.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    again = publish(releasekit, root, pypi)
    assert again.code == 1
    assert again.json()["error"]["kind"] == "DamagedJournal"
    assert "journal.jsonl:4:" in again.json()["error"]["message"]
    assert "publish --fresh" in again.json()["error"]["hint"]
    assert len(served(pypi, "acme-text")) == 1
    fresh = publish(releasekit, root, pypi, "--fresh")
    assert "is on the registry without an sdist" in fresh.out
    # From here on nobody asks the damaged one again.
    assert "is on the registry without an sdist" in publish(releasekit, root, pypi).out


def test_a_torn_last_line_is_explained_and_the_run_goes_on(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    half_published(releasekit, root, pypi)
    [file] = root.glob(".git/releasekit/runs/*/journal.jsonl")
    with file.open("ab") as lines:
        lines.write(b'{"v":1,"event":"noted"')
    again = publish(releasekit, root, pypi)
    assert again.code == 0, again.err
    notes = [event["message"] for event in again.events() if event["event"] == "noted"]
    assert any(file.parent.name in note and "ends within a line" in note for note in notes)


def test_resume_does_what_the_run_was_about_and_nothing_else(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = repository(tmp_path / "repo")
    nothing = publish(releasekit, root, pypi, "--resume")
    assert nothing.code == 2
    assert nothing.json()["error"]["kind"] == "NothingToResume"
    half_published(releasekit, root, pypi)
    [run] = (folder.name for folder in root.glob(".git/releasekit/runs/*"))
    unknown = publish(releasekit, root, pypi, "--resume", "20000101T000000-abcdef")
    assert unknown.code == 2
    assert run in unknown.json()["error"]["message"]
    both = publish(releasekit, root, pypi, "--resume", "--fresh")
    assert both.json()["error"]["kind"] == "ResumeOrFresh"
    manifest = root / "python/acme-app/pyproject.toml"
    original = manifest.read_text()
    manifest.write_text(original.replace('version = "1.0.0"', 'version = "1.0.1"'))
    changed = publish(releasekit, root, pypi, "--allow-dirty", "--resume", run)
    assert changed.json()["error"]["kind"] == "PlanChanged"
    assert "pypi:acme-app 1.0.0; it is 1.0.1 now" in changed.json()["error"]["message"]
    manifest.write_text(original)
    again = publish(releasekit, root, pypi, f"--resume={run}", "--receipts", tmp_path / "r.json")
    assert again.code == 0, again.err
    assert set(outcomes(again).values()) == {"published"}
    body = json.loads((tmp_path / "r.json").read_text())
    assert body["ok"] is True
    for name in ("acme-text", "acme-models", "acme-app"):
        mine = [one for one in body["receipts"] if one["package"] == f"pypi:{name}"]
        assert {one["file"]: one["sha256"] for one in mine} == served(pypi, name)
        assert all(one["confirmed"] and one["outcome"] == "published" for one in mine)
        assert {one["address"] for one in mine} == {pypi.upload_url}
    complete = publish(releasekit, root, pypi, "--resume")
    assert complete.json()["error"]["kind"] == "NothingToResume"
