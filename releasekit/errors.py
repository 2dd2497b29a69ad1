"""Every way a run can end badly that a person can cause or mend.

ReleaseKitError                 exit 1
├── UsageError                  exit 2: the command line, the configuration or a manifest is wrong
│   ├── ConfigError             ├ UnknownKey, WrongType, BadValue, BrokenConfig
│   └── ManifestError           └ BrokenManifest, UnreadableManifest, …
├── Interrupted                 exit 3: stopped on purpose; running again continues
├── Locked                      exit 4: another release is running here
└── NeedsRecovery               exit 5: files wait for a decision of yours

A class writes its message and its hint; `__main__` alone turns the class into an exit code.
"""

from __future__ import annotations


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
