"""The versions of snapshots: development releases, which installers take only when asked.

Public indexes refuse local versions (`1.2.3+abc`), so the id is the number of a `.dev` release
(https://peps.python.org/pep-0440/#developmental-releases).
"""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from releasekit.errors import BadSnapshotId, BadVersion

# uv holds such a number in 64 bits.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


def version_of(version: str, highest: str | None, snapshot: str) -> str:
    """Above all that is released and, where the tree is ahead of that, below the next release."""
    if not _NUMBER.fullmatch(snapshot):
        raise BadSnapshotId(
            snapshot=snapshot,
            problem="a snapshot of a Python package carries a number of up to 18 digits",
            hint="give a number, such as that of the CI run, or leave the id out for the time",
        )
    try:
        own = _without_dev(Version(version))
        released = Version(highest) if highest else None
    except InvalidVersion as error:
        raise BadVersion(version=version, problem=str(error)) from error
    wanted = Version(f"{own}.dev{snapshot}")
    if released is not None and wanted <= released:
        wanted = Version(f"{_next(released)}.dev{snapshot}")
    return str(wanted)


def _without_dev(version: Version) -> Version:
    """What the tree is on its way to."""
    return Version(version.public.partition(".dev")[0])


def _next(released: Version) -> Version:
    epoch = f"{released.epoch}!" if released.epoch else ""
    if released.pre is not None:
        kind, number = released.pre
        return Version(f"{epoch}{'.'.join(map(str, released.release))}{kind}{number + 1}")
    parts = [*released.release, 0, 0][: max(3, len(released.release))]
    parts[-1] += 1
    return Version(f"{epoch}{'.'.join(map(str, parts))}")
