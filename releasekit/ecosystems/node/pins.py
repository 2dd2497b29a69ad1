"""Siblings' versions, written into the bytes of a package.json.

Only the text of the touched values changes: they are located in the text, and the result is
parsed again and must differ in the intended values and in nothing else.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from releasekit.ecosystems.node import semver
from releasekit.ecosystems.node.json_text import value_spans
from releasekit.errors import (
    BoundExcludesSibling,
    CatalogEntryMissing,
    DirectReference,
    LocalDependency,
    SiblingUnknown,
    SiblingVersionUnknown,
    UnpinnableManifest,
)
from releasekit.model import PinPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from releasekit.ecosystems.node.semver import Version

_BOM = "\ufeff"
_PEERS = "peerDependencies"
_DEVELOPMENT = "devDependencies"
_SECTIONS = ("dependencies", "optionalDependencies", _PEERS, _DEVELOPMENT)

_LOCAL = ("file:", "link:", "portal:", "./", "../", "/", "~/")
_NEVER_PUBLISHED = ("patch:", "exec:")
# npm's and yarn's ways to name a place: a protocol, `git@host:…`, `owner/repository`.
_ADDRESS = re.compile(
    r"[a-z+]+://|git@|(?:git|github|gitlab|bitbucket|gist):|[\w.-]+/[\w.-]+(?:#|$)"
)
_ALIAS = re.compile(r"(?P<name>@?[^@]+)@(?P<range>.*)", re.DOTALL)


def pinned(
    content: bytes,
    *,
    manifest: str,
    siblings: Mapping[str, str | None],
    policy: PinPolicy = PinPolicy.EXACT,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
    snapshots: Mapping[str, str] | None = None,
    version: str | None = None,
) -> bytes:
    """The manifest as it may be published: siblings' versions, no workspace protocols.

    `siblings` maps the names of the workspace's packages to their versions, private ones
    included; `catalogs` holds the workspace's catalogs, the unnamed one as `default`. Siblings in
    `snapshots` are required in exactly that version, peers too. With `version` the package's own
    version is written as well.
    """
    found = _Manifest(content, manifest, siblings, policy, catalogs or {}, snapshots or {})
    return found.pinned(version)


class _Manifest:
    def __init__(
        self,
        content: bytes,
        manifest: str,
        siblings: Mapping[str, str | None],
        policy: PinPolicy,
        catalogs: Mapping[str, Mapping[str, str]],
        snapshots: Mapping[str, str],
    ) -> None:
        self._manifest = manifest
        self._snapshots = snapshots
        self._siblings = siblings
        self._policy = policy
        self._catalogs = catalogs
        try:
            text = content.decode()
            self._bom = _BOM if text.startswith(_BOM) else ""
            self._text = text.removeprefix(_BOM)
            # Any: the outside's data, read value by value below.
            self._data: Any = json.loads(self._text)
        except (ValueError, RecursionError) as error:
            raise self._unpinnable(str(error)) from error
        if not isinstance(self._data, dict):
            raise self._unpinnable("it is not an object")

    def pinned(self, version: str | None) -> bytes:
        changes: dict[tuple[str, ...], str] = {}
        for section in _SECTIONS:
            members = self._data.get(section, {})
            if not isinstance(members, dict):
                raise self._unpinnable(f"`{section}` is not an object")
            for name, value in members.items():
                if not isinstance(value, str):
                    raise self._unpinnable(f"`{section}.{name}` is not a string")
                changed = self._publishable(section, name, value)
                if changed != value:
                    changes[section, name] = changed
        if version is not None:
            if not isinstance(self._data.get("version"), str):
                raise self._unpinnable("it has no `version`")
            changes["version",] = version
        return self._rewritten(changes)

    def _unpinnable(self, reason: str) -> UnpinnableManifest:
        return UnpinnableManifest(manifest=self._manifest, reason=reason)

    def _publishable(self, section: str, name: str, value: str) -> str:
        """What the registry may see instead of the value."""
        if value.startswith("workspace:"):
            return self._workspace(name, value)
        if value.startswith("catalog:"):
            return self._catalog(name, value)
        if value.startswith(_NEVER_PUBLISHED):
            raise LocalDependency(manifest=self._manifest, name=name, value=value)
        if value.startswith(_LOCAL):
            if name not in self._siblings:
                raise LocalDependency(manifest=self._manifest, name=name, value=value)
            version = self._version(name, name, value)
            return self._snapshots.get(name) or self._by_policy(version, "*")
        if section == _DEVELOPMENT or self._policy is PinPolicy.KEEP or name == self._own_name:
            return value
        if value.startswith("npm:"):
            return self._alias(section, name, value)
        return self._plain(section, name, name, value)

    @property
    def _own_name(self) -> object:
        return self._data.get("name")

    def _workspace(self, name: str, value: str) -> str:
        wanted = value.removeprefix("workspace:")
        alias = _ALIAS.fullmatch(wanted)
        target, wanted = (alias["name"], alias["range"]) if alias else (name, wanted)
        version = self._version(target, name, value)
        if wanted in {"", "*"} or wanted.startswith((".", "/")):
            published = str(version)
        elif wanted in {"~", "^"}:
            published = f"{wanted}{version}"
        else:
            self._check(target, version, name, wanted)
            published = wanted
        published = self._snapshots.get(target, published)
        return f"npm:{target}@{published}" if alias else published

    def _catalog(self, name: str, value: str) -> str:
        catalog = value.removeprefix("catalog:").strip() or "default"
        entry = self._catalogs.get(catalog, {}).get(name)
        if entry is None:
            raise CatalogEntryMissing(manifest=self._manifest, name=name, catalog=catalog)
        if entry.startswith("workspace:"):
            return self._workspace(name, entry)
        if entry.startswith((*_LOCAL, *_NEVER_PUBLISHED, "catalog:")):
            raise LocalDependency(manifest=self._manifest, name=name, value=entry)
        if name in self._siblings and self._policy is not PinPolicy.KEEP:
            self._check(name, self._version(name, name, entry), name, entry)
            return self._snapshots.get(name, entry)
        return entry

    def _alias(self, section: str, name: str, value: str) -> str:
        """`npm:sibling@range`. An alias is how a package asks for an older sibling on purpose."""
        wanted = value.removeprefix("npm:")
        found = _ALIAS.fullmatch(wanted)
        target, wanted = (found["name"], found["range"]) if found else (wanted, "*")
        if target not in self._siblings:
            return value
        asked = semver.parse_range(wanted)
        if asked is not None and not asked.admits_in_order(self._version(target, name, value)):
            return value
        return f"npm:{target}@{self._plain(section, target, name, wanted)}"

    def _plain(self, section: str, target: str, name: str, value: str) -> str:
        if target not in self._siblings:
            return value
        if _ADDRESS.match(value):
            raise DirectReference(
                manifest=self._manifest, requirement=f"{name}: {value}", sibling=target
            )
        version = self._version(target, name, value)
        self._check(target, version, name, value)
        if target in self._snapshots:
            return self._snapshots[target]
        # A peer's range is a promise to the user's own choice: an exact one would break installs.
        return value if section == _PEERS else self._by_policy(version, value)

    def _version(self, target: str, name: str, value: str) -> Version:
        if target not in self._siblings:
            raise SiblingUnknown(manifest=self._manifest, name=name, value=value)
        text = self._siblings[target]
        if text is None:
            raise SiblingVersionUnknown(
                manifest=self._manifest, requirement=f"{name}: {value}", sibling=target
            )
        version = semver.parse(text)
        if version is None:
            raise self._unpinnable(f"`{target}` has the invalid version {text!r}")
        return version

    def _check(self, target: str, version: Version, name: str, value: str) -> None:
        asked = semver.parse_range(value)
        if asked is not None and not asked.admits_in_order(version):
            raise BoundExcludesSibling(
                manifest=self._manifest,
                requirement=f"{name}: {value}",
                sibling=target,
                version=str(version),
            )

    def _by_policy(self, version: Version, value: str) -> str:
        """The new lower bound, and of the old range the upper bounds that still say something."""
        if self._policy in {PinPolicy.EXACT, PinPolicy.KEEP}:
            return str(version)
        if semver.parse(value) == version:
            return value  # as narrow as can be
        asked = semver.parse_range(value)
        upper = asked.ceilings(version) if asked else ()
        if self._policy is PinPolicy.MINIMUM:
            return " ".join([f">={version}", *(f"{sign}{bound}" for sign, bound in upper)])
        end = semver.caret_end(version)
        kept = [f"{sign}{bound}" for sign, bound in upper if bound < end]
        return " ".join([f"^{version}", *kept])

    def _rewritten(self, changes: Mapping[tuple[str, ...], str]) -> bytes:
        spans = value_spans(self._text)
        expected = copy.deepcopy(self._data)
        places: list[tuple[int, int, str]] = []
        for location, value in changes.items():
            places += [(start, end, json.dumps(value)) for start, end in spans.get(location, ())]
            parent = expected
            for step in location[:-1]:
                parent = parent[step]
            parent[location[-1]] = value
        text = self._text
        for start, end, literal in sorted(places, reverse=True):
            text = text[:start] + literal + text[end:]
        if json.loads(text) != expected:
            raise self._unpinnable("its text cannot be edited safely")
        return (self._bom + text).encode()
