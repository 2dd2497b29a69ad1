"""`releasekit.toml`, or `[tool.releasekit]` in pyproject.toml. None is needed.

A key is a field below: its type is the check, its metadata the text `releasekit init` writes.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from releasekit import manifest
from releasekit.errors import BadValue, TwoConfigs, UnknownKey, WrongType
from releasekit.model import Check, PinPolicy

if TYPE_CHECKING:
    from releasekit.model import Package

FILE_NAME = "releasekit.toml"


def _http_address(value: str) -> str | None:
    if not re.match(r"https?://[^/\s]+", value):
        return "an address starts with `https://` or `http://`"
    return None


def _inside_the_root(values: tuple[str, ...]) -> str | None:
    for value in values:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts:
            return f"`{value}` leads out of the repository"
    return None


def _not_empty(values: tuple[str, ...]) -> str | None:
    return "an empty name matches nothing" if "" in values else None


def _groups_with_names(values: Mapping[str, tuple[str, ...]]) -> str | None:
    for name, patterns in values.items():
        if not patterns:
            return f"the group `{name}` is empty"
        if problem := _not_empty(patterns):
            return problem
    return None


def _at_least_one(value: int) -> str | None:
    return None if value >= 1 else "it is at least 1"


def _at_least_zero(value: int) -> str | None:
    return None if value >= 0 else "it is at least 0"


def _known_checks(values: Mapping[str, Mapping[str, str]]) -> str | None:
    for reasons in values.values():
        for check, reason in reasons.items():
            if check not in list(Check):
                return f"there is no check `{check}`; they are {', '.join(Check)}"
            if not reason.strip():
                return f"say why `{check}` is allowed"
    return None


def _matches(package: Package, pattern: str) -> bool:
    return fnmatchcase(package.id, pattern) or fnmatchcase(package.name, pattern)


def _option(
    help_text: str,
    example: str,
    check: typing.Callable[[Any], str | None] | None,
    default: Any = None,  # noqa: ANN401 - the field's own annotation says
) -> Any:  # noqa: ANN401
    metadata = {"help": help_text, "example": example, "check": check}
    return field(default_factory=lambda: default, metadata=metadata)


class TrustedPublishing(StrEnum):
    """Whether the CI's word is traded for a token."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Attestations(StrEnum):
    """Whether uploads carry a signed statement of where they come from."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """Where one registry takes uploads and where it shows them."""

    upload_url: str | None = _option(
        "Where files are uploaded (Python).", '"https://index.example/legacy/"', _http_address
    )
    index_url: str | None = _option(
        "The simple index that shows them (Python).",
        '"https://index.example/simple/"',
        _http_address,
    )
    url: str | None = _option("The registry (Node).", '"https://npm.example/"', _http_address)
    trusted_publishing: TrustedPublishing = _option(  # noqa: RUF009 - it makes a field
        "auto (where nothing else is found), always, or never.",
        '"auto"',
        None,
        TrustedPublishing.AUTO,
    )
    attestations: Attestations = _option(  # noqa: RUF009 - it makes a field
        "never, auto (trusted publishing from a public repository), or always; signing writes to "
        "a public log.",
        '"auto"',
        None,
        Attestations.NEVER,
    )
    trust_config: str | None = _option(
        "The trust config of a Sigstore of your own to sign with.", '"sigstore.json"', None
    )
    settle: int | None = _option(
        "Seconds to wait after a file was seen twice; 0: seen once is enough.",
        "2",
        _at_least_zero,
    )
    confirm_within: int = _option(
        "Seconds in which an accepted file must show.", "60", _at_least_one, 60
    )

    @property
    def has_address(self) -> bool:
        return any((self.upload_url, self.index_url, self.url))

    def has(self, keys: typing.Iterable[str]) -> bool:
        """Whether any of these keys is set."""
        return any(getattr(self, key.replace("-", "_")) for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSettings:
    """What holds for the packages that one name, id or glob matches."""

    registry: str = _option("The name of the registry that takes them.", '"internal"', None, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSettings:
    """How siblings' versions are written into the artifacts."""

    policy: PinPolicy = _option(  # noqa: RUF009 - it makes a field
        "exact (==1.2.3), compatible (~=1.2.3), minimum (>=1.2.3), or keep what is written.",
        '"exact"',
        None,
        PinPolicy.EXACT,
    )
    packages: Mapping[str, PinPolicy] = _option(
        "Other policies for packages, by name, id or glob; the first that matches counts.",
        '{ "acme-*" = "minimum" }',
        None,
        {},
    )

    def policy_of(self, package: Package) -> PinPolicy:
        for pattern, policy in self.packages.items():
            if _matches(package, pattern):
                return policy
        return self.policy


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """How artifacts are built."""

    jobs: int | None = _option(
        "How many builds run at once. Default: one for each core.", "4", _at_least_one
    )
    timeout: int = _option(
        "Seconds after which one package's build is stopped.", "1800", _at_least_one, 1800
    )
    scripts: tuple[str, ...] = _option(
        "Node packages whose `build` script runs before they are packed; globs are fine.",
        '["@acme/*"]',
        _not_empty,
        (),
    )

    def runs_script(self, package: Package) -> bool:
        return any(_matches(package, pattern) for pattern in self.scripts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSettings:
    """What artifacts are looked at for."""

    max_megabytes: int = _option(
        "The largest file that may be uploaded, in megabytes.", "100", _at_least_one, 100
    )
    allow: Mapping[str, Mapping[str, str]] = _option(
        "Findings to let pass: by package, the check and the reason.",
        '{ "acme-tls" = { secrets = "a key for its tests alone" } }',
        _known_checks,
        {},
    )

    def reason_to_allow(self, package: Package, check: Check) -> str | None:
        for pattern, reasons in self.allow.items():
            if check in reasons and _matches(package, pattern):
                return reasons[check]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """What is kept of runs that are over."""

    keep_runs: int = _option(
        "How many finished runs keep their journal and logs.", "50", _at_least_one, 50
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    roots: tuple[str, ...] = _option(
        "Folders to look for workspaces in. Default: those a person would find.",
        '["py", "js"]',
        _inside_the_root,
        (),
    )
    exclude: tuple[str, ...] = _option(
        "Packages never to publish: names, ids or ./folders; globs are fine.",
        '["internal-*", "npm:docs", "./examples/*"]',
        _not_empty,
        (),
    )
    groups: Mapping[str, tuple[str, ...]] = _option(
        "Packages that go together, for `--group NAME`: names, ids or ./folders; globs are fine.",
        '{ core = ["acme-core", "acme-text-*"] }',
        _groups_with_names,
        {},
    )
    pins: PinSettings = field(default_factory=PinSettings)
    build: BuildSettings = field(default_factory=BuildSettings)
    inspect: InspectSettings = field(default_factory=InspectSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    registries: Mapping[str, RegistrySettings] = field(default_factory=dict)
    packages: Mapping[str, PackageSettings] = field(default_factory=dict)

    def registry_of(self, package: Package) -> tuple[str, str] | None:
        """The registry chosen for a package and the pattern that chose it; the first counts."""
        for pattern, settings in self.packages.items():
            if settings.registry and _matches(package, pattern):
                return settings.registry, pattern
        return None


@dataclass(frozen=True, slots=True)
class _Source:
    """A parsed file and the way back from a key to its line."""

    file: Path
    text: str
    prefix: tuple[str, ...]

    def line_of(self, key: tuple[str, ...]) -> int:
        """The line of a key, or of the nearest table around it."""
        wanted = self.prefix + key
        best, best_line = 0, 1
        table: tuple[str, ...] = ()
        in_string = False
        for number, line in enumerate(self.text.splitlines(), start=1):
            quotes = line.count('"""') + line.count("'''")
            was_in_string, in_string = in_string, in_string ^ (quotes % 2 == 1)
            if was_in_string:
                continue
            if header := re.match(r"\s*\[\[?([^\[\]]+)\]", line):
                table = _split_key(header[1])
                path = table
            elif pair := re.match(r"\s*([^=#\[{]+?)\s*=", line):
                path = table + _split_key(pair[1])
            else:
                continue
            if path == wanted[: len(path)] and len(path) > best:
                best, best_line = len(path), number
            elif path[: len(wanted)] == wanted:
                return number
        return best_line


def _split_key(dotted: str) -> tuple[str, ...]:
    parts = re.findall(r'"([^"]*)"|\'([^\']*)\'|([^\s."\']+)', dotted)
    return tuple(next(part for part in found if part) if any(found) else "" for found in parts)


def load(root: Path) -> Config:
    """The configuration of a repository; the defaults where there is none."""
    located = _locate(root)
    if located is None:
        return Config()
    source, table = located
    return typing.cast("Config", _table(source, Config, table, ()))


def file_of(root: Path) -> Path | None:
    """The file that configures this repository."""
    located = _locate(root)
    return None if located is None else located[0].file


def place_of(root: Path, *key: str) -> str:
    """`file:line` of a key, for messages."""
    located = _locate(root)
    return f"{located[0].file}:{located[0].line_of(key)}" if located else str(root)


def _locate(root: Path) -> tuple[_Source, object] | None:
    own, shared = _read(root / FILE_NAME), _read(root / "pyproject.toml")
    tool = shared[1].get("tool") if shared else None
    section = tool.get("releasekit") if isinstance(tool, dict) else None
    if own and section is not None:
        raise TwoConfigs(own=root / FILE_NAME, shared=root / "pyproject.toml")
    if own:
        return _Source(root / FILE_NAME, own[0], ()), own[1]
    if shared and section is not None:
        return _Source(root / "pyproject.toml", shared[0], ("tool", "releasekit")), section
    return None


def _read(file: Path) -> tuple[str, dict[str, Any]] | None:
    text = manifest.read_text(file)
    return None if text is None else (text, manifest.parse_toml(file, text))


def _table(source: _Source, kind: type, value: object, key: tuple[str, ...]) -> object:
    """A dataclass from a TOML table: each field's type is the check."""
    if not isinstance(value, dict):
        raise _wrong_type(source, key, "a table", value)
    hints = typing.get_type_hints(kind)
    known = {option.name.replace("_", "-"): option for option in fields(kind)}
    arguments: dict[str, object] = {}
    for name, item in value.items():
        here = (*key, name)
        if name not in known:
            close = difflib.get_close_matches(name.replace("_", "-"), known, n=1)
            raise UnknownKey(
                file=source.file,
                line=source.line_of(here),
                key=".".join(here),
                did_you_mean=".".join((*key, close[0])) if close else None,
                known=tuple(known),
            )
        option = known[name]
        arguments[option.name] = converted = _convert(source, hints[option.name], item, here)
        check = option.metadata.get("check")
        problem = check(converted) if check else None
        if problem:
            raise BadValue(
                file=source.file, line=source.line_of(here), key=".".join(here), problem=problem
            )
    return kind(**arguments)


def _convert(source: _Source, hint: Any, value: object, key: tuple[str, ...]) -> object:  # noqa: ANN401
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return _convert(source, arguments[0], value, key)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong_type(source, key, "a table", value)
        return {
            name: _convert(source, arguments[1], item, (*key, name)) for name, item in value.items()
        }
    if is_dataclass(hint) and isinstance(hint, type):
        return _table(source, hint, value, key)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if value not in list(hint):
            raise BadValue(
                file=source.file,
                line=source.line_of(key),
                key=".".join(key),
                problem=f"it is one of {', '.join(f'`{one}`' for one in hint)}",
            )
        return hint(str(value))
    if origin is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong_type(source, key, "a list of strings", value)
        return tuple(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise _wrong_type(source, key, _TYPE_NAMES[hint], value)
    return value


_TYPE_NAMES: dict[type, str] = {str: "a string", int: "a whole number", bool: "true or false"}


def _wrong_type(source: _Source, key: tuple[str, ...], expected: str, value: object) -> WrongType:
    return WrongType(
        file=source.file,
        line=source.line_of(key),
        key=".".join(source.prefix + key) if not key else ".".join(key),
        expected=expected,
        got=_name_of(value),
    )


def _name_of(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if all(isinstance(item, str) for item in value) else "a mixed list"
    return _TYPE_NAMES.get(type(value), f"a {type(value).__name__}")
