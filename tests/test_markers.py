"""Markers that mean the same, as uv_build 0.13 was seen to rewrite them, and some that do not."""

from __future__ import annotations

import pytest
from packaging.markers import Marker

from releasekit.ecosystems.python.markers import mean_the_same


def same(one: str, other: str) -> bool:
    return mean_the_same(Marker(one) if one else None, Marker(other) if other else None)


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ('python_version >= "3.8"', "python_full_version >= '3.8'"),
        ('python_version == "3.8"', "python_full_version == '3.8.*'"),
        ('python_version != "3.8"', "python_full_version != '3.8.*'"),
        ('python_version > "3.8"', "python_full_version >= '3.9'"),
        ('python_version <= "3.8"', "python_full_version < '3.9'"),
        (
            'python_version in "3.8 3.9"',
            "python_full_version >= '3.8' and python_full_version < '3.10'",
        ),
        (
            'sys_platform == "win32" or platform_machine == "x"',
            "platform_machine == 'x' or sys_platform == 'win32'",
        ),
        ('os_name == "nt" and os_name == "posix"', "python_version < '0'"),
        ('os_name == "nt" or os_name != "nt"', ""),
        (
            '(python_version < "3.9" or sys_platform == "win32") and extra == "e1-x"',
            (
                "(python_full_version < '3.9' and extra == 'e1-x') or "
                "(sys_platform == 'win32' and extra == 'e1-x')"
            ),
        ),
    ],
)
def test_what_a_backend_rewrites_means_the_same(written: str, built: str) -> None:
    assert same(written, built)
    assert same(built, written)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('python_version >= "3.8"', 'python_version >= "3.9"'),
        ('python_version >= "3.8"', "python_full_version >= '3.8.1'"),
        ('python_version >= "3.8"', ""),
        ('os_name == "nt"', 'os_name == "posix"'),
        ('extra == "fast"', ""),
        ('extra == "fast"', 'extra == "slow"'),
        ('sys_platform == "linux"', "'linux' in sys_platform"),
        ('sys_platform == "a" and os_name == "b"', 'sys_platform == "a" or os_name == "b"'),
    ],
)
def test_what_differs_in_some_environment_is_told_apart(one: str, other: str) -> None:
    assert not same(one, other)


def test_too_many_environments_are_not_asked() -> None:
    many = " or ".join(
        f'{name} == "{value}"'
        for name in ("os_name", "sys_platform", "platform_machine", "implementation_name")
        for value in "abcdefghi"
    )
    assert same(many, many)
    assert not same(many, many.replace(chr(34) + "a", chr(34) + "z", 1))
