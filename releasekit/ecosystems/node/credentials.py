"""`.npmrc` as npm reads it, and which of its credentials a registry gets."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from releasekit import manifest
from releasekit.errors import UnreadableCredentials, UnreadableManifest
from releasekit.secrets import Credential, variable_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_REGISTRY = "npm"
_VARIABLE = re.compile(r"(?<!\\)(\\*)\$\{([^${}]+)\}")
_ENVIRONMENT = re.compile(r"npm_config_(.+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    value: str = field(repr=False)
    source: str
    """The file, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Npmrc:
    """The settings of all files, the nearest first."""

    settings: Mapping[str, Setting]

    @classmethod
    def read(cls, files: Sequence[Path], environ: Mapping[str, str]) -> Npmrc:
        """npm's order: the environment, then the files as given."""
        settings: dict[str, Setting] = {}
        for variable, value in environ.items():
            if (match := _ENVIRONMENT.fullmatch(variable)) and value:
                # npm reads `npm_config_user_agent` as `user-agent`; a `//host` stays as it is.
                name = match[1] if match[1].startswith(("//", "@")) else _dashed(match[1])
                settings.setdefault(name, Setting(value=value, source=variable))
        for file in dict.fromkeys(files):
            # Within one file the last of a name counts.
            pairs = {_expanded(key, environ): value for key, value in _pairs(_text(file))}
            for name, value in pairs.items():
                setting = Setting(value=_expanded(value, environ), source=str(file))
                settings.setdefault(name, setting)
        return cls(settings=settings)

    def registry_of(self, package: str) -> str | None:
        """The registry of the package's scope, where there is one."""
        scope, slash, _ = package.partition("/")
        found = self._value(f"{scope}:registry") if slash and scope.startswith("@") else None
        return found.value if found else None

    def credential(self, url: str) -> Credential | None:
        """The one with the longest matching `//host/path`, as npm walks up from the address."""
        parts = urlsplit(url)
        key = f"//{parts.netloc.rpartition('@')[2]}{parts.path}"
        while len(key) > len("//"):
            if credential := self._credential_at(key):
                return credential
            # Either what follows the last slash goes, or the slash itself.
            key = re.sub(r"([^/]+|/)$", "", key)
        return None

    def _credential_at(self, key: str) -> Credential | None:
        if token := self._value(f"{key}:_authToken"):
            return Credential(source=f"{token.source} ({key}:_authToken)", secret=token.value)
        if encoded := self._value(f"{key}:_auth"):
            return Credential(
                source=f"{encoded.source} ({key}:_auth)", secret=encoded.value, encoded=True
            )
        user, password = self._value(f"{key}:username"), self._value(f"{key}:_password")
        if user and password:
            return Credential(
                source=f"{password.source} ({key}:_password)",
                username=user.value,
                secret=_decoded(password),
            )
        return None

    def _value(self, key: str) -> Setting | None:
        """A variable that is not set leaves its `${NAME}`, which is nobody's password."""
        found = self.settings.get(key)
        return found if found and found.value and not _VARIABLE.search(found.value) else None


def files_of(root: Path, folders: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The package's own, the workspace's, the repository's, the user's."""
    user = next(
        (
            value
            for name, value in environ.items()
            if name.lower() == "npm_config_userconfig" and value
        ),
        None,
    )
    home = environ.get("HOME")
    near = [root / folder / ".npmrc" for folder in (*folders, ".")]
    last = Path(user) if user else Path(home) / ".npmrc" if home else None
    return (*near, last) if last else tuple(near)


def resolve(*, name: str, url: str, npmrc: Npmrc, environ: Mapping[str, str]) -> Credential | None:
    """For the package's document at `url`."""
    variables = [f"RELEASEKIT_{variable_part(name)}_TOKEN"]
    if name == DEFAULT_REGISTRY:
        variables += ["NODE_AUTH_TOKEN", "NPM_TOKEN"]
    for variable in variables:
        if value := environ.get(variable, "").strip():
            return Credential(source=variable, secret=value)
    return npmrc.credential(url)


def _text(file: Path) -> str:
    try:
        return manifest.read_text(file) or ""
    except UnreadableManifest as error:
        raise UnreadableCredentials(file=str(file), problem=str(error.message)) from None


def _pairs(text: str) -> list[tuple[str, str]]:
    """npm's ini: `key = value`, comments with `;` or `#`, perhaps quoted; a section ends it."""
    pairs = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in ";#":
            continue
        if stripped.startswith("["):
            break
        key, equals, value = stripped.partition("=")
        if equals:
            pairs.append((_unquoted(key.strip()), _unquoted(value.strip())))
    return pairs


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    # In a bare value a comment may follow.
    return re.split(r"(?<!\\)[;#]", text, maxsplit=1)[0].strip()


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """`${NAME}`, and `${NAME?}` that may be missing; an odd number of backslashes escapes it."""

    def value(match: re.Match[str]) -> str:
        slashes, name = match[1], match[2]
        if len(slashes) % 2:
            return match[0][(len(slashes) + 1) // 2 :]
        optional = name.endswith("?")
        found = environ.get(name.removesuffix("?"))
        if found is None and not optional:
            return match[0]
        return slashes[: len(slashes) // 2] + (found or "").strip()

    return _VARIABLE.sub(value, text)


def _dashed(name: str) -> str:
    return re.sub(r"(?!^)_", "-", name).lower()


def _decoded(password: Setting) -> str:
    try:
        return base64.b64decode(password.value, validate=True).decode()
    except ValueError:
        raise UnreadableCredentials(
            file=password.source, problem="`_password` is not base64"
        ) from None
