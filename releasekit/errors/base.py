"""What every error is, and the kinds that have an exit code of their own."""

from __future__ import annotations


class ReleaseKitError(Exception):
    """The run cannot go on. The hint names the command or the line that helps."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ReleaseKitError):
    pass


class Interrupted(ReleaseKitError):
    pass


class Locked(ReleaseKitError):
    pass


class NeedsRecovery(ReleaseKitError):
    pass


class DoNotRetry(ReleaseKitError):
    """Another attempt cannot help."""


class StoppedBySignal(Interrupted):
    def __init__(self, *, signal: str) -> None:
        super().__init__(
            f"stopped by {signal}; the manifests are as they were",
            hint="run the same command again to continue",
        )


class SystemRefused(ReleaseKitError):
    """A full disk, a missing permission: what the operating system says, with the file."""

    def __init__(self, error: OSError) -> None:
        where = f"`{error.filename}`: " if error.filename else ""
        super().__init__(
            f"{where}{error.strerror or error}",
            hint="mend that, then run the same command again",
        )
