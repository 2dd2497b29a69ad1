"""How long packages took in earlier runs, from the first byte to the receipt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import DamagedJournal
from releasekit.events import Outcome, ReleaseEnded, UploadSent
from releasekit.publish.resume import run_folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from releasekit.plan import Plan

RUNS_READ = 3


def known_durations(home: Path) -> dict[str, float]:
    """The newest run that published a package tells; only the last few runs are read."""
    found: dict[str, float] = {}
    for folder in run_folders(home)[:RUNS_READ]:
        try:
            told = journal.read(folder / journal.FILE_NAME).events
        except DamagedJournal:
            continue  # those who need it whole will say so
        began: dict[str, float] = {}
        for event in told:
            match event:
                case UploadSent():
                    began.setdefault(event.package, event.at)
                case ReleaseEnded(outcome=Outcome.PUBLISHED) if event.package in began:
                    seconds = max(0.0, event.at - began[event.package])
                    found.setdefault(event.package, seconds)
    return found


def with_expected(plan: Plan, durations: Mapping[str, float]) -> Plan:
    return replace(
        plan,
        releases=tuple(replace(one, expected=durations.get(one.package)) for one in plan.releases),
    )
