"""Every way a run can end badly that a person can cause or mend.

ReleaseKitError                 exit 1
├── ToolMissing, ChildFailed, ChildTimedOut
├── UsageError                  exit 2: the command line, the configuration or a manifest is wrong
│   ├── ConfigError             ├ UnknownKey, WrongType, BadValue, BrokenConfig
│   └── ManifestError           └ BrokenManifest, UnreadableManifest, …
├── Interrupted                 exit 3: stopped on purpose; running again continues
├── Locked                      exit 4: another release is running here
└── NeedsRecovery               exit 5: files wait for a decision of yours

A class writes its message and its hint; `__main__` alone turns the class into an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ReleaseKitError(Exception):
    """The run cannot go on. The hint names the command or the line that helps."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ReleaseKitError):
    pass


class Interrupted(ReleaseKitError):  # noqa: N818 - a state, named as the exit code is
    pass


class Locked(ReleaseKitError):  # noqa: N818
    pass


class NeedsRecovery(ReleaseKitError):  # noqa: N818
    pass


# Child processes


class ToolMissing(ReleaseKitError):  # noqa: N818
    def __init__(self, *, tool: str, hint: str) -> None:
        super().__init__(f"`{tool}` was not found on this machine", hint=hint)


class ChildFailed(ReleaseKitError):  # noqa: N818
    def __init__(
        self, *, argv: Sequence[str], returncode: int, tail: str, log: Path | None = None
    ) -> None:
        how = f"exit code {returncode}" if returncode >= 0 else f"signal {-returncode}"
        message = f"`{' '.join(argv)}` ended with {how}"
        super().__init__(
            f"{message}\n{tail}" if tail else message,
            hint=f"the whole output is in `{log}`" if log else None,
        )
        self.returncode = returncode


class ChildTimedOut(ReleaseKitError):  # noqa: N818
    def __init__(self, *, argv: Sequence[str], seconds: float, tail: str) -> None:
        message = f"`{' '.join(argv)}` did not end within {seconds:g} s and was stopped"
        super().__init__(f"{message}\n{tail}" if tail else message)


# Manifests


class ManifestError(UsageError):
    pass


class MissingManifest(ManifestError):
    def __init__(self, *, file: Path, wanted_by: str) -> None:
        super().__init__(
            f"{file}: no such file, but {wanted_by} names its folder",
            hint=f"add the file, or leave `{file.parent.name}` out of the members",
        )


class UnreadableManifest(ManifestError):
    def __init__(self, *, file: Path, problem: str) -> None:
        super().__init__(
            f"{file}: cannot be read: {problem}",
            hint="a manifest is a small text file that you may read",
        )


class BrokenManifest(ManifestError):
    def __init__(
        self, *, file: Path, problem: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = "".join(f":{number}" for number in (line, column) if number is not None)
        super().__init__(f"{file}{place}: {problem}", hint="mend the file and run again")


class WrongManifest(ManifestError):
    """The file parses, but a key holds what its tool would refuse."""

    def __init__(self, *, file: Path, key: str, expected: str) -> None:
        super().__init__(f"{file}: `{key}` must be {expected}", hint=f"mend `{key}` in that file")


class MemberOutside(ManifestError):
    def __init__(self, *, file: Path, pattern: str) -> None:
        super().__init__(
            f"{file}: the member `{pattern}` leads out of the workspace",
            hint="members are relative folders below the file, without `..`",
        )


class NoPackages(ManifestError):
    def __init__(self, *, folder: Path) -> None:
        super().__init__(
            f"{folder}: no pyproject.toml, package.json or pnpm-workspace.yaml was found there",
            hint='run inside a repository, or name the folders: `roots = ["py", "js"]`',
        )
