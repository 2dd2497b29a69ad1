"""The questions we ask a packaging world. A folder beside this file answers them.

Adding an ecosystem adds a folder with an `ECOSYSTEM` in its `__init__`, and touches nothing else.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    import httpx

    from releasekit.attestations import Attestor
    from releasekit.config import RegistrySettings
    from releasekit.model import (
        Edge,
        Finding,
        Member,
        Package,
        PinPolicy,
        Problem,
        Workspace,
    )
    from releasekit.process import Keepers
    from releasekit.workers import Slots


DEFAULT_SETTLE = 2.0
_ATTESTATIONS = (".attestation", ".sigstore")


def is_attestation(file: Path) -> bool:
    """It lies beside an artifact and speaks of it, and is none itself."""
    return file.name.endswith(_ATTESTATIONS)


class Standing(IntEnum):
    """What a folder is to an ecosystem."""

    NOTHING = 0
    TOOLING = 1
    """A manifest that is not meant to be published: private, or only settings of tools."""
    PROJECT = 2
    WORKSPACE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What one ecosystem found below a root."""

    members: tuple[Member, ...] = ()
    packages: tuple[Package, ...] = ()
    edges: tuple[Edge, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a registry holds of one version: file names with the digest it serves them by."""

    registry: str
    files: Mapping[str, str]
    """File name → `sha256:<hex>` or `sha512:<hex>`."""
    missing: str = ""
    """What a complete version would also hold, in words."""
    known: bool = True
    """Whether the registry knows the name; False: this would be a new project."""
    highest: str | None = None
    """The highest version that is no snapshot and, for npm, no prerelease."""
    supported: str | None = None
    """npm: the highest of those that are not deprecated, which `latest` may not fall below."""
    withdrawn: bool = False
    """This version was there once; the registry never takes it again."""

    @property
    def complete(self) -> bool:
        return bool(self.files) and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the registry said to an upload. Only the hash read back says whether it is true."""

    status: int
    words: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    credential: str = ""
    """Where the credential came from that was sent along, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """When a file counts as visible."""

    private: bool = True
    """No cache stands between the registry and us."""
    settle: float = 0.0
    """Seconds after it was seen twice in a row; 0: seen once is enough."""
    within: float = 60.0

    @classmethod
    def of(cls, address: str, settings: RegistrySettings | None) -> Self:
        """As configured; a public registry's caches differ and lag."""
        from releasekit.net import is_private

        private = is_private(address)
        settle = settings.settle if settings else None
        return cls(
            private=private,
            settle=(0.0 if private else DEFAULT_SETTLE) if settle is None else settle,
            within=settings.confirm_within if settings else 60.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The registry that one package goes to, by its name, and what is configured for it."""

    package: Package
    registry: str
    settings: RegistrySettings | None
    tag: str | None = None
    """The npm dist-tag asked for in this run."""
    access: str | None = None
    """`public` or `restricted`, asked for in this run."""


class Pinner(Protocol):
    def __call__(
        self,
        package: Package,
        content: bytes,
        siblings: Mapping[str, str | None],
        policy: PinPolicy,
        snapshots: Mapping[str, str] = ...,
        version: str | None = None,
    ) -> bytes:
        """The manifest with its siblings' versions (None: only a build can tell it).

        Siblings named in `snapshots` are pinned to that version exactly, where the bounds admit the
        version of the tree; `version` becomes the package's own.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How the build of one package ended."""

    package: str
    files: tuple[Path, ...] = ()
    error: str | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()
    """What a person should know, such as a slower way that was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """All packages of one ecosystem at once, so that one process can serve many of them."""

    workspace: Workspace
    packages: tuple[Package, ...]
    artifacts: Mapping[str, Path]
    """By package: a folder of its own, empty, for what may be uploaded and nothing else."""
    logs: Mapping[str, Path]
    scratch: Path
    """Outside of the repository, so that no tool takes it for a part of it."""
    environ: Mapping[str, str]
    """What the project's code may see."""
    slots: Slots
    keepers: Keepers
    """What runs programs."""
    timeout: float
    """Seconds for one package."""
    runs_script: Callable[[Package], bool]
    """Whether a package's own build script, where its manifest has one, runs first."""
    started: Callable[[str], None]
    finished: Callable[[Built], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    package: Package
    files: tuple[Path, ...]
    folder: Path
    """Where the package lies."""
    manifest: bytes
    """As it was built: with its pins."""
    max_bytes: int


def untold(share: float) -> None:
    """Nobody wants to know how far an upload has come."""


class Verdict(StrEnum):
    """How it went to install a published package where nothing else is, and to load it."""

    OK = "ok"
    NOT_PUBLISHED = "not published"
    NOT_INSTALLED = "does not install"
    MISSING_DEPENDENCY = "missing dependency"
    LACKS_MODULE = "lacks a module"
    NOT_LOADED = "installs but does not load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    package: str
    verdict: Verdict
    words: str = ""
    """What was loaded, or the last lines of the error."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """Packages of one ecosystem that a registry on this machine serves, each to be tried alone."""

    workspace: Workspace
    packages: tuple[Package, ...]
    registry: RegistrySettings
    stored: Path
    """Where that registry keeps its files."""
    scratch: Path
    environ: Mapping[str, str]
    """Ours: settings for reading from upstream are taken from it, nothing else."""
    slots: Slots
    timeout: float
    """Seconds for one package."""
    finished: Callable[[Trial], None]


class Registry(Protocol):
    """Where one package's artifacts go."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Where uploads go, for the plan that a person reads."""

    @property
    def confirmation(self) -> Confirmation: ...

    @property
    def new_projects_a_day(self) -> int | None:
        """How many it lets one user create; None where no such limit is known."""

    def objections(self, package: Package, presence: Presence | None) -> Sequence[Problem]:
        """What its rules say to this version beside what it holds; None: it did not answer."""

    async def credential_source(self) -> str | None:
        """Where the credential for an upload comes from; None where there is none."""

    def credential_places(self) -> str:
        """Where one could be put, in words for a hint."""

    @property
    def trusts_new_projects(self) -> bool:
        """Whether trusted publishing can create one."""

    async def reach(self, client: httpx.AsyncClient) -> None:
        """Raise where nobody answers at the address for uploads; `presence` tells of the other."""

    async def whoami(self, client: httpx.AsyncClient) -> str | None:
        """Whose the credential is; None where that cannot be asked. Raises where it is refused."""

    async def attestor(self, client: httpx.AsyncClient, package: Package) -> Attestor | None:
        """How this package's files are signed; None: they are not. Raises `CannotAttest`."""

    async def presence(self, client: httpx.AsyncClient, package: Package) -> Presence: ...

    async def upload(
        self,
        client: httpx.AsyncClient,
        package: Package,
        file: Path,
        told: Callable[[float], None] = untold,
    ) -> Answer:
        """Send the file once, with the attestation that lies beside it where one is wanted.

        It is not held in memory; `told` is the share that has left.
        """


class Discovers(Protocol):
    """The part of an ecosystem that reads a repository. It writes nothing and runs nothing."""

    def standing(self, folder: Path) -> Standing:
        """What the manifest in this very folder says."""

    def discover(self, root: Path, folders: Sequence[str]) -> Discovery:
        """The workspaces and projects in these folders, given relative to the root."""


class Ecosystem(Discovers, Protocol):
    """A packaging world. Its modules are imported when a question is asked, not before."""

    name: str
    """`python`, `node`."""
    registry: str
    """`pypi`, `npm`: the prefix of its packages' ids and its default registry's name."""
    registry_keys: tuple[str, ...]
    """The keys of `[registries.NAME]` that say where such a registry is."""
    dist_tags: bool
    """Whether `--tag` and `--access` mean something to its registries."""

    def pinner(self, workspace: Workspace) -> Pinner:
        """How this workspace's manifests say which siblings they were released with."""

    def snapshot(self, version: str, highest: str | None, snapshot: str) -> str:
        """The snapshot's version: above all that is released, below what is released next."""

    def stale_locks(self, workspace: Workspace) -> Sequence[Problem]:
        """Lock files that do not say what the manifests say, as far as reading them tells."""

    async def versions(self, request: BuildRequest) -> Mapping[str, str]:
        """By package: the version that only its build system can tell, asked before pins."""

    async def build(self, request: BuildRequest) -> None:
        """Build every package of the request; tell of each that was started how it ended."""

    def inspect(self, request: InspectRequest) -> tuple[Finding, ...]:
        """What is wrong with the built files of one package; empty when they may be uploaded."""

    def named_registries(self, workspace: Workspace) -> Mapping[str, RegistrySettings]:
        """The registries that the workspace's own manifests name."""

    def registries_for(
        self, choices: Sequence[Choice], workspace: Workspace, environ: Mapping[str, str]
    ) -> Mapping[str, Registry]:
        """By package id, where each goes; `environ` may hold the credentials."""

    def upstreams(self, workspace: Workspace, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Where names that are not the workspace's own come from: by scope, `""` for the rest.

        Empty where clients can look there themselves.
        """

    async def try_out(self, request: TrialRequest) -> None:
        """Install each package in an environment of its own, load it, and tell how that went."""


@functools.cache
def all_ecosystems() -> tuple[Ecosystem, ...]:
    found = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return tuple(importlib.import_module(f"{__name__}.{name}").ECOSYSTEM for name in found)


def ecosystem_of(package: Package) -> Ecosystem:
    return next(world for world in all_ecosystems() if world.name == package.ecosystem)
