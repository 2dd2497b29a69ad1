"""The only door to git. One process where one suffices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import process
from releasekit.errors import ChildFailed, OddTool, ToolMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def git(root: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    return process.output(["git", *arguments], cwd=root, env=env)


def _answer(root: Path, arguments: Sequence[str]) -> str | None:
    try:
        return git(root, *arguments).rstrip("\n")
    except (ChildFailed, ToolMissing):
        return None


def head(root: Path) -> str | None:
    """The commit that is checked out; None where there is none yet."""
    asked = ["rev-parse", "--verify", "--quiet", "HEAD"]
    found = _answer(root, asked)
    if found is not None and not _COMMIT.fullmatch(found):
        raise OddTool(argv=["git", *asked], problem=f"it says {found[:99]!r}, which is no commit")
    return found


def commit_time(root: Path) -> str | None:
    """When the commit that is checked out was made, in seconds since 1970."""
    return _answer(root, ["log", "-1", "--format=%ct"]) or None


def uncommitted(root: Path) -> dict[Path, bool] | None:
    """What below the root is not in the commit, ignored files aside, and whether git tracks it.

    None: git cannot tell.
    """
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return {}
    # Whatever the user's settings hide or fold is asked for in full.
    status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", "."]
    answer = _answer(root, ["--no-optional-locks", *status])
    top = _answer(root, ["rev-parse", "--show-toplevel"]) if answer else ""
    if answer is None or top is None:
        return None
    entries = sorted(entry for entry in answer.split("\0") if entry)
    return {Path(top) / entry[3:]: not entry.startswith("??") for entry in entries}


def changed_files(root: Path) -> frozenset[str]:
    """What differs from the commit, ignored files aside; nothing outside of a repository."""
    # Without optional locks: the index belongs to the user.
    answer = _answer(root, ["--no-optional-locks", "status", "--porcelain", "-z"])
    return frozenset(entry[3:] for entry in (answer or "").split("\0") if entry)
