"""package.json as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.node import semver
from releasekit.errors import WrongManifest
from releasekit.manifest import read_json, strings
from releasekit.model import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

FILE_NAME = "package.json"
# An optional dependency hides a plain one of the same name, in every package manager.
_FIELDS = {
    "optionalDependencies": EdgeKind.OPTIONAL,
    "dependencies": EdgeKind.RUNTIME,
    "peerDependencies": EdgeKind.PEER,
    "devDependencies": EdgeKind.DEV,
}
# What the registry takes for a new package.
_VALID_NAME = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.ASCII)
_MAX_NAME = 214


@dataclass(frozen=True, slots=True)
class Dependency:
    name: str
    spec: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageJson:
    file: Path
    name: str
    """Empty where the file gives none."""
    version: str | None
    private: bool
    dependencies: tuple[Dependency, ...]
    workspaces: tuple[str, ...] | None
    package_manager: str | None

    @property
    def unpublishable(self) -> str | None:
        if not self.name:
            return "no `name`"
        if self.private:
            return "private"
        if len(self.name) > _MAX_NAME or not _VALID_NAME.fullmatch(self.name):
            return f"`{self.name}` is not a valid name"
        if self.version is None:
            return "no `version`"
        if semver.parse(self.version) is None:
            return f"`{self.version}` is not a valid version"
        return None


def read(file: Path, *, warn: Callable[[str], None]) -> PackageJson | None:
    document = read_json(file, warn=warn)
    if document is None:
        return None
    manager = document.get("packageManager")
    return PackageJson(
        file=file,
        name=_text(file, document, "name") or "",
        version=_text(file, document, "version") or None,
        private=_is_true(document.get("private")),
        dependencies=tuple(_dependencies(file, document, warn)),
        workspaces=_workspaces(file, document.get("workspaces")),
        package_manager=manager if isinstance(manager, str) else None,
    )


def _text(file: Path, document: Mapping[str, Any], key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise WrongManifest(file=file, key=key, expected="a string")
    return value


def _is_true(value: object) -> bool:
    """As JavaScript decides it, and with it npm: `"true"` is private, `"false"` is, too."""
    return isinstance(value, dict | list) or bool(value)


def _workspaces(file: Path, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return strings(file, "workspaces.packages", value.get("packages"))
    return strings(file, "workspaces", value)


def _dependencies(
    file: Path, document: Mapping[str, Any], warn: Callable[[str], None]
) -> Iterator[Dependency]:
    optional = document.get("optionalDependencies")
    hidden = optional if isinstance(optional, dict) else {}
    for field, kind in _FIELDS.items():
        entries = document.get(field)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            raise WrongManifest(file=file, key=field, expected="an object")
        for name, spec in entries.items():
            if not isinstance(spec, str):
                warn(f"{file}: `{field}.{name}` is not a string")
            elif kind is not EdgeKind.RUNTIME or name not in hidden:
                yield Dependency(name, spec, kind)
