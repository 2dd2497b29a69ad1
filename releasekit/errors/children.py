"""Child processes and servers of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.errors.base import ReleaseKitError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ToolMissing(ReleaseKitError):
    def __init__(self, *, tool: str, hint: str) -> None:
        super().__init__(f"`{tool}` was not found on this machine", hint=hint)


class OddTool(ReleaseKitError):
    def __init__(self, *, argv: Sequence[str], problem: str) -> None:
        super().__init__(
            f"`{' '.join(argv)}`: {problem}", hint="run it yourself to see what it says"
        )


class ChildFailed(ReleaseKitError):
    def __init__(
        self, *, argv: Sequence[str], returncode: int, tail: str, log: Path | None = None
    ) -> None:
        how = f"exit code {returncode}" if returncode >= 0 else f"signal {-returncode}"
        message = f"`{' '.join(argv)}` ended with {how}"
        super().__init__(
            f"{message}\n{tail}" if tail else message,
            hint=f"the whole output is in `{log}`"
            if log
            else "run it yourself to see what it says",
        )
        self.returncode = returncode


class ChildTimedOut(ReleaseKitError):
    def __init__(self, *, argv: Sequence[str], seconds: float, tail: str) -> None:
        message = f"`{' '.join(argv)}` did not end within {seconds:g} s and was stopped"
        super().__init__(f"{message}\n{tail}" if tail else message)


class BuildFailed(ReleaseKitError):
    def __init__(self, *, step: str, problem: str, tail: str, log: Path) -> None:
        message = f"{step}: {problem}"
        super().__init__(
            f"{message}\n{tail}" if tail else message, hint=f"the whole output is in `{log}`"
        )


class ServerEnded(ReleaseKitError):
    """A server of ours is gone; what it was asked for has no answer."""

    def __init__(self, *, argv: Sequence[str], returncode: int, tail: str) -> None:
        message = f"`{' '.join(argv)}` ended unasked ({returncode})"
        super().__init__(f"{message}\n{tail}" if tail else message)
