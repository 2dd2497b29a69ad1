"""Packages → sdists and wheels, all at once.

uv builds a whole workspace of `uv_build` packages by itself in one process. Every other backend
lives in a warm server (build_server.py), one per environment, whose forked children call the
hooks as `uv build` would. What can be built in neither way goes through `uv build`, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from releasekit import keeper, process
from releasekit.ecosystems import Built
from releasekit.ecosystems.python import build_server, build_system
from releasekit.ecosystems.python.environments import Environments
from releasekit.ecosystems.python.filenames import name_and_version
from releasekit.errors import BuildFailed, OddTool, ReleaseKitError, ServerEnded
from releasekit.model import EdgeKind, Order
from releasekit.workers import JobServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from releasekit.ecosystems import BuildRequest
    from releasekit.ecosystems.python.build_system import BuildSystem, UvSettings
    from releasekit.ecosystems.python.environments import Environment
    from releasekit.model import Package, Workspace

_IN_TREE = ""


def find_uv() -> str:
    """uv on PATH, or the one installed beside our interpreter with releasekit itself."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    import uv

    return uv.find_uv_bin()


async def build(request: BuildRequest) -> None:
    uv = find_uv()
    systems = {
        package.id: build_system.read(request.workspace.root / package.path)
        for package in request.packages
    }
    by_folder: dict[str, list[Package]] = {}
    for package in request.packages:
        member = request.workspace.member_of(package)
        by_folder.setdefault(member.root if member else package.path, []).append(package)
    needs = build_needs(request.workspace)
    done = {package.id: asyncio.Event() for package in request.packages}
    async with asyncio.TaskGroup() as group:
        for folder, packages in by_folder.items():
            batch = _Batch(
                request=request,
                uv=uv,
                folder=request.workspace.root / folder,
                packages=tuple(packages),
                systems=systems,
                needs=needs,
                done=done,
            )
            group.create_task(batch.run())


def build_needs(workspace: Workspace) -> dict[str, frozenset[str]]:
    """By package: the siblings that must be installable while it is built, and what those need."""
    hard: dict[str, set[str]] = {}
    first: dict[str, set[str]] = {}
    for edge in workspace.edges:
        if edge.order is Order.HARD:
            hard.setdefault(edge.source, set()).add(edge.target)
        if edge.kind is EdgeKind.BUILD:
            first.setdefault(edge.source, set()).add(edge.target)
    closures = {package: _closure(needs, hard) for package, needs in first.items()}
    # Of two that need each other to be built, neither can wait for the other.
    return {
        package: frozenset(
            need for need in needs if need != package and package not in closures.get(need, ())
        )
        for package, needs in closures.items()
    }


