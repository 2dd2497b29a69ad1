"""Credentials that do not show themselves, and words from outside with every secret struck out.

A secret that was once made into a `Credential`, or hidden by name, never leaves this process in a
text again: not as it is, not quoted for a URL, not inside some base64.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus, unquote, urlsplit, urlunsplit

from releasekit.errors import UnsendableCredential

STRUCK_OUT = "[secret]"
# Shorter ones would strike out words that mean something else, and protect nothing.
_SHORTEST = 4
_SHORTEST_BASE64 = 8
_PORTS = {"http": 80, "https": 443}
_hidden: dict[str, frozenset[str]] = {}
"""Each secret of this process with its forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a registry takes as proof of who we are: Basic with a user, else Bearer."""

    source: str
    """Where it was found, for messages."""
    secret: str = field(repr=False)
    username: str | None = None
    encoded: bool = field(default=False, repr=False)
    """The secret is `user:password` in base64 already, as in npm's `_auth`."""

    def __post_init__(self) -> None:
        hide(self.secret)
        sent = f"{self.username or ''}{self.secret}"
        # A line break is where a header would end; the HTTP library quotes such a header in full.
        if not sent.isprintable() or (self.username is None and not sent.isascii()):
            raise UnsendableCredential(source=self.source)
        if self.encoded:
            hide(_password_of(self.secret))
        elif self.username is not None:
            hide(self._basic())

    @property
    def authorization(self) -> str:
        """The header's value."""
        if self.encoded:
            return f"Basic {self.secret}"
        return f"Bearer {self.secret}" if self.username is None else f"Basic {self._basic()}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization}

    def _basic(self) -> str:
        return base64.b64encode(f"{self.username}:{self.secret}".encode()).decode()


def hide(secret: str) -> None:
    """Strike this out wherever `redact` sees it from now on."""
    if len(secret) >= _SHORTEST and secret not in _hidden:
        _hidden[secret] = _forms(secret)


def redact(text: str) -> str:
    found = {form for forms in _hidden.values() for form in forms if form in text}
    # The longest first: one form may be part of another.
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, STRUCK_OUT)
    return text


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a credential is given to."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def split_url(url: str, *, source: str) -> tuple[str, Credential | None]:
    """An address that may be shown, and the `user:password@` that stood in it."""
    parts = urlsplit(url)
    user_info, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    username, _, password = user_info.partition(":")
    shown = urlunsplit(parts._replace(netloc=host))
    if not password:
        return shown, None
    return shown, Credential(source=source, username=unquote(username), secret=unquote(password))


def variable_part(name: str) -> str:
    """A registry's name as it stands within the names of environment variables."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _forms(secret: str) -> frozenset[str]:
    raw = secret.encode()
    forms = {secret, quote_plus(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for quoted in (quote(secret), quote(secret, safe="")):
        forms |= {quoted, re.sub("%..", lambda code: code[0].lower(), quoted)}
    for before in range(3):
        # Within a longer text the first and last characters also depend on the neighbours.
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            inner = encode(bytes(before) + raw).decode()[first:last]
            if len(inner) >= _SHORTEST_BASE64:
                forms |= {inner, quote(inner, safe="")}
    return frozenset(forms | {raw.hex()})


def _password_of(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode().partition(":")[2]
    except ValueError:
        return ""
