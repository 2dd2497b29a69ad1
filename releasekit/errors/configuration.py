"""The command line, the configuration and credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.errors.base import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ConfigError(UsageError):
    pass


class UnknownKey(ConfigError):
    def __init__(
        self, *, file: Path, line: int, key: str, did_you_mean: str | None, known: Sequence[str]
    ) -> None:
        hint = (
            f"did you mean `{did_you_mean}`?"
            if did_you_mean
            else f"the keys here are {', '.join(f'`{name}`' for name in known)}"
        )
        super().__init__(f"{file}:{line}: there is no key `{key}`", hint=hint)


class WrongType(ConfigError):
    def __init__(self, *, file: Path, line: int, key: str, expected: str, got: str) -> None:
        super().__init__(
            f"{file}:{line}: `{key}` must be {expected}, not {got}",
            hint="`releasekit init --print` shows an example of every key",
        )


class BadValue(ConfigError):
    def __init__(self, *, file: Path, line: int, key: str, problem: str) -> None:
        super().__init__(
            f"{file}:{line}: `{key}`: {problem}",
            hint="`releasekit init --print` shows an example of every key",
        )


class TwoConfigs(ConfigError):
    def __init__(self, *, own: Path, shared: Path) -> None:
        super().__init__(
            f"both `{own}` and `[tool.releasekit]` in `{shared}` configure this repository",
            hint="keep one of the two",
        )


class UnknownRegistry(ConfigError):
    def __init__(
        self, *, place: str, registry: str, did_you_mean: str | None, known: Sequence[str]
    ) -> None:
        super().__init__(
            f"{place}: there is no registry `{registry}`",
            hint=f"did you mean `{did_you_mean}`?"
            if did_you_mean
            else f"the registries are {', '.join(f'`{name}`' for name in known)}; "
            f"`[registries.{registry}]` adds one",
        )


class RegistryOfOtherKind(ConfigError):
    def __init__(self, *, registry: str, package: str, keys: Sequence[str]) -> None:
        wanted = " and ".join(f"`{key}`" for key in keys)
        super().__init__(
            f"registry `{registry}` cannot take {package}: it has no {wanted}",
            hint=f"set {wanted} in `[registries.{registry}]`, or choose another registry for "
            f"{package}",
        )


class UnsendableCredential(UsageError):
    def __init__(self, *, source: str) -> None:
        super().__init__(
            f"the credential from {source} holds a character that no header can carry",
            hint="set it again, without line breaks or other control characters",
        )


class UnreadableCredentials(UsageError):
    """Of the file's content nothing is shown: it holds secrets."""

    def __init__(self, *, file: str, problem: str) -> None:
        super().__init__(f"`{file}` cannot be read: {problem}", hint="mend or remove that file")


class NoSuchFolder(UsageError):
    def __init__(self, *, folder: Path) -> None:
        super().__init__(f"there is no folder `{folder}`", hint="check what follows `--root`")


class BadRegistryOption(UsageError):
    def __init__(self, *, value: str) -> None:
        super().__init__(
            f"`--registry {value}` names no registry",
            hint="write `--registry NAME=UPLOAD_URL,INDEX_URL` for Python or "
            "`--registry NAME=URL` for Node",
        )


class ConfigExists(UsageError):
    def __init__(self, *, root: Path) -> None:
        super().__init__(
            f"`{root}` is configured already; nothing was written",
            hint="`releasekit init --print` shows what would be written",
        )
