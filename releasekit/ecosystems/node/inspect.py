"""Look into tarballs before anyone can upload them."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any

from releasekit import archives
from releasekit.errors import UnreadableArtifact
from releasekit.model import Check, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releasekit.ecosystems import InspectRequest

_PINNED = ("dependencies", "optionalDependencies", "peerDependencies")
_TABLES = (*_PINNED, "devDependencies")
# What only means something inside the workspace; a registry's users could not install it.
_LOCAL_PROTOCOLS = ("workspace:", "catalog:", "file:", "link:", "portal:")


def inspect(request: InspectRequest) -> tuple[Finding, ...]:
    if len(request.files) != 1 or request.files[0].suffix != ".tgz":
        names = ", ".join(f"`{file.name}`" for file in request.files) or "nothing"
        return (
            Finding(
                check=Check.FILES,
                file="",
                message=f"packing should leave one tarball and left {names}",
                hint="look into the package's log",
            ),
        )
    file = request.files[0]
    try:
        return tuple(_findings(request, file))
    except UnreadableArtifact as error:
        return (
            Finding(
                check=Check.FILES, file=file.name, message=error.message, hint="build it again"
            ),
        )


def _findings(request: InspectRequest, file: Path) -> Iterator[Finding]:
    entries, manifest = [], None
    names: set[str] = set()
    for entry in archives.scan(file):
        entries.append(entry)
        yield from archives.find_everywhere(file, entry)
        # npm strips the first folder, whatever its name.
        inside = entry.name.partition("/")[2]
        names.add(inside)
        if inside == "package.json":
            manifest = _parsed(file, entry.read())
    yield from archives.find_size(file, entries, request.max_bytes)
    if manifest is None:
        raise UnreadableArtifact(file=file, problem="there is no package.json in it")
    yield from _identity(request, file, manifest)
    yield from _dependencies(request, file, manifest)
    yield from _entry_points(file, manifest, names)
    if not any(name.lower().startswith("readme") for name in names):
        yield Finding(
            check=Check.README,
            file=file.name,
            message="it has no readme",
            hint="write a README.md beside its package.json",
            severity=Severity.WARNING,
        )


def _parsed(file: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise UnreadableArtifact(file=file, problem=f"its package.json: {error}") from error
    if not isinstance(manifest, dict):
        raise UnreadableArtifact(file=file, problem="its package.json is not an object")
    return manifest


def _identity(request: InspectRequest, file: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    package = request.package
    for check, key, wanted in (
        (Check.NAME, "name", package.name),
        (Check.VERSION, "version", package.version),
    ):
        if manifest.get(key) != wanted:
            yield Finding(
                check=check,
                file=file.name,
                message=f"its {key} is `{manifest.get(key)}`, the plan says `{wanted}`",
                hint=f"look for a script that changes `{key}` while packing",
            )


def _dependencies(
    request: InspectRequest, file: Path, manifest: dict[str, Any]
) -> Iterator[Finding]:
    pinned = _parsed(file, request.manifest.removeprefix(b"\xef\xbb\xbf"))
    for table in _TABLES:
        built = _table(manifest, table)
        for name, wanted in built.items():
            # Nobody installs a dependency's devDependencies, but npm still reads them.
            if isinstance(wanted, str) and wanted.startswith(_LOCAL_PROTOCOLS):
                yield Finding(
                    check=Check.PROTOCOLS,
                    file=file.name,
                    message=f"`{table}.{name}` still says `{wanted}`",
                    hint="only a workspace understands that; require a version",
                )
    for table in _PINNED:
        built, wanted_table = _table(manifest, table), _table(pinned, table)
        for name in sorted(built.keys() | wanted_table.keys()):
            ours, theirs = wanted_table.get(name), built.get(name)
            if ours != theirs and not _hidden(name, table, pinned):
                yield Finding(
                    check=Check.REQUIREMENTS,
                    file=file.name,
                    message=f"`{table}.{name}` is {_words(theirs)}, its manifest says "
                    f"{_words(ours)} while it is packed",
                    hint="look for a script that changes the dependencies while packing",
                )


def _hidden(name: str, table: str, pinned: dict[str, Any]) -> bool:
    """An optional dependency hides a plain one of the same name."""
    return table == "dependencies" and name in _table(pinned, "optionalDependencies")


def _table(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found = manifest.get(name)
    return found if isinstance(found, dict) else {}


def _words(value: object) -> str:
    return "missing" if value is None else f"`{value}`"


def _entry_points(file: Path, manifest: dict[str, Any], names: set[str]) -> Iterator[Finding]:
    """The files that the manifest promises to who imports or runs the package."""
    for key, path in _promised(manifest):
        normal = posixpath.normpath(path)
        if "*" in normal or normal in names:
            continue
        # CommonJS adds an extension, or looks for an index in a folder.
        tried = {f"{normal}{end}" for end in (".js", ".json", ".node", ".cjs", "/index.js")}
        if key == "main" and (tried & names or (normal == "." and "index.js" in names)):
            continue
        yield Finding(
            check=Check.MODULES,
            file=file.name,
            message=f"`{key}` names `{path}`, which is not in it",
            hint="build it first (`build.scripts` in the config), or name it in `files`",
        )


def _promised(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("main", "module", "types", "typings"):
        if isinstance(manifest.get(key), str) and manifest[key]:
            yield key, manifest[key]
    yield from _leaves("exports", manifest.get("exports"))
    yield from _leaves("bin", manifest.get("bin"))


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{key}.{name}", item)
    elif isinstance(value, list) and value:
        yield from _leaves(key, value[0])  # the others are for runtimes that do not know it
