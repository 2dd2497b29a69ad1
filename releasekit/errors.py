"""Every way a run can end badly that a person can cause or mend.

ReleaseKitError                 exit 1
├── ToolMissing, OddTool, ChildFailed, ChildTimedOut, ServerEnded, BuildFailed
├── LockUnavailable             ─ LocksUnsupported
├── PinsFailed                  ─ PinsRefused, ManifestChanged, RecoveryFailed
├── JobTimedOut, JobCancelled   how an attempt of the scheduler can end without an error of its own
├── DoNotRetry                  what a job raises, or lets its errors inherit: no other attempt
│   └── UploadRefused, NotAuthorised, QuotaReached, OtherBytes, NeverVisible,
│       TrustedPublishingRefused, JournalNotWritten
├── RetryAt                     another attempt, but not before a time
│   └── RateLimited, ReadsLimited
├── TransientRefusal, LostUpload, TrustedPublishingFailed, PreflightFailed
├── NothingRunning, NotListening, NoAnswer, WishRefused
├── DamagedJournal              ─ ForeignJournal
├── UsageError                  exit 2: the command line, the configuration or a manifest is wrong
│   ├── CyclicGraph, DuplicatePackage, BadSetting
│   ├── UnknownPackage, AmbiguousPackage, OptionNeedsPackage, UnknownGroup
│   ├── ConfigError             ├ UnknownKey, WrongType, BadValue, TwoConfigs, UnknownRegistry,
│   │                             RegistryOfOtherKind
│   ├── UnsendableCredential, UnreadableCredentials
│   ├── ManifestError           ├ MissingManifest, UnreadableManifest, BrokenManifest,
│   │                             WrongManifest, MemberOutside, NoPackages
│   └── PinError                └ BoundExcludesSibling, DirectReference, DynamicField, …
├── Interrupted                 exit 3: stopped on purpose; running again continues
│   └── PinsInterrupted
├── Locked                      exit 4: another release is running here
│   └── LockHeld
└── NeedsRecovery               exit 5: files wait for a decision of yours
    └── EditConflict, BrokenIntent

A class writes its message and its hint; `__main__` alone turns the class into an exit code.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Protocol

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


class Interrupted(ReleaseKitError):
    pass


class Locked(ReleaseKitError):
    pass


class NeedsRecovery(ReleaseKitError):
    pass


class DoNotRetry(ReleaseKitError):
    """Another attempt cannot help."""


# Child processes


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


# Configuration


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


# Credentials


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


# Events and journal


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


# Steering a run from another terminal


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


# The command line


class NoSuchFolder(UsageError):
    def __init__(self, *, folder: Path) -> None:
        super().__init__(f"there is no folder `{folder}`", hint="check what follows `--root`")


# Registries and artifacts


class RegistryUnreachable(ReleaseKitError):
    def __init__(self, *, url: str, problem: str) -> None:
        super().__init__(
            f"`{url}` cannot be read: {problem}",
            hint="check the address in the config or `--registry`, then run the command again",
        )


class OddAnswer(ReleaseKitError):
    def __init__(self, *, url: str, status: int, words: str) -> None:
        super().__init__(
            f"`{url}` answered {status}: {words[:300]}",
            hint="check the address and the credential, then run the command again",
        )


class IndexUnknown(UsageError):
    def __init__(self, *, registry: str) -> None:
        super().__init__(
            f"registry `{registry}` has an upload address but no index to read files back from",
            hint=f"set `index-url` beside `upload-url` in `[registries.{registry}]`",
        )


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


class OtherSnapshot(UsageError):
    def __init__(self, *, run: str, snapshot: str | None) -> None:
        what = f"publishes the snapshot {snapshot}" if snapshot else "publishes no snapshot"
        super().__init__(
            f"run {run} {what}, not the one after `--snapshot`",
            hint="leave `--snapshot` out: `--resume` takes the versions of the run; or leave "
            "`--resume` out to publish another snapshot",
        )


class DryRunWithReceipts(UsageError):
    def __init__(self) -> None:
        super().__init__(
            "a dry run publishes nothing, so there are no receipts to write",
            hint="leave out `--dry-run` or `--receipts`",
        )


class UnreadableArtifact(ReleaseKitError):
    def __init__(self, *, file: Path, problem: str) -> None:
        super().__init__(f"`{file}` cannot be read: {problem}", hint="build it again")


# A run


class NothingToPublish(UsageError):
    def __init__(self, *, root: Path) -> None:
        super().__init__(
            f"no publishable package was found in `{root}`",
            hint="`releasekit` shows what was found and why it is not publishable",
        )


class UnknownVersion(UsageError):
    def __init__(self, *, package: str, manifest: str) -> None:
        super().__init__(
            f"the version of {package} is not written in `{manifest}`",
            hint="write it there, or exclude the package with `exclude` in the config",
        )


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


# Packages named on the command line


class UnknownPackage(UsageError):
    def __init__(self, *, package: str, did_you_mean: str | None) -> None:
        super().__init__(
            f"there is no package `{package}` here",
            hint=f"did you mean `{did_you_mean}`?"
            if did_you_mean
            else "`releasekit discover` lists the packages",
        )


class AmbiguousPackage(UsageError):
    def __init__(self, *, package: str, candidates: Sequence[str]) -> None:
        super().__init__(
            f"`{package}` is the name of several packages",
            hint=f"give the id: {', '.join(f'`{one}`' for one in candidates)}",
        )


class OptionNeedsPackage(UsageError):
    def __init__(self, *, option: str) -> None:
        super().__init__(
            f"`{option}` needs a package to start from", hint=f"add `--package NAME` to `{option}`"
        )


# lock


class LockHeld(Locked):
    def __init__(self, *, lock: str, holder: str | None, waited: float = 0.0) -> None:
        who = holder or "another process"
        waiting = f" after waiting {waited:g} s" if waited else ""
        super().__init__(
            f"another release is running here{waiting}: {who} holds `{lock}`",
            hint="wait for it with `--lock-timeout SECONDS`, or look at it with "
            "`releasekit status`",
        )
        self.lock = lock
        self.holder = holder


class LockUnavailable(ReleaseKitError):
    def __init__(self, *, lock: str, reason: str) -> None:
        super().__init__(
            f"the lock file `{lock}` cannot be used: {reason}",
            hint="releasekit must be able to create and write files in that folder",
        )


class LocksUnsupported(LockUnavailable):
    def __init__(self, *, lock: str, reason: str) -> None:
        super().__init__(lock=lock, reason=f"this filesystem has no file locks ({reason})")
        self.hint = (
            "release from a clone on a local filesystem: without a lock two runs could collide"
        )


# pins: the transaction


class PinsFailed(ReleaseKitError):
    """A system call failed; the files are as they were unless the hint says otherwise."""

    def __init__(self, *, path: str, reason: str, hint: str | None = None) -> None:
        super().__init__(f"pinning stopped at `{path}`: {reason}", hint=hint)


class PinsRefused(PinsFailed):
    """Nothing was touched."""

    def __init__(self, *, path: str, reason: str, hint: str) -> None:
        super().__init__(path=path, reason=reason, hint=hint)
        self.message = f"`{path}` cannot be pinned: {reason}"


class ManifestChanged(PinsFailed):
    def __init__(self, *, path: str) -> None:
        super().__init__(
            path=path,
            reason="it was changed by someone else while it was being pinned; the change is kept",
            hint="run the command again",
        )


class RecoveryFailed(PinsFailed):
    def __init__(self, *, path: str, reason: str, journal: str) -> None:
        super().__init__(
            path=path,
            reason=reason,
            hint=f"the originals are safe in `{journal}`; `releasekit recover` tries again",
        )
        self.message = f"`{path}` could not be restored: {reason}"


class PinsInterrupted(Interrupted):
    def __init__(self, *, signal: str) -> None:
        super().__init__(
            f"stopped by {signal} while manifests were pinned; all of them are restored",
            hint="run the command again",
        )


class EditConflict(NeedsRecovery):
    def __init__(self, *, paths: tuple[str, ...]) -> None:
        names = ", ".join(f"`{path}`" for path in paths)
        super().__init__(
            f"edited while pinned, and nobody but you can tell which text is right: {names}",
            hint="look at the files, then `releasekit recover --keep-mine` or "
            "`releasekit recover --use-original`",
        )
        self.paths = paths


class BrokenIntent(NeedsRecovery):
    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(
            f"`{path}` says which manifests are pinned, but {reason}",
            hint="compare the manifests with the originals kept beside that file, "
            "then remove its folder",
        )


class TwoDecisions(UsageError):
    def __init__(self) -> None:
        super().__init__(
            "`--keep-mine` and `--use-original` exclude each other",
            hint="run `releasekit recover` without them to see what there is to decide",
        )


# pins: what is written into a manifest


class PinError(UsageError):
    """A manifest cannot be given its siblings' versions."""


