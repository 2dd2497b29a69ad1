"""Manifests, and packages that a person names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.errors.base import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
