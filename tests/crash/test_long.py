"""The long run: `uv run pytest tests/crash -s`. It prints how many crash states it has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash import harness, tracing
from tests.crash.harness import Tally
from tests.crash.implementations import Releasekit

if TYPE_CHECKING:
    from pathlib import Path


def test_a_thousand_crash_states() -> None:
    tally = Tally()
    real = Releasekit()
    for exchange in (True, False):
        for count in (1, 4, 8):
            harness.crash_everywhere(real, tally, count=count, exchange=exchange)
        harness.crash_recovery_everywhere(real, tally, count=4, exchange=exchange)
        harness.power_cuts(real, tally, count=4, exchange=exchange, samples=10)
    for edited in (0, 1):
        harness.crash_and_edit(real, tally, count=4, edited=edited)
    print(f"\npins: {tally}")
    assert tally.bad == []
    assert len(tally.images) >= 1000


def test_a_kill_at_every_system_call(tmp_path: Path) -> None:
    if reason := tracing.missing():
        pytest.skip(reason)
    tally = Tally()
    tracing.kill_everywhere(tally, tmp_path / "log", count=4)
    tracing.kill_recovery_everywhere(tally, tmp_path / "log", count=4)
    print(f"\npins under strace: {tally}")
    assert tally.bad == []


def test_every_system_call_fails_once_and_for_good(tmp_path: Path) -> None:
    if reason := tracing.missing():
        pytest.skip(reason)
    tally = Tally()
    errors = ("ENOSPC", "EIO", "EACCES", "EROFS")
    tracing.fail_everywhere(tally, tmp_path / "log", count=2, errors=errors)
    print(f"\nfailing system calls: {tally.tried} tried, {len(tally.bad)} bad")
    assert tally.bad == []
