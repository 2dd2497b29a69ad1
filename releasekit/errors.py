"""Every way a run can end badly that a person can cause or mend.

ReleaseKitError                 exit 1
├── ToolMissing, ChildFailed, ChildTimedOut
├── JobTimedOut, JobCancelled   how an attempt of the scheduler can end without an error of its own
├── DoNotRetry, RetryAt         what a job raises, or lets its errors inherit, to steer its retries
├── UsageError                  exit 2: the command line, the configuration or a manifest is wrong
│   ├── CyclicGraph, DuplicatePackage, BadSetting
│   ├── ConfigError             ├ UnknownKey, WrongType, BadValue, BrokenConfig
│   └── ManifestError           └ BrokenManifest, UnreadableManifest, …
├── Interrupted                 exit 3: stopped on purpose; running again continues
├── Locked                      exit 4: another release is running here
└── NeedsRecovery               exit 5: files wait for a decision of yours

A class writes its message and its hint; `__main__` alone turns the class into an exit code.
"""

from __future__ import annotations

import math
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


# scheduler


class CyclicGraph(UsageError):  # noqa: N818 - what the graph is
    """The path starts and ends with the same package; each needs the one after it."""

    def __init__(self, *, path: tuple[str, ...]) -> None:
        arrows = " → ".join(f"`{name}`" for name in path)
        super().__init__(
            f"packages need each other in a circle: {arrows}",
            hint="remove one of these dependencies, or make it optional",
        )
        self.path = path


class DuplicatePackage(UsageError):  # noqa: N818
    def __init__(self, *, name: str) -> None:
        super().__init__(
            f"package `{name}` is listed twice", hint="rename or remove one of the two"
        )
        self.name = name


class BadSetting(UsageError):  # noqa: N818
    def __init__(self, *, setting: str, value: object, rule: str) -> None:
        super().__init__(f"`{setting}` is {value!r}", hint=f"`{setting}` must be {rule}")


class JobTimedOut(ReleaseKitError):  # noqa: N818
    def __init__(self, *, name: str, seconds: float) -> None:
        super().__init__(
            f"`{name}` was ended after {seconds:g} s",
            hint="allow more time, or look for what hangs",
        )


class JobCancelled(ReleaseKitError):  # noqa: N818
    """Its task was cancelled, but not by the scheduler."""

    def __init__(self, *, name: str) -> None:
        super().__init__(f"the work on `{name}` cancelled itself")


class DoNotRetry(ReleaseKitError):  # noqa: N818 - an instruction
    """Another attempt cannot help."""


class RetryAt(ReleaseKitError):  # noqa: N818 - an instruction
    """Another attempt may help, but not before a time on the clock of the event loop."""

    def __init__(
        self, message: str, *, not_before: float, closes_lane: bool = False, hint: str | None = None
    ) -> None:
        if not math.isfinite(not_before):
            raise BadSetting(setting="not_before", value=not_before, rule="a finite time")
        super().__init__(message, hint=hint)
        self.not_before = not_before
        self.closes_lane = closes_lane
        """Hold every package of this lane until then."""
