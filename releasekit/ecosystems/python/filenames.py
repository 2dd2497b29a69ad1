"""What the names of sdists and wheels say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

if TYPE_CHECKING:
    from packaging.version import Version


def name_and_version(filename: str) -> tuple[str, Version] | None:
    """What a file's name says it holds; None for other files and for broken names."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[:2]
        return parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