def _closure(start: set[str], needs: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    while start:
        found |= start
        start = {need for one in start for need in needs.get(one, ())} - found
    return found


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The packages of one uv workspace: one interpreter, one set of settings."""

    request: BuildRequest
    uv: str
    folder: Path
    packages: tuple[Package, ...]
    systems: Mapping[str, BuildSystem]
    needs: Mapping[str, frozenset[str]]
    done: Mapping[str, asyncio.Event]
    environ: dict[str, str] = field(default_factory=dict)
    uv_version: str = "0"

    async def run(self) -> None:
        try:
            settings = build_system.read_uv_settings(self.folder)
            interpreter = await self._interpreter()
            self.environ = {**self.request.environ, "UV_PYTHON": interpreter}
            if build_system.UV_BUILD in {self.systems[one.id].backend for one in self.packages}:
                self.uv_version = await asyncio.to_thread(self._read_uv_version)
            if self._is_for_uv_alone():
                await self._build_with_one_uv()
                return
        except ReleaseKitError as error:
            self.request.finished(
                Built(package=self.packages[0].id, error=error.message, hint=error.hint)
            )
            for package in self.packages:
                self.done[package.id].set()
            return
        await self._build_each(settings, interpreter)

    async def _interpreter(self) -> str:
        """Resolved once: uv would start one per package, and a pyenv shim takes 0.1 s each time."""
        given = self.request.environ.get("UV_PYTHON")
        if given and Path(given).is_absolute():
            return given
        argv = [self.uv, "python", "find", "--system", *([given] if given else [])]
        found = await asyncio.to_thread(
            process.output, argv, cwd=self.folder, env=self.request.environ
        )
        if not Path(found.strip()).is_absolute():
            raise OddTool(argv=argv, problem="it names no interpreter")
        return found.strip()

    def _read_uv_version(self) -> str:
        argv = [self.uv, "--version"]
        match process.output(argv, cwd=self.folder).split():
            case ["uv", version, *_]:
                return version
            case _:
                raise OddTool(argv=argv, problem="it tells no version")

    def _is_for_uv_alone(self) -> bool:
        """Whether `--all-packages` means those that were selected, and uv needs no backend."""
        selected = {package.id for package in self.packages}
        if len(selected) == 1 or not all(
            self.systems[one].admits_uv(self.uv_version) for one in selected
        ):
            return False
        workspace = self.request.workspace
        return not any(
            package.ecosystem == self.packages[0].ecosystem
            and package.id not in selected
            and (member := workspace.member_of(package)) is not None
            and workspace.root / member.root == self.folder
            and build_system.read(workspace.root / package.path).declared
            for package in workspace.packages
        )

    async def _build_with_one_uv(self) -> None:
        out, log = self.request.scratch / "all-packages", self.request.scratch / "all-packages.log"
        async with self.request.slots.taken() as may_start:
            if not may_start:
                return
            for package in self.packages:
                self.request.started(package.id)
            problem: ReleaseKitError | None = None
            try:
                await process.run(
                    [self.uv, "build", "--all-packages", "--no-sources", "--no-create-gitignore",
                     "--color", "never", "--out-dir", str(out), str(self.folder)],
                    cwd=self.folder,
                    env=self.environ,
                    log=log,
                    timeout=self.request.timeout,
                )  # fmt: skip
            except ReleaseKitError as error:
                problem = error
        self._split_log(log)
        built: dict[str, list[Path]] = {}
        for file in sorted(out.iterdir()) if out.is_dir() else ():
            if parsed := name_and_version(file.name):
                built.setdefault(parsed[0], []).append(file)
        for package in self.packages:
            files = built.get(canonicalize_name(package.name), [])
            self.request.finished(self._handed_over(package, files, problem))

    def _handed_over(
        self, package: Package, files: Sequence[Path], problem: ReleaseKitError | None
    ) -> Built:
        expected = 2  # an sdist and a wheel
        if problem is not None and len(files) < expected:
            log = self.request.logs[package.id]
            return Built(
                package=package.id,
                error=f"{problem.message.partition(chr(10))[0]}\n{process.read_tail(log)}",
                hint=f"the whole output is in `{log}`",
            )
        folder = self.request.artifacts[package.id]
        moved = [process.move(file, folder / file.name) for file in files]
        return Built(package=package.id, files=tuple(moved))

    def _split_log(self, log: Path) -> None:
        """uv starts a line with `[name]` where it speaks of one package."""
        logs = {package.name: self.request.logs[package.id] for package in self.packages}
        lines: dict[str, list[str]] = {name: [] for name in logs}
        text = log.read_text("utf-8", "replace") if log.exists() else ""
        for line in text.splitlines():
            name, bracket, _ = line.removeprefix("[").partition("]")
            if line.startswith("Successfully built "):
                continue  # said by the artifacts themselves
            of = [name] if line.startswith("[") and bracket and name in lines else lines
            for one in of:
                lines[one].append(line)
        for name, file in logs.items():
            file.write_text("".join(f"{line}\n" for line in lines[name]), encoding="utf-8")

    async def _build_each(self, settings: UvSettings, interpreter: str) -> None:
        environments = Environments(
            uv=self.uv,
            interpreter=interpreter,
            cwd=self.folder,
            environ=self.environ,
            scratch=self.request.scratch,
            constraints=settings.constraints,
        )
        try:
            async with _servers() as servers, asyncio.TaskGroup() as group:
                for package in self.packages:
                    one = _One(
                        batch=self,
                        package=package,
                        system=self.systems[package.id],
                        settings=settings,
                        environments=environments,
                        servers=servers,
                        environ=self.environ | _planned_version(package, self.systems[package.id]),
                    )
                    group.create_task(self._build_in_turn(one))
        finally:
            await environments.close()

    async def _build_in_turn(self, one: _One) -> None:
        try:
            for need in sorted(self.needs.get(one.package.id, ())):
                if need in self.done:
                    await self.done[need].wait()
                    one.offers.append(self.request.artifacts[need])
            async with self.request.slots.taken() as may_start:
                if may_start:
                    self.request.started(one.package.id)
                    self.request.finished(await self._ended(one))
        finally:
            # Also where it failed: no slot is given any more, so those that wait end as well.
            self.done[one.package.id].set()

    async def _ended(self, one: _One) -> Built:
        package, notes = one.package.id, one.notes
        try:
            files = await one.build()
        except ReleaseKitError as error:
            return Built(package=package, error=error.message, hint=error.hint, notes=tuple(notes))
        return Built(package=package, files=files, notes=tuple(notes))


def _planned_version(package: Package, system: BuildSystem) -> dict[str, str]:
    """A pinned tree is a changed one: what reads the version from git would say so in it."""
    if not system.dynamic_version or package.version is None:
        return {}
    name = canonicalize_name(package.name).replace("-", "_").upper()
    return {
        "SETUPTOOLS_SCM_PRETEND_VERSION": package.version,
        f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name}": package.version,
        "PDM_BUILD_SCM_VERSION": package.version,
        "UV_DYNAMIC_VERSIONING_BYPASS": package.version,
        "POETRY_DYNAMIC_VERSIONING_BYPASS": package.version,
    }


class _Servers:
    """The warm servers of a run, started when the first package asks for them."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: dict[tuple[Path, str], JobServer] = {}

    def get(self, environment: Environment, backend: str, *, batch: _Batch) -> JobServer:
        variables = environment.variables(batch.environ)
        return self._get(environment.folder, environment.python, backend, batch, variables)

    def without_environment(self, *, batch: _Batch) -> JobServer:
        """A server that runs programs and imports nothing."""
        return self._get(Path(), Path(sys.executable), "", batch, batch.environ)

    def _get(
        self, key: Path, python: Path, backend: str, batch: _Batch, environ: Mapping[str, str]
    ) -> JobServer:
        if (key, backend) not in self._running:
            scratch = batch.request.scratch
            server = JobServer(
                # -B: the environment stays as it was sealed.
                [str(python), "-I", "-B", build_server.__file__, keeper.__file__,
                 str(os.getpid()), backend],
                cwd=scratch,
                env=environ,
                log=scratch / f"server-{len(self._running)}-{key.name}.log",
            )  # fmt: skip
            self._group.create_task(server.run())
            self._running[key, backend] = server
        return self._running[key, backend]

    def close(self) -> None:
        for server in self._running.values():
            server.close()


@contextlib.asynccontextmanager
async def _servers() -> AsyncIterator[_Servers]:
    async with asyncio.TaskGroup() as group:
        servers = _Servers(group)
        yield servers
        servers.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    name: str
    source: Path
    unpack: Path | None
    """The sdist that the source is to be unpacked from."""
    unpack_to: Path | None
    """Where the wheel that may follow is to be built."""


@dataclass(slots=True, kw_only=True)
class _One:
    """One package on its way through the hooks."""

    batch: _Batch
    package: Package
    system: BuildSystem
    settings: UvSettings
    environments: Environments
    servers: _Servers
    environ: Mapping[str, str]
    offers: list[Path] = field(default_factory=list)
    """Folders with the siblings that it is built with."""
    notes: list[str] = field(default_factory=list)

    async def build(self) -> tuple[Path, ...]:
        out = self.request.artifacts[self.package.id]
        if self.settings.only_uv:
            reason: str | None = f"`[tool.uv]` sets `{self.settings.only_uv}`"
        else:
            try:
                if self.system.admits_uv(self.batch.uv_version):
                    reason = None
                    await self._build_inside_uv(out)
                else:
                    reason = await self._build_warm(out)
            except ServerEnded as error:
                reason = error.message
        if reason is not None:
            self.notes.append(f"built by `uv build`, which is slower: {reason}")
            await self._build_with_uv(out)
        return tuple(sorted(out.iterdir()))

    @property
    def request(self) -> BuildRequest:
        return self.batch.request

    @property
    def log(self) -> Path:
        return self.request.logs[self.package.id]

    async def _build_inside_uv(self, out: Path) -> None:
        """uv is its own `uv_build` where the versions agree, and takes no environment for it."""
        server = self.servers.without_environment(batch=self.batch)
        self._check(
            await server.ask(
                argv=self._uv_arguments(out),
                source=str(self.batch.folder),
                log=str(self.log),
                timeout=self.request.timeout,
                env={},
            ),
            "uv build",
        )

    async def _build_warm(self, out: Path) -> str | None:
        """None when it is built, else why it cannot be built so."""
        # The name of a folder without `:`, which means something in addresses.
        scratch = self.request.scratch / out.name
        scratch.mkdir()
        unpacked = scratch / "unpacked"
        sdist = _Target(
            name="sdist",
            source=self.request.workspace.root / self.package.path,
            unpack=None,
            unpack_to=unpacked,
        )
        value, reason = await self._build_target(sdist, out)
        if value is not None and not (value.get("wheel") or {}).get("file"):
            name = out / self._built(sdist, value, out)
            wheel = _Target(name="wheel", source=unpacked, unpack=name, unpack_to=None)
            value, reason = await self._build_target(wheel, out)
            if value is not None:
                self._built(wheel, value, out)
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return reason

    async def _build_target(
        self, target: _Target, out: Path
    ) -> tuple[dict[str, Any] | None, str | None]:
        """What the backend needs, then the artifact; or why that cannot be."""
        server, reason = await self._server(self.system.requires)
        if server is None:
            return None, reason
        asks = self.system.backend != build_system.UV_BUILD  # it never needs more
        value = await self._call(server, target, out, ask=asks)
        if value["needs"]:
            server, reason = await self._server((*self.system.requires, *value["needs"]))
            if server is None:
                return None, reason
        if value["file"] is None and asks:
            value = await self._call(server, target, out, ask=False)
        return value, None

    def _built(self, target: _Target, value: Mapping[str, Any], out: Path) -> str:
        name = value["file"]
        if not isinstance(name, str) or not (out / name).is_file():
            raise BuildFailed(
                step=f"the {target.name} by `{self.system.backend}`",
                problem=f"it says that it made {name!r}, which is not there",
                tail=process.read_tail(self.log),
                log=self.log,
            )
        return name

    async def _server(self, requires: Sequence[str]) -> tuple[JobServer | None, str | None]:
        links = self._find_links() if self.offers else None
        environment = await self.environments.get(requires, self.log, find_links=links)
        backend = _IN_TREE if self.system.backend_path else self.system.backend
        server = self.servers.get(environment, backend, batch=self.batch)
        ready = await asyncio.shield(server.ready)
        return (None, str(ready["problem"])) if ready["problem"] else (server, None)

    def _find_links(self) -> Path:
        """One folder with the fresh wheels; the same siblings, the same folder."""
        names = sorted(folder.name for folder in self.offers)
        folder = self.request.scratch / "find-links" / "+".join(names)[:200]
        folder.mkdir(parents=True, exist_ok=True)
        for offer in self.offers:
            for wheel in offer.glob("*.whl"):
                if not (folder / wheel.name).exists():
                    shutil.copy2(wheel, folder / wheel.name)
        return folder

    async def _call(
        self, server: JobServer, target: _Target, out: Path, *, ask: bool
    ) -> dict[str, Any]:
        result = self.request.scratch / self.request.artifacts[self.package.id].name / "result.json"
        with contextlib.suppress(FileNotFoundError):
            result.unlink()
        answer = await server.ask(
            target=target.name,
            ask=ask,
            out=str(out),
            backend=self.system.backend,
            backend_path=self.system.backend_path,
            source=str(target.source),
            unpack=str(target.unpack) if target.unpack else None,
            unpack_to=str(target.unpack_to) if target.unpack_to else None,
            result=str(result),
            log=str(self.log),
            timeout=self.request.timeout,
            env=dict(self.environ.items() - self.batch.environ.items()),
        )
        self._check(answer, f"the {target.name} by `{self.system.backend}`")
        value: dict[str, Any] = answer["value"]
        return value

    def _check(self, answer: Mapping[str, Any], step: str) -> None:
        if answer["error"] is not None:
            raise BuildFailed(
                step=step,
                problem=answer["error"],
                tail=process.read_tail(self.log),
                log=self.log,
            )

    async def _build_with_uv(self, out: Path) -> None:
        for file in out.iterdir():  # noqa: ASYNC240 - two files
            file.unlink()
        await process.run(
            self._uv_arguments(out),
            cwd=self.batch.folder,
            env=self.environ,
            log=self.log,
            timeout=self.request.timeout,
        )

    def _uv_arguments(self, out: Path) -> list[str]:
        links = ["--find-links", str(self._find_links())] if self.offers else []
        return [
            *(self.batch.uv, "build", "--no-sources", "--no-create-gitignore", *links),
            *("--out-dir", str(out), str(self.request.workspace.root / self.package.path)),
        ]
