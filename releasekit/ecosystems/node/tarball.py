"""What an npm tarball is called and what it says of itself."""

from __future__ import annotations

import json
import re
import tarfile
from typing import TYPE_CHECKING, Any

from releasekit.errors import UnreadableArtifact

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.model import Package


NEEDS_NODE = "install Node.js and npm, or exclude the Node packages with `exclude` in the config"

_README = re.compile(r"readme(\.[^/]*)?", re.IGNORECASE)
# npm cuts it long before.
_LONGEST_README = 1 << 20


def file_name(package: Package) -> str:
    """As npm names it: `@acme/cli` 1.0.0 → `acme-cli-1.0.0.tgz`."""
    return f"{package.name.removeprefix('@').replace('/', '-')}-{package.version}.tgz"


def without_build(version: str) -> str:
    """`1.0.0+build` is 1.0.0 to npm, in everything but the tarball's own name."""
    return version.partition("+")[0]


def read_manifest(tarball: Path) -> dict[str, Any]:
    return read_package(tarball)[0]


def read_package(tarball: Path) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The package.json inside, and the name and text of the README beside it.

    As npm reads it: below the first folder, whatever its name.
    """
    manifest: object = None
    readmes: dict[str, str] = {}
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                _, slash, name = member.name.partition("/")
                if not slash or not (name == "package.json" or _README.fullmatch(name)):
                    continue
                file = archive.extractfile(member)
                if file is None:
                    continue
                if name == "package.json":
                    manifest = json.load(file)
                elif member.size <= _LONGEST_README:
                    readmes[name] = file.read().decode(errors="replace")
    except (tarfile.TarError, OSError, ValueError) as error:
        raise UnreadableArtifact(file=tarball, problem=str(error)) from error
    if not isinstance(manifest, dict):
        raise UnreadableArtifact(file=tarball, problem="there is no package.json in it")
    # Markdown before any other.
    chosen = min(readmes, key=lambda name: (not name.lower().endswith(".md"), name), default=None)
    return manifest, (chosen, readmes[chosen]) if chosen else None
