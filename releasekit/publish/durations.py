"""How long packages took in earlier runs, from the first byte to the receipt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import DamagedJournal
from releasekit.events import Event, Outcome, ReleaseEnded, RetryScheduled, RunStarted, UploadSent
from releasekit.publish.resume import run_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from releasekit.plan import Plan

RUNS_READ = 3
COMMAND = "publish"
"""Rehearsals and demos upload to this machine: that tells nothing of a registry."""


def known_durations(home: Path) -> dict[str, float]:
    """The newest run that published a package tells; only the last few that published are read."""
    found: dict[str, float] = {}
    read = 0
    for folder in run_folders(home):
        path = folder / journal.FILE_NAME
        began = journal.first_event(path)
        if not isinstance(began, RunStarted) or began.command != COMMAND:
            continue
        try:
            took = _durations(journal.read(path).events)
        except DamagedJournal:
            continue  # those who need it whole will say so
        found = took | found
        read += bool(took)
        if read == RUNS_READ:
            break
    return found


def _durations(told: Iterable[Event]) -> dict[str, float]:
    """From the first byte to the receipt, without the waits between two attempts."""
    began: dict[str, float] = {}
    took: dict[str, float] = {}
    for event in told:
        match event:
            case UploadSent():
                began.setdefault(event.package, event.at)
            case RetryScheduled() if event.package in began:
                began[event.package] += event.seconds
            case ReleaseEnded(outcome=Outcome.PUBLISHED) if event.package in began:
                took[event.package] = max(0.0, event.at - began[event.package])
    return took


def with_expected(plan: Plan, durations: Mapping[str, float]) -> Plan:
    return replace(
        plan,
        releases=tuple(replace(one, expected=durations.get(one.package)) for one in plan.releases),
    )
