"""Which credential a Python index gets, and never another's.

The order, first found first taken: the address itself, the variables that name this registry,
uv's and twine's variables where they are meant for it, `.pypirc`, and last the keyring.
"""

from __future__ import annotations

import configparser
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from releasekit import process
from releasekit.errors import ChildFailed, ChildTimedOut, UnreadableCredentials
from releasekit.secrets import Credential, hide, origin, variable_part
from releasekit.workers import detached

if TYPE_CHECKING:
    from collections.abc import Mapping

log: structlog.stdlib.BoundLogger = structlog.get_logger()

DEFAULT_REGISTRY = "pypi"
TOKEN_USER = "__token__"  # noqa: S105 - a user's name
KEYRING_SECONDS = 10.0
_GRACE_SECONDS = 5.0
# The tools' variables say for which registry they are: by its name, or by its address.
_TOOLS = (
    ("UV_PUBLISH", "UV_PUBLISH_INDEX", "UV_PUBLISH_URL"),
    ("TWINE", "TWINE_REPOSITORY", "TWINE_REPOSITORY_URL"),
)


def resolve(
    *, name: str, address: str, environ: Mapping[str, str], pypirc: Path | None
) -> Credential | None:
    """For uploads to `address`, which carries no user any more."""
    return (
        from_own_variables(name, environ)
        or from_tools_variables(name, address, environ)
        or (from_pypirc(name, address, pypirc) if pypirc else None)
    )


def from_own_variables(name: str, environ: Mapping[str, str]) -> Credential | None:
    """Variables that hold the registry's name."""
    part = variable_part(name)
    token = f"RELEASEKIT_{part}_TOKEN"
    if value := _value(environ, token):
        return Credential(source=token, username=TOKEN_USER, secret=value)
    user, password = f"UV_INDEX_{part}_USERNAME", f"UV_INDEX_{part}_PASSWORD"
    if value := _value(environ, password):
        return Credential(
            source=password, username=_value(environ, user) or TOKEN_USER, secret=value
        )
    return None


def from_tools_variables(name: str, address: str, environ: Mapping[str, str]) -> Credential | None:
    """uv's, then twine's; for the registry they name, or for the default one."""
    for prefix, name_variable, address_variable in _TOOLS:
        if not _is_meant(
            name, address, _value(environ, name_variable), _value(environ, address_variable)
        ):
            continue
        token, password = f"{prefix}_TOKEN", f"{prefix}_PASSWORD"
        if prefix == "UV_PUBLISH" and (value := _value(environ, token)):
            return Credential(source=token, username=TOKEN_USER, secret=value)
        if value := _value(environ, password):
            user = _value(environ, f"{prefix}_USERNAME") or TOKEN_USER
            return Credential(source=password, username=user, secret=value)
    return None


def _is_meant(name: str, address: str, meant_name: str, meant_address: str) -> bool:
    if meant_address:
        return _same_address(meant_address, address)
    return name == (meant_name or DEFAULT_REGISTRY)


def from_pypirc(name: str, address: str, file: Path) -> Credential | None:
    """The section with this address, else the one of this name if it names no other place."""
    for section, settings in _sections(name, address, file):
        if password := settings.get("password"):
            return Credential(
                source=f"{_shown(file)} [{section}]",
                username=settings.get("username") or TOKEN_USER,
                secret=password.strip(),
            )
    return None


def user_in_pypirc(name: str, address: str, file: Path) -> str | None:
    """Whose password the keyring is to be asked for."""
    found = (settings.get("username") for _, settings in _sections(name, address, file))
    return next((user for user in found if user), None)


def _sections(name: str, address: str, file: Path) -> list[tuple[str, dict[str, str | None]]]:
    if not file.is_file():
        return []
    from twine import exceptions, utils

    try:
        config = utils.get_config(str(file))
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise UnreadableCredentials(file=str(file), problem=problem) from None
    except (configparser.Error, exceptions.TwineException, UnicodeError):
        # Their messages quote the line.
        raise UnreadableCredentials(file=str(file), problem="it is malformed") from None
    by_address = [
        (section, settings)
        for section, settings in config.items()
        if _same_address(settings.get("repository") or "", address)
    ]
    by_name = [
        (section, settings)
        for section, settings in config.items()
        if section == name and not settings.get("repository")
    ]
    return by_address or by_name


async def from_keyring(
    address: str, username: str | None, *, seconds: float = KEYRING_SECONDS
) -> Credential | None:
    """Asked by a child without a terminal: a backend must not ask a person, nor read our input."""
    argv = [sys.executable, "-P", "-c", _ASK_KEYRING, address, username or "", TOKEN_USER]
    try:
        told = await detached(
            lambda: process.output(argv, cwd=Path("/"), timeout=seconds, without_terminal=True),
            seconds=seconds + _GRACE_SECONDS,
            name="keyring",
        )
        user, password = json.loads(told.rpartition("\n")[2])
    except (ChildTimedOut, TimeoutError):
        log.warning("keyring gave no answer", address=address, seconds=seconds)
        return None
    except (ChildFailed, ValueError) as error:
        # A backend may raise anything, and none is needed; what it printed may hold a password.
        log.debug("keyring failed", kind=type(error).__name__)
        return None
    if not password:
        return None
    hide(password)
    return Credential(source="keyring", username=user or TOKEN_USER, secret=password)


_ASK_KEYRING = """
import json, sys, keyring
service, user, token_user = sys.argv[1], sys.argv[2] or None, sys.argv[3]
held = keyring.get_credential(service, user)
user, password = (held.username, held.password) if held else (user, None)
if not password:
    user = user or token_user
    password = keyring.get_password(service, user)
print()
print(json.dumps([user, password]), end="")
"""


def _same_address(one: str, other: str) -> bool:
    def normal(url: str) -> tuple[object, str]:
        return origin(url), url.partition("://")[2].partition("/")[2].rstrip("/")

    return normal(one) == normal(other)


def _value(environ: Mapping[str, str], name: str) -> str:
    """Secrets pasted into a CI's settings often end with a line break."""
    return environ.get(name, "").strip()


def _shown(file: Path) -> str:
    return "~/.pypirc" if file.name == ".pypirc" else str(file)
