"""How a project says that it wants to be built, and where that is beyond a warm server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from releasekit.ecosystems.python import members
from releasekit.errors import MissingManifest
from releasekit.manifest import read_toml, strings, table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UV_BUILD = "uv_build"
# https://peps.python.org/pep-0517/#source-trees: what no `[build-system]` means.
_LEGACY_BACKEND = "setuptools.build_meta:__legacy__"
_LEGACY_REQUIRES = ("setuptools >= 40.8.0",)
# Settings by which `uv build` builds otherwise than PEP 517 alone would.
_UV_ALONE = (
    "config-settings",
    "config-settings-package",
    "extra-build-dependencies",
    "extra-build-variables",
    "no-build-isolation",
    "no-build-isolation-package",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSystem:
    requires: tuple[str, ...]
    backend: str
    backend_path: tuple[str, ...]
    declared: bool
    dynamic_version: bool

    def admits_uv(self, version: str) -> bool:
        """Whether uv builds this by itself, without an environment or an interpreter."""
        if self.backend != UV_BUILD or self.backend_path or len(self.requires) != 1:
            return False
        try:
            requirement = Requirement(self.requires[0])
        except InvalidRequirement:
            return False
        return (
            canonicalize_name(requirement.name) == "uv-build"
            and requirement.marker is None
            and requirement.url is None
            and requirement.specifier.contains(Version(version), prereleases=True)
        )


def read(folder: Path) -> BuildSystem:
    file = folder / members.MANIFEST
    document = read_toml(file)
    if document is None:
        raise MissingManifest(file=file, wanted_by="the plan")
    system = table(file, document, "build-system")
    backend = system.get("build-backend")
    dynamic = table(file, document, "project").get("dynamic")
    requires = strings(file, "build-system.requires", system.get("requires"))
    return BuildSystem(
        requires=requires if "requires" in system else _LEGACY_REQUIRES,
        backend=backend if isinstance(backend, str) else _LEGACY_BACKEND,
        backend_path=strings(file, "build-system.backend-path", system.get("backend-path")),
        declared=bool(system) or _uv(file, document).get("package") is True,
        dynamic_version=isinstance(dynamic, list) and "version" in dynamic,
    )


def _uv(file: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    return dict(table(file, document, "tool", "uv"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UvSettings:
    """What the root of a uv workspace says about builds."""

    constraints: tuple[str, ...]
    only_uv: str | None
    """A setting that a warm server does not know."""


def read_uv_settings(folder: Path) -> UvSettings:
    own, shared = folder / "uv.toml", folder / members.MANIFEST
    settings = read_toml(own)  # where there is one, uv does not read the other
    if settings is None:
        settings = _uv(shared, read_toml(shared) or {})
    constraints = settings.get("build-constraint-dependencies")
    only = next((key for key in _UV_ALONE if settings.get(key)), None)
    if isinstance(constraints, list) and not all(isinstance(one, str) for one in constraints):
        constraints, only = None, "build-constraint-dependencies"
    return UvSettings(
        constraints=strings(own, "build-constraint-dependencies", constraints), only_uv=only
    )
