"""Which sibling a dependency means, if any, as the package manager would link it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.ecosystems.node import semver
from releasekit.ecosystems.node.tools import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from releasekit.ecosystems.node.package_json import Dependency, PackageJson
    from releasekit.ecosystems.node.tools import Setup

_PATH_PROTOCOLS = ("file:", "link:")
_PATH_STARTS = ("./", "../", "/", "~/")
_WHATEVER_VERSION = ("", "*", "^", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A package at a path below the root, and the workspace it is a member of."""

    path: str
    manifest: PackageJson
    setup: Setup

    @property
    def id(self) -> str:
        # A package without a name is told by its path, which no name can look like.
        by_path = "." if self.path == "." else f"./{self.path}"
        return f"npm:{self.manifest.name or by_path}"

    @property
    def folder(self) -> Path:
        return self.manifest.file.parent


class Index:
    """Who is called what, and who lives where."""

    def __init__(self, found: Mapping[str, Located]) -> None:
        self._by_folder = found
        self._by_name: dict[tuple[str, int], list[Located]] = {}
        for one in found.values():
            key = (one.manifest.name, id(one.setup))
            self._by_name.setdefault(key, []).append(one)

    def named(self, name: str, setup: Setup) -> Sequence[Located]:
        return self._by_name.get((name, id(setup)), ())

    def at(self, base: Path, path: str) -> Located | None:
        return self._by_folder.get(os.path.realpath(base / path))


def target(
    found: Located, dependency: Dependency, index: Index, warn: Callable[[str], None]
) -> Located | None:
    name, spec, setup = dependency.name, dependency.spec.strip(), found.setup
    if spec.startswith("catalog:"):
        catalog = spec.removeprefix("catalog:").strip() or "default"
        listed = setup.catalogs.get(catalog, {}).get(name)
        if listed is None:
            warn(f"{found.manifest.file}: `{name}` is not in the catalog `{catalog}`")
            return None
        spec = listed.strip()
    if spec.startswith("workspace:"):
        return _by_protocol(found, name, spec.removeprefix("workspace:").strip(), index, warn)
    if (path := _path(setup.dialect, spec)) is not None:
        return index.at(found.folder, path)
    if not setup.links_ranges:
        return None
    if spec.startswith("npm:"):
        name, spec = _alias(name, spec.removeprefix("npm:"), setup.dialect)
    siblings = index.named(name, setup)
    return next((one for one in siblings if _links(setup.dialect, spec, one)), None)


def _path(dialect: Dialect, spec: str) -> str | None:
    protocols = (*_PATH_PROTOCOLS, "portal:") if dialect is Dialect.YARN else _PATH_PROTOCOLS
    for protocol in protocols:
        if spec.startswith(protocol):
            return spec.removeprefix(protocol).removeprefix("//")
    return spec if spec.startswith(_PATH_STARTS) else None


def _by_protocol(
    found: Located, name: str, spec: str, index: Index, warn: Callable[[str], None]
) -> Located | None:
    """`workspace:` always means a sibling, so what does not fit is worth a word."""
    setup = found.setup
    if setup.dialect in (Dialect.NPM, Dialect.YARN_1):
        warn(f"{found.manifest.file}: `workspace:` for `{name}`, which {setup.dialect} refuses")
    if spec.startswith("."):
        return index.at(found.folder, spec)
    if spec not in _WHATEVER_VERSION:
        if setup.dialect is Dialect.YARN and (sibling := index.at(setup.folder, spec)):
            return sibling
        if setup.dialect is Dialect.PNPM and spec.rfind("@") > 0:
            name, _, spec = spec.rpartition("@")
    siblings = index.named(name, setup)
    if not siblings:
        warn(f"{found.manifest.file}: `workspace:` for `{name}`, but no member is called so")
        return None
    if spec in _WHATEVER_VERSION:
        return siblings[0]
    fitting = next((one for one in siblings if _admits(spec, one.manifest.version)), None)
    if fitting is None:
        warn(f"{found.manifest.file}: no member `{name}` has a version in `workspace:{spec}`")
    return fitting or siblings[0]


def _alias(name: str, spec: str, dialect: Dialect) -> tuple[str, str]:
    """`other@^1` → `other`, `^1`; for pnpm and yarn `^1` alone is a range of the same name."""
    if spec.rfind("@") > 0:
        name, _, spec = spec.rpartition("@")
        return name, spec
    if dialect in (Dialect.PNPM, Dialect.YARN) and semver.parse_range(spec):
        return name, spec
    return spec, "*"


def _links(dialect: Dialect, spec: str, sibling: Located) -> bool:
    version = sibling.manifest.version
    if dialect is Dialect.NPM and spec in ("", "*"):
        return True  # not even a version is needed
    if dialect is Dialect.PNPM and spec in ("", "*"):
        return spec == "*" and version is not None  # a prerelease as well
    return _admits(spec, version)


def _admits(spec: str, version: str | None) -> bool:
    wanted = semver.parse_range(spec)
    own = semver.parse(version) if version else None
    return wanted is not None and own is not None and wanted.admits(own)
