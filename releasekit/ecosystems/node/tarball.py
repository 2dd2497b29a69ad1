"""What an npm tarball is called and what it says of itself."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

from releasekit.errors import UnreadableArtifact

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.model import Package


NEEDS_NODE = "install Node.js and npm, or exclude the Node packages with `exclude` in the config"


def file_name(package: Package) -> str:
    """As npm names it: `@acme/cli` 1.0.0 → `acme-cli-1.0.0.tgz`."""
    return f"{package.name.removeprefix('@').replace('/', '-')}-{package.version}.tgz"


def read_manifest(tarball: Path) -> dict[str, Any]:
    """The package.json inside, as npm reads it: below the first folder, whatever its name."""
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                parts = member.name.split("/")
                if len(parts) == 2 and parts[1] == "package.json":  # noqa: PLR2004
                    content = archive.extractfile(member)
                    manifest = json.load(content) if content else None
                    if isinstance(manifest, dict):
                        return manifest
    except (tarfile.TarError, OSError, ValueError) as error:
        raise UnreadableArtifact(file=tarball, problem=str(error)) from error
    raise UnreadableArtifact(file=tarball, problem="there is no package.json in it")
