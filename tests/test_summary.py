from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.events import (
    Artifact,
    BuildFinished,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunStarted,
    UploadSent,
    fold,
)
from releasekit.ui.summary import summary

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.events import Event, RunState


def folded(packages: list[str], *events: Event) -> RunState:
    releases = tuple(
        PlannedRelease(package=name, version="1", registry="pypi") for name in packages
    )
    start = RunStarted(run="r", command="publish", releasekit="0", commit=None, releases=releases)
    return fold([start, *events])


def told(state: RunState, folder: Path | None = None, **logs: Path) -> list[str]:
    text = summary(
        state, lambda words, _: words, again="releasekit publish --yes", folder=folder,
        log_of=logs.get,
    )  # fmt: skip
    return text.split("\n")


def ended(
    package: str,
    outcome: Outcome,
    *,
    reason: str | None = None,
    hint: str | None = None,
    blocked_by: str | None = None,
) -> ReleaseEnded:
    return ReleaseEnded(
        package=package, outcome=outcome, reason=reason, hint=hint, blocked_by=blocked_by
    )


COUNTS = (
    "1 published · 1 already there · 2 failed · 2 blocked · 1 cancelled · 1 unknown · 1 not begun"
)


def test_all_outcomes_are_told_with_reasons_grouped_by_cause(tmp_path: Path) -> None:
    state = folded(
        ["a", "b", "c", "d", "e", "f", "g", "h", "i"],
        ended("a", Outcome.PUBLISHED),
        ended("b", Outcome.ALREADY_THERE),
        ended("c", Outcome.FAILED, reason="403 Forbidden", hint="check the credential"),
        ended("d", Outcome.FAILED, reason="403 Forbidden", hint="check the credential"),
        ended("e", Outcome.BLOCKED, blocked_by="c"),
        ended("f", Outcome.BLOCKED, blocked_by="c"),
        ended("g", Outcome.CANCELLED, reason="you quit"),
        UploadSent(package="h", file="h.whl", sha256="aa"),
        ended("h", Outcome.CANCELLED),
    )
    assert told(state, tmp_path) == [
        "",
        "failed: c, d",
        "  403 Forbidden",
        "  hint: check the credential",
        "blocked: e, f, which need c",
        "cancelled: g: you quit",
        "unknown: h: sent, and not seen there before we stopped; the next run asks the registry",
        COUNTS,
        f"logs: {tmp_path / 'run.log'} and {tmp_path / 'logs'}",
        "to continue: releasekit publish --yes",
    ]


def test_the_end_of_each_failing_log_is_shown(tmp_path: Path) -> None:
    logs = {}
    for name in ("a", "b", "c", "d"):
        logs[name] = tmp_path / f"{name}.log"
        lines = [f"{name} line {number}" for number in range(40)]
        logs[name].write_text("\n".join([*lines, "\x1b]0;owned\x07the end"]))
    built = BuildFinished(
        package="d", artifacts=(Artifact(file="d.whl", size=1, sha256="aa", sha512="bb"),)
    )
    state = folded(
        ["a", "b", "c", "d"],
        built,
        *(ended(name, Outcome.FAILED, reason="the build failed") for name in logs),
    )
    lines = told(state, tmp_path, **logs)
    for name in ("a", "b", "c"):
        at = lines.index(f"  the end of {logs[name]}:")
        assert lines[at + 1] == f"  | {name} line 29"
        assert lines[at + 12] == "  | �]0;owned�the end"
    # It was built: its log says nothing about an upload.
    assert f"  the end of {logs['d']}:" not in lines


def test_what_went_well_is_one_line() -> None:
    state = folded(["a", "b"], ended("a", Outcome.PUBLISHED), ended("b", Outcome.ALREADY_THERE))
    state.ok = True
    assert told(state) == ["", "1 published · 1 already there"]


def test_hundreds_are_counted_not_listed() -> None:
    names = [f"p{number}" for number in range(300)]
    state = folded(names, *(ended(name, Outcome.FAILED, reason="down") for name in names))
    assert told(state)[1] == f"failed: {', '.join(names[:10])} and 290 more"
