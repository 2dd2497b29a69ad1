"""How a dynamic version can be made another one for the length of a build.

Those that read it from git take it from a variable (`hooks.planned_version`); the others take a
static one where the manifest has one, which their own documents promise.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from typing import TYPE_CHECKING, Any

from releasekit.errors import DynamicVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from releasekit.ecosystems import BuildRequest

# In `build-system.requires`; of hatch-vcs and pdm-backend only where they are also chosen.
_FOLLOW_VARIABLES = frozenset({"setuptools-scm", "poetry-dynamic-versioning"})
_SOURCES = frozenset({"vcs", "uv-dynamic-versioning"})
_TAKE_STATIC = frozenset({"flit_core", "hatchling", "pdm", "poetry", "setuptools"})
_NAME = re.compile(r"\s*([A-Za-z0-9._-]+)")


def follows_variables(manifest: Mapping[str, Any]) -> bool:
    """Whether the build reads the version from a variable that we set."""
    tool = manifest.get("tool", {})
    system = manifest.get("build-system", {})
    required = {
        re.sub(r"[-_.]+", "-", found[1]).lower()
        for text in system.get("requires", ())
        if (found := _NAME.match(str(text)))
    }
    return bool(
        required & _FOLLOW_VARIABLES
        or tool.get("hatch", {}).get("version", {}).get("source") in _SOURCES
        or tool.get("pdm", {}).get("version", {}).get("source") == "scm"
    )


def require_static(manifest: Mapping[str, Any], file: str) -> None:
    """Refuse the backends that nobody has tried with a version in the place of a dynamic one."""
    system = manifest.get("build-system", {})
    backend = str(system.get("build-backend", "setuptools.build_meta"))
    if backend.partition(".")[0] not in _TAKE_STATIC or system.get("backend-path"):
        raise DynamicVersion(manifest=file)


@contextlib.contextmanager
def nothing_left(request: BuildRequest) -> Iterator[None]:
    """setuptools cannot be asked for a version without writing an `.egg-info` into the tree."""
    before = _egg_infos(request)
    try:
        yield
    finally:
        for folder in _egg_infos(request) - before:
            shutil.rmtree(folder, ignore_errors=True)


def _egg_infos(request: BuildRequest) -> set[Path]:
    folders = [request.workspace.root / package.path for package in request.packages]
    patterns = ("*.egg-info", "*/*.egg-info")
    return {found for folder in folders for pattern in patterns for found in folder.glob(pattern)}
