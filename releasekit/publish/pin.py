"""Which manifests get which siblings' versions for the length of the builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.ecosystems import ecosystem_of
from releasekit.errors import PinError
from releasekit.model import Problem
from releasekit.pins import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from releasekit.config import PinSettings
    from releasekit.ecosystems import Pinner
    from releasekit.model import Package, Workspace

NO_SNAPSHOTS: Mapping[str, str] = {}


def pin_edits(
    workspace: Workspace,
    packages: Iterable[Package],
    settings: PinSettings,
    *,
    snapshots: Mapping[str, str] = NO_SNAPSHOTS,
    read: Callable[[Path], bytes | None] | None = None,
) -> tuple[tuple[Edit, ...], tuple[Problem, ...]]:
    """The edits that make each of these packages say which siblings it was released with.

    `snapshots` are versions by id that these packages get in the place of the workspace's.
    """
    by_id = workspace.by_id()
    siblings: dict[str, dict[str, str | None]] = {}
    instead: dict[str, dict[str, str]] = {}
    # An edge, not a name, makes a sibling: a name may be pinned to another source.
    for edge in workspace.edges:
        target = by_id[edge.target]
        siblings.setdefault(edge.source, {})[target.name] = target.version
        if edge.target in snapshots:
            instead.setdefault(edge.source, {})[target.name] = snapshots[edge.target]
    pinners: dict[str, Pinner] = {}
    edits: list[Edit] = []
    problems: list[Problem] = []
    for package in packages:
        world = ecosystem_of(package)
        pinner = pinners.get(world.name) or pinners.setdefault(world.name, world.pinner(workspace))
        path = workspace.root / package.manifest
        original = (read(path) if read else None) or path.read_bytes()
        try:
            pinned = pinner(
                package,
                original,
                siblings.get(package.id, {}),
                settings.policy_of(package),
                snapshots=instead.get(package.id, NO_SNAPSHOTS),
                version=snapshots.get(package.id),
            )
        except PinError as error:
            problems.append(Problem.of(error, package.id))
            continue
        if pinned != original:
            edits.append(Edit(path=path, original=original, pinned=pinned))
    return tuple(edits), tuple(problems)
