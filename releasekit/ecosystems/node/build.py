"""One package → one tarball, by `npm pack`."""

from __future__ import annotations

import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

from releasekit import process
from releasekit.errors import UnreadableArtifact

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.model import Package

NEEDS_NODE = "install Node.js and npm, or exclude the Node packages with `exclude` in the config"
_DEPENDENCY_TABLES = ("dependencies", "optionalDependencies", "peerDependencies", "devDependencies")
# What only means something inside the workspace; a registry's users could not install it.
_LOCAL_PROTOCOLS = ("workspace:", "catalog:", "file:", "link:", "portal:")


async def build(package: Package, root: Path, out: Path, log: Path) -> None:
    npm = process.find_tool("npm", hint=NEEDS_NODE)
    await process.run(
        [npm, "pack", "--pack-destination", str(out)],
        cwd=root / package.path,
        env=process.build_environment(os.environ),
        log=log,
    )


def inspect(package: Package, files: tuple[Path, ...]) -> tuple[str, ...]:
    if len(files) != 1 or files[0].suffix != ".tgz":
        found = ", ".join(f"`{file.name}`" for file in files) or "nothing"
        return (f"`npm pack` should leave one tarball and left {found}",)
    manifest = read_manifest(files[0])
    problems = []
    built = (manifest.get("name"), manifest.get("version"))
    if built != (package.name, package.version):
        problems.append(
            f"the tarball holds {built[0]} {built[1]}, the plan says {package.name} "
            f"{package.version}"
        )
    for table in _DEPENDENCY_TABLES:
        for name, wanted in (manifest.get(table) or {}).items():
            # Nobody installs a dependency's devDependencies, but npm still reads them.
            if isinstance(wanted, str) and wanted.startswith(_LOCAL_PROTOCOLS):
                problems.append(f"`{table}.{name}` still says `{wanted}`")
    return tuple(problems)


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
