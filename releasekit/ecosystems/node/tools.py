"""Which package manager owns a folder, which members it sees and when it links a sibling."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.node import package_json
from releasekit.errors import UnreadableManifest, WrongManifest
from releasekit.manifest import read_text, read_yaml, strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from releasekit.ecosystems.node.package_json import PackageJson

PNPM_WORKSPACE = "pnpm-workspace.yaml"
YARN_SETTINGS = ".yarnrc.yml"
LERNA = "lerna.json"
# Before pnpm 9 a plain range was linked to a sibling by default.
_PNPM_NO_LONGER_LINKS = 9


class Dialect(StrEnum):
    """How a tool reads its patterns and its dependencies. The two yarns differ in both."""

    NPM = "npm"
    PNPM = "pnpm"
    YARN_1 = "yarn 1"
    YARN = "yarn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The workspace that a folder is the root of, or the single package in it."""

    folder: Path
    dialect: Dialect
    root: PackageJson | None
    patterns: tuple[str, ...] | None
    """None for a single package."""
    declared_in: Path
    links_ranges: bool
    """Whether a plain range that a sibling satisfies means that sibling."""
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def tool(self) -> str:
        return "yarn" if self.dialect is Dialect.YARN_1 else self.dialect.value


def read(folder: Path, *, warn: Callable[[str], None]) -> Setup | None:
    """What the folder's own files say; None where there is nothing of Node's."""
    root = package_json.read(folder / package_json.FILE_NAME, warn=warn)
    settings_file = folder / PNPM_WORKSPACE
    settings = read_yaml(settings_file)
    named, version = _package_manager(root)
    if settings is not None and named in (None, "pnpm"):
        return _pnpm(folder, root, settings, version, warn)
    if root is None:
        return None
    dialect = _dialect(folder, named, version)
    patterns = root.workspaces
    if patterns is not None and dialect is Dialect.PNPM:
        warn(f"{root.file}: pnpm does not read `workspaces`; it wants a {PNPM_WORKSPACE}")
        patterns = None
    if patterns is not None and dialect is Dialect.YARN_1 and not root.private:
        warn(f"{root.file}: yarn 1 ignores `workspaces` unless the root is private")
        patterns = None
    if patterns is None and (folder / LERNA).is_file():
        warn(f"{folder / LERNA}: no package manager's workspace is here, and lerna's alone is none")
    settings = read_yaml(folder / YARN_SETTINGS) if dialect is Dialect.YARN else None
    settings = settings or {}
    return Setup(
        folder=folder,
        dialect=dialect,
        root=root,
        patterns=patterns,
        declared_in=root.file,
        links_ranges=settings.get("enableTransparentWorkspaces") != "false",
        catalogs=_catalogs(folder / YARN_SETTINGS, settings),
    )


def _package_manager(root: PackageJson | None) -> tuple[str | None, int | None]:
    """`yarn@4.1.0+sha…` → `yarn`, 4."""
    text = (root.package_manager if root else None) or ""
    found = re.match(r"(npm|pnpm|yarn)(?:@(\d{1,4}))?", text, re.ASCII)
    if found is None:
        return None, None
    return found[1], int(found[2]) if found[2] else None


def _dialect(folder: Path, named: str | None, version: int | None) -> Dialect:
    if named is None:
        if (folder / "yarn.lock").is_file() or (folder / YARN_SETTINGS).is_file():
            named = "yarn"
        elif (folder / "pnpm-lock.yaml").is_file():
            named = "pnpm"
    if named != "yarn":
        return Dialect.PNPM if named == "pnpm" else Dialect.NPM
    if version is not None:
        return Dialect.YARN_1 if version == 1 else Dialect.YARN
    if (folder / YARN_SETTINGS).is_file():
        return Dialect.YARN
    return Dialect.YARN if _is_berry_lock(folder / "yarn.lock") else Dialect.YARN_1


def _is_berry_lock(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return "__metadata:" in lines.read(2_000)
    except OSError as error:
        raise UnreadableManifest(file=file, problem=error.strerror or str(error)) from error


def _pnpm(
    folder: Path,
    root: PackageJson | None,
    settings: Mapping[str, Any],
    version: int | None,
    warn: Callable[[str], None],
) -> Setup:
    file = folder / PNPM_WORKSPACE
    links = settings.get("linkWorkspacePackages")
    if links is None:
        links = _npmrc(folder, "link-workspace-packages")
    if links is None:
        links = "true" if version is not None and version < _PNPM_NO_LONGER_LINKS else "false"
    if root is not None and root.workspaces:
        warn(f"{root.file}: pnpm does not read `workspaces`; it reads {PNPM_WORKSPACE}")
    return Setup(
        folder=folder,
        dialect=Dialect.PNPM,
        root=root,
        patterns=strings(file, "packages", settings.get("packages")),
        declared_in=file,
        links_ranges=links in ("true", "deep"),
        catalogs=_catalogs(file, settings),
    )


def _npmrc(folder: Path, key: str) -> str | None:
    text = read_text(folder / ".npmrc") or ""
    found = re.findall(rf"^[ \t]*{re.escape(key)}[ \t]*=[ \t]*(\S*)[ \t]*$", text, re.MULTILINE)
    return found[-1] if found else None


def _catalogs(file: Path, settings: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    """`catalog:` is the one called `default`."""
    found: dict[str, Mapping[str, str]] = {}
    named = settings.get("catalogs") or {}
    if not isinstance(named, dict):
        raise WrongManifest(file=file, key="catalogs", expected="a mapping")
    for name, entries in {**named, "default": settings.get("catalog")}.items():
        if not entries:
            continue
        if not isinstance(entries, dict):
            raise WrongManifest(file=file, key=f"catalogs.{name}", expected="a mapping")
        found[name] = {key: value for key, value in entries.items() if isinstance(value, str)}
    return found
