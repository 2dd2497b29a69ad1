"""npm's version ranges: what a range admits and where it ends.

https://github.com/npm/node-semver#ranges
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TypeAlias

_NUMBER = r"(?:0|[1-9]\d*)"
_SUFFIX = r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
_VERSION = re.compile(rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER}){_SUFFIX}")
_PART = rf"(?:{_NUMBER}|[xX*])"
_PARTIAL = re.compile(
    rf"[v=\s]*(?P<major>{_PART})(?:\.(?P<minor>{_PART})(?:\.(?P<patch>{_PART}){_SUFFIX})?)?"
)
_OPERATOR = re.compile(r"(>=|<=|>|<|=|~>|~|\^)\s+")
_SIMPLE = re.compile(r"(>=|<=|>|<|=|~>|~|\^|)(.*)", re.DOTALL)


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(self.prerelease)}" if self.prerelease else text

    def __lt__(self, other: Version) -> bool:
        return self._rank() < other._rank()

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    def _rank(self) -> tuple[object, ...]:
        # A release comes after its prereleases; numbers sort before words.
        words = tuple(
            (0, int(word), "") if word.isdigit() else (1, 0, word) for word in self.prerelease
        )
        return (*self.numbers, not self.prerelease, words)


@dataclass(frozen=True, slots=True)
class Comparator:
    operator: str
    version: Version

    def __str__(self) -> str:
        return f"{self.operator}{self.version}"

    def admits(self, version: Version) -> bool:
        match self.operator:
            case ">=":
                return version >= self.version
            case ">":
                return version > self.version
            case "<=":
                return version <= self.version
            case "<":
                return version < self.version
            case _:
                return version == self.version


Alternative: TypeAlias = tuple[Comparator, ...]

_NOTHING = Comparator("<", Version(0, 0, 0, ("0",)))
_ANYTHING = Comparator(">=", Version(0, 0, 0))


def parse_version(text: str) -> Version | None:
    found = _VERSION.fullmatch(text)
    return None if found is None else Version(*_numbers(found), _prerelease(found))


def parse_range(text: str) -> tuple[Alternative, ...] | None:
    """The alternatives of a range; None when the text is no range (a tag, an address)."""
    alternatives = []
    for part in text.split("||"):
        alternative = _alternative(part.strip())
        if alternative is None:
            return None
        alternatives.append(alternative)
    return tuple(alternatives)


def admits(alternatives: tuple[Alternative, ...], version: Version) -> bool:
    """By order alone: `*` and `^1.2.0` admit 1.5.0-rc.1, which npm would have to be asked for."""
    return any(_admits(alternative, version) for alternative in alternatives)


def ceilings(alternatives: tuple[Alternative, ...], version: Version) -> tuple[Comparator, ...]:
    """The upper bounds of the alternative that admits the version."""
    for alternative in alternatives:
        if _admits(alternative, version):
            upper = [one for one in alternative if one.operator in {"<", "<="}]
            exact = [Comparator("<=", one.version) for one in alternative if one.operator == "="]
            return (*upper, *exact)
    return ()


def caret(version: Version) -> Alternative:
    if version.major:
        above = Version(version.major + 1, 0, 0, ("0",))
    elif version.minor:
        above = Version(0, version.minor + 1, 0, ("0",))
    else:
        above = Version(0, 0, version.patch + 1, ("0",))
    return (Comparator(">=", version), Comparator("<", above))


def _admits(alternative: Alternative, version: Version) -> bool:
    return all(comparator.admits(version) for comparator in alternative)


def _alternative(text: str) -> Alternative | None:
    low, hyphen, high = text.partition(" - ")
    if hyphen:
        return _hyphen(low.strip(), high.strip())
    comparators: list[Comparator] = []
    for word in _OPERATOR.sub(r"\1", text).split() or ["*"]:
        simple = _SIMPLE.fullmatch(word)
        found = _PARTIAL.fullmatch(simple[2]) if simple else None
        if simple is None or found is None or _number_after_wildcard(found):
            return None
        comparators += _desugar(simple[1], found)
    return tuple(comparators)


def _hyphen(low: str, high: str) -> Alternative | None:
    lower, upper = _PARTIAL.fullmatch(low), _PARTIAL.fullmatch(high)
    if lower is None or upper is None:
        return None
    return (*_desugar(">=", lower), *_desugar("<=", upper))


def _desugar(operator: str, found: re.Match[str]) -> Alternative:
    known = _known(found)
    version = Version(*_numbers(found), _prerelease(found) if known == 3 else ())  # noqa: PLR2004
    if known == 0:
        return (_NOTHING,) if operator in {">", "<"} else (_ANYTHING,)
    if operator == "^":
        return _caret(version, known)
    if operator in {"~", "~>"}:
        return (Comparator(">=", version), Comparator("<", _after(version, min(known, 2))))
    if known == 3:  # noqa: PLR2004 - major, minor and patch
        return (Comparator(operator or "=", version),)
    match operator:
        case ">":
            return (Comparator(">=", Version(*_after(version, known).numbers)),)
        case ">=":
            return (Comparator(">=", version),)
        case "<":
            return (Comparator("<", Version(*version.numbers, ("0",))),)
        case "<=":
            return (Comparator("<", _after(version, known)),)
        case _:
            return (Comparator(">=", version), Comparator("<", _after(version, known)))


def _caret(version: Version, known: int) -> Alternative:
    if known == 3 or version.major:  # noqa: PLR2004
        return caret(version)
    if known == 2 and version.minor:  # noqa: PLR2004 - ^0.2 is ^0.2.0
        return caret(version)
    return (Comparator(">=", version), Comparator("<", _after(version, known)))


def _after(version: Version, known: int) -> Version:
    """The lowest version above all that share the first `known` numbers."""
    if known == 1:
        return Version(version.major + 1, 0, 0, ("0",))
    return Version(version.major, version.minor + 1, 0, ("0",))


def _known(found: re.Match[str]) -> int:
    for count, name in enumerate(("major", "minor", "patch")):
        if found[name] is None or found[name] in "xX*":
            return count
    return 3


def _number_after_wildcard(found: re.Match[str]) -> bool:
    later = ("major", "minor", "patch")[_known(found) :]
    return any((found[name] or "x") not in "xX*" for name in later)


def _numbers(found: re.Match[str]) -> tuple[int, int, int]:
    known = _known(found)
    major, minor, patch = (
        int(found[name]) if index < known else 0
        for index, name in enumerate(("major", "minor", "patch"))
    )
    return major, minor, patch


def _prerelease(found: re.Match[str]) -> tuple[str, ...]:
    return tuple(found["pre"].split(".")) if found["pre"] else ()
