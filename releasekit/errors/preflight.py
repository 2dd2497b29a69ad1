"""What stands before a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from releasekit.errors.base import ReleaseKitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class TagNeeded(UsageError):
    def __init__(self, *, name: str, version: str) -> None:
        super().__init__(
            f"{name} {version} is a prerelease and needs a dist-tag of its own",
            hint='add `--tag next`, or set `"publishConfig": {"tag": "next"}` in its package.json',
        )


class LatestWouldFall(UsageError):
    def __init__(self, *, name: str, version: str, highest: str) -> None:
        super().__init__(
            f"{name} {version} would become `latest`, below {highest} on the registry",
            hint="add `--tag NAME` for an older line, or `--tag latest` if that is meant",
        )


class BadDistTag(UsageError):
    def __init__(self, *, tag: str, problem: str) -> None:
        super().__init__(
            f"`{tag}` is no dist-tag: {problem}", hint="a dist-tag is a word, such as `next`"
        )


class NotRestrictable(UsageError):
    def __init__(self, *, name: str) -> None:
        super().__init__(
            f"{name} has no scope, and npm restricts only packages with one",
            hint="leave `--access restricted` out for it, or name it `@scope/name`",
        )


class VersionWithdrawn(UsageError):
    def __init__(self, *, name: str, version: str) -> None:
        super().__init__(
            f"{name} {version} was published and withdrawn; the registry never takes it again",
            hint="release a new version",
        )


class BadSnapshotId(UsageError):
    def __init__(self, *, snapshot: str, problem: str, hint: str) -> None:
        super().__init__(f"`--snapshot {snapshot}`: {problem}", hint=hint)


class BadVersion(UsageError):
    def __init__(self, *, version: str, problem: str) -> None:
        super().__init__(
            f"`{version}` is not a version: {problem}", hint="correct it in the manifest"
        )


class DryRunWithReceipts(UsageError):
    def __init__(self) -> None:
        super().__init__(
            "a dry run publishes nothing, so there are no receipts to write",
            hint="leave out `--dry-run` or `--receipts`",
        )


class Told(Protocol):
    """A problem as far as a message needs it."""

    @property
    def message(self) -> str: ...

    @property
    def hint(self) -> str | None: ...

    @property
    def package(self) -> str | None: ...


class PreflightFailed(ReleaseKitError):
    """All of them at once, each with what helps."""

    def __init__(self, problems: Sequence[Told]) -> None:
        message, hint = problems[0].message, problems[0].hint
        if len(problems) > 1:
            told = "".join(
                f"\n- {one.message}" + (f"\n  hint: {one.hint}" if one.hint else "")
                for one in problems
            )
            message, hint = f"{len(problems)} problems stand before this release:{told}", None
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class DirtyTree(UsageError):
    def __init__(self, *, changed: Sequence[str], committed: bool) -> None:
        shown = ", ".join(f"`{one}`" for one in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""  # noqa: PLR2004
        problem = "not in the commit" if committed else "not committed: there is no commit yet"
        verb = "is" if len(changed) == 1 else "are"
        super().__init__(
            f"{shown}{more} {verb} {problem}: nobody could build this release again",
            hint="commit, stash or ignore it, or add `--allow-dirty` to release what lies here",
        )


class NoCredential(ReleaseKitError):
    def __init__(self, *, registry: str, packages: Sequence[str], places: str) -> None:
        more = f" and {len(packages) - 3} more" if len(packages) > 3 else ""  # noqa: PLR2004
        super().__init__(
            f"there is no credential for uploads to `{registry}`: {', '.join(packages[:3])}{more}",
            hint=f"{places}; a registry that takes uploads from anybody takes any token",
        )


class FirstVersionNeedsToken(ReleaseKitError):
    def __init__(self, *, packages: Sequence[str], registry: str) -> None:
        verb = "is" if len(packages) == 1 else "are"
        super().__init__(
            f"{', '.join(packages)} {verb} new on `{registry}`, which knows no trusted publisher "
            "for a package before its first version",
            hint="publish the first version with a token, then name the trusted publisher there",
        )