class UnpinnableManifest(PinError):
    def __init__(self, *, manifest: str, reason: str) -> None:
        super().__init__(
            f"`{manifest}` cannot be pinned: {reason}", hint=f"change `{manifest}` and run again"
        )


class BoundExcludesSibling(PinError):
    def __init__(self, *, manifest: str, requirement: str, sibling: str, version: str) -> None:
        super().__init__(
            f"`{manifest}` requires `{requirement}`, which excludes the workspace's own "
            f"`{sibling}` {version}",
            hint=f"change the bound in `{manifest}`, or give the package the pin policy `keep` "
            f"if it needs an older `{sibling}` on purpose",
        )


class DirectReference(PinError):
    def __init__(self, *, manifest: str, requirement: str, sibling: str) -> None:
        super().__init__(
            f"`{manifest}` requires `{requirement}`: an address cannot be published as a "
            f"requirement on `{sibling}`",
            hint=f"write a plain version requirement on `{sibling}` and let the workspace "
            "provide the local copy",
        )


class LocalDependency(PinError):
    def __init__(self, *, manifest: str, name: str, value: str) -> None:
        super().__init__(
            f"`{manifest}` requires `{name}` as `{value}`, which only works on this machine",
            hint=f"make `{name}` a package of the workspace, or require a published version",
        )


