from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from releasekit.events import (
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunStarted,
    Stage,
    StageStarted,
    fold,
)
from releasekit.ui import github
from tests.faults import Fault, faulty_registry
from tests.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from releasekit.events import RunState
    from tests.conftest import ReleaseKit

BAD = "x\n::error::owned\r::set-env name=A::b ##[group]c <img src=x> | `d` [e](f)"


def heard(log: str) -> list[str]:
    """What a runner would take for a command, as it reads a log.

    A reader of lines ends them at CR as well; a command may stand behind blanks, `##[` anywhere.
    """
    commands, stopped = [], None
    for line in re.split(r"\r\n|\r|\n", log):
        found = re.match(r"\s*::([^: ]+)[^:]*::(.*)", line)
        name = found[1] if found else None
        if stopped is not None:
            if name == stopped:
                stopped = None
            continue
        if found and name == "stop-commands":
            stopped = found[2]
        elif found:
            commands.append(line.strip())
        elif "##[" in line:
            commands.append(line)
    assert stopped is None, "commands are still stopped at the end"
    return commands


def failed(reason: str = BAD) -> RunState:
    return fold(
        [
            RunStarted(
                run="r", command="publish", releasekit="0", commit=None,
                releases=(PlannedRelease(package="pypi:a", version="1", registry="pypi"),),
            ),
            ReleaseEnded(package="pypi:a", outcome=Outcome.FAILED, reason=reason, hint=reason),
        ]
    )  # fmt: skip


def test_text_from_outside_gives_no_commands() -> None:
    text = github.without_commands("a\n ::error::b\n##[error]c\nok: ::d")
    assert heard(text) == []
    assert "ok: ::d" in text


def test_a_line_of_json_is_the_same_json_and_no_command() -> None:
    line = json.dumps({"words": BAD})
    safe = github.json_without_commands(line)
    assert json.loads(safe) == json.loads(line)
    assert heard(safe) == []


def test_an_error_stands_on_the_manifest_and_is_one_command() -> None:
    [line] = github.errors_on_manifests(failed(), {"pypi:a": "a,b:c/pyproject.toml"}.get)
    assert line.startswith("::error file=a%2Cb%3Ac/pyproject.toml,title=pypi%3Aa 1 failed::x%0A")
    assert heard(line) == [line]


def test_groups_close_and_commands_are_heard_again() -> None:
    lines: list[str] = []
    groups = github.Groups(lines.append)
    for stage in (Stage.BUILD, Stage.UPLOAD):
        groups.show(StageStarted(stage=stage))
        lines.append(BAD)
    groups.end()
    groups.end()
    assert heard("\n".join(lines)) == [
        "::group::Build", "::endgroup::", "::group::Upload", "::endgroup::",
    ]  # fmt: skip


def test_the_job_summary_is_a_table_that_nothing_breaks_out_of() -> None:
    summary = github.job_summary(failed(), "releasekit publish --yes")
    assert "### releasekit publish: 1 failed" in summary
    assert "    releasekit publish --yes" in summary
    [row] = [line for line in summary.split("\n") if line.startswith("| pypi:a")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert "<img" not in summary
    assert "\\[e\\]\\(f\\)" in row


def test_a_job_summary_of_thousands_stays_below_what_a_job_may_write() -> None:
    releases = tuple(
        PlannedRelease(package=f"npm:{number}-{'x' * 200}", version="1", registry="npm")
        for number in range(6000)
    )
    start = RunStarted(run="r", command="publish", releasekit="0", commit=None, releases=releases)
    summary = github.job_summary(fold([start]), None)
    assert len(summary.encode()) < 1_000_000
    assert re.search(r"\| … \| \| \| \d+ more \|", summary)


def test_a_failing_publish_on_actions(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    fault = Fault(status=400, words="bad ##[error]owned ::error::owned")
    with faulty_registry(pypi, uploads={"acme-models": [fault]}) as refusing:
        result = releasekit(
            "publish", "--yes", "--registry", f"pypi={refusing.upload_url},{refusing.index_url}",
            cwd=root,
            env={
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(tmp_path),
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            },
        )  # fmt: skip
    assert result.code == 1
    commands = heard(result.out)
    assert [line for line in commands if line.startswith("::group")] == [
        "::group::Read the workspace", "::group::Ask the registries", "::group::Build",
        "::group::Inspect", "::group::Upload",
    ]  # fmt: skip
    [error] = [line for line in commands if line.startswith("::error")]
    assert error.startswith("::error file=repo/python/acme-models/pyproject.toml,title=pypi%3Aacme")
    others = [
        line for line in commands if not line.startswith(("::group", "::endgroup", "::error "))
    ]
    assert others == []
    assert heard(result.err) == []
    summary = (tmp_path / "summary.md").read_text()
    assert re.search(r"\| pypi:acme\\-models \| 1.0.0 \| failed \| .*bad", summary)
    assert "| blocked | needs pypi:acme\\-models |" in summary
