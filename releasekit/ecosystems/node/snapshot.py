"""The versions of snapshots: prereleases, for a dist-tag of their own."""

from __future__ import annotations

import re

from releasekit.ecosystems.node import semver
from releasekit.errors import BadSnapshotId, BadVersion

# https://semver.org/#spec-item-9: a number has no leading zero.
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_LONGEST = 100
_ID = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)


def version_of(version: str, highest: str | None, snapshot: str) -> str:
    """Above all that is released and, where the tree is ahead of that, below the next release."""
    if len(snapshot) > _LONGEST or not _ID.fullmatch(snapshot):
        raise BadSnapshotId(
            snapshot=snapshot,
            problem="no version can carry that",
            hint="use letters, digits, `-` and `.`, and no number with a leading zero",
        )
    own = semver.parse(version)
    if own is None:
        raise BadVersion(version=version, problem="it is not a semantic version")
    released = semver.parse(highest) if highest else None
    major, minor, patch = own.core
    if released is not None and released.core >= own.core:
        major, minor, patch = released.core
        patch += 1
    return f"{major}.{minor}.{patch}-snapshot.{snapshot}"