class DynamicField(PinError):
    def __init__(self, *, manifest: str, field: str) -> None:
        super().__init__(
            f"`{manifest}` computes `{field}` while building, where a pin cannot reach it",
            hint=f"list `{field}` in the manifest, or give the package the pin policy `keep` "
            "if it is right without a pin",
        )


class DynamicVersion(PinError):
    def __init__(self, *, manifest: str) -> None:
        super().__init__(
            f"`{manifest}` computes its version while building, so no other can be written",
            hint="write `version` in the manifest, or set the version by the build backend's own "
            "means (setuptools-scm and hatch-vcs read SETUPTOOLS_SCM_PRETEND_VERSION_FOR_<NAME>)",
        )


class SiblingVersionUnknown(PinError):
    def __init__(self, *, manifest: str, requirement: str, sibling: str) -> None:
        super().__init__(
            f"`{manifest}` requires `{requirement}`, but only a build can tell the version of "
            f"`{sibling}`",
            hint=f"write the version of `{sibling}` in its manifest, or give the package the pin "
            "policy `keep`",
        )


class SiblingUnknown(PinError):
    def __init__(self, *, manifest: str, name: str, value: str) -> None:
        super().__init__(
            f"`{manifest}` requires `{name}` as `{value}`, but the workspace has no such package",
            hint=f"correct the name in `{manifest}`, or require a published version",
        )


class CatalogEntryMissing(PinError):
    def __init__(self, *, manifest: str, name: str, catalog: str) -> None:
        super().__init__(
            f"`{manifest}` takes `{name}` from the catalog `{catalog}`, which has no such entry",
            hint="add the entry to the workspace's catalog",
        )


class StoppedBySignal(Interrupted):
    def __init__(self, *, signal: str) -> None:
        super().__init__(
            f"stopped by {signal}; the manifests are as they were",
            hint="run the same command again to continue",
        )


# scheduler


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


class TrustedPublishingFailed(ReleaseKitError):
    def __init__(self, *, step: str, problem: str) -> None:
        super().__init__(
            f"trusted publishing failed while {step}: {problem}",
            hint="run the same command again; what was published stays so",
        )
        self.told = f"{step}: {problem}"


class TrustedPublishingRefused(DoNotRetry):
    def __init__(self, *, step: str, problem: str, hint: str | None = None) -> None:
        super().__init__(
            f"trusted publishing was refused while {step}: {problem}",
            hint=hint
            or "compare the publisher registered there with this repository, workflow "
            "and environment",
        )
        self.told = f"{step}: {problem}"


# Attestations


class CannotAttest(DoNotRetry):
    """`required`: the configuration says that nothing goes out unsigned."""

    def __init__(self, message: str, *, hint: str, required: bool) -> None:
        super().__init__(message, hint=hint)
        self.required = required


class SignerMissing(CannotAttest):
    def __init__(self, *, registry: str, required: bool) -> None:
        super().__init__(
            f"the files for `{registry}` cannot be signed: the libraries for it are not installed",
            hint="install `releasekit[attestations]`, for example with "
            "`uv tool install 'releasekit[attestations]'`",
            required=required,
        )


class SigningRefused(CannotAttest):
    def __init__(self, *, what: str, problem: str, hint: str | None, required: bool) -> None:
        super().__init__(
            f"{what} cannot be signed: {problem}",
            hint=hint or 'mend that, or set `attestations = "never"`',
            required=required,
        )


class SigningFailed(ReleaseKitError):
    def __init__(self, *, what: str, problem: str) -> None:
        super().__init__(
            f"signing {what} failed: {problem}",
            hint="run the same command again; nothing is uploaded before all is signed",
        )


