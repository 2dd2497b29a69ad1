"""Which manifests get which siblings' versions for the length of the builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.ecosystems import ecosystem_of
from releasekit.pins import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from releasekit.config import PinSettings
    from releasekit.ecosystems import Pinner
    from releasekit.model import Package, Workspace


def pin_edits(
    workspace: Workspace, packages: Iterable[Package], settings: PinSettings
) -> tuple[Edit, ...]:
    """The edits that make each of these packages say which siblings it was released with."""
    by_id = workspace.by_id()
    siblings: dict[str, dict[str, str | None]] = {}
    # An edge, not a name, makes a sibling: a name may be pinned to another source.
    for edge in workspace.edges:
        target = by_id[edge.target]
        siblings.setdefault(edge.source, {})[target.name] = target.version
    pinners: dict[str, Pinner] = {}
    edits = []
    for package in packages:
        world = ecosystem_of(package)
        pinner = pinners.get(world.name) or pinners.setdefault(world.name, world.pinner(workspace))
        path = workspace.root / package.manifest
        original = path.read_bytes()
        needed: Mapping[str, str | None] = siblings.get(package.id, {})
        pinned = pinner(package, original, needed, settings.policy_of(package))
        if pinned != original:
            edits.append(Edit(path=path, original=original, pinned=pinned))
    return tuple(edits)
