"""Which folders each package manager takes for members of a workspace."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import folders
from releasekit.ecosystems.node import globs, package_json
from releasekit.ecosystems.node.tools import Dialect
from releasekit.errors import MemberOutside, WrongManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from releasekit.ecosystems.node.tools import Setup

_ANY_VISIBLE_NAME = re.compile(r"[^.].*", re.DOTALL)
_OTHER_MANIFESTS = ("package.yaml", "package.json5")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    wanted: tuple[folders.Pattern, ...]
    unwanted: tuple[folders.Pattern, ...]
    dialect: Dialect

    def exclude(self, path: str) -> bool:
        if self.dialect is Dialect.PNPM and "bower_components" in path.split("/"):
            return True
        if self.dialect is Dialect.YARN:
            # yarn does not even enter a folder that is not wanted.
            parts = path.split("/")
            paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        else:
            paths = [path]
        return any(pattern.matches(one) for pattern in self.unwanted for one in paths)


def find(setup: Setup, patterns: tuple[str, ...], *, warn: Callable[[str], None]) -> Iterator[str]:
    """Folders relative to the workspace that hold a package.json; never the root itself."""
    rules = _rules(setup, patterns, warn)
    root = str(setup.folder)
    follows = setup.dialect in (Dialect.PNPM, Dialect.YARN)
    used: set[str] = set()
    for found in folders.expand(root, rules.wanted, depth_follows_links=follows):
        used.update(rules.wanted[number].text for number in found.patterns)
        if found.path == "." or rules.exclude(found.path):
            continue
        folder = f"{root}/{found.path}"
        if os.path.lexists(f"{folder}/{package_json.FILE_NAME}"):
            yield found.path
        elif setup.dialect is Dialect.PNPM:
            for name in _OTHER_MANIFESTS:
                if os.path.lexists(f"{folder}/{name}"):
                    warn(f"{folder}/{name}: left out, releasekit reads only package.json")
    for text in dict.fromkeys(pattern.text for pattern in rules.wanted):
        if text not in used:
            warn(f"{setup.declared_in}: the member `{text}` matches no folder")


def _rules(setup: Setup, patterns: tuple[str, ...], warn: Callable[[str], None]) -> _Rules:
    wanted: list[folders.Pattern] = []
    unwanted: list[folders.Pattern] = []
    for text in patterns:
        signs = len(text) - len(text.lstrip("!")) if not text.startswith("!(") else 0
        negated = signs % 2 == 1
        if negated and setup.dialect is Dialect.YARN_1:
            warn(f"{setup.declared_in}: yarn 1 takes no members away: `{text}` has no effect")
            continue
        compiled = _compiled(setup, text, text[signs:], negated=negated)
        if negated:
            unwanted.extend(compiled)
            continue
        if setup.dialect is Dialect.NPM:
            # npm lets a later member win over an earlier `!…` that covers it.
            path = "/".join(part for part in text[signs:].split("/") if part not in ("", "."))
            unwanted = [pattern for pattern in unwanted if not pattern.matches(path)]
        wanted.extend(compiled)
    return _Rules(wanted=tuple(wanted), unwanted=tuple(unwanted), dialect=setup.dialect)


def _compiled(setup: Setup, text: str, path: str, *, negated: bool) -> tuple[folders.Pattern, ...]:
    if setup.dialect is Dialect.NPM:
        path = re.sub(r"^\.?/+", "", path.replace("\\", "/"))
    if path.startswith("/") or ".." in re.split(r"[/{},|()]", path):
        raise MemberOutside(file=setup.declared_in, pattern=text)
    try:
        compiled = globs.compile_glob(path)
    except globs.TooManyAlternativesError as error:
        raise WrongManifest(
            file=setup.declared_in,
            key=text[:80],
            expected=f"a pattern with at most {globs.MAX_ALTERNATIVES:,} alternatives",
        ) from error
    if setup.dialect is Dialect.YARN and not negated:
        compiled = tuple(map(_below_itself, compiled))
    return tuple(folders.Pattern(text, pattern.segments) for pattern in compiled)


def _below_itself(pattern: folders.Pattern) -> folders.Pattern:
    """For yarn, `packages/**` is not `packages` itself."""
    if pattern.segments and isinstance(pattern.segments[-1], folders.Depth):
        return folders.Pattern(pattern.text, (*pattern.segments, _ANY_VISIBLE_NAME))
    return pattern
