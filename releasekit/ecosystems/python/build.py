"""Packages → sdists and wheels, all at once.

uv builds a whole workspace of `uv_build` packages by itself in one process. Every other backend
lives in a warm server (build_server.py), one per environment, whose forked children call the
hooks as `uv build` would. What can be built in neither way goes through `uv build`, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from releasekit import process
from releasekit.ecosystems import Built
from releasekit.ecosystems.python import build_system
from releasekit.ecosystems.python.environments import Environments
from releasekit.ecosystems.python.filenames import name_and_version
from releasekit.ecosystems.python.hooks import Hooks, planned_version, running_servers
from releasekit.errors import OddTool, ReleaseKitError
from releasekit.model import EdgeKind, Order

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from releasekit.ecosystems import BuildRequest
    from releasekit.ecosystems.python.build_system import BuildSystem, UvSettings
    from releasekit.model import Package, Workspace


def find_uv() -> str:
    """uv on PATH, or the one installed beside our interpreter with releasekit itself."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    import uv

    return uv.find_uv_bin()


async def build(request: BuildRequest) -> None:
    async with asyncio.TaskGroup() as group:
        for batch in _batches(request):
            group.create_task(batch.run())


async def versions(request: BuildRequest) -> dict[str, str]:
    """What the backends say of packages whose version is written nowhere."""
    found: dict[str, str] = {}
    for batch in _batches(request):
        found |= await batch.versions()
    return found


def _batches(request: BuildRequest) -> Iterator[Batch]:
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
    for folder, packages in by_folder.items():
        yield Batch(
            request=request,
            uv=uv,
            folder=request.workspace.root / folder,
            packages=tuple(packages),
            systems=systems,
            needs=needs,
            done=done,
        )


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
class Batch:
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
            problem: ReleaseKitError | None = None
            try:
                await self.request.keepers.run(
                    [self.uv, "build", "--all-packages", "--no-sources", "--no-create-gitignore",
                     "--color", "never", "--out-dir", str(out), str(self.folder)],
                    cwd=self.folder,
                    env=self.environ,
                    log=log,
                    timeout=self.request.timeout,
                    started=self._tell_start,
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

    def _tell_start(self) -> None:
        for package in self.packages:
            self.request.started(package.id)

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
        async with self._each(settings, interpreter) as ones, asyncio.TaskGroup() as group:
            for one in ones:
                group.create_task(self._build_in_turn(one))

    async def versions(self) -> dict[str, str]:
        interpreter = await self._interpreter()
        self.environ = {**self.request.environ, "UV_PYTHON": interpreter}
        settings = build_system.read_uv_settings(self.folder)
        async with self._each(settings, interpreter) as ones:
            told = [(one.package.id, await one.version()) for one in ones]
        return {package: version for package, version in told if version is not None}

    @contextlib.asynccontextmanager
    async def _each(self, settings: UvSettings, interpreter: str) -> AsyncIterator[list[Hooks]]:
        """The packages, with the environments and the servers that they share."""
        environments = Environments(
            uv=self.uv,
            interpreter=interpreter,
            cwd=self.folder,
            environ=self.environ,
            scratch=self.request.scratch,
            constraints=settings.constraints,
        )
        try:
            async with running_servers() as servers:
                yield [
                    Hooks(
                        batch=self,
                        package=package,
                        system=self.systems[package.id],
                        settings=settings,
                        environments=environments,
                        servers=servers,
                        environ=self.environ | planned_version(package, self.systems[package.id]),
                    )
                    for package in self.packages
                ]
        finally:
            await environments.close()

    async def _build_in_turn(self, one: Hooks) -> None:
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

    async def _ended(self, one: Hooks) -> Built:
        package, notes = one.package.id, one.notes
        try:
            files = await one.build()
        except ReleaseKitError as error:
            return Built(package=package, error=error.message, hint=error.hint, notes=tuple(notes))
        return Built(package=package, files=files, notes=tuple(notes))
