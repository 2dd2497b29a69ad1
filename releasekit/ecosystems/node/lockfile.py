"""Whether the lock file of npm, pnpm or yarn says what the manifests say.

The tools themselves would ask a registry, or write. All of their files keep what each member
requires, as its manifest had it, so reading both is enough to see that one is older.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.node import tools
from releasekit.ecosystems.node.tools import Dialect
from releasekit.errors import ReleaseKitError
from releasekit.manifest import read_json, read_text
from releasekit.model import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from releasekit.model import Member, Workspace

    Manifests = Mapping[str, dict[str, Any]]
    """By path below the workspace's root."""

_MAX_BYTES = 16_000_000
_SHOWN = 3
_TABLES = ("devDependencies", "dependencies", "optionalDependencies")


def stale(workspace: Workspace) -> tuple[Problem, ...]:
    found = []
    for member in workspace.members:
        if member.ecosystem != "node":
            continue
        folder = workspace.root / member.root
        setup = tools.read(folder, warn=lambda _: None)
        name, command, compare = _READERS[setup.dialect if setup else Dialect.NPM]
        file = folder / name
        if not file.is_file():
            continue
        try:
            text = read_text(file, limit=_MAX_BYTES) or ""
            differences = list(compare(text, _manifests(workspace, member)))
        except (ReleaseKitError, ValueError, TypeError, AttributeError, RecursionError) as error:
            differences = [f"it cannot be read ({error})"]
        if differences:
            rest = len(differences) - _SHOWN
            more = f"; and {rest} more" if rest > 0 else ""
            shown = file.relative_to(workspace.root).as_posix()
            found.append(
                Problem(
                    message=f"`{shown}` is not up to date: {'; '.join(differences[:_SHOWN])}{more}",
                    hint=f"run `{command}` and commit what it changes",
                    severity=Severity.WARNING,
                )
            )
    return tuple(found)


def _manifests(workspace: Workspace, member: Member) -> dict[str, dict[str, Any]]:
    found = {}
    for package in workspace.packages:
        if workspace.member_of(package) == member:
            path = posixpath.relpath(package.path, member.root)
            file = workspace.root / package.manifest
            found[path] = read_json(file, warn=lambda _: None) or {}
    return found


def _required(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Peers aside: some tools list them, some do not."""
    return {
        name: value
        for key in _TABLES
        for name, value in (manifest.get(key) or {}).items()
        if isinstance(value, str) and not value.startswith("catalog:")
    }


def _compare(path: str, here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    where = f"`{path}`" if path != "." else "the root"
    for name in sorted(here.keys() | there.keys()):
        if name not in there:
            yield f"{where} requires `{name}`, there it does not"
        elif name not in here:
            yield f"{where} does not require `{name}`, there it does"
        elif here[name] != there[name]:
            yield f"{where} requires `{name}` {here[name]}, there {there[name]}"


def _npm(text: str, manifests: Manifests) -> Iterator[str]:
    locked = json.loads(text).get("packages")
    if locked is None:
        return  # of npm 6, which kept no members
    for path, manifest in manifests.items():
        entry = locked.get("" if path == "." else path)
        if entry is None:
            yield f"it lacks `{path}`"
            continue
        version = manifest.get("version")
        if version != entry.get("version"):
            yield f"`{path}` is {version}, there it is {entry.get('version')}"
        yield from _compare(path, _required(manifest), _required(entry))


def _pnpm(text: str, manifests: Manifests) -> Iterator[str]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    def section(name: str) -> dict[str, Any]:
        """One part of a file whose other parts are long."""
        found = re.search(rf"^{name}:[ \t]*\r?\n(?:(?:[ \t].*)?\r?\n)*", text, re.MULTILINE)
        return (yaml.load(found[0], Loader=loader) or {}).get(name) or {} if found else {}  # noqa: S506 - the base loader makes only strings

    importers = section("importers")
    if not importers:
        return  # a single package of an older pnpm
    overridden = {re.split(r"(?<=.)@|>", name)[0] for name in section("overrides")}
    for path, manifest in manifests.items():
        entry = importers.get(path)
        if entry is None:
            if _required(manifest):
                yield f"it lacks `{path}`"
            continue
        here = _required(manifest)
        catalogs = {
            name for key in _TABLES for name in (manifest.get(key) or {}) if name not in here
        }
        peers = (manifest.get("peerDependencies") or {}).keys() - here.keys()
        ignored = overridden | catalogs | peers
        there = {
            name: value["specifier"]
            for key in _TABLES
            for name, value in (entry.get(key) or {}).items()
            if isinstance(value, dict)
        }
        yield from _compare(path, _without(here, ignored), _without(there, ignored))


def _without(pairs: Mapping[str, str], names: set[str]) -> dict[str, str]:
    return {name: value for name, value in pairs.items() if name not in names}


def _yarn(text: str, manifests: Manifests) -> Iterator[str]:
    locked: dict[str, dict[str, str]] = {}
    for block in re.split(r"\n\n+", text.replace("\r\n", "\n")):
        place = re.search(r'^  resolution: "?[^"\n]*@workspace:([^"\n]+)"?$', block, re.MULTILINE)
        if place:
            listed = re.search(r"^  dependencies:\n((?:    .*(?:\n|$))*)", block, re.MULTILINE)
            pairs = (
                re.findall(r'^    "?([^":]+)"?: "?([^"\n]*)"?$', listed[1], re.MULTILINE)
                if listed
                else ()
            )
            locked[place[1]] = {name: value.removeprefix("npm:") for name, value in pairs}
    resolutions = manifests.get(".", {}).get("resolutions") or {}
    ignored = {re.split(r"(?<=.)@", name.rpartition("**/")[2])[0] for name in resolutions}
    for path, manifest in manifests.items():
        if path not in locked:
            yield f"it lacks `{path}`"
            continue
        declared = {name for key in _TABLES for name in (manifest.get(key) or {})}
        here = {name: one.removeprefix("npm:") for name, one in _required(manifest).items()}
        unread = ignored | (declared - here.keys())
        yield from _compare(path, _without(here, unread), _without(locked[path], unread))


def _yarn_1(text: str, manifests: Manifests) -> Iterator[str]:
    if manifests.get(".", {}).get("resolutions"):
        return  # they take the place of what is required
    keys = {
        key.strip().strip('"')
        for line in text.splitlines()
        if line.endswith(":") and not line.startswith((" ", "#"))
        for key in line[:-1].split(",")
    }
    siblings = {manifest.get("name") for manifest in manifests.values()}
    for path, manifest in manifests.items():
        for name, value in sorted(_required(manifest).items()):
            if name not in siblings and f"{name}@{value}" not in keys:
                yield f"`{path}` requires `{name}` {value}, there nobody does"


_READERS: dict[Dialect, tuple[str, str, Callable[[str, Manifests], Iterator[str]]]] = {
    Dialect.NPM: ("package-lock.json", "npm install --package-lock-only", _npm),
    Dialect.PNPM: ("pnpm-lock.yaml", "pnpm install --lockfile-only", _pnpm),
    Dialect.YARN: ("yarn.lock", "yarn install --mode=update-lockfile", _yarn),
    Dialect.YARN_1: ("yarn.lock", "yarn install", _yarn_1),
}
