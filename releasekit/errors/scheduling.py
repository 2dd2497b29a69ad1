"""The scheduler, and when an attempt may follow another."""

from __future__ import annotations

import math

from releasekit.errors.base import ReleaseKitError, UsageError


class CyclicGraph(UsageError):
    """The path starts and ends with the same package; each needs the one after it."""

    def __init__(self, *, path: tuple[str, ...]) -> None:
        arrows = " → ".join(f"`{name}`" for name in path)
        super().__init__(
            f"packages need each other in a circle: {arrows}",
            hint="remove one of these dependencies, or make it optional",
        )
        self.path = path


class DuplicatePackage(UsageError):
    def __init__(self, *, name: str) -> None:
        super().__init__(
            f"package `{name}` is listed twice", hint="rename or remove one of the two"
        )
        self.name = name


class BadSetting(UsageError):
    def __init__(self, *, setting: str, value: object, rule: str) -> None:
        super().__init__(f"`{setting}` is {value!r}", hint=f"`{setting}` must be {rule}")


class JobTimedOut(ReleaseKitError):
    def __init__(self, *, name: str, seconds: float) -> None:
        super().__init__(
            f"`{name}` was ended after {seconds:g} s",
            hint="allow more time, or look for what hangs",
        )


class JobCancelled(ReleaseKitError):
    """Its task was cancelled, but not by the scheduler."""

    def __init__(self, *, name: str) -> None:
        super().__init__(f"the work on `{name}` cancelled itself")


class RetryAt(ReleaseKitError):
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
