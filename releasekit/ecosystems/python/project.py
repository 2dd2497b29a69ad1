"""pyproject.toml as data: what it is called, what it needs, and where uv takes that from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releasekit.errors import WrongManifest
from releasekit.manifest import strings, table
from releasekit.model import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NAME = re.compile(r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?", re.IGNORECASE | re.ASCII)
# The beginning of a PEP 508 requirement; what follows is only read by who resolves it.
_REQUIREMENT = re.compile(
    rf"\s*(?P<name>{_NAME.pattern})\s*(?:\[[^\]]*\]\s*)?(?:$|(?P<rest>[(<>=!~;@]))",
    re.IGNORECASE | re.ASCII,
)
_PRIVATE = "private ::"


@dataclass(frozen=True, slots=True)
class Source:
    """An entry of `[tool.uv.sources]`. Neither a workspace nor a path: pinned elsewhere."""

    workspace: bool
    path: str | None
    extra: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class Requirement:
    name: str
    kind: EdgeKind
    url: str | None = None
    extra: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UvWorkspace:
    members: tuple[str, ...]
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """`name` is None where the file has no `[project]`."""

    file: Path
    name: str | None
    version: str | None
    dynamic: frozenset[str]
    requirements: tuple[Requirement, ...]
    unreadable: tuple[str, ...]
    sources: Mapping[str, tuple[Source, ...]]
    workspace: UvWorkspace | None
    managed: bool
    unpublishable: str | None
    document: Mapping[str, Any]
    """The file itself, for the settings of build backends."""


def normalize(name: str) -> str:
    # https://packaging.python.org/en/latest/specifications/name-normalization/
    return re.sub(r"[-_.]+", "-", name).lower()


def is_valid_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def parse(file: Path, document: Mapping[str, Any]) -> Project:
    project = table(file, document, "project")
    has_project = "project" in document
    name = project.get("name")
    if has_project and not isinstance(name, str):
        raise WrongManifest(file=file, key="project.name", expected="a string")
    version = project.get("version")
    if version is not None and not isinstance(version, str):
        raise WrongManifest(file=file, key="project.version", expected="a string")
    unreadable: list[str] = []
    requirements = tuple(_requirements(file, document, project, unreadable))
    uv = table(file, document, "tool", "uv")
    return Project(
        file=file,
        name=name if has_project else None,
        version=version,
        dynamic=frozenset(strings(file, "project.dynamic", project.get("dynamic"))),
        requirements=requirements,
        unreadable=tuple(unreadable),
        sources=_sources(file, document),
        workspace=_workspace(file, document),
        managed=uv.get("managed") is not False,
        unpublishable=_unpublishable(file, document, project, uv),
        document=document,
    )


def _workspace(file: Path, document: Mapping[str, Any]) -> UvWorkspace | None:
    uv = table(file, document, "tool", "uv")
    if "workspace" not in uv:
        return None
    found = table(file, document, "tool", "uv", "workspace")
    return UvWorkspace(
        members=strings(file, "tool.uv.workspace.members", found.get("members")),
        exclude=strings(file, "tool.uv.workspace.exclude", found.get("exclude")),
    )


def _unpublishable(
    file: Path, document: Mapping[str, Any], project: Mapping[str, Any], uv: Mapping[str, Any]
) -> str | None:
    classifiers = strings(file, "project.classifiers", project.get("classifiers"))
    # PyPI refuses every classifier that begins so.
    if private := next((c for c in classifiers if c.lower().startswith(_PRIVATE)), None):
        return f"classified `{private}`"
    # https://docs.astral.sh/uv/concepts/projects/config/#project-packaging
    if uv.get("package") is False:
        return "virtual: `tool.uv.package` is false"
    if uv.get("package") is not True and "build-system" not in document:
        return "virtual: no `[build-system]`"
    return None


def _requirements(
    file: Path, document: Mapping[str, Any], project: Mapping[str, Any], unreadable: list[str]
) -> Iterator[Requirement]:
    def read(
        texts: tuple[str, ...],
        kind: EdgeKind,
        *,
        extra: str | None = None,
        group: str | None = None,
    ) -> Iterator[Requirement]:
        for text in texts:
            if (found := requirement(text, kind, extra=extra, group=group)) is None:
                unreadable.append(text)
            else:
                yield found

    yield from read(
        strings(file, "project.dependencies", project.get("dependencies")), EdgeKind.RUNTIME
    )
    for extra, texts in table(file, project, "optional-dependencies").items():
        key = f"project.optional-dependencies.{extra}"
        yield from read(strings(file, key, texts), EdgeKind.EXTRA, extra=normalize(extra))
    build = table(file, document, "build-system").get("requires")
    yield from read(strings(file, "build-system.requires", build), EdgeKind.BUILD)
    for group, texts in _groups(file, document).items():
        yield from read(texts, EdgeKind.GROUP, group=group)
    uv = table(file, document, "tool", "uv")
    dev = strings(file, "tool.uv.dev-dependencies", uv.get("dev-dependencies"))
    yield from read(dev, EdgeKind.DEV, group="dev")


def requirement(
    text: str, kind: EdgeKind, *, extra: str | None = None, group: str | None = None
) -> Requirement | None:
    found = _REQUIREMENT.match(text)
    if found is None:
        return None
    url = text[found.end() :].strip() if found["rest"] == "@" else None
    return Requirement(normalize(found["name"]), kind, url, extra, group)


def _groups(file: Path, document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The groups of https://peps.python.org/pep-0735/, each with what it includes."""
    own: dict[str, list[str]] = {}
    included: dict[str, list[str]] = {}
    for name, items in table(file, document, "dependency-groups").items():
        key = normalize(name)
        own[key], included[key] = [], []
        if not isinstance(items, list):
            raise WrongManifest(file=file, key=f"dependency-groups.{name}", expected="a list")
        for item in items:
            if isinstance(item, str):
                own[key].append(item)
            elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
                included[key].append(normalize(item["include-group"]))
            else:
                raise WrongManifest(
                    file=file,
                    key=f"dependency-groups.{name}",
                    expected="a list of requirements and `{include-group = …}`",
                )
    return {name: tuple(_with_included(file, name, own, included)) for name in own}


def _with_included(
    file: Path, name: str, own: Mapping[str, list[str]], included: Mapping[str, list[str]]
) -> Iterator[str]:
    pending, seen = [name], {name}
    while pending:
        group = pending.pop()
        if group not in own:
            raise WrongManifest(
                file=file,
                key=f"dependency-groups.{name}",
                expected=f"a group that includes existing groups; there is no `{group}`",
            )
        yield from own[group]
        for other in included[group]:
            if other not in seen:
                seen.add(other)
                pending.append(other)


def _sources(file: Path, document: Mapping[str, Any]) -> dict[str, tuple[Source, ...]]:
    found: dict[str, tuple[Source, ...]] = {}
    for name, entry in table(file, document, "tool", "uv", "sources").items():
        entries = entry if isinstance(entry, list) else [entry]
        if not all(isinstance(one, dict) for one in entries):
            raise WrongManifest(file=file, key=f"tool.uv.sources.{name}", expected="a table")
        found[normalize(name)] = tuple(
            Source(
                workspace=one.get("workspace") is True,
                path=_text(one.get("path")),
                extra=_normalized(one.get("extra")),
                group=_normalized(one.get("group")),
            )
            for one in entries
        )
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _normalized(value: object) -> str | None:
    return normalize(value) if isinstance(value, str) else None
