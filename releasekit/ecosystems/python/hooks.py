"""One package through the PEP 517 hooks of its backend, in a warm server where that can be."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name

from releasekit import keeper, process
from releasekit.ecosystems.python import build_server, build_system
from releasekit.ecosystems.python.filenames import name_and_version
from releasekit.errors import BuildFailed, ServerEnded
from releasekit.workers import JobServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from releasekit.ecosystems import BuildRequest
    from releasekit.ecosystems.python.build import Batch
    from releasekit.ecosystems.python.build_system import BuildSystem, UvSettings
    from releasekit.ecosystems.python.environments import Environment, Environments
    from releasekit.model import Package

_IN_TREE = ""


def planned_version(package: Package, system: BuildSystem) -> dict[str, str]:
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


class Servers:
    """The warm servers of a run, started when the first package asks for them."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: dict[tuple[Path, str], JobServer] = {}

    def get(self, environment: Environment, backend: str, *, batch: Batch) -> JobServer:
        variables = environment.variables(batch.environ)
        return self._get(environment.folder, environment.python, backend, batch, variables)

    def without_environment(self, *, batch: Batch) -> JobServer:
        """A server that runs programs and imports nothing."""
        return self._get(Path(), Path(sys.executable), "", batch, batch.environ)

    def _get(
        self, key: Path, python: Path, backend: str, batch: Batch, environ: Mapping[str, str]
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
async def running_servers() -> AsyncIterator[Servers]:
    async with asyncio.TaskGroup() as group:
        servers = Servers(group)
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
class Hooks:
    """One package on its way through the hooks."""

    batch: Batch
    package: Package
    system: BuildSystem
    settings: UvSettings
    environments: Environments
    servers: Servers
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

    async def version(self) -> str | None:
        """What the backend calls it now; None where it cannot be asked."""
        out = self.request.artifacts[self.package.id]
        (self.request.scratch / out.name).mkdir()
        source = self.request.workspace.root / self.package.path
        target = _Target(name="metadata", source=source, unpack=None, unpack_to=None)
        value, _ = await self._build_target(target, out)
        if value is None:
            return None
        made = out / str(value["file"])
        if named := name_and_version(made.name):
            return str(named[1])
        metadata, _ = parse_email(await asyncio.to_thread((made / "METADATA").read_bytes))
        return metadata.get("version")

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
        await self.request.keepers.run(
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
