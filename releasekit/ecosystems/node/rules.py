"""npm's own rules for what may be published and under which dist-tag, asked before it is.

They are those of `npm publish` (lib/commands/publish.js), which a registry does not repeat.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from releasekit.ecosystems.node import semver
from releasekit.errors import (
    BadDistTag,
    LatestWouldFall,
    NotRestrictable,
    ReleaseKitError,
    TagNeeded,
    VersionWithdrawn,
)
from releasekit.model import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from releasekit.ecosystems import Presence
    from releasekit.model import Package

RESTRICTED = "restricted"
_RELEASE = re.compile(r"(\d{1,16})\.(\d{1,16})\.(\d{1,16})(?:\+.*)?", re.ASCII)
# What `encodeURIComponent` leaves alone: npm refuses any other.
_TAG = re.compile(r"[A-Za-z0-9_.!~*'()-]+", re.ASCII)


def objections(
    package: Package, presence: Presence | None, *, tag: str | None, access: str | None
) -> Iterator[Problem]:
    for error in _refusals(package, presence, tag, access):
        yield Problem.of(error, package.id)
    scoped = package.name.startswith("@")
    if scoped and not access and presence is not None and not presence.known:
        yield Problem(
            message=f"{package.name} is new and scoped: without an access it may become restricted",
            hint='add `--access public`, or set `"publishConfig": {"access": "public"}` in its '
            "package.json",
            package=package.id,
            severity=Severity.WARNING,
        )


def _refusals(
    package: Package, presence: Presence | None, tag: str | None, access: str | None
) -> Iterator[ReleaseKitError]:
    name, text = package.name, package.version or ""
    version = semver.parse(text)
    if tag is not None and (problem := _problem_of_tag(tag)):
        yield BadDistTag(tag=tag, problem=problem)
    if access == RESTRICTED and not name.startswith("@"):
        yield NotRestrictable(name=name)
    if not tag and version is not None and not version.release:
        yield TagNeeded(name=name, version=text)
    if presence is None or version is None:
        return
    if presence.withdrawn:
        yield VersionWithdrawn(name=name, version=text)
    highest = semver.parse(presence.supported) if presence.supported else None
    if not tag and version.release and highest is not None and highest > version:
        yield LatestWouldFall(name=name, version=text, highest=str(highest))


def _problem_of_tag(tag: str) -> str | None:
    if not _TAG.fullmatch(tag):
        return "it holds characters that an address cannot carry"
    if semver.parse_range(tag) is not None:
        return "it reads as a range of versions"
    return None


def highest(versions: Iterable[str]) -> str | None:
    """The highest release; prereleases, and with them snapshots, aside."""
    # Not by `semver.parse`, which remembers what it read: registries list thousands.
    found = max(
        (tuple(map(int, one.groups())) for text in versions if (one := _RELEASE.fullmatch(text))),
        default=None,
    )
    return ".".join(map(str, found)) if found else None
