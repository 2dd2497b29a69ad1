"""Whether two markers mean the same: backends rewrite them.

uv_build writes `python_version >= "3.8"` as `python_full_version >= '3.8'` and puts parts in an
order of its own. So both are asked about every environment in which their answers could differ.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from packaging.markers import (
    Marker,
    UndefinedComparison,
    UndefinedEnvironmentName,
    default_environment,
)
from packaging.version import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISON = re.compile(
    r'(?:"(?P<left>[^"]*)"|(?P<name>[a-z_]+)) (?:[=<>!~]+|not in|in) '
    r'(?:"(?P<right>[^"]*)"|(?P<other>[a-z_]+))'
)
_RELEASE = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_PYTHON = frozenset({"python_version", "python_full_version"})
_MOST = 4096
"""Environments that two markers are asked about; beyond that, only the same text is the same."""


def mean_the_same(one: Marker | None, other: Marker | None) -> bool:
    markers = [marker for marker in (one, other) if marker is not None]
    if str(one) == str(other):
        return True
    candidates = _candidates([str(marker) for marker in markers])
    total = 1
    for values in candidates.values():
        total *= len(values)
    if total > _MOST:
        return False
    try:
        return all(
            len({marker is None or marker.evaluate(environment) for marker in (one, other)}) == 1
            for environment in _environments(candidates)
        )
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return False


def _candidates(markers: list[str]) -> dict[str, set[str]]:
    """By variable, the values at which an answer can change, and some that nobody names."""
    found: dict[str, set[str]] = {}
    for found_one in itertools.chain.from_iterable(map(_COMPARISON.finditer, markers)):
        name = found_one["name"] or found_one["other"] or ""
        value = found_one["right"] if found_one["left"] is None else found_one["left"]
        if name in _PYTHON:
            found.setdefault("python", set()).update(_around(value or ""))
        else:
            values = found.setdefault(name, {"" if name == "extra" else "0"})
            values.update({value or "", f"{value}-", *(value or "").replace(",", " ").split()})
    return found


def _around(text: str) -> Iterator[str]:
    """The releases of Python that a bound may part."""
    for release in _RELEASE.finditer(text):
        major, minor, micro = (int(part or 0) for part in release.groups())
        yield f"{major}.{minor}.{micro}"
        yield f"{major}.{minor}.{micro + 1}"
        yield f"{major}.{minor + 1}.0"
        yield f"{major + 1}.0.0"
        if micro:
            yield f"{major}.{minor}.{micro - 1}"
        if minor:
            yield f"{major}.{minor - 1}.99"
        if major:
            yield f"{major - 1}.99.0"


def _environments(candidates: dict[str, set[str]]) -> Iterator[dict[str, str]]:
    base: dict[str, str] = {**default_environment(), "extra": ""}  # type: ignore[dict-item]
    for values in itertools.product(*(sorted(one) for one in candidates.values())):
        environment = base | dict(zip(candidates, values, strict=True))
        python = environment.pop("python", None)
        if python is not None:
            environment["python_full_version"] = python
            environment["python_version"] = python.rpartition(".")[0]
        yield environment