class WrongAttestation(DoNotRetry):
    def __init__(self, *, file: Path, problem: str) -> None:
        super().__init__(
            f"`{file}` does not attest to the file beside it: {problem}",
            hint="look for the build step that made it; without it the file is signed anew",
        )


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


class SystemRefused(ReleaseKitError):
    """A full disk, a missing permission: what the operating system says, with the file."""

    def __init__(self, error: OSError) -> None:
        where = f"`{error.filename}`: " if error.filename else ""
        super().__init__(
            f"{where}{error.strerror or error}",
            hint="mend that, then run the same command again",
        )


# What an upload can end in


class UploadRefused(DoNotRetry):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"the registry refused `{file}`: {words}",
            hint=f"mend what it says about {package}, then run `releasekit publish` again",
        )


class OtherBytes(DoNotRetry):
    def __init__(self, *, package: str, file: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"the registry serves other bytes as `{file}`: {theirs}, ours are {ours}",
            hint=f"this version of {package} is taken; release a new one",
        )


class NeverVisible(DoNotRetry):
    def __init__(self, *, package: str, file: str, seconds: float) -> None:
        super().__init__(
            f"`{file}` was accepted, but the registry did not show it within {seconds:g} s",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class TransientRefusal(ReleaseKitError):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"the registry could not take `{file}`: {words}",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class LostUpload(ReleaseKitError):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"`{file}` was sent, but {words}, and the registry does not show it",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class RateLimited(RetryAt):
    DEFAULT_SECONDS = 10.0

    def __init__(self, *, file: str, words: str, seconds: float | None, now: float) -> None:
        wait = self.DEFAULT_SECONDS if seconds is None else seconds
        super().__init__(
            f"the registry asks to wait {wait:g} s before `{file}`: {words}",
            not_before=now + wait,
            closes_lane=True,
            hint="run `releasekit publish` again later to continue",
        )


class QuotaReached(DoNotRetry):
    def __init__(self, *, package: str, words: str, seconds: float | None) -> None:
        when = "tomorrow"
        if seconds is not None:
            when = time.strftime("at %Y-%m-%d %H:%M", time.localtime(time.time() + seconds))
        super().__init__(
            f"the registry takes no more new projects for now: {words}",
            hint=f"run `releasekit publish` again {when}; it continues with {package}",
        )


class NotAuthorised(DoNotRetry):
    def __init__(self, *, package: str, file: str, words: str, credential: str = "") -> None:
        which = f" ({credential})" if credential else ""
        hint = f"check the credential for {package}{which}"
        if credential == "trusted publishing":
            # The token is good; it is not for this project.
            hint = f"register this repository and workflow as a trusted publisher of {package}, too"
        super().__init__(
            f"the registry does not let us publish `{file}`: {words}",
            hint=f"{hint}, then run `releasekit publish` again",
        )


# Resuming


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


# Uploads: what is asked for beforehand


class CredentialRefused(ReleaseKitError):
    def __init__(
        self, *, registry: str, credential: str, words: str, anonymous: bool = False
    ) -> None:
        super().__init__(
            f"`{registry}` does not know the credential from {credential}: {words}",
            hint=f"make a new token for `{registry}` and put it where the old one was",
        )
        self.anonymous = anonymous
        """It was not refused: the registry only knows nobody by it."""


class ReadsLimited(RetryAt):
    def __init__(self, *, url: str, seconds: float, now: float) -> None:
        super().__init__(
            f"the registry asks to wait {seconds:g} s before `{url}` is read again",
            not_before=now + seconds,
            closes_lane=True,
            hint="run `releasekit publish` again later to continue",
        )


# Journals, state and receipts


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


# Selection and preflight


class UnknownGroup(UsageError):
    def __init__(self, *, group: str, did_you_mean: str | None, known: Sequence[str]) -> None:
        names = ", ".join(f"`{name}`" for name in known)
        super().__init__(
            f"there is no group `{group}` in the configuration",
            hint=f"did you mean `{did_you_mean}`?"
            if did_you_mean
            else f"the groups are {names}"
            if known
            else f'write `{group} = ["NAME", …]` under `[groups]` in `releasekit.toml`',
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


# Rehearsing


class NotEmbedded(ReleaseKitError):
    def __init__(self, *, package: str, address: str) -> None:
        super().__init__(
            f"a rehearsal would have sent {package} to {address}",
            hint="nothing was sent; please report this: a rehearsal knows no registry but its own",
        )


class FolderTaken(UsageError):
    def __init__(self, *, folder: Path) -> None:
        super().__init__(f"`{folder}` is not empty", hint="name a folder that does not exist yet")
