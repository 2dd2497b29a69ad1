"""Which folders uv takes for members of a workspace."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import TYPE_CHECKING

from releasekit import folders
from releasekit.errors import MemberOutside, WrongManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from releasekit.ecosystems.python.project import UvWorkspace

MANIFEST = "pyproject.toml"


def find(file: Path, workspace: UvWorkspace, *, warn: Callable[[str], None]) -> Iterator[str]:
    """Folders relative to the workspace that hold a manifest; never the root itself."""
    patterns = [_pattern(file, text) for text in workspace.members]
    excluded = [_exclusion(text) for text in workspace.exclude]
    root = str(file.parent)
    used: set[int] = set()
    for found in folders.expand(root, patterns):
        used.update(found.patterns)
        if found.path == "." or any(rule.fullmatch(found.path) for rule in excluded):
            continue
        folder = f"{root}/{found.path}"
        if os.path.lexists(f"{folder}/{MANIFEST}"):
            yield found.path
        # uv passes over hidden folders and those in which git ignores everything.
        elif not found.path.rpartition("/")[2].startswith(".") and _holds_files(folder):
            warn(f"{folder}: no {MANIFEST}, but `{patterns[found.patterns[0]].text}` names it")
    for number, pattern in enumerate(patterns):
        if number not in used:
            warn(f"{file}: the member `{pattern.text}` matches no folder")


def _holds_files(folder: str) -> bool:
    for _, names, files in os.walk(folder):
        if files:
            return True
        names[:] = [name for name in names if name not in folders.NEVER_ENTERED]
    return False


def _pattern(file: Path, text: str) -> folders.Pattern:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts:
        raise MemberOutside(file=file, pattern=text)
    for part in parts:
        if "**" in part and part != "**":
            raise WrongManifest(
                file=file,
                key="tool.uv.workspace.members",
                expected=f"globs in which `**` stands alone, not `{text}`",
            )
    if parts[-1:] == ["**"]:
        parts.append("*")  # `packages/**` is not `packages` itself
    return folders.Pattern(text, tuple(map(_segment, parts)))


def _segment(part: str) -> folders.Segment:
    if part == "**":
        return folders.Depth.ANY
    if any(letter in part for letter in "*?["):
        return re.compile(fnmatch.translate(part))
    return part


def _exclusion(text: str) -> re.Pattern[str]:
    """Matches a whole path. A `*` crosses slashes here: uv excludes what lies deeper, too."""
    path = "/".join(part for part in text.split("/") if part not in ("", "."))
    pieces = re.split(r"(?:(?<=/)|^)(?:\*\*/)+", path)
    return re.compile("(?:.*/)?".join(fnmatch.translate(piece)[:-2] for piece in pieces) + r"\Z")
