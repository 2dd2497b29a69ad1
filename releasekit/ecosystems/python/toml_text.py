"""Where the strings of a TOML document stand in its text."""

from __future__ import annotations

import itertools
import re
import tomllib
from typing import TypeAlias

Location: TypeAlias = tuple[str | int, ...]
"""Keys and array indexes from the top of the document."""

_SPACE = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_OTHER_SCALAR = re.compile(r"[^,\]}#\r\n]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


def string_spans(text: str) -> dict[Location, tuple[int, int]]:
    """Start and end, quotes included, of every string value of a valid document."""
    return _Scanner(text).spans()


class _Scanner:
    """Reads what tomllib has accepted, so it only needs to tell the parts apart."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[Location, tuple[int, int]] = {}

    def spans(self) -> dict[Location, tuple[int, int]]:
        table: Location = ()
        array_tables = itertools.count()
        while self._skip(_GAP) < len(self._text):
            if self._take("[["):
                # A number of its own keeps the tables apart; nobody asks for their strings.
                table = (*self._key(), next(array_tables))
                self._expect("]]")
            elif self._take("["):
                table = self._key()
                self._expect("]")
            else:
                self._member(table)
        return self._found

    def _member(self, table: Location) -> None:
        location = (*table, *self._key())
        self._expect("=")
        self._value(location)

    def _value(self, location: Location) -> None:
        self._skip(_SPACE)
        start = self._at
        if self._text[start] in "\"'":
            self._string()
            self._found[location] = (start, self._at)
        elif self._take("["):
            for index in itertools.count():
                self._skip(_GAP)
                if self._take("]"):
                    return
                self._value((*location, index))
                self._skip(_GAP)
                self._take(",")
        elif self._take("{"):
            while True:
                self._skip(_GAP)
                if self._take("}"):
                    return
                self._member(location)
                self._skip(_GAP)
                self._take(",")
        else:
            self._match(_OTHER_SCALAR)

    def _key(self) -> Location:
        parts = []
        while True:
            self._skip(_SPACE)
            if self._text[self._at] in "\"'":
                parts.append(str(tomllib.loads(f"key = {self._string()}")["key"]))
            else:
                parts.append(self._match(_BARE_KEY))
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _string(self) -> str:
        return self._match(_STRING)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(f"unexpected text at character {self._at}")
        self._at = found.end()
        return found[0]

    def _skip(self, pattern: re.Pattern[str]) -> int:
        self._match(pattern)
        return self._at

    def _take(self, token: str) -> bool:
        taken = self._text.startswith(token, self._at)
        if taken:
            self._at += len(token)
        return taken

    def _expect(self, token: str) -> None:
        self._skip(_SPACE)
        if not self._take(token):
            raise ValueError(f"expected {token} at character {self._at}")
