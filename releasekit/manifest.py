"""Read TOML, JSON and YAML that a stranger may have written: capped, never hanging, never guessing.

What parsers accept too gladly is caught before they see it: a size, a depth of keys, a FIFO in the
place of a file. A byte order mark is dropped, as every package manager does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tomllib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from releasekit.errors import BrokenManifest, UnreadableManifest, WrongManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import yaml

    Reader = Callable[[Path, Callable[[], bytes | None]], bytes | None]

_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)

MAX_BYTES = 1_000_000
MAX_KEY_DEPTH = 64

# tomllib needs 24 GB for a 200 kB dotted key. Possessive, so that no text makes it slow.
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(
    rf"(?<![\w-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{MAX_KEY_DEPTH}}}", re.ASCII
)


def read_text(file: Path, *, limit: int = MAX_BYTES) -> str | None:
    """The text of a regular file, or None where there is no file."""
    raw = _read_bytes(file, limit)
    if raw is None:
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise BrokenManifest(
            file=file, line=line, column=column, problem="this is not UTF-8"
        ) from error


@contextlib.contextmanager
def reading_through(reader: Reader) -> Iterator[None]:
    """Let `reader` answer for manifests; it gets the path and the plain way to read it."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def refuse_link_out(file: Path, root: Path) -> None:
    """A manifest may be a link, but not to a file of somebody else's."""
    if file.is_symlink() and not file.resolve().is_relative_to(root):
        raise UnreadableManifest(file=file, problem="it is a link out of the repository")


def _read_bytes(file: Path, limit: int) -> bytes | None:
    reader = _READER.get()
    if reader is None:
        return _read_regular(file, limit)
    return reader(file, lambda: _read_regular(file, limit))


def _read_regular(file: Path, limit: int) -> bytes | None:
    try:
        # A FIFO without a writer blocks open() for ever unless O_NONBLOCK is set.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableManifest(file=file, problem=error.strerror or str(error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableManifest(file=file, problem="it is not a regular file")
        # One byte more than allowed tells; the size of a file that grows meanwhile would not.
        raw = b""
        while len(raw) <= limit and (piece := os.read(descriptor, limit + 1 - len(raw))):
            raw += piece
    except OSError as error:
        raise UnreadableManifest(file=file, problem=error.strerror or str(error)) from error
    finally:
        os.close(descriptor)
    if len(raw) > limit:
        raise UnreadableManifest(file=file, problem=f"it is larger than {limit:,} bytes")
    return raw


def read_toml(file: Path) -> dict[str, Any] | None:
    text = read_text(file)
    return None if text is None else parse_toml(file, text)


def parse_toml(file: Path, text: str) -> dict[str, Any]:
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise BrokenManifest(
            file=file, line=line, problem=f"a key is more than {MAX_KEY_DEPTH} levels deep"
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        if place := re.search(r" \(at line (\d+), column (\d+)\)$", message):
            raise BrokenManifest(
                file=file,
                line=int(place[1]),
                column=int(place[2]),
                problem=message[: place.start()],
            ) from error
        raise BrokenManifest(file=file, problem=message) from error
    except RecursionError as error:
        raise BrokenManifest(file=file, problem="values are nested too deeply") from error


def read_json(file: Path, *, warn: Callable[[str], None]) -> dict[str, Any] | None:
    """An object. A key that stands twice is warned of: the last wins, as in `JSON.parse`."""
    text = read_text(file)
    if text is None:
        return None
    repeated: list[str] = []

    def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            seen: set[str] = set()
            repeated.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return document

    def refuse(constant: str) -> NoReturn:
        raise BrokenManifest(file=file, problem=f"`{constant}` is not JSON")

    try:
        document = json.loads(text, object_pairs_hook=as_object, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise BrokenManifest(
            file=file, line=error.lineno, column=error.colno, problem=error.msg
        ) from error
    except RecursionError as error:
        raise BrokenManifest(file=file, problem="values are nested too deeply") from error
    except ValueError as error:  # an integer of more than 4,300 digits
        raise BrokenManifest(file=file, problem=str(error)) from error
    for key in dict.fromkeys(repeated):
        warn(f"{file}: the key `{key}` stands twice; the last one counts")
    if not isinstance(document, dict):
        raise BrokenManifest(file=file, problem="this is not a JSON object")
    return document


def read_yaml(file: Path) -> dict[str, Any] | None:
    """A mapping whose scalars are all strings, so that `1.10` stays `1.10`."""
    text = read_text(file)
    if text is None:
        return None
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _refuse_deep_yaml(file, yaml.parse(text, Loader=loader))
        document = yaml.load(text, Loader=loader)  # noqa: S506 - the base loader makes only strings
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BrokenManifest(
            file=file,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
            problem=error.problem or "this is not YAML",
        ) from error
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        raise BrokenManifest(file=file, problem=f"this is not YAML: {error}") from error
    if document in (None, ""):
        return {}
    if not isinstance(document, dict):
        raise BrokenManifest(file=file, problem="this is not a YAML mapping")
    return document


def _refuse_deep_yaml(file: Path, events: Iterable[yaml.Event]) -> None:
    """libyaml's composer recurses in C, without a limit: 100,000 brackets end the process."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_KEY_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise BrokenManifest(file=file, line=line, problem="values are nested too deeply")


def table(file: Path, document: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """The table at a path of keys; empty where there is none."""
    found: Any = document
    for depth, key in enumerate(path, start=1):
        found = found.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise WrongManifest(file=file, key=".".join(path[:depth]), expected="a table")
    return dict(found)


def strings(file: Path, key: str, value: object) -> tuple[str, ...]:
    """A list of strings; empty where there is none."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WrongManifest(file=file, key=key, expected="a list of strings")
    return tuple(value)
