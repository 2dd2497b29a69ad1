"""Versions and ranges as npm's `semver` reads them (https://github.com/npm/node-semver)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_NUMBER = r"0|[1-9]\d*"
_TAIL = r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
_VERSION = re.compile(
    rf"v?(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER}){_TAIL}", re.ASCII
)
_PART = rf"{_NUMBER}|[xX*]"
_COMPARATOR = re.compile(
    rf"(?P<sign>[<>]=?|=|~>?|\^|)\s*[v=\s]*"
    rf"(?:(?P<major>{_PART})(?:\.(?P<minor>{_PART})(?:\.(?P<patch>{_PART}){_TAIL})?)?)?",
    re.ASCII,
)
_HYPHEN = re.compile(r"\s*(\S+)\s+-\s+(\S+)\s*")
_SPACE_AFTER_SIGN = re.compile(r"([<>]=?|=|~>?|\^)\s+")
_NEEDS_VERSION = ("<", "<=", ">", ">=", "^", "~", "~>")
_MAX_LENGTH = 256
_FULL = 3
"""Major, minor and patch: a version rather than an x-range."""

Identifier = tuple[int, int, str]
"""A prerelease part: numbers sort before words."""


@dataclass(frozen=True, slots=True, order=True)
class Version:
    major: int
    minor: int
    patch: int
    release: bool
    """A release sorts after its prereleases."""
    prerelease: tuple[Identifier, ...] = ()

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        words = ".".join(word or str(number) for _, number, word in self.prerelease)
        return f"{text}-{words}" if words else text

    @property
    def core(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch


_Comparator = tuple[str, Version]


@cache
def parse(text: str) -> Version | None:
    found = _VERSION.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if found is None:
        return None
    return _version(found["major"], found["minor"], found["patch"], found["pre"])


def _version(major: str | int, minor: str | int, patch: str | int, pre: str | None) -> Version:
    identifiers = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in (pre.split(".") if pre else ())
    )
    return Version(int(major), int(minor), int(patch), not identifiers, identifiers)


@dataclass(frozen=True, slots=True)
class Range:
    """Alternatives, each a list of comparators that must all hold."""

    alternatives: tuple[tuple[_Comparator, ...], ...]

    def admits(self, version: Version) -> bool:
        return any(_all_hold(comparators, version) for comparators in self.alternatives)

    def admits_in_order(self, version: Version) -> bool:
        """By order alone: `^1.2.0` admits 1.5.0-rc.1, which npm would have to be asked for."""
        return self._alternative_of(version) is not None

    def ceilings(self, version: Version) -> tuple[tuple[str, Version], ...]:
        """The upper bounds of the alternative that admits the version by order."""
        signs = {"<": "<", "<=": "<=", "=": "<="}
        return tuple(
            (signs[sign], other)
            for sign, other in self._alternative_of(version) or ()
            if sign in signs
        )

    def _alternative_of(self, version: Version) -> tuple[_Comparator, ...] | None:
        for comparators in self.alternatives:
            if all(_holds(sign, other, version) for sign, other in comparators):
                return comparators
        return None


@cache
def parse_range(text: str) -> Range | None:
    """None where npm would not call it a range: a tag, an address, a path."""
    if len(text) > _MAX_LENGTH:
        return None
    alternatives = [_alternative(part) for part in text.split("||")]
    if any(found is None for found in alternatives):
        return None
    return Range(tuple(found for found in alternatives if found is not None))


def _alternative(text: str) -> tuple[_Comparator, ...] | None:
    if hyphen := _HYPHEN.fullmatch(text):
        low, high = _COMPARATOR.fullmatch(hyphen[1]), _COMPARATOR.fullmatch(hyphen[2])
        if low is None or high is None or low["sign"] or high["sign"]:
            return None
        return (*_at_least(low), *_at_most(high))
    comparators: list[_Comparator] = []
    for token in _SPACE_AFTER_SIGN.sub(r"\1", text).split() or [""]:
        found = _COMPARATOR.fullmatch(token)
        if found is None or (found["sign"] in _NEEDS_VERSION and found["major"] is None):
            return None
        comparators.extend(_comparators(found))
    return tuple(comparators)


def caret_end(version: Version) -> Version:
    """Where `^version` ends: its next breaking change."""
    keep = next((place for place, number in enumerate(version.core) if number), _FULL - 1)
    return _before(list(version.core[: keep + 1]))[1]


def _comparators(found: re.Match[str]) -> tuple[_Comparator, ...]:
    sign = found["sign"]
    match sign:
        case "^":
            return _caret(found)
        case "~" | "~>":
            return _tilde(found)
        case ">=":
            return _at_least(found)
        case "<=":
            return _at_most(found)
        case "<":
            return _below(found)
        case ">":
            return _above(found)
        case _:
            return _equal(found)


def _numbers(found: re.Match[str]) -> list[int]:
    """The parts before the first wildcard."""
    numbers = []
    for key in ("major", "minor", "patch"):
        part = found[key]
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    return numbers


def _floor(numbers: list[int], pre: str | None = None) -> Version:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return _version(major, minor, patch, pre if len(numbers) == _FULL else None)


def _before(numbers: list[int]) -> _Comparator:
    """Everything below the next of these numbers, its prereleases excluded as well."""
    following = [*numbers[:-1], numbers[-1] + 1]
    return "<", _version(*_floor(following).core, "0")


def _at_least(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    return ((">=", _floor(numbers, found["pre"])),) if numbers else ()


def _at_most(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if len(numbers) == _FULL:
        return (("<=", _floor(numbers, found["pre"])),)
    return (_before(numbers),) if numbers else ()


_NOTHING: tuple[_Comparator, ...] = (("<", _version(0, 0, 0, "0")),)


def _below(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if not numbers:
        return _NOTHING
    if len(numbers) == _FULL:
        return (("<", _floor(numbers, found["pre"])),)
    return (("<", _version(*_floor(numbers).core, "0")),)


def _above(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if not numbers:
        return _NOTHING
    if len(numbers) == _FULL:
        return ((">", _floor(numbers, found["pre"])),)
    return ((">=", _floor([*numbers[:-1], numbers[-1] + 1])),)


def _equal(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if len(numbers) == _FULL:
        return (("=", _floor(numbers, found["pre"])),)
    return ((">=", _floor(numbers)), _before(numbers)) if numbers else ()


def _tilde(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if not numbers:
        return ()
    return (">=", _floor(numbers, found["pre"])), _before(numbers[:2])


def _caret(found: re.Match[str]) -> tuple[_Comparator, ...]:
    numbers = _numbers(found)
    if not numbers:
        return ()
    # The first number that is not zero is the one that must not change.
    keep = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    return (">=", _floor(numbers, found["pre"])), _before(numbers[: keep + 1])


def _all_hold(comparators: tuple[_Comparator, ...], version: Version) -> bool:
    if not all(_holds(sign, other, version) for sign, other in comparators):
        return False
    # A prerelease is only admitted by a comparator that names one of the same version.
    return version.release or any(
        not other.release and other.core == version.core for _, other in comparators
    )


def _holds(sign: str, other: Version, version: Version) -> bool:
    match sign:
        case ">=":
            return version >= other
        case "<=":
            return version <= other
        case "<":
            return version < other
        case ">":
            return version > other
        case _:
            return version == other
