"""npm, pnpm and yarn workspaces and single packages, published to npm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from releasekit.ecosystems import Discovery, Standing


class Node:
    name = "node"
    registry = "npm"

    def standing(self, folder: Path) -> Standing:
        from releasekit.ecosystems.node import discovery

        return discovery.standing(folder)

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        from releasekit.ecosystems.node import discovery

        return discovery.discover(root, folders)


ECOSYSTEM = Node()
