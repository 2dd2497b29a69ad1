"""The version of a project, read without running its code; None where only a build can tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from releasekit.ecosystems.python.project import Project

# Already in the normal form of https://peps.python.org/pep-0440/, so nothing has to be imported.
_NORMAL = re.compile(
    r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))*(?:(?:a|b|rc)(?:0|[1-9]\d*))?"
    r"(?:\.post(?:0|[1-9]\d*))?(?:\.dev(?:0|[1-9]\d*))?",
    re.ASCII,
)


def of(project: Project) -> tuple[str | None, str | None]:
    """The version, or why it is not known."""
    if project.version is not None:
        return _normalized(project.version)
    if "version" not in project.dynamic:
        return None, "no `project.version`, and it is not `dynamic` either"
    return None, "the version is dynamic"


def _normalized(text: str) -> tuple[str | None, str | None]:
    if _NORMAL.fullmatch(text):
        return text, None
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text)), None
    except InvalidVersion:
        return None, f"`{text}` is not a valid version"
