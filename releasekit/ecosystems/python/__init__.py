"""uv workspaces and single Python projects, published to PyPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from releasekit.ecosystems import Discovery, Standing


class Python:
    name = "python"
    registry = "pypi"

    def standing(self, folder: Path) -> Standing:
        from releasekit.ecosystems.python import discovery

        return discovery.standing(folder)

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        from releasekit.ecosystems.python import discovery

        return discovery.discover(root, folders)


ECOSYSTEM = Python()
