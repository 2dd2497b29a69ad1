from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from releasekit.events import (
    Artifact,
    Attested,
    BuildFinished,
    BuildStarted,
    ConcurrencyChanged,
    Confirmed,
    Found,
    LaneClosed,
    Noted,
    Outcome,
    Paused,
    Quitting,
    ReleaseEnded,
    Resumed,
    RetryScheduled,
    RunEnded,
    RunStarted,
    Stage,
    StageStarted,
    UploadAnswered,
    UploadProgressed,
    UploadSent,
    Withheld,
)
from releasekit.model import Check, Severity
from releasekit.ui.plain import line_for

if TYPE_CHECKING:
    from releasekit.events import Event

AT = 1_800_000_000.0
TOLD: tuple[tuple[Event, str | None], ...] = (
    (RunStarted(at=AT, run="r", command="publish", releasekit="0", commit=None, releases=()), None),
    (StageStarted(at=AT, stage=Stage.BUILD), "building"),
    (BuildStarted(at=AT, package="pypi:a"), "pypi:a  building"),
    (
        BuildFinished(
            at=AT,
            package="pypi:a",
            artifacts=(Artifact(file="a.whl", size=1500, sha256="", sha512=""),),
        ),
        "pypi:a  built a.whl (1.5 kB)",
    ),
    (Noted(at=AT, message="look"), "note: look"),
    (Noted(at=AT, package="pypi:a", message="x\x1by"), "pypi:a  note: x�y"),
    (
        Found(
            at=AT, package="pypi:a", check=Check.SIZE, severity=Severity.ERROR, file="a.whl",
            message="big", hint="",
        ),
        "pypi:a  error: a.whl: big",
    ),
    (
        Found(
            at=AT, package="pypi:a", check=Check.SIZE, severity=Severity.ALLOWED, file="",
            message="big", hint="data",
        ),
        "pypi:a  allowed (data): big",
    ),
    (
        Attested(at=AT, package="pypi:a", file="a.whl", sha256="", log_index=7),
        "pypi:a  signed a.whl, entry 7 of the log",
    ),
    # All that a dry run would have sent is told at its end.
    (
        Withheld(
            at=AT, package="pypi:a", file="a.whl", size=1, sha256="", registry="pypi", address="",
        ),
        None,
    ),
    (UploadSent(at=AT, package="pypi:a", file="a.whl", sha256=""), "pypi:a  uploading a.whl"),
    # Once a tenth of a second: of use to a view, spam in a log.
    (UploadProgressed(at=AT, package="pypi:a", file="a.whl", sent=1, size=2), None),
    (UploadAnswered(at=AT, package="pypi:a", file="a.whl", status=200, words="OK"), None),
    (
        UploadAnswered(at=AT, package="pypi:a", file="a.whl", status=503, words="busy\n::error::"),
        "pypi:a  the registry said: busy�::error::",
    ),
    (
        RetryScheduled(at=AT, package="pypi:a", attempt=1, reason="busy\nmore", seconds=2.4),
        "pypi:a  again in 2 s: busy",
    ),
    (LaneClosed(at=AT, registry="pypi", seconds=60), "pypi asked us to wait until 08:01:00"),
    (
        Confirmed(at=AT, package="pypi:a", file="a.whl", sha256="0123456789abcdef"),
        "pypi:a  served a.whl sha256:0123456789ab…",
    ),
    (Paused(at=AT), "paused between uploads: `r` or SIGUSR2 goes on"),
    (Resumed(at=AT), "going on"),
    (Quitting(at=AT), "quitting after what is in flight; a second Ctrl-C does not wait"),
    (ConcurrencyChanged(at=AT, concurrency=3), "3 uploads at once"),
    (ReleaseEnded(at=AT, package="pypi:a", outcome=Outcome.PUBLISHED), "pypi:a  published"),
    (ReleaseEnded(at=AT, package="pypi:a", outcome=Outcome.BUILT), None),
    (
        ReleaseEnded(at=AT, package="pypi:a\x1b", outcome=Outcome.FAILED, reason="why\nlong"),
        "pypi:a�  failed: why",
    ),
    (
        ReleaseEnded(at=AT, package="pypi:a", outcome=Outcome.BLOCKED, blocked_by="pypi:b"),
        "pypi:a  blocked by pypi:b",
    ),
    (ReleaseEnded(at=AT, package="pypi:a", outcome=Outcome.ALREADY_THERE), "pypi:a  already there"),
    (ReleaseEnded(at=AT, package="pypi:a", outcome=Outcome.CANCELLED, reason="x"), None),
    (RunEnded(at=AT, ok=True), None),
)  # fmt: skip


@pytest.mark.parametrize(("event", "words"), TOLD, ids=lambda value: getattr(value, "kind", ""))
@pytest.mark.usefixtures("utc")
def test_a_line_has_a_time_a_package_and_what_happened(event: Event, words: str | None) -> None:
    line = line_for(event, lambda text, _: text)
    assert line == (None if words is None else f"08:00:00  {words}")


def test_every_kind_of_event_was_considered() -> None:
    from releasekit import events

    assert {type(event) for event, _ in TOLD} == set(events._KINDS.values())
