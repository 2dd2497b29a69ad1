"""`--state DIR`: journals and artifacts that outlive the machine, from one CI runner to the next.

DIR is written while the run goes on: each line of the journal when it is written here, and the
artifacts before the first upload. So a killed job leaves in it all that a registry may hold.
What is read from DIR came from elsewhere: names are checked before they become paths, and every
artifact against its hash.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import ForeignState, StateNotAFolder
from releasekit.events import GOOD_OUTCOMES, Artifact
from releasekit.publish.build import artifact_folder, read_artifact
from releasekit.publish.resume import GOING, INCOMING, RUN_ID, kept_releases, run_folders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from releasekit.events import RunState

# What becomes one part of a path: no separator, no parent, nothing hidden.
_PACKAGE = re.compile(r"[a-z]+:[@A-Za-z0-9_][A-Za-z0-9._~/-]*")
_FILE = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9._+!~@-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def prepare(state: Path) -> None:
    """Made where it is missing: the first job of a pipeline has none."""
    try:
        (state / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateNotAFolder(folder=state, reason=error.strerror or str(error)) from error


def exchange(state: Path, home: Path) -> None:
    """Bring the runs that are not known here, and leave there what only this machine knows.

    Newest first, and none from before a fresh run: it gave up on them, damaged or not.
    """
    known = {folder.name for folder in run_folders(home)}
    found = {one.name for one in (state / "runs").iterdir()}
    there = {name for name in found if not name.endswith((INCOMING, GOING))}
    for name in sorted(known | there, reverse=True):
        folder = (home if name in known else state) / "runs" / name
        if folder.is_symlink() or not folder.is_dir() or not RUN_ID.fullmatch(name):
            raise ForeignState(path=folder, problem="it is not a run's folder")
        if not journal.is_kept_in(folder):
            continue  # it ended before its first word
        if name not in known:
            _check(folder)
            _copy(folder, home / "runs" / name)
        if journal.read_state(folder / journal.FILE_NAME).fresh:
            break
    for run in {kept.folder for kept in kept_releases(home).values()}:
        if run.name not in there:
            _copy(run, state / "runs" / run.name)


def keep_artifacts(folder: Path, state: Path, artifacts: Iterable[tuple[str, Artifact]]) -> None:
    """Copy them to the run's folder in `state`; on the disk when this returns."""
    for package, artifact in artifacts:
        target = artifact_folder(state, package)
        target.mkdir(parents=True, exist_ok=True)
        _copy_file(artifact_folder(folder, package) / artifact.file, target / artifact.file)


def unsettled(state: RunState) -> list[tuple[str, Artifact]]:
    """The artifacts that a registry may hold in part."""
    return [
        (package, artifact)
        for package, held in state.releases.items()
        if held.sent and held.outcome not in GOOD_OUTCOMES
        for artifact in held.artifacts
    ]


def _check(folder: Path) -> None:
    path = folder / journal.FILE_NAME
    for name in (journal.FILE_NAME, journal.HEAD_NAME):
        if (folder / name).is_symlink():
            raise ForeignState(path=folder / name, problem="it is a link")
    state = journal.read_state(path)
    if state.run not in {None, folder.name}:
        raise ForeignState(path=path, problem=f"it tells of another run, {state.run!r}")
    for package, held in state.releases.items():
        if not _PACKAGE.fullmatch(package) or ".." in package:
            raise ForeignState(path=path, problem=f"{package!r} is no package's id")
        for artifact in held.artifacts:
            if not _FILE.fullmatch(artifact.file) or not _SHA256.fullmatch(artifact.sha256):
                raise ForeignState(path=path, problem=f"{artifact.file!r} is no artifact's name")
    for package, artifact in unsettled(state):
        file = artifact_folder(folder, package) / artifact.file
        inside = file.resolve() == folder.resolve() / file.relative_to(folder)
        if not inside or not file.is_file():
            raise ForeignState(path=file, problem="it is missing or leads elsewhere")
        if read_artifact(file) != artifact:
            raise ForeignState(path=file, problem="it is not the file that the journal tells of")


def _copy(source: Path, target: Path) -> None:
    """A run's journal and what of it is unsettled; it appears whole or not at all."""
    draft = target.with_name(target.name + INCOMING)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    keep_artifacts(source, draft, unsettled(journal.read_state(source / journal.FILE_NAME)))
    for name in (journal.HEAD_NAME, journal.FILE_NAME):
        if (source / name).is_file():
            _copy_file(source / name, draft / name)
    draft.rename(target)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        os.fsync(writing.fileno())
