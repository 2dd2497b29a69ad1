"""The lock, the pinned files, and what cannot be pinned."""

from __future__ import annotations

from releasekit.errors.base import Interrupted, Locked, NeedsRecovery, ReleaseKitError, UsageError


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
