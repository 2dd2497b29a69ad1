"""What earlier runs have sent and not finished: its bytes must be used again, not built again.

A rebuild is rarely the same to the byte, and a registry keeps the first bytes it got.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import (
    DamagedJournal,
    KeptArtifactChanged,
    NothingToResume,
    PlanChanged,
    TreeChanged,
    UnknownRun,
)
from releasekit.events import GOOD_OUTCOMES, Artifact, RunStarted, RunState
from releasekit.publish.build import artifact_folder, read_artifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from releasekit.events import PlannedRelease
    from releasekit.plan import Plan

LAST = ""
"""Instead of a run's id: the last one."""
UPLOADING = frozenset({"publish", "rehearse"})
"""The commands that send files."""
INCOMING, GOING = ".incoming", ".going"
"""How the folder of a run ends that is being copied or removed."""
RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The artifacts of a release of which a registry may hold something."""

    run: str
    commit: str | None
    folder: Path
    """The run's."""
    artifacts: tuple[Artifact, ...]


Key = tuple[str, str]
"""A package's id and its version."""


def run_folders(home: Path) -> list[Path]:
    """The runs whose journal is here, newest first."""
    runs = home / "runs"
    found = runs.iterdir() if runs.is_dir() else ()
    return sorted(
        (one for one in found if RUN_ID.fullmatch(one.name) and journal.is_kept_in(one)),
        reverse=True,
    )


def torn_run(home: Path) -> str | None:
    """The last run, where a kill or a power cut took the end of its journal."""
    for folder in run_folders(home)[:1]:
        with contextlib.suppress(DamagedJournal):  # `publish_runs` tells
            if journal.read(folder / journal.FILE_NAME).torn:
                return folder.name
    return None


def publish_runs(home: Path) -> Iterator[tuple[Path, RunState]]:
    """Newest first. A damaged journal of a publish stops here: it may tell of sent files."""
    for folder in run_folders(home):
        state = _publish_in(folder)
        if state is not None:
            yield folder, state


def _publish_in(folder: Path) -> RunState | None:
    path = folder / journal.FILE_NAME
    try:
        state = journal.read_state(path)
    except DamagedJournal:
        began = journal.first_event(path)
        if isinstance(began, RunStarted) and began.command not in UPLOADING:
            return None  # it sent nothing
        raise
    return state if state.command in UPLOADING else None


def kept_releases(home: Path) -> dict[Key, Kept]:
    """The newest run decides: what it published is settled, what it sent is kept.

    A fresh run gave up on all before it.
    """
    found: dict[Key, Kept | None] = {}
    for folder in run_folders(home):
        if began := journal.ended_well(folder / journal.FILE_NAME):
            if began.command not in UPLOADING:
                continue
            for one in began.releases:
                found.setdefault((one.package, one.version), None)
            if began.fresh:
                break
            continue
        if (state := _publish_in(folder)) is None:
            continue
        for package, held in state.releases.items():
            key = (package, held.release.version)
            if key in found:
                continue
            if held.outcome in GOOD_OUTCOMES:
                found[key] = None
            elif held.sent:
                found[key] = Kept(
                    run=state.run or folder.name,
                    commit=state.commit,
                    folder=folder,
                    artifacts=held.artifacts,
                )
        if state.fresh:
            break
    return {key: kept for key, kept in found.items() if kept is not None}


def run_to_resume(home: Path, run: str) -> RunState:
    """The run with this id, or the last publish; an error where nothing of it is left to do."""
    for folder, state in publish_runs(home):
        if run not in {LAST, folder.name}:
            continue
        if state.ok:
            raise NothingToResume(run=folder.name)
        return state
    if run == LAST:
        raise NothingToResume(run=None)
    known = [folder.name for folder in run_folders(home)]
    raise UnknownRun(run=run, last=known[0] if known else None)


def plan_of(earlier: RunState, plan: Plan, commit: str | None) -> Plan:
    """What the earlier run was about, and nothing else; refused where that is no more."""
    wanted = {name: held.release.version for name, held in earlier.releases.items()}
    partly = tuple(release for release, _ in plan.partly_there)
    now = {one.package: one.version for one in (*plan.releases, *plan.already_there, *partly)}
    run = earlier.run or ""
    for package, version in wanted.items():
        if now.get(package) != version:
            raise PlanChanged(run=run, package=package, before=version, now=now.get(package))
    if earlier.commit != commit:
        raise TreeChanged(run=run, before=earlier.commit, now=commit)

    def within(releases: Iterable[PlannedRelease]) -> tuple[PlannedRelease, ...]:
        return tuple(
            replace(one, needs=tuple(need for need in one.needs if need in wanted))
            for one in releases
            if one.package in wanted
        )

    return replace(
        plan,
        releases=within(plan.releases),
        already_there=within(plan.already_there),
        partly_there=tuple(one for one in plan.partly_there if one[0].package in wanted),
    )


def check_tree(kept: Iterable[Kept], commit: str | None) -> None:
    """Files of one version must come from one tree."""
    for one in kept:
        if one.commit != commit:
            raise TreeChanged(run=one.run, before=one.commit, now=commit)


def take_over(kept: Mapping[str, Kept], folder: Path) -> None:
    """Put the kept artifacts into the new run's folder, each checked against its hash."""
    for package, one in kept.items():
        target = artifact_folder(folder, package)
        target.mkdir(parents=True)
        for artifact in one.artifacts:
            source = artifact_folder(one.folder, package) / artifact.file
            if not source.is_file() or read_artifact(source).sha256 != artifact.sha256:
                raise KeptArtifactChanged(file=source, run=one.run)
            try:
                os.link(source, target / artifact.file)
            except OSError:
                shutil.copyfile(source, target / artifact.file)
