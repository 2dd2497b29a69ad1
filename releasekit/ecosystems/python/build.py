"""One package → sdist and wheel, by `uv build`."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from releasekit import process

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.model import Package


def find_uv() -> str:
    """uv on PATH, or the one installed beside our interpreter with releasekit itself."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    import uv

    return uv.find_uv_bin()


async def build(package: Package, root: Path, out: Path, log: Path) -> None:
    # --no-sources: the artifacts must build for someone who has only the registry.
    await process.run(
        [find_uv(), "build", "--no-sources", "--out-dir", str(out), str(root / package.path)],
        cwd=root,
        env=process.build_environment(os.environ),
        log=log,
    )
    (out / ".gitignore").unlink(missing_ok=True)


def inspect(package: Package, files: tuple[Path, ...]) -> tuple[str, ...]:
    problems = []
    suffixes = {"sdist": ".tar.gz", "wheel": ".whl"}
    for kind, suffix in suffixes.items():
        if not any(file.name.endswith(suffix) for file in files):
            problems.append(f"the build left no {kind}")
    expected = (canonicalize_name(package.name), Version(package.version or ""))
    for file in files:
        built = name_and_version(file.name)
        if built is None:
            problems.append(f"`{file.name}` is neither an sdist nor a wheel")
        elif built != expected:
            problems.append(
                f"`{file.name}` is {built[0]} {built[1]}, the plan says {expected[0]} {expected[1]}"
            )
    return tuple(problems)


def name_and_version(filename: str) -> tuple[str, Version] | None:
    """What a file's name says it holds; None for other files and for broken names."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[:2]
        return parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
