"""`releasekit check` tells what stands before a release, and changes nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.building import write_tree
from tests.sample import write_sample
from tests.test_build_command import commit
from tests.test_publish import pypi_option, served
from tests.test_publish_pins import building, contents

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit

KEYS = {"severity", "package", "message", "hint"}


def everything(root: Path) -> dict[str, Any]:
    """Also what lies in `.git`; git's own index may be refreshed."""
    return contents(root) | {
        str(file): file.stat().st_mtime_ns for file in root.rglob(".git/**/*") if file.is_file()
    }


def test_a_check_tells_all_problems_in_one_document_and_changes_nothing(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    commit(root)
    where = ("--registry", pypi_option(pypi))
    before = everything(root)
    fine = releasekit("check", "--output", "json", *where, cwd=root)
    assert fine.code == 0, fine.err
    assert fine.json() == {
        "v": 1,
        "ok": True,
        "snapshot": None,
        "releases": [
            {
                "package": f"pypi:{name}",
                "version": "1.0.0",
                "registry": "pypi",
                "address": pypi.upload_url,
                "new": True,
                "needs": needs,
            }
            for name, needs in (
                ("acme-text", []),
                ("acme-models", ["pypi:acme-text"]),
                ("acme-app", ["pypi:acme-models"]),
            )
        ],
        "already_there": [],
        "partly_there": [],
        "problems": [],
    }
    assert everything(root) == before
    (root / "new.txt").write_text("")
    bad = releasekit(
        "check", "--package", "acme-app", "--tag", "next", "--output", "json", *where, cwd=root
    )
    assert bad.code == 1
    problems = bad.json()["problems"]
    assert [(one["severity"], one["package"]) for one in problems] == [
        ("error", None),
        ("error", "pypi:acme-app"),
        ("warning", None),
    ]
    assert all(one.keys() == KEYS for one in problems)
    assert "`new.txt`" in problems[0]["message"]
    assert "neither on its registry nor part of this run" in problems[1]["message"]
    assert "`--tag next`" in problems[2]["message"]
    text = releasekit("check", "--package", "acme-app", "--tag", "next", *where, cwd=root)
    assert text.code == 1
    assert text.out.count("  hint: ") == 3
    assert "error: pypi:acme-app needs pypi:models" in text.out.replace("acme-models", "models")
    assert "2 errors and 1 warning: nothing could be published" in text.out
    allowed = releasekit("check", "--allow-dirty", *where, cwd=root)
    assert allowed.code == 0
    assert "nothing stands before this release (1 warning)" in allowed.out
    assert not (root / ".git/releasekit").exists()


def test_a_mistake_on_the_command_line_is_one_and_no_problem(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path, node={})
    assert releasekit("check", "--package", "acme-txt", cwd=tmp_path).code == 2


def test_a_version_that_is_only_partly_there_is_an_error(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    where = ("--registry", pypi_option(pypi))
    assert releasekit("publish", "--yes", *where, cwd=root).code == 0
    next((tmp_path / "pypi-registry/packages").glob("acme_text-*.tar.gz")).unlink()
    result = releasekit("check", "--output", "json", *where, cwd=root)
    assert result.code == 1
    [problem] = result.json()["problems"]
    assert problem["package"] == "pypi:acme-text"
    assert "1.0.0 is on the registry without an sdist" in problem["message"]
    [partly] = result.json()["partly_there"]
    assert partly["missing"] == "an sdist"
    assert len(result.json()["already_there"]) == 2


def test_a_check_works_beside_a_live_run_and_reads_the_originals(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_tree(root, {".gitignore": "__pycache__\n"})
    subprocess.run(["git", "init", "--quiet", root], check=True)
    with building(tmp_path, pypi, prepared=commit) as (child, _, _):
        pinned = (root / "python/acme-app/pyproject.toml").read_bytes()
        assert b"acme-models==1.0.0" in pinned
        result = releasekit("check", "--output", "json", "--registry", pypi_option(pypi), cwd=root)
        assert result.code == 0, result.out + result.err
        assert [one["package"] for one in result.json()["releases"]] == [
            "pypi:acme-text",
            "pypi:acme-models",
            "pypi:acme-app",
        ]
        assert result.json()["problems"] == []
        assert (root / "python/acme-app/pyproject.toml").read_bytes() == pinned
        assert child.poll() is None


def test_beside_a_live_run_no_build_is_asked_for_a_version(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    dynamic = """\
[project]
name = "acme-told"
dynamic = ["version"]
[build-system]
requires = ["setuptools", "setuptools-scm"]
build-backend = "setuptools.build_meta"
"""

    def add(root: Path) -> None:
        write_tree(root, {"python/acme-told/pyproject.toml": dynamic})
        (root / "releasekit.toml").write_text('exclude = ["acme-told"]\n')

    with building(tmp_path, pypi, prepared=add) as (_, root, _):
        (root / "releasekit.toml").write_text("")
        before = sorted(root.rglob("*"))
        result = releasekit("check", "--output", "json", "--registry", pypi_option(pypi), cwd=root)
        assert sorted(root.rglob("*")) == before
    assert result.code == 0, result.err
    [problem] = result.json()["problems"]
    assert problem["severity"] == "warning"
    assert "the version of pypi:acme-told is not written" in problem["message"]
    assert "check again afterwards" in problem["hint"]


# A dry run


def test_a_dry_run_shows_what_would_be_sent_where_and_sends_nothing(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root)
    commit(root)
    before = contents(root)
    where = ("--registry", pypi_option(pypi), "--registry", f"npm={npm.url}")
    shown = releasekit("publish", "--dry-run", *where, cwd=root)
    assert shown.code == 0, shown.err
    result = releasekit("publish", "--dry-run", "--output", "json", *where, cwd=root)
    assert result.code == 0, result.err
    assert contents(root) == before
    withheld = [one for one in result.events() if one["event"] == "withheld"]
    assert len(withheld) == 3 * 2 + 2
    built = {
        (one["package"], file["file"]): file["sha256"]
        for one in result.events()
        if one["event"] == "build-finished"
        for file in one["artifacts"]
    }
    assert {(one["package"], one["file"]): one["sha256"] for one in withheld} == built
    assert {one["address"] for one in withheld} == {pypi.upload_url, npm.url}
    for one in withheld:
        assert f"{one['file']}  " in shown.out
    assert f"  pypi:acme-text 1.0.0 → {pypi.upload_url}" in shown.out
    assert shown.out.count("sha256:") == 8
    assert "nothing was sent; this would be, in this order:" in shown.out
    assert not [one for one in result.events() if one["event"] == "upload-sent"]
    assert served(pypi, "acme-text") == {}
    # It is no run that another could go on with.
    resumed = releasekit("publish", "--resume", "--output", "json", *where, cwd=root)
    assert resumed.json()["error"]["kind"] == "NothingToResume"


def test_a_dry_run_fails_where_a_publish_would(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    where = ("--registry", pypi_option(pypi))
    assert releasekit("publish", "--yes", "--package", "acme-text", *where, cwd=root).code == 0
    sdist = next((tmp_path / "pypi-registry/packages").glob("acme_text-*.tar.gz"))
    content = sdist.read_bytes()
    sdist.unlink()
    partly = releasekit("publish", "--dry-run", "--fresh", *where, cwd=root)
    assert partly.code == 1
    assert "blocked: pypi:acme-models, which needs pypi:acme-text" in partly.out
    assert "nothing was sent\n" in partly.out
    sdist.write_bytes(content)
    (root / "python/acme-app/src/acme_app/__init__.py").unlink()
    broken = releasekit("publish", "--dry-run", *where, cwd=root)
    assert broken.code == 1
    assert "failed: pypi:acme-app" in broken.out
    receipts = releasekit("publish", "--dry-run", "--receipts", tmp_path / "r", *where, cwd=root)
    assert receipts.code == 2
    assert served(pypi, "acme-models") == {}


# The plan is shown, and the terminal is asked


def answered(root: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """A publish at a terminal, where somebody types an answer."""
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "releasekit", "publish", "--progress", "plain", "--color", "never",
         *arguments],
        cwd=root, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while True:
            seen += os.read(terminal, 4096)
            if b"Publish? [y/N]" in seen and answer:
                os.write(terminal, f"{answer}\n".encode())
                answer = ""
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    return child.wait(timeout=30), seen.decode()


def test_the_plan_is_shown_with_what_is_new_and_what_is_wrong_and_then_asked(
    tmp_path: Path, releasekit: ReleaseKit, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    where = ("--registry", pypi_option(pypi))
    assert releasekit("publish", "--yes", "--package", "acme-text", *where, cwd=root).code == 0
    code, seen = answered(root, "n", "--tag", "next", *where)
    assert code == 3
    assert "2 to publish, 2 of them new, 1 already there, in this order:" in seen
    assert "pypi:acme-app 1.0.0 → " in seen
    assert seen.index("warning: `--tag next`") < seen.index("Publish? [y/N]")
    assert served(pypi, "acme-app") == {}
    code, seen = answered(root, "y", *where)
    assert code == 0, seen
    assert len(served(pypi, "acme-app")) == 2
    code, seen = answered(root, "", *where)
    assert code == 0
    assert "Publish?" not in seen  # nothing is left to ask about


def test_without_a_terminal_and_without_a_yes_nothing_begins(
    tmp_path: Path, releasekit: ReleaseKit, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    where = ("--tag", "next", "--registry", pypi_option(pypi))
    text = releasekit("publish", *where, cwd=tmp_path / "repo")
    assert text.code == 3
    assert "3 to publish, 3 of them new, in this order:" in text.out
    assert "warning: `--tag next`" in text.err
    assert "`--yes`" in text.err
    data = releasekit("publish", "--output", "json", *where, cwd=tmp_path / "repo")
    assert data.code == 3
    assert data.json()["error"]["kind"] == "Interrupted"
    assert served(pypi, "acme-text") == {}
