"""Whether uv.lock says what the manifests say.

`uv lock --check` would be exact, but it builds what is dynamic, which runs the project's code, and
offline it fails where its cache is cold. What the lock keeps of every member can be compared by
reading: names, versions and requirements as the manifests had them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.python.project import normalize, parse
from releasekit.errors import ReleaseKitError
from releasekit.manifest import parse_toml, read_text, read_toml, table
from releasekit.model import EdgeKind, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from releasekit.ecosystems.python.project import Project
    from releasekit.model import Workspace

FILE_NAME = "uv.lock"
_MAX_BYTES = 64_000_000
_SHOWN = 3
_LOCAL = ("{ editable", "{ virtual", "{ directory")


def stale(workspace: Workspace) -> tuple[Problem, ...]:
    found = []
    for member in workspace.members:
        file = workspace.root / member.root / FILE_NAME
        if member.ecosystem != "python" or not file.is_file():
            continue
        manifests = [
            workspace.root / package.manifest
            for package in workspace.packages
            if workspace.member_of(package) == member
        ]
        shown = file.relative_to(workspace.root).as_posix()
        try:
            differences = list(_differences(file, manifests))
        except (ReleaseKitError, ValueError, TypeError, AttributeError) as error:
            differences = [f"it cannot be read ({error})"]
        if differences:
            rest = len(differences) - _SHOWN
            more = f"; and {rest} more" if rest > 0 else ""
            found.append(
                Problem(
                    message=f"`{shown}` is not up to date: {'; '.join(differences[:_SHOWN])}{more}",
                    hint="run `uv lock` and commit what it changes",
                    severity=Severity.WARNING,
                )
            )
    return tuple(found)


def _differences(file: Path, manifests: list[Path]) -> Iterator[str]:
    locked = _locked(file)
    projects = {}
    for manifest in manifests:
        project = parse(manifest, read_toml(manifest) or {})
        if project.name is not None:
            projects[normalize(project.name)] = project
    for name in sorted(projects.keys() - locked.keys()):
        yield f"it lacks `{name}`"
    for name in sorted(locked.keys() - projects.keys()):
        yield f"it still holds `{name}`"
    for name in sorted(projects.keys() & locked.keys()):
        yield from _differences_of(name, projects[name], file, locked[name])


def _locked(file: Path) -> dict[str, dict[str, Any]]:
    """The members' tables; the others, which are many, are not parsed."""
    text = (read_text(file, limit=_MAX_BYTES) or "").replace("\r\n", "\n")
    found = {}
    for block in text.split("\n[[package]]\n")[1:]:
        if block.partition("\nsource = ")[2].startswith(_LOCAL):
            package = parse_toml(file, "[[package]]\n" + block)["package"][0]
            found[normalize(str(package["name"]))] = package
    return found


def _differences_of(
    name: str, project: Project, file: Path, locked: Mapping[str, Any]
) -> Iterator[str]:
    version = locked.get("version")
    if project.version is not None and version is not None and project.version != version:
        yield f"`{name}` is {project.version}, there it is {version}"
    if {"dependencies", "optional-dependencies"} & project.dynamic:
        return
    metadata = table(file, locked, "metadata")
    required = [one for one in metadata.get("requires-dist", ()) if isinstance(one, dict)]
    there = {normalize(str(one["name"])): one for one in required}
    here = {
        one.name
        for one in project.requirements
        if one.kind in {EdgeKind.RUNTIME, EdgeKind.EXTRA} and one.name != name
    }
    for needed in sorted(here - there.keys()):
        yield f"`{name}` requires `{needed}`, there it does not"
    for needed in sorted(there.keys() - here - {name}):
        yield f"`{name}` does not require `{needed}`, there it does"
    yield from _other_bounds(name, project, required)


def _other_bounds(name: str, project: Project, required: list[dict[str, Any]]) -> Iterator[str]:
    """Of what is required once, the bounds; a sibling's are not in the lock."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    table_ = project.document.get("project", {})
    texts = [*table_.get("dependencies", ())]
    for extra in table_.get("optional-dependencies", {}).values():
        texts += extra
    here: dict[str, list[str]] = {}
    for text in texts:
        one = Requirement(text)
        here.setdefault(normalize(one.name), []).append(str(one.specifier) if not one.url else "?")
    there: dict[str, list[dict[str, Any]]] = {}
    for entry in required:
        there.setdefault(normalize(str(entry["name"])), []).append(entry)
    for needed in sorted(here.keys() & there.keys()):
        bounds, entries = here[needed], there[needed]
        if len(bounds) != 1 or len(entries) != 1 or bounds == ["?"]:
            continue
        if entries[0].keys() - {"name", "extras", "marker", "specifier", "index"}:
            continue  # from a place that knows no versions
        locked = str(entries[0].get("specifier", ""))
        if SpecifierSet(bounds[0]) != SpecifierSet(locked):
            yield f"`{name}` requires `{needed}{bounds[0]}`, there `{needed}{locked}`"
