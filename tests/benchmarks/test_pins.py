"""500 manifests pinned and restored, beside the least that could be done:
`uv run pytest tests/benchmarks/test_pins.py -s`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from releasekit import pins
from tests.crash import repository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 500
ROUNDS = 3
LIMIT = 3.0


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_500_manifests_cost_at_most_three_times_the_floor(tmp_path: Path) -> None:
    repository.write(tmp_path, COUNT)
    edits = repository.edits(tmp_path)

    def floor() -> None:
        """Write, sync and rename every file, twice: with no way back from a crash."""
        for content in ("pinned", "original"):
            for edit in edits:
                draft = edit.path.with_name("draft")
                descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.write(descriptor, getattr(edit, content))
                os.fsync(descriptor)
                os.close(descriptor)
                draft.rename(edit.path.resolve())

    def ours() -> None:
        with pins.applied(edits, root=tmp_path):
            pass

    times = [(seconds(ours), seconds(floor)) for _ in range(ROUNDS)]
    best, least = (min(column) for column in zip(*times, strict=True))
    print(f"\n{COUNT} manifests: {best:.2f} s, floor {least:.2f} s, ratio {best / least:.2f}")
    assert best <= LIMIT * least


def test_a_repository_without_leftovers_costs_next_to_nothing(tmp_path: Path) -> None:
    repository.write(tmp_path, 4)
    rounds = 1000

    def check() -> None:
        for _ in range(rounds):
            pins.recover_if_needed(tmp_path)

    def read() -> None:
        for _ in range(rounds):
            for file in repository.manifests(tmp_path):
                file.read_bytes()

    checking, reading = seconds(check), seconds(read)
    print(f"\nnothing to recover: {checking / rounds * 1e6:.0f} µs")
    assert checking < reading, "looking for leftovers must cost less than reading four manifests"
