"""The questions we ask a packaging world. A folder beside this file answers them.

Adding an ecosystem adds a folder with an `ECOSYSTEM` in its `__init__`, and touches nothing else.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from releasekit.model import Edge, Member, Package


class Standing(IntEnum):
    """What a folder is to an ecosystem."""

    NOTHING = 0
    TOOLING = 1
    """A manifest that is not meant to be published: private, or only settings of tools."""
    PROJECT = 2
    WORKSPACE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What one ecosystem found below a root."""

    members: tuple[Member, ...] = ()
    packages: tuple[Package, ...] = ()
    edges: tuple[Edge, ...] = ()
    warnings: tuple[str, ...] = ()


class Discovers(Protocol):
    """The part of an ecosystem that reads a repository. It writes nothing and runs nothing."""

    def standing(self, folder: Path) -> Standing:
        """What the manifest in this very folder says."""

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        """The workspaces and projects in these folders, given relative to the root."""


class Ecosystem(Discovers, Protocol):
    """A packaging world. Its modules are imported when a question is asked, not before."""

    name: str
    """`python`, `node`."""
    registry: str
    """`pypi`, `npm`: the prefix of its packages' ids and its default registry's name."""


@functools.cache
def all_ecosystems() -> tuple[Ecosystem, ...]:
    found = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return tuple(importlib.import_module(f"{__name__}.{name}").ECOSYSTEM for name in found)
