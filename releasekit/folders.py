"""Folders below a root that patterns name, found in one walk that never leaves the root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from releasekit.errors import UnreadableManifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Dependencies and the state of tools: no member of a workspace lives there.
NEVER_ENTERED = frozenset(
    {"node_modules", "__pycache__", ".git", ".hg", ".svn", ".venv", ".tox", ".nox"}
    | {".yarn", ".pnpm-store", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
VIRTUAL_ENVIRONMENT = "pyvenv.cfg"


class Depth(Enum):
    """The `**` of a pattern."""

    ANY = "**"
    VISIBLE = "** without hidden folders"


class Matcher(Protocol):
    """A compiled regular expression, or what acts like one."""

    def fullmatch(self, string: str, /) -> object: ...


Segment = str | Matcher | Depth


@dataclass(frozen=True, slots=True)
class Pattern:
    """One glob, cut at its slashes: a name, an expression that names match, or any depth."""

    text: str
    segments: tuple[Segment, ...]

    def matches(self, path: str) -> bool:
        states = _through_depths([self], {(0, 0)})
        for name in path.split("/") if path != "." else ():
            states = _after([self], list(states), name)
        return (0, len(self.segments)) in states


@dataclass(frozen=True, slots=True)
class Found:
    """A folder, relative to the root (`.` is the root itself), and the patterns that name it."""

    path: str
    patterns: tuple[int, ...]


# A place in a pattern: which pattern, and which of its segments comes next.
_State = tuple[int, int]


def expand(
    root: str, patterns: Sequence[Pattern], *, depth_follows_links: bool = False
) -> Iterator[Found]:
    """The existing folders that the patterns name, each once, parents first, sorted.

    A link is only entered where it stays below the root, and by `**` only where asked.
    """
    real_root = os.path.realpath(root)
    start = _through_depths(patterns, {(number, 0) for number in range(len(patterns))})
    stack: list[tuple[str, set[_State], tuple[str, ...]]] = [("", start, ())]
    while stack:
        path, states, links = stack.pop()
        if os.path.lexists(f"{root}/{path}/{VIRTUAL_ENVIRONMENT}"):
            continue
        if matching := {number for number, at in states if at == len(patterns[number].segments)}:
            yield Found(path or ".", tuple(sorted(matching)))
        steps = [(number, at) for number, at in states if at < len(patterns[number].segments)]
        if links and not depth_follows_links:
            steps = [(n, at) for n, at in steps if not isinstance(patterns[n].segments[at], Depth)]
        children = []
        for name, is_link in _children(root, path, patterns, steps):
            after = _after(patterns, steps, name)
            if not after:
                continue
            child = f"{path}/{name}" if path else name
            if not child.isascii():
                _refuse_undecodable(child)
            entered = links
            if is_link:
                target = os.path.realpath(f"{root}/{child}")
                if not f"{target}/".startswith(f"{real_root}/") or _leads_up(
                    target, f"{root}/{path}", links
                ):
                    continue
                entered = (*links, target)
            children.append((child, after, entered))
        stack.extend(sorted(children, key=lambda child: child[0], reverse=True))


def _refuse_undecodable(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        shown = path.encode(errors="backslashreplace").decode()
        raise UnreadableManifest(file=Path(shown), problem="its name is not UTF-8") from error


def _leads_up(target: str, folder: str, links: tuple[str, ...]) -> bool:
    """Whether a link leads to a folder that the walk came through: it would go round for ever."""
    return target in links or f"{os.path.realpath(folder)}/".startswith(f"{target}/")


def _through_depths(patterns: Sequence[Pattern], states: set[_State]) -> set[_State]:
    """`**` also stands for no folder at all."""
    pending = list(states)
    while pending:
        number, at = pending.pop()
        segments = patterns[number].segments
        if (
            at < len(segments)
            and isinstance(segments[at], Depth)
            and (number, at + 1) not in states
        ):
            states.add((number, at + 1))
            pending.append((number, at + 1))
    return states


def _after(patterns: Sequence[Pattern], steps: list[_State], name: str) -> set[_State]:
    reached: set[_State] = set()
    for number, at in steps:
        if at == len(patterns[number].segments):
            continue
        segment = patterns[number].segments[at]
        if isinstance(segment, str):
            if segment == name:
                reached.add((number, at + 1))
        elif isinstance(segment, Depth):
            if segment is Depth.ANY or not name.startswith("."):
                reached.add((number, at))
        elif segment.fullmatch(name):
            reached.add((number, at + 1))
    return _through_depths(patterns, reached)


def _children(
    root: str, path: str, patterns: Sequence[Pattern], steps: list[_State]
) -> Iterator[tuple[str, bool]]:
    """The folders below that a step could enter, and whether each is a link."""
    if not steps:
        return
    here = f"{root}/{path}" if path else root
    segments = [patterns[number].segments[at] for number, at in steps]
    if all(isinstance(segment, str) for segment in segments):
        for name in {segment for segment in segments if isinstance(segment, str)}:
            if name not in NEVER_ENTERED and os.path.isdir(f"{here}/{name}"):  # noqa: PTH112 - a Path per folder is slow
                yield name, os.path.islink(f"{here}/{name}")  # noqa: PTH114
        return
    try:
        with os.scandir(here) as entries:
            listing = list(entries)
    except OSError as error:
        raise UnreadableManifest(file=Path(here), problem=error.strerror or str(error)) from error
    for entry in listing:
        if entry.name not in NEVER_ENTERED and entry.is_dir():
            yield entry.name, entry.is_symlink()
