"""Packages → tarballs, by the workspace's own package manager, many in one process.

No tool uses more than one core for it, so many packages go to one process a core.

Each tool applies its own rules: files, publishConfig, lifecycle scripts. Siblings' versions are
pinned before, so none of them has to know a workspace protocol. Where a batch fails, what it did
not pack is packed again one by one: so every package has its own log and its own error.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit import process
from releasekit.ecosystems import Built
from releasekit.ecosystems.node import package_json, tools
from releasekit.ecosystems.node.tarball import NEEDS_NODE, file_name
from releasekit.ecosystems.node.tools import Dialect
from releasekit.errors import OddTool, ReleaseKitError
from releasekit.manifest import read_json, read_text, table
from releasekit.model import EdgeKind, Order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from releasekit.ecosystems import BuildRequest
    from releasekit.model import Package

NEEDS_TOOL = "install it, for example with `corepack enable`"
_SCRIPT = "build"
# Fewer packages than this do not outweigh another start of the tool.
_WORTH_A_PROCESS = 40
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\??\}")
# npm and pnpm 10 begin with a parcel, pnpm 12 with a word.
_HEADING = re.compile(r"(?:📦 +|package: )(?P<name>@?[^@\s]+)@\S+\s*$")


async def build(request: BuildRequest) -> None:
    by_folder: dict[str, list[Package]] = {}
    for package in request.packages:
        member = request.workspace.member_of(package)
        by_folder.setdefault(member.root if member else package.path, []).append(package)
    batches = [_batch(request, folder, tuple(found)) for folder, found in by_folder.items()]
    await _run_scripts(request, batches)
    async with asyncio.TaskGroup() as group:
        for number, batch in enumerate(batches):
            group.create_task(batch.run(request.scratch / f"packed-{number}"))


def _batch(request: BuildRequest, folder: str, packages: tuple[Package, ...]) -> _Batch:
    path = request.workspace.root / folder
    setup = tools.read(path, warn=lambda _: None)
    dialect = setup.dialect if setup else Dialect.NPM
    return _Batch(
        request=request,
        folder=path,
        dialect=dialect,
        program=_program(path, dialect),
        packages=packages,
        environ=_without_missing_references(path, request.environ),
    )


def _program(folder: Path, dialect: Dialect) -> tuple[str, ...]:
    if dialect is Dialect.NPM:
        return (process.find_tool("npm", hint=NEEDS_NODE),)
    name = "pnpm" if dialect is Dialect.PNPM else "yarn"
    if dialect is Dialect.YARN and shutil.which(name) is None:
        # A repository may carry its own yarn.
        found = re.search(
            r"^yarnPath: *(\S+)", read_text(folder / tools.YARN_SETTINGS) or "", re.MULTILINE
        )
        if found:
            node = process.find_tool("node", hint=NEEDS_NODE)
            return (node, str(folder / found[1].strip("\"'")))
    return (process.find_tool(name, hint=NEEDS_TOOL),)


def _without_missing_references(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings may name a token that builds do not get; yarn refuses to start without it."""
    names: set[str] = set()
    for file in (".npmrc", tools.YARN_SETTINGS):
        names.update(_REFERENCE.findall(read_text(folder / file) or ""))
    return {**dict.fromkeys(names - set(environ), ""), **environ}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The packages of one workspace, and the tool that owns it."""

    request: BuildRequest
    folder: Path
    dialect: Dialect
    program: tuple[str, ...]
    packages: tuple[Package, ...]
    environ: Mapping[str, str]

    async def run(self, out: Path) -> None:
        together, alone = self._split()
        processes = max(1, min(self.request.slots.width, len(together) // _WORTH_A_PROCESS))
        async with asyncio.TaskGroup() as group:
            for number in range(processes if together else 0):
                part = together[number::processes]
                group.create_task(self._pack_part(part, out / f"part-{number}"))
            for package in alone:
                group.create_task(self._pack_alone(package, out / "alone", again=False))

    async def _pack_part(self, packages: Sequence[Package], out: Path) -> None:
        left = await self._pack_together(packages, out)
        async with asyncio.TaskGroup() as group:
            for package in left:
                group.create_task(self._pack_alone(package, out / "alone", again=True))

    def _split(self) -> tuple[tuple[Package, ...], tuple[Package, ...]]:
        """Who can share a process: members of the workspace whose tarballs differ in name."""
        if self.dialect is Dialect.YARN_1:  # it packs one package a process
            return (), self.packages
        together: dict[str, Package] = {}
        for package in self.packages:
            if self._folder_of(package) != self.folder:
                together.setdefault(file_name(package), package)
        if len(together) == 1:
            together = {}
        return (
            tuple(together.values()),
            tuple(one for one in self.packages if one not in together.values()),
        )

    def _folder_of(self, package: Package) -> Path:
        return self.request.workspace.root / package.path

    async def _pack_together(self, packages: Sequence[Package], out: Path) -> tuple[Package, ...]:
        """Those that are not packed afterwards."""
        out.mkdir(parents=True)  # noqa: ASYNC240 - one folder
        log = out.with_suffix(".log")
        failed = False
        async with self.request.slots.taken() as may_start:
            if not may_start:
                return ()
            try:
                await self.request.keepers.run(
                    [*self.program, *self._arguments(packages, out)],
                    cwd=self.folder,
                    env=self.environ,
                    log=log,
                    timeout=self.request.timeout,
                    started=lambda: self._tell_start(packages),
                )
            except ReleaseKitError:
                failed = True
        self._split_log(log, packages)
        packed = {package: out / self._packed_as(package) for package in packages}
        missing = tuple(package for package, file in packed.items() if not file.is_file())
        if failed and not missing:
            return tuple(packages)  # it failed at the very end; one by one, it shows where
        for package, file in packed.items():
            if package not in missing:
                self.request.finished(self._handed_over(package, file))
        return missing

    def _tell_start(self, packages: Sequence[Package]) -> None:
        for package in packages:
            self.request.started(package.id)

    def _packed_as(self, package: Package) -> str:
        name = file_name(package)
        scoped = self.dialect is Dialect.YARN and package.name.startswith("@")
        return f"@{name}" if scoped else name

    def _arguments(self, packages: Sequence[Package], out: Path) -> list[str]:
        match self.dialect:
            case Dialect.PNPM:
                chosen = [f"--filter={package.name}" for package in packages]
                return ["--recursive", *chosen, "pack", "--pack-destination", str(out)]
            case Dialect.YARN:
                chosen = [f"--include={package.name}" for package in packages]
                pack = ["pack", "--out", str(out / "%s-%v.tgz")]
                return ["workspaces", "foreach", "--all", *chosen, *pack]
            case _:
                # As folders: with `--workspace` for each, npm takes half as long again.
                chosen = [str(self._folder_of(package)) for package in packages]
                return ["pack", *chosen, "--pack-destination", str(out)]

    async def _pack_alone(self, package: Package, out: Path, *, again: bool) -> None:
        async with self.request.slots.taken() as may_start:
            if not may_start:
                return
            if not again:
                self.request.started(package.id)
            folder = out / self.request.artifacts[package.id].name
            folder.mkdir(parents=True)
            match self.dialect:
                case Dialect.YARN:
                    where = ["--out", str(folder / "package.tgz")]
                case Dialect.YARN_1:
                    where = ["--filename", str(folder / "package.tgz")]
                case _:
                    where = ["--pack-destination", str(folder)]
            argv = [*self.program, "pack", *where]
            try:
                await self.request.keepers.run(
                    argv,
                    cwd=self._folder_of(package),
                    env=self.environ,
                    log=self.request.logs[package.id],
                    timeout=self.request.timeout,
                )
                packed = list(folder.glob("*.tgz"))
                if len(packed) != 1:
                    raise OddTool(argv=argv, problem=f"it left {len(packed)} tarballs, not one")
                built = self._handed_over(package, packed[0])
            except ReleaseKitError as error:
                built = Built(package=package.id, error=error.message, hint=error.hint)
            self.request.finished(built)

    def _handed_over(self, package: Package, tarball: Path) -> Built:
        target = self.request.artifacts[package.id] / file_name(package)
        return Built(package=package.id, files=(process.move(tarball, target),))

    def _split_log(self, log: Path, packages: Sequence[Package]) -> None:
        """What was printed after a package's heading is its own; the rest is everyone's."""
        lines: dict[str, list[str]] = {package.name: [] for package in packages}
        current = list(lines)
        text = log.read_text("utf-8", "replace") if log.exists() else ""
        for line in text.splitlines():
            heading = _HEADING.search(line)
            if heading and heading["name"] in lines:
                current = [heading["name"]]
            for name in current:
                lines[name].append(line)
        for package in packages:
            content = "".join(f"{line}\n" for line in lines[package.name])
            self.request.logs[package.id].write_text(content, encoding="utf-8")


async def _run_scripts(request: BuildRequest, batches: Sequence[_Batch]) -> None:
    """The configured build scripts, each after those of the siblings that it may import."""
    wanted = {
        package.id: (batch, package)
        for batch in batches
        for package in batch.packages
        if request.runs_script(package) and _has_script(request.workspace.root / package.path)
    }
    needs: dict[str, set[str]] = {package: set() for package in wanted}
    for edge in request.workspace.edges:
        used = edge.order is Order.HARD or edge.kind is EdgeKind.DEV
        if used and edge.source in wanted and edge.target in wanted:
            needs[edge.source].add(edge.target)
    while needs and not request.slots.stopped:
        # Of a cycle, one has to begin.
        ready = [one for one in needs if not needs[one] & needs.keys()] or [next(iter(needs))]
        async with asyncio.TaskGroup() as group:
            for package in ready:
                group.create_task(_run_script(request, *wanted[package]))
        for package in ready:
            del needs[package]


def _has_script(folder: Path) -> bool:
    file = folder / package_json.FILE_NAME
    document = read_json(file, warn=lambda _: None) or {}
    return _SCRIPT in table(file, document, "scripts")


async def _run_script(request: BuildRequest, batch: _Batch, package: Package) -> None:
    async with request.slots.taken() as may_start:
        if not may_start:
            return
        try:
            await request.keepers.run(
                [*batch.program, "run", _SCRIPT],
                cwd=request.workspace.root / package.path,
                env=batch.environ,
                log=request.logs[package.id],
                timeout=request.timeout,
            )
        except ReleaseKitError as error:
            request.started(package.id)
            request.finished(Built(package=package.id, error=error.message, hint=error.hint))
