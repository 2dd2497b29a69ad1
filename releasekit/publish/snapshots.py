"""`--snapshot`: versions for one run, above what is released and without a commit."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit.ecosystems import ecosystem_of
from releasekit.errors import OtherSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from releasekit.ecosystems import Presence
    from releasekit.events import RunState
    from releasekit.model import Package, Workspace

NEW = ""
"""Instead of an id: make one, from the time."""


def snapshot_id(asked: str | None, earlier: RunState | None) -> str | None:
    """The id of this run; one that goes on with another has that one's. None: no snapshot."""
    if earlier is None:
        # Digits that grow: a later snapshot is a higher version in both worlds.
        return time.strftime("%Y%m%d%H%M%S", time.gmtime()) if asked == NEW else asked
    if asked is None or asked == earlier.snapshot or (asked == NEW and earlier.snapshot):
        return earlier.snapshot
    raise OtherSnapshot(run=earlier.run or "", snapshot=earlier.snapshot)


def require_valid(packages: Iterable[Package], snapshot: str) -> None:
    """Before anybody is asked anything."""
    for package in packages:
        if package.version is not None:
            ecosystem_of(package).snapshot(package.version, None, snapshot)


def versions(
    packages: Iterable[Package],
    present: Mapping[str, Presence],
    snapshot: str,
    earlier: RunState | None,
) -> dict[str, str]:
    """By id. A run that is resumed has fixed them: what is released meanwhile changes nothing."""
    if earlier is not None:
        return {name: held.release.version for name, held in earlier.releases.items()}
    return {
        package.id: ecosystem_of(package).snapshot(
            package.version, present[package.id].highest, snapshot
        )
        for package in packages
        if package.version is not None and package.id in present
    }


def with_versions(found: Workspace, chosen: Mapping[str, str]) -> Workspace:
    return replace(
        found,
        packages=tuple(
            replace(one, version=chosen[one.id]) if one.publishable and one.id in chosen else one
            for one in found.packages
        ),
    )
