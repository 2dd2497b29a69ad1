"""What a repository holds, as frozen data. Every module speaks of these and of nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.errors import ReleaseKitError


class Order(StrEnum):
    """What an edge means for the order of a release."""

    HARD = "hard"
    SOFT = "soft"
    NONE = "none"


class EdgeKind(StrEnum):
    RUNTIME = "runtime"
    BUILD = "build"
    EXTRA = "extra"
    OPTIONAL = "optional"
    PEER = "peer"
    DEV = "dev"
    GROUP = "group"

    @property
    def order(self) -> Order:
        return _ORDER[self]


_ORDER = {
    EdgeKind.RUNTIME: Order.HARD,
    EdgeKind.BUILD: Order.HARD,
    EdgeKind.EXTRA: Order.SOFT,
    EdgeKind.OPTIONAL: Order.SOFT,
    EdgeKind.PEER: Order.SOFT,
    EdgeKind.DEV: Order.NONE,
    EdgeKind.GROUP: Order.NONE,
}


class PinPolicy(StrEnum):
    """How a sibling's version is written into a manifest that requires it."""

    EXACT = "exact"
    COMPATIBLE = "compatible"
    MINIMUM = "minimum"
    KEEP = "keep"


class Check(StrEnum):
    """What an artifact is looked at for; the word that the configuration allows a finding by."""

    FILES = "files"
    NAME = "name"
    VERSION = "version"
    REQUIREMENTS = "requirements"
    PROTOCOLS = "protocols"
    README = "readme"
    SECRETS = "secrets"
    PATHS = "paths"
    SIZE = "size"
    RECORD = "record"
    MODULES = "modules"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    ALLOWED = "allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in an artifact that its users would not want."""

    check: Check
    file: str
    message: str
    hint: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that would go wrong in a release, known before anything is built."""

    message: str
    hint: str | None
    package: str | None = None
    severity: Severity = Severity.ERROR
    error: ReleaseKitError | None = field(default=None, compare=False, repr=False)
    """The error that says it, where one does: told alone, it keeps its kind and its exit code."""

    @classmethod
    def of(
        cls,
        error: ReleaseKitError,
        package: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Self:
        return cls(
            message=error.message,
            hint=error.hint,
            package=package,
            severity=severity,
            error=error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One publishable unit. `path` and `manifest` are POSIX paths relative to the root."""

    id: str
    name: str
    ecosystem: str
    version: str | None
    """None where only a build can tell it."""
    path: str
    manifest: str
    publishable: bool
    reason: str | None = None
    """Why it is not publishable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`source` needs `target`; both are ids of packages in the workspace."""

    source: str
    target: str
    kind: EdgeKind

    @property
    def order(self) -> Order:
        return self.kind.order


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A workspace as its own tool sees it: a root folder and the tool that owns it."""

    root: str
    ecosystem: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    root: Path
    members: tuple[Member, ...]
    packages: tuple[Package, ...]
    edges: tuple[Edge, ...]
    warnings: tuple[str, ...] = ()

    def by_id(self) -> dict[str, Package]:
        """Of several packages with one id, the one that can be published."""
        found: dict[str, Package] = {}
        for package in self.packages:
            if package.publishable or package.id not in found:
                found[package.id] = package
        return found

    def member_of(self, package: Package) -> Member | None:
        """The workspace that a package belongs to: the innermost around its folder."""
        around = [
            member
            for member in self.members
            if member.ecosystem == package.ecosystem
            and (member.root == "." or f"{package.path}/".startswith(f"{member.root}/"))
        ]
        return max(around, key=lambda member: len(member.root), default=None)
