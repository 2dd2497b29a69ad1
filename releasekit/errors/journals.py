"""Journals, what continues them, and runs that are steered from another terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.errors.base import DoNotRetry, ReleaseKitError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


class ForeignEvent(ReleaseKitError):
    def __init__(self, *, problem: str) -> None:
        super().__init__(f"not an event that this releasekit knows: {problem}")


_WITHOUT_IT = (
    "it may tell of sent files: `releasekit publish --fresh` goes on without it; a version that is "
    "then only partly on its registry needs a new one"
)


class DamagedJournal(ReleaseKitError):
    def __init__(self, *, path: Path, line: int, problem: str) -> None:
        super().__init__(
            f"{path}:{line}: the journal was changed or damaged: {problem}",
            hint=_WITHOUT_IT,
        )


class ForeignJournal(DamagedJournal):
    def __init__(self, *, path: Path, line: int, writer: str | None) -> None:
        by = f"releasekit {writer}" if writer else "another releasekit"
        ReleaseKitError.__init__(
            self,
            f"{path}:{line}: written by {by}, and this one cannot read it",
            hint=f"continue with {by}; {_WITHOUT_IT}",
        )


class JournalNotWritten(DoNotRetry):
    """Not one byte is sent that the journal does not tell of."""

    def __init__(self, *, path: Path, reason: str) -> None:
        super().__init__(
            f"`{path}` cannot be written: {reason}; nothing new was started",
            hint="make room, then run the same command again: it asks the registry for what was "
            "in flight",
        )


class NothingRunning(ReleaseKitError):
    def __init__(self) -> None:
        super().__init__(
            "no release is running here",
            hint="`releasekit status` shows the last one and the command that continues it; "
            "`-C DIR` looks at another repository",
        )


class NotListening(ReleaseKitError):
    def __init__(self, *, holder: str, reason: str) -> None:
        super().__init__(
            f"{holder} is running here, but does not listen: {reason}",
            hint="try again in a moment; a recovery or a cleaning cannot be steered",
        )


class NoAnswer(ReleaseKitError):
    def __init__(self, *, holder: str) -> None:
        super().__init__(
            f"{holder} is running here, but does not answer",
            hint="if it was stopped by Ctrl-Z, `fg` in its terminal or `kill -CONT` wakes it",
        )


class WishRefused(ReleaseKitError):
    def __init__(self, *, message: str) -> None:
        super().__init__(message, hint="`releasekit cancel` ends it; `releasekit status` shows it")


class OtherSnapshot(UsageError):
    def __init__(self, *, run: str, snapshot: str | None) -> None:
        what = f"publishes the snapshot {snapshot}" if snapshot else "publishes no snapshot"
        super().__init__(
            f"run {run} {what}, not the one after `--snapshot`",
            hint="leave `--snapshot` out: `--resume` takes the versions of the run; or leave "
            "`--resume` out to publish another snapshot",
        )


class TreeChanged(UsageError):
    def __init__(self, *, run: str, before: str | None, now: str | None) -> None:
        super().__init__(
            f"run {run} sent files built from commit {(before or 'none')[:12]}; "
            f"this is {(now or 'none')[:12]}",
            hint="check that commit out and run `releasekit publish` again, or give up on what was "
            "sent with `--fresh`",
        )


class KeptArtifactChanged(ReleaseKitError):
    def __init__(self, *, file: Path, run: str) -> None:
        super().__init__(
            f"`{file}` is not the file that run {run} has sent",
            hint="release a new version: the registry may hold the other bytes",
        )


class UnknownRun(UsageError):
    def __init__(self, *, run: str, last: str | None) -> None:
        known = f"the last one is {last}" if last else "none is known"
        super().__init__(
            f"there is no publish run `{run}` here; {known}",
            hint="`releasekit publish --resume` continues the last one; `--state DIR` brings those "
            "of another machine",
        )


class NothingToResume(UsageError):
    def __init__(self, *, run: str | None) -> None:
        what = f"run {run} is complete" if run else "no run has published anything here"
        super().__init__(
            f"there is nothing to resume: {what}",
            hint="`releasekit publish` publishes what is not on its registry yet",
        )


class ResumeOrFresh(UsageError):
    def __init__(self) -> None:
        super().__init__(
            "`--resume` goes on with what was sent, `--fresh` gives up on it",
            hint="choose one of them",
        )


class PlanChanged(UsageError):
    def __init__(self, *, run: str, package: str, before: str, now: str | None) -> None:
        found = f"it is {now} now" if now else "it is not published from here any more"
        super().__init__(
            f"run {run} was to publish {package} {before}; {found}",
            hint="check the commit of that run out again, or give up on what it sent with "
            "`releasekit publish --fresh`",
        )


class StateNotAFolder(UsageError):
    def __init__(self, *, folder: Path, reason: str) -> None:
        super().__init__(
            f"`{folder}` cannot keep the state of runs: {reason}",
            hint="give a folder after `--state` that can be written to",
        )


class OutNotUsable(UsageError):
    def __init__(self, *, folder: Path, reason: str) -> None:
        super().__init__(
            f"the artifacts cannot be left in `{folder}`: {reason}",
            hint="give a folder after `--out` that can be written to and has room",
        )


class ForeignState(ReleaseKitError):
    def __init__(self, *, path: Path, problem: str) -> None:
        super().__init__(
            f"`{path}` was not written by a run of releasekit, or was changed since: {problem}",
            hint="give `--state` the folder that the earlier run had, as it left it",
        )


class ReceiptsNotWritable(UsageError):
    def __init__(self, *, file: Path) -> None:
        super().__init__(
            f"receipts cannot be written to `{file}`",
            hint="give a file after `--receipts` in a folder that can be written to",
        )
