from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit import events
from releasekit.errors import ForeignEvent
from releasekit.events import (
    Artifact,
    BuildFinished,
    Confirmed,
    Event,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunEnded,
    RunStarted,
    Stage,
    StageStarted,
    UploadSent,
    fold,
)
from releasekit.model import Check, Severity

if TYPE_CHECKING:
    from enum import StrEnum

ARTIFACT = Artifact(file="a-1.whl", size=3, sha256="aa", sha512="bb")
STARTED = RunStarted(
    run="r1",
    command="publish",
    releasekit="0.1.0",
    commit=None,
    releases=(
        PlannedRelease(package="pypi:b", version="1", registry="pypi"),
        PlannedRelease(package="pypi:a", version="1", registry="pypi", needs=("pypi:b",)),
    ),
)


def kinds() -> list[type[Event]]:
    return list(events._KINDS.values())


st.register_type_strategy(str, st.text(max_size=20))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


@given(data=st.data())
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.kind))
def test_every_event_survives_the_way_to_json_and_back(
    kind: type[Event], data: st.DataObject
) -> None:
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in
             {"kind", "durable", "passing", "at"}}  # fmt: skip
    event = kind(**{name: data.draw(st.from_type(hint)) for name, hint in hints.items()})
    again = events.from_json(json.loads(json.dumps(events.to_json(event))))
    assert again == event


def test_every_event_class_is_registered() -> None:
    # Slotted dataclasses leave a ghost class behind, so the names are compared.
    assert {kind.__name__ for kind in kinds()} == {k.__name__ for k in Event.__subclasses__()}


def test_fold_tells_how_far_each_release_has_come() -> None:
    state = fold([
        STARTED,
        StageStarted(stage=Stage.BUILD),
        BuildFinished(package="pypi:b", artifacts=(ARTIFACT,)),
        StageStarted(stage=Stage.UPLOAD),
        UploadSent(package="pypi:b", file="a-1.whl", sha256="aa"),
    ])  # fmt: skip
    assert state.stage is Stage.UPLOAD
    assert state.ok is None
    assert state.releases["pypi:b"].artifacts == (ARTIFACT,)
    assert state.releases["pypi:b"].sent == {"aa"}
    assert state.releases["pypi:b"].confirmed == frozenset()
    assert state.releases["pypi:a"].outcome is None


def test_fold_tells_outcomes_and_the_end() -> None:
    state = fold([
        STARTED,
        Confirmed(package="pypi:b", file="a-1.whl", sha256="aa"),
        ReleaseEnded(package="pypi:b", outcome=Outcome.PUBLISHED),
        ReleaseEnded(package="pypi:a", outcome=Outcome.BLOCKED, blocked_by="pypi:b"),
        RunEnded(ok=False),
    ])  # fmt: skip
    assert state.ok is False
    assert state.releases["pypi:b"].confirmed == {"aa"}
    assert [held.release.package for held in state.by_outcome(Outcome.BLOCKED)] == ["pypi:a"]
    assert state.releases["pypi:a"].blocked_by == "pypi:b"


def test_nothing_folds_to_a_run_that_never_was() -> None:
    assert fold([]).run is None


@pytest.mark.parametrize(
    "body",
    [
        {"v": 2, "event": "run-ended", "ok": True},
        {"v": 1, "event": "run-melted"},
        {"v": 1, "event": "run-ended"},
        {"v": 1, "event": "release-ended", "package": "x", "outcome": "fine"},
        {"v": 1, "event": "run-started", "releases": 3},
        {},
    ],
)
def test_what_is_not_an_event_of_ours_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ForeignEvent):
        events.from_json(body)


def test_a_field_of_a_later_release_is_passed_over() -> None:
    event = events.from_json({"v": 1, "event": "run-ended", "ok": True, "at": 1.0, "mood": "good"})
    assert event == RunEnded(ok=True, at=1.0)


def documented() -> dict[str, str]:
    """Kinds of docs/events.md, each with its row; one row may name several."""
    text = (Path(__file__).parent.parent / "docs" / "events.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    return {kind: row[2] for row in rows for kind in re.findall(r"`([^`]+)`", row[1])}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.kind))
def test_the_document_names_every_event_and_field(kind: type[Event]) -> None:
    """What stands in backticks is a name; a list of records names theirs as well."""
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", documented()[kind.kind]))))
    expected = {option.name for option in fields(kind)} - {"at"}
    for record, holder in ((Artifact, "artifacts"), (PlannedRelease, "releases")):
        if holder in expected:
            expected |= {option.name for option in fields(record)}
    assert named == expected


@pytest.mark.parametrize("words", [Stage, Outcome, Severity, Check], ids=lambda kind: kind.__name__)
def test_the_document_names_every_word_of_a_closed_list(words: type[StrEnum]) -> None:
    text = " ".join(documented().values())
    assert all(re.search(rf"\b{word}\b", text) for word in words)


def test_the_document_names_no_event_that_is_gone() -> None:
    assert set(documented()) == {kind.kind for kind in kinds()}
