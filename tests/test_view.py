"""Frames as text: from events with a fixed clock, without a terminal.

The screens are files in tests/screens; UPDATE_SCREENS=1 writes them anew, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from releasekit.events import (
    Artifact,
    BuildFinished,
    BuildStarted,
    ConcurrencyChanged,
    Confirmed,
    Found,
    LaneClosed,
    Noted,
    Outcome,
    Paused,
    PlannedRelease,
    Quitting,
    ReleaseEnded,
    Resumed,
    RetryScheduled,
    RunStarted,
    Stage,
    StageStarted,
    UploadAnswered,
    UploadProgressed,
    UploadSent,
)
from releasekit.model import Check, Severity
from releasekit.ui.frame import Shown, frame
from releasekit.ui.lasting import lasting
from releasekit.ui.symbols import ASCII, UNICODE
from releasekit.ui.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from releasekit.events import Event
    from releasekit.ui.symbols import Symbols

SCREENS = Path(__file__).parent / "screens"
NOON = 1_800_000_000.0
SIZES = ((80, 10), (200, 60))


pytestmark = pytest.mark.usefixtures("utc")


def planned(*names: str, needs: tuple[str, ...] = (), **more: float) -> list[PlannedRelease]:
    return [
        PlannedRelease(package=name, version="1.2.0", registry="pypi", needs=needs, **more)
        for name in names
    ]


def viewed(events: Iterable[Event], workspace: str = "acme") -> View:
    view = View(workspace=workspace)
    for event in events:
        view.apply(event)
    return view


def text_of(view: View, *, now: float, width: int, height: int, **more: object) -> str:
    symbols: Symbols = more.pop("symbols", UNICODE)  # type: ignore[assignment]
    shown = Shown(**more)  # type: ignore[arg-type]
    lines = frame(view, now=now, width=width, height=height, symbols=symbols, shown=shown)
    assert len(lines) <= height
    texts = ["".join(text for text, _ in line) for line in lines]
    assert all(cell_len(text) <= width for text in texts)
    return "\n".join(texts)


def artifact(name: str, size: int = 40_000) -> Artifact:
    return Artifact(file=f"{name}.whl", size=size, sha256="aa", sha512="bb")


def started(releases: list[PlannedRelease], command: str = "publish") -> list[Event]:
    return [
        RunStarted(
            run="r", command=command, releasekit="0", commit=None, releases=tuple(releases), at=NOON
        ),
        StageStarted(stage=Stage.BUILD, at=NOON),
    ]


def sent(name: str, at: float, size: int = 40_000) -> list[Event]:
    file = f"{name}.whl"
    return [
        BuildFinished(package=name, artifacts=(artifact(name, size),), at=at),
        UploadSent(package=name, file=file, sha256="aa", at=at),
    ]


def a_release_of_300() -> list[Event]:
    """Everything that a row can say, and a registry that wants to be left alone."""
    first = [f"pypi:base-{number:03}" for number in range(8)]
    rest = [f"pypi:plugin-{number:03}" for number in range(292)]
    releases = [*planned(*first, expected=3.0), *planned(*rest, needs=(first[0],), expected=2.0)]
    events = started(releases)
    events.append(StageStarted(stage=Stage.UPLOAD, at=NOON + 20))
    for number, name in enumerate(first):
        size = 2_500_000 if number == 1 else 40_000
        events += sent(name, NOON + 21, size)
    big, confirming, lost, waits, done, failed = first[1], *first[2:7]
    events += [
        UploadProgressed(
            package=big, file=f"{big}.whl", sent=1_000_000, size=2_500_000, at=NOON + 22
        ),
        UploadAnswered(
            package=confirming, file=f"{confirming}.whl", status=200, words="OK", at=NOON + 22
        ),
        RetryScheduled(
            package=lost, attempt=1, reason="the answer was lost", seconds=9.0, at=NOON + 22
        ),
        LaneClosed(registry="pypi", seconds=30.0, at=NOON + 22),
        RetryScheduled(
            package=waits, attempt=2, reason="429 Too Many Requests", seconds=30.0, at=NOON + 22
        ),
        ReleaseEnded(package=done, outcome=Outcome.PUBLISHED, at=NOON + 23),
        ReleaseEnded(package=failed, outcome=Outcome.FAILED, reason="403", at=NOON + 23),
        ConcurrencyChanged(concurrency=12, at=NOON + 23),
    ]
    return events


def builds() -> list[Event]:
    releases = planned("pypi:acme-text", "npm:@acme/parser", "pypi:größe-名前", "pypi:acme-app")
    return [
        *started(releases),
        BuildStarted(package="pypi:acme-text", at=NOON + 1),
        BuildFinished(package="pypi:acme-text", artifacts=(artifact("acme-text"),), at=NOON + 2),
        BuildStarted(package="npm:@acme/parser", at=NOON + 2),
        BuildStarted(package="pypi:größe-名前", at=NOON + 3),
    ]


LOG = ("pypi:base-002: logs/pypi-base-002.log", ["Collecting", "  error: no\tsuch \x1b[31mfile"])
SHOWN: dict[str, dict[str, object]] = {
    "rows": {},
    "all": {"all": True, "selected": "pypi:plugin-100"},
    "help": {"help": True},
    "log": {"log": LOG, "selected": "pypi:base-002"},
    "ascii": {"symbols": ASCII},
}


def assert_screen(name: str, text: str) -> None:
    """Each line ends with a bar, so that blanks at its end are seen."""
    file = SCREENS / f"{name}.txt"
    told = "".join(f"{line}|\n" for line in text.split("\n"))
    if os.environ.get("UPDATE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(told, encoding="utf-8")
    assert told == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("shown", SHOWN)
def test_a_release_of_300_fits_every_screen(size: tuple[int, int], shown: str) -> None:
    width, height = size
    view = viewed(a_release_of_300())
    text = text_of(view, now=NOON + 25, width=width - 1, height=height - 2, **SHOWN[shown])
    assert_screen(f"release-{shown}-{width}x{height}", text)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_wide_names_align_while_building(size: tuple[int, int]) -> None:
    width, height = size
    view = viewed(builds())
    text = text_of(view, now=NOON + 5, width=width - 1, height=height - 2)
    assert_screen(f"build-{width}x{height}", text)
    rows = [line for line in text.split("\n") if "building  " in line]
    assert len({cell_len(row) for row in rows}) == 1
    assert len({cell_len(row.partition("building")[0]) for row in rows}) == 1


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"])
    | st.sampled_from("e\u0301名👩\u200d🚀\u202e\x1b\x9b"),
    min_size=1,
    max_size=40,
)


@given(
    names=st.lists(NAMES, min_size=1, max_size=6, unique=True),
    width=st.integers(1, 250),
    height=st.integers(1, 70),
    shown=st.sampled_from(sorted(SHOWN)),
)
def test_no_name_and_no_size_breaks_the_frame(
    names: list[str], width: int, height: int, shown: str
) -> None:
    events = started(planned(*names))
    events.append(StageStarted(stage=Stage.UPLOAD, at=NOON))
    for name in names[:4]:
        events += sent(name, NOON)
    events.append(RetryScheduled(package=names[0], attempt=1, reason=names[-1], seconds=3, at=NOON))
    text = text_of(viewed(events), now=NOON + 1, width=width, height=height, **SHOWN[shown])
    assert not set(text) & set("\x1b\x9b\u202e\u200d\r\x07")


def test_columns_align_as_a_terminal_counts_cells() -> None:
    names = ["pypi:cafe\u0301", "pypi:名前-tools", "pypi:plain", "pypi:a\u0301\u0323b"]
    events = started(planned(*names))
    events += [BuildStarted(package=name, at=NOON) for name in names]
    screen = pyte.Screen(80, 10)
    text = text_of(viewed(events), now=NOON + 5, width=79, height=9)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    rows = [screen.buffer[number] for number in range(1, 5)]
    assert {"".join(row[column].data for column in range(75, 79)) for row in rows} == {"0:05"}
    column = min(index for index in range(80) if screen.buffer[3][index].data == "g") - 7
    assert {row[column].data for row in rows} == {"b"}  # of "building"


def test_the_header_says_what_holds_the_run() -> None:
    view = viewed(builds())
    for event, words in (
        (Paused(), "building, then paused 1/4"),  # a pause never stops a build
        (Resumed(), "building 1/4"),
        (StageStarted(stage=Stage.UPLOAD, at=NOON + 9), "uploading 0/4"),
        (Paused(), "paused 0/4"),
        (Quitting(), "quitting 0/4"),
    ):
        view.apply(event)
        assert words in text_of(view, now=NOON + 10, width=80, height=9)


def test_before_the_plan_is_known_one_line_says_what_is_done() -> None:
    view = viewed([StageStarted(stage=Stage.PREFLIGHT, at=NOON)])
    assert text_of(view, now=NOON, width=80, height=9) == "⠋ asking the registries"


def test_time_left_comes_from_earlier_runs_then_from_this_one() -> None:
    releases = [
        *planned("pypi:a", expected=4.0),
        *planned("pypi:b", needs=("pypi:a",), expected=6.0),
        *planned("pypi:c"),
    ]
    view = viewed([*started(releases), StageStarted(stage=Stage.UPLOAD, at=NOON)])
    assert view.seconds_left(NOON) == 10  # the chain; what is unknown takes as long as others
    for event in sent("pypi:a", NOON):
        view.apply(event)
    assert view.seconds_left(NOON + 3) == 7
    view.apply(ReleaseEnded(package="pypi:a", outcome=Outcome.PUBLISHED, at=NOON + 4))
    assert view.seconds_left(NOON + 4) == 6
    view.apply(LaneClosed(registry="pypi", seconds=100, at=NOON + 5))
    assert view.seconds_left(NOON + 5) == 100
    view.apply(Paused())
    assert view.seconds_left(NOON + 6) is None


def test_time_left_of_builds_counts_what_this_run_has_built() -> None:
    names = ["pypi:a", "pypi:b", "pypi:c"]
    view = viewed(started(planned(*names), command="build"))
    assert view.seconds_left(NOON + 1) is None
    view.apply(BuildFinished(package="pypi:a", artifacts=(), at=NOON + 5))
    assert view.seconds_left(NOON + 5) == 10


def test_rate_and_speed_are_of_the_uploads() -> None:
    view = viewed(
        [*started(planned("pypi:a", "pypi:b")), StageStarted(stage=Stage.UPLOAD, at=NOON)]
    )
    for event in sent("pypi:a", NOON, size=60_000):
        view.apply(event)
    view.apply(UploadAnswered(package="pypi:a", file="pypi:a.whl", status=200, words="", at=NOON))
    view.apply(Confirmed(package="pypi:a", file="pypi:a.whl", sha256="aa", at=NOON + 20))
    view.apply(ReleaseEnded(package="pypi:a", outcome=Outcome.PUBLISHED, at=NOON + 20))
    assert view.per_minute(NOON + 30) == 2
    assert view.bytes_per_second(NOON + 30) == 2000


def test_a_row_leaves_when_its_package_has_ended_and_the_order_stays() -> None:
    view = viewed(
        [*started(planned("pypi:a", "pypi:b", "pypi:c")), StageStarted(stage=Stage.UPLOAD)]
    )
    for name in ("pypi:c", "pypi:a", "pypi:b"):
        for event in sent(name, NOON):
            view.apply(event)
    assert list(view.active) == ["pypi:c", "pypi:a", "pypi:b"]
    view.apply(RetryScheduled(package="pypi:c", attempt=1, reason="", seconds=1))
    view.apply(ReleaseEnded(package="pypi:a", outcome=Outcome.FAILED))
    assert list(view.active) == ["pypi:c", "pypi:b"]
    assert view.failing == "pypi:a"


def line(event: Event, view: View) -> str | None:
    view.apply(event)
    told = lasting(event, view, UNICODE)
    return None if told is None else "".join(text for text, _ in told)


def test_lines_that_stay() -> None:
    view = viewed(
        [*started(planned("pypi:a", "pypi:b", "pypi:c", "pypi:d")), *sent("pypi:a", NOON)]
    )
    ended = ReleaseEnded(package="pypi:a", outcome=Outcome.PUBLISHED, at=NOON + 2)
    assert line(ended, view) == "✓ pypi:a 1.2.0  published  40.0 kB  2.0 s"
    failed = ReleaseEnded(package="pypi:b", outcome=Outcome.FAILED, reason="no\x1b[1m\nmore")
    assert line(failed, view) == "✗ pypi:b 1.2.0  failed: no�[1m"
    blocked = ReleaseEnded(package="pypi:c", outcome=Outcome.BLOCKED, blocked_by="pypi:b")
    assert line(blocked, view) == "⊘ pypi:c 1.2.0  blocked by pypi:b"
    found = Found(
        package="pypi:c", check=Check.FILES, severity=Severity.WARNING, file="c.whl",
        message="odd", hint="",
    )  # fmt: skip
    assert line(found, view) == "! pypi:c  warning: c.whl: odd"
    assert line(Noted(message="look"), view) == "! look"
    # Counted in the summary: hundreds of lines about nothing would push away what matters.
    there = ReleaseEnded(package="pypi:d", outcome=Outcome.ALREADY_THERE)
    assert line(there, view) is None
