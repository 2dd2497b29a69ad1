"""What earlier runs have sent and not finished: its bytes must be used again, not built again.

A rebuild is rarely the same to the byte, and a registry keeps the first bytes it got.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import journal
from releasekit.errors import KeptArtifactChanged, TreeChanged
from releasekit.events import GOOD_OUTCOMES, Artifact, fold
from releasekit.publish.build import artifact_folder, read_artifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The artifacts of a release of which a registry may hold something."""

    run: str
    commit: str | None
    folder: Path
    """The run's."""
    artifacts: tuple[Artifact, ...]


_UPLOADING = frozenset({"publish", "rehearse"})

Key = tuple[str, str]
"""A package's id and its version."""


def kept_releases(home: Path) -> dict[Key, Kept]:
    """The newest run decides: what it published is settled, what it sent is kept."""
    found: dict[Key, Kept | None] = {}
    runs = home / "runs"
    for folder in sorted(runs.iterdir(), reverse=True) if runs.is_dir() else ():
        if not (folder / journal.FILE_NAME).is_file():
            continue
        state = fold(journal.read(folder / journal.FILE_NAME).events)
        if state.command not in _UPLOADING:
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
    return {key: kept for key, kept in found.items() if kept is not None}


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
