"""Siblings' versions, written into the bytes of a pyproject.toml.

Only the text of the touched requirements changes. TOML writers normalise more than that (line
ends, a byte order mark, quotes), so the strings are located in the text and the result is parsed
again: it must differ from the original in the intended values and in nothing else.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from releasekit.ecosystems.python import dynamic_version
from releasekit.ecosystems.python.toml_text import string_spans
from releasekit.errors import (
    BoundExcludesSibling,
    DirectReference,
    DynamicField,
    SiblingVersionUnknown,
    UnpinnableManifest,
)
from releasekit.model import PinPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from releasekit.ecosystems.python.toml_text import Location

_BOM = "\ufeff"
_COMMA_AFTER = re.compile(r"[ \t]*,[ \t]*")
_PROJECT = re.compile(r"^[ \t]*\[[ \t]*project[ \t]*\][ \t]*(?:#[^\n]*)?\n", re.MULTILINE)

# PEP 508, as far as it takes to find the bounds: `name [extras] bounds ; marker`.
_REQUIREMENT = re.compile(
    r"(?P<head>\s*[A-Za-z0-9][A-Za-z0-9._-]*(?:\s*\[[^\]]*\])?)"
    r"(?P<gap>\s*)(?P<bounds>\([^)]*\)|[^;@(]*?)(?P<tail>\s*(?:;.*)?)",
    re.DOTALL,
)


def pinned(
    content: bytes,
    *,
    manifest: str,
    siblings: Mapping[str, str | None],
    policy: PinPolicy = PinPolicy.EXACT,
    snapshots: Mapping[str, str] | None = None,
    version: str | None = None,
) -> bytes:
    """The manifest with its siblings' versions, and with its own when `version` is given.

    `siblings` maps the names of the workspace's packages to their versions; None where only a
    build can tell. Those in `snapshots` are required in exactly that version.
    """
    return _Pyproject(content, manifest, snapshots or {}).pinned(siblings, policy, version)


class _Pyproject:
    def __init__(self, content: bytes, manifest: str, snapshots: Mapping[str, str]) -> None:
        self._manifest = manifest
        self._snapshots = {canonicalize_name(name): one for name, one in snapshots.items()}
        try:
            text = content.decode()
            self._bom = _BOM if text.startswith(_BOM) else ""
            self._text = text.removeprefix(_BOM)
            # Any: the outside's data, read value by value below.
            self._data: dict[str, Any] = tomllib.loads(self._text)
            self._spans = string_spans(self._text)
        except (ValueError, RecursionError) as error:
            raise self._unpinnable(str(error)) from error

    def pinned(
        self, siblings: Mapping[str, str | None], policy: PinPolicy, version: str | None
    ) -> bytes:
        versions: dict[str, str | None] = {
            canonicalize_name(name): value for name, value in siblings.items()
        }
        project = self._table("project")
        own = canonicalize_name(str(project.get("name", "")))
        versions.pop(own, None)  # `name[extra]` in its own extras is no requirement on a sibling
        changes: dict[Location, str] = {}
        if policy is not PinPolicy.KEEP:
            if versions:
                self._refuse_dynamic(project)
            for location, text in self._requirements():
                changed = self._pin(text, versions, policy)
                if changed != text:
                    changes[location] = changed
        static = None
        if version is not None and "version" in project.get("dynamic", ()):
            static = None if dynamic_version.follows_variables(self._data) else version
        elif version is not None:
            if "version" not in project:
                raise self._unpinnable("`[project]` has no `version`")
            changes["project", "version"] = version
        return self._rewritten(changes, static)

    def _unpinnable(self, reason: str) -> UnpinnableManifest:
        return UnpinnableManifest(manifest=self._manifest, reason=reason)

    def _table(self, name: str) -> dict[str, Any]:
        table = self._data.get(name, {})
        if not isinstance(table, dict):
            raise self._unpinnable(f"`{name}` is not a table")
        return table

    def _refuse_dynamic(self, project: dict[str, Any]) -> None:
        if not project:
            raise self._unpinnable("it has no `[project]` table, so its requirements are elsewhere")
        for field in ("dependencies", "optional-dependencies"):
            if field in project.get("dynamic", ()):
                raise DynamicField(manifest=self._manifest, field=field)

    def _requirements(self) -> Iterator[tuple[Location, str]]:
        lists: dict[Location, object] = {
            ("build-system", "requires"): self._table("build-system").get("requires", []),
            ("project", "dependencies"): self._table("project").get("dependencies", []),
        }
        extras = self._table("project").get("optional-dependencies", {})
        if not isinstance(extras, dict):
            raise self._unpinnable("`project.optional-dependencies` is not a table")
        for extra, requirements in extras.items():
            lists["project", "optional-dependencies", extra] = requirements
        for location, requirements in lists.items():
            if not isinstance(requirements, list):
                raise self._unpinnable(f"`{'.'.join(map(str, location))}` is not an array")
            for index, text in enumerate(requirements):
                if not isinstance(text, str):
                    raise self._unpinnable(f"the requirement `{text}` is not a string")
                yield (*location, index), text

    def _pin(self, text: str, versions: Mapping[str, str | None], policy: PinPolicy) -> str:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise self._unpinnable(f"the requirement `{text}` cannot be read: {error}") from error
        name = canonicalize_name(requirement.name)
        if name not in versions:
            return text
        found = versions[name]
        if requirement.url is not None:
            raise DirectReference(
                manifest=self._manifest, requirement=text, sibling=requirement.name
            )
        if found is None:
            raise SiblingVersionUnknown(
                manifest=self._manifest, requirement=text, sibling=requirement.name
            )
        version = self._version(requirement.name, found)
        if not requirement.specifier.contains(version, prereleases=True):
            raise BoundExcludesSibling(
                manifest=self._manifest,
                requirement=text,
                sibling=requirement.name,
                version=str(version),
            )
        snapshot = self._snapshots.get(name)
        if snapshot is not None:
            # The bounds were written for releases: whether they admit the tree's was asked above.
            version, policy = self._version(requirement.name, snapshot), PinPolicy.EXACT
        changed = _with_bounds(text, version, policy)
        if changed is None or not _same_but_bounds(Requirement(changed), requirement):
            raise self._unpinnable(f"the requirement `{text}` cannot be edited safely")
        return changed

    def _version(self, name: str, text: str) -> Version:
        try:
            version = Version(text)
        except InvalidVersion as error:
            raise self._unpinnable(f"`{name}` has the invalid version {text!r}") from error
        if text != text.strip():  # packaging reads "1.0\n" as 1.0
            raise self._unpinnable(f"`{name}` has the invalid version {text!r}")
        return version

    def _rewritten(self, changes: Mapping[Location, str], static: str | None) -> bytes:
        """With the changes, and with the version as a `static` one where it was dynamic."""
        text = self._text
        expected = copy.deepcopy(self._data)
        for location in sorted(changes, key=self._span, reverse=True):
            start, end = self._span(location)
            parent: Any = expected
            for step in location[:-1]:
                parent = parent[step]
            literal = _literal(text[start:end], str(parent[location[-1]]), changes[location])
            text = text[:start] + literal + text[end:]
            parent[location[-1]] = changes[location]
        if static is not None:
            text = self._without_dynamic(text, static)
            project = expected["project"]
            project["dynamic"] = [one for one in project["dynamic"] if one != "version"]
            project["version"] = static
        try:
            after = tomllib.loads(text)
        except ValueError as error:
            raise self._unpinnable(f"its text cannot be edited safely: {error}") from error
        if after != expected:
            raise self._unpinnable("its text cannot be edited safely")
        return (self._bom + text).encode()

    def _without_dynamic(self, text: str, version: str) -> str:
        """`version` moves from `dynamic` into a line of its own below `[project]`."""
        dynamic_version.require_static(self._data, self._manifest)
        listed = self._data["project"]["dynamic"]
        start, end = string_spans(text)["project", "dynamic", listed.index("version")]
        if comma := _COMMA_AFTER.match(text, end):
            end = comma.end()
        text = text[:start] + text[end:]  # a comma before it may stay behind
        header = _PROJECT.search(text)
        if header is None:
            raise self._unpinnable("it has no line `[project]` that a version could stand below")
        line_end = "\r\n" if header[0].endswith("\r\n") else "\n"
        line = f'version = "{version}"{line_end}'
        return text[: header.end()] + line + text[header.end() :]

    def _span(self, location: Location) -> tuple[int, int]:
        try:
            return self._spans[location]
        except KeyError:
            shown = ".".join(map(str, location))
            raise self._unpinnable(f"`{shown}` is not where it was expected") from None


def _same_but_bounds(one: Requirement, other: Requirement) -> bool:
    return (one.name, one.extras, one.marker) == (other.name, other.extras, other.marker)


def _with_bounds(text: str, version: Version, policy: PinPolicy) -> str | None:
    parts = _REQUIREMENT.fullmatch(text)
    if parts is None:
        return None
    written = parts["bounds"]
    clauses = [clause.strip() for clause in written.strip("()").split(",") if clause.strip()]
    bounds = _bounds([Specifier(clause) for clause in clauses], version, policy)
    if {str(Specifier(clause)) for clause in clauses} == set(bounds):
        return text
    joined = ",".join(bounds)
    if written.startswith("("):
        joined = f"({joined})"
    if not written:
        return parts["head"] + joined + parts["gap"] + parts["tail"]
    return parts["head"] + parts["gap"] + joined + parts["tail"]


def _bounds(existing: list[Specifier], version: Version, policy: PinPolicy) -> list[str]:
    """The new lower bound first; of the old bounds all that still say something."""
    if policy is PinPolicy.EXACT:
        return [f"=={version}"]
    if any(clause == Specifier(f"=={version}") for clause in existing):
        return [str(clause) for clause in existing]  # as narrow as can be
    # PEP 440: no local part with `~=` and `>=`, and `~=` wants two numbers.
    public = version.public
    if policy is PinPolicy.MINIMUM:
        first = Specifier(f">={public}")
    else:
        first = Specifier(f"~={public}" if len(version.release) > 1 else f"~={public}.0")
    kept = [str(clause) for clause in existing if not _implied(clause, first)]
    return [str(first), *kept]


def _implied(clause: Specifier, first: Specifier) -> bool:
    """Whether the new bound already says what an old one said; both admit the version."""
    if clause.operator in {">=", ">"} or clause == first:
        return True
    if clause.operator == first.operator == "~=":
        return len(Version(clause.version).release) <= len(Version(first.version).release)
    return False


def _literal(written: str, before: str, after: str) -> str:
    """A TOML string in the quotes of the one that it replaces."""
    for quotes in ('"""', "'''", '"', "'"):
        if written.startswith(quotes):
            if written == quotes + before + quotes:
                return quotes + after + quotes
            break
    return json.dumps(after, ensure_ascii=False)  # it held escapes
