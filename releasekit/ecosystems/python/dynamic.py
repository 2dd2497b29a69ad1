"""Dependencies that pyproject.toml calls dynamic: from setuptools' files, or from uv.lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.python.project import Requirement, normalize, requirement
from releasekit.manifest import parse_toml, read_text, table
from releasekit.model import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from releasekit.ecosystems.python.project import Project

# A lock file lists every package on every platform: real ones reach several megabytes.
_MAX_LOCK_BYTES = 64_000_000
_LISTED = {"dependencies": EdgeKind.RUNTIME, "optional-dependencies": EdgeKind.EXTRA}


class Lock:
    """The members' tables of a uv.lock, read when first asked for and without the other tables."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "uv.lock"
        self._packages: dict[str, dict[str, Any]] | None = None

    def requirements(self, name: str, field: str) -> tuple[Requirement, ...] | None:
        """What uv found for one field of a member; None where the lock does not know it."""
        if self._packages is None:
            self._packages = self._read()
        package = self._packages.get(name)
        if package is None:
            return None
        found: list[Requirement] = []
        for entry in table(self._file, package, "metadata").get("requires-dist", ()):
            marker = str(entry.get("marker", ""))
            is_extra = "extra ==" in marker
            if is_extra == (field == "optional-dependencies"):
                found.append(Requirement(normalize(str(entry.get("name"))), _LISTED[field]))
        return tuple(found)

    def _read(self) -> dict[str, dict[str, Any]]:
        text = read_text(self._file, limit=_MAX_LOCK_BYTES)
        if text is None:
            return {}
        found = {}
        for block in text.split("\n[[package]]\n")[1:]:
            source = block.partition("\nsource = ")[2][:12]
            if source.startswith(("{ editable", "{ virtual", "{ directory")):
                package = parse_toml(self._file, "[[package]]\n" + block)["package"][0]
                found[normalize(str(package.get("name")))] = package
        return found


def requirements(
    project: Project, root: Path, lock: Lock
) -> tuple[tuple[Requirement, ...], tuple[str, ...]]:
    """The requirements behind dynamic fields, and the fields that only a build can tell."""
    found: list[Requirement] = []
    unknown: list[str] = []
    for field in _LISTED:
        if field not in project.dynamic:
            continue
        known = _from_files(project, root, field)
        if known is None:
            known = lock.requirements(normalize(project.name or ""), field)
        if known is None:
            unknown.append(field)
        else:
            found.extend(known)
    return tuple(found), tuple(unknown)


def _from_files(project: Project, root: Path, field: str) -> tuple[Requirement, ...] | None:
    """`[tool.setuptools.dynamic] dependencies = { file = "requirements.txt" }`."""
    settings = table(project.file, project.document, "tool", "setuptools", "dynamic").get(field)
    if not isinstance(settings, dict):
        return None
    tables: Mapping[str | None, Any] = (
        {None: settings} if field == "dependencies" else dict(settings)
    )
    found: list[Requirement] = []
    for extra, entry in tables.items():
        files = entry.get("file") if isinstance(entry, dict) else None
        if isinstance(files, str):
            files = [files]
        if not isinstance(files, list):
            return None
        key = normalize(extra) if extra is not None else None
        for line in _lines(project, root, files):
            if line is None or (one := requirement(line, _LISTED[field], extra=key)) is None:
                return None
            found.append(one)
    return tuple(found)


def _lines(project: Project, root: Path, files: Iterable[object]) -> Iterator[str | None]:
    for name in files:
        file = project.file.parent / str(name)
        text = read_text(file) if file.resolve().is_relative_to(root) else None
        if text is None:
            yield None
            return
        for line in text.splitlines():
            stripped = line.partition(" #")[0].strip()
            if stripped and not stripped.startswith("#"):
                yield stripped
