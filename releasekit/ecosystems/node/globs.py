"""Globs as npm, pnpm and yarn write them: braces, classes, `**` and extended groups.

No pattern is slow: groups are matched by sets of positions, not by backtracking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from releasekit.folders import Depth, Pattern, Segment

MAX_ALTERNATIVES = 1_000
_MAGIC = re.compile(r"[*?\[\\]|[@+!]\(")
_EXTENDED = re.compile(r"[@+!?*]\(")


class TooManyAlternativesError(ValueError):
    pass


def compile_glob(text: str) -> tuple[Pattern, ...]:
    """The patterns that a glob stands for, one for each of its brace alternatives."""
    return tuple(
        Pattern(text, tuple(_segment(part) for part in path.split("/") if part not in ("", ".")))
        for path in braces(text)
    )


def braces(text: str) -> list[str]:
    """`a{b,c}` → `ab`, `ac`; `{1..3}` → `1`, `2`, `3`; `{a}` stays as it is."""
    done: list[str] = []
    pending = [text]
    while pending:
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise TooManyAlternativesError(text)
        current = pending.pop()
        cut = _first_brace(current)
        if cut is None:
            done.append(current)
            continue
        start, end, choices = cut
        pending.extend(f"{current[:start]}{choice}{current[end:]}" for choice in reversed(choices))
    return list(dict.fromkeys(done))


def _first_brace(text: str) -> tuple[int, int, list[str]] | None:
    start = text.find("{")
    while start != -1:
        depth, commas, end = 0, [start], -1
        for position in range(start, len(text)):
            letter = text[position]
            if letter == "{":
                depth += 1
            elif letter == "}":
                depth -= 1
                if depth == 0:
                    end = position
                    break
            elif letter == "," and depth == 1:
                commas.append(position)
        if end == -1:
            return None
        if len(commas) > 1:
            edges = [*commas, end]
            choices = [text[a + 1 : b] for a, b in pairwise(edges)]
            return start, end + 1, choices
        if numbers := re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})", text[start + 1 : end]):
            low, high = int(numbers[1]), int(numbers[2])
            step = 1 if low <= high else -1
            return start, end + 1, [str(n) for n in range(low, high + step, step)]
        start = text.find("{", start + 1)
    return None


@cache
def _segment(part: str) -> Segment:
    if part == "**":
        return Depth.VISIBLE
    if not _MAGIC.search(part):
        return part
    # Two stars in an expression would backtrack; sets of positions do not.
    if _EXTENDED.search(part) or part.count("*") > 1:
        return _Extended(part, _parse(part))
    return re.compile(_expression(part))


def _expression(part: str) -> str:
    # A wildcard does not stand for the dot of a hidden folder.
    pieces = [r"(?!\.)" if part[0] in "*?[" else ""]
    position = 0
    while position < len(part):
        letter = part[position]
        position += 1
        if letter == "*":
            pieces.append(".*")
        elif letter == "?":
            pieces.append(".")
        elif letter == "[" and (found := _CLASS.match(part, position)):
            pieces.append(_class(found))
            position = found.end()
        elif letter == "\\" and position < len(part):
            pieces.append(re.escape(part[position]))
            position += 1
        else:
            pieces.append(re.escape(letter))
    return "(?s:" + "".join(pieces) + ")"


_CLASS = re.compile(r"(?P<not>[!^]?)(?P<body>\]?[^\]]+)\]")


def _class(found: re.Match[str]) -> str:
    body = re.sub(r"([\\\[\]&~|^])", r"\\\1", found["body"])
    return f"[{'^' if found['not'] else ''}{body}]"


# Extended groups: `@(a|b)`, `+(a)`, `*(a)`, `?(a)`, `!(a)`, nested as deeply as one likes.


@dataclass(frozen=True, slots=True)
class _Group:
    sign: str
    choices: tuple[tuple[_Item, ...], ...]


_Item = _Group | re.Pattern[str] | None
"""A group, one letter, or (None) a star."""


@dataclass(frozen=True, slots=True)
class _Extended:
    text: str
    items: tuple[_Item, ...]

    def fullmatch(self, string: str, /) -> bool:
        if string.startswith(".") and not self.text.startswith("."):
            return False
        return len(string) in _ends(self.items, string, {0})


def _parse(text: str) -> tuple[_Item, ...]:
    items, _ = _sequence(text, 0, nested=False)
    return items


def _sequence(text: str, position: int, *, nested: bool) -> tuple[tuple[_Item, ...], int]:
    items: list[_Item] = []
    while position < len(text) and not (nested and text[position] in "|)"):
        letter = text[position]
        if letter in "@+!?*" and text[position + 1 : position + 2] == "(":
            group, position = _group(text, position)
            items.append(group)
            continue
        position += 1
        if letter == "*":
            items.append(None)
        elif letter == "[" and (found := _CLASS.match(text, position)):
            items.append(re.compile(_class(found), re.DOTALL))
            position = found.end()
        else:
            items.append(re.compile("." if letter == "?" else re.escape(letter), re.DOTALL))
    return tuple(items), position


def _group(text: str, position: int) -> tuple[_Group, int]:
    sign = text[position]
    position += 1
    choices = []
    while position < len(text) and text[position] != ")":
        choice, position = _sequence(text, position + 1, nested=True)
        choices.append(choice)
    return _Group(sign, tuple(choices)), position + 1


def _ends(items: tuple[_Item, ...], text: str, starts: set[int]) -> set[int]:
    """Where a match of the items can end, for matches that start at one of these places."""
    for item in items:
        if not starts:
            break
        if item is None:
            starts = set(range(min(starts), len(text) + 1))
        elif isinstance(item, _Group):
            starts = _group_ends(item, text, starts)
        else:
            starts = {place + 1 for place in starts if item.match(text, place)}
    return starts


def _group_ends(group: _Group, text: str, starts: set[int]) -> set[int]:
    def once(places: set[int]) -> set[int]:
        return {end for choice in group.choices for end in _ends(choice, text, places)}

    if group.sign == "!":
        ends: set[int] = set()
        for place in starts:
            ends |= set(range(place, len(text) + 1)) - once({place})
        return ends
    reached = once(starts)
    if group.sign in "+*":
        front = reached
        while front:
            front = once(front) - reached
            reached = reached | front
    return reached | starts if group.sign in "?*" else reached
