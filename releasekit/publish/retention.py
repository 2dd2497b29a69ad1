"""What runs that are over leave behind, and what of it may go.

Artifacts stay as long as a registry may hold a part of them: only their bytes can complete it. Of
every other run the journal tells enough, until there are more runs than are kept.

Runs go oldest first, and none that is newer than one with artifacts to keep: it may tell what has
become of them since. Each vanishes in one step and is emptied afterwards. So a kill in between
leaves journals that are whole and agree.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from releasekit import journal
from releasekit.errors import DamagedJournal
from releasekit.publish.resume import GOING, INCOMING, RUN_ID, kept_releases, run_folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log: structlog.stdlib.BoundLogger = structlog.get_logger()

ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A run, or only its artifacts, and why it may go."""

    path: Path
    run: str
    size: int
    files: int
    why: str

    @property
    def is_whole(self) -> bool:
        return self.path.name != ARTIFACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A run with artifacts of which a registry may hold a part."""

    run: str
    releases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """What would go, in the order in which it goes, and what would not."""

    removals: tuple[Removal, ...]
    unfinished: tuple[Unfinished, ...]
    damage: str | None = None
    """A journal that cannot be read: nobody knows what it and those before it hold."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.removals)


def plan_cleaning(home: Path, *, keep_runs: int, give_up: bool = False) -> Cleaning:
    """For who holds the lock alone: a running release is nobody's leftover."""
    runs = run_folders(home)[::-1]
    unfinished: tuple[Unfinished, ...] = ()
    damage = None
    try:
        unfinished = _unfinished(home)
        held = {one.run for one in unfinished}
    except DamagedJournal as error:
        damage = error.message
        held = {folder.name for folder in runs}
    surplus = {folder.name for folder in runs[: max(0, len(runs) - keep_runs)]}
    # An older journal would tell again of what this one has taken over.
    given_up = {folder.name for folder in runs if give_up and folder.name <= max(held, default="")}
    removals = list(_leftovers(home))
    oldest_held = min(held - given_up, default="~")
    for folder in runs:
        if folder.name in given_up:
            removals.append(_removal(folder, folder, "given up"))
        elif folder.name in surplus and folder.name < oldest_held:
            removals.append(_removal(folder, folder, f"older than the last {keep_runs} runs"))
        elif folder.name not in held and (folder / ARTIFACTS).is_dir():
            removals.append(_removal(folder, folder / ARTIFACTS, "nothing needs its artifacts"))
    return Cleaning(removals=tuple(removals), unfinished=unfinished, damage=damage)


def clean_up(cleaning: Cleaning) -> None:
    for one in cleaning.removals:
        going = one.path
        if RUN_ID.fullmatch(going.name):
            going = one.path.with_name(f"{one.run}{GOING}")
            one.path.rename(going)
        shutil.rmtree(going)


def tidy(home: Path, keep_runs: int, *, state: Path | None = None) -> None:
    """After a run that did all it was about; what cannot be removed fails nothing.

    `state` keeps the last run alone: it travels, and another machine looks for the artifacts of
    every run there that says of itself that it is unfinished.
    """
    try:
        clean_up(plan_cleaning(home, keep_runs=keep_runs))
        if state is not None:
            found = plan_cleaning(state, keep_runs=1)
            last = max((folder.name for folder in run_folders(state)), default="")
            going = tuple(one for one in found.removals if one.is_whole or one.run == last)
            clean_up(replace(found, removals=going))
    except OSError as error:
        log.warning("what earlier runs left was not removed", reason=str(error))


def _unfinished(home: Path) -> tuple[Unfinished, ...]:
    found: dict[str, list[str]] = {}
    for (package, version), kept in kept_releases(home).items():
        found.setdefault(kept.folder.name, []).append(f"{package} {version}")
    return tuple(Unfinished(run=run, releases=tuple(sorted(found[run]))) for run in sorted(found))


def _leftovers(home: Path) -> Iterator[Removal]:
    runs = home / "runs"
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        if folder.is_symlink() or not folder.is_dir():
            continue
        if folder.name.endswith((GOING, INCOMING)):
            yield _removal(folder, folder, "left behind by a command that was killed")
        elif RUN_ID.fullmatch(folder.name) and not journal.is_kept_in(folder):
            yield _removal(folder, folder, "it ended before its first word")


def _removal(folder: Path, path: Path, why: str) -> Removal:
    files = [one for one in path.rglob("*") if one.is_symlink() or one.is_file()]
    size = sum(one.lstat().st_size for one in files)
    return Removal(path=path, run=folder.name, size=size, files=len(files), why=why)
