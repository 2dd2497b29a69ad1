"""Isolated build environments, made with uv and kept between runs by what is in them.

The requirements are resolved anew in every run, as `uv build` does it, so a new release of a
backend is seen at once; the resolution, with its hashes, and the interpreter name the environment.
An environment is renamed into place when it is whole, and looked at before it is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import process
from releasekit.errors import ChildFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FORMAT = 1
_SEAL = "releasekit-seal.json"
_UNUSED_AFTER = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """As in an activated environment, so that a backend finds its tools."""
        path = f"{self.folder / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
        return {**environ, "PATH": path, "VIRTUAL_ENV": str(self.folder)}


@dataclass(slots=True, kw_only=True)
class Environments:
    """One per distinct set of requirements; asking again for the same set costs nothing."""

    uv: str
    interpreter: str
    cwd: Path
    """Where uv looks for its settings."""
    environ: Mapping[str, str]
    scratch: Path
    constraints: tuple[str, ...] = ()
    _made: dict[tuple[tuple[str, ...], Path | None], asyncio.Task[Environment]] = field(
        default_factory=dict
    )

    async def get(
        self, requirements: Sequence[str], log: Path, *, find_links: Path | None = None
    ) -> Environment:
        key = (tuple(sorted(set(requirements))), find_links)
        if key not in self._made:
            self._made[key] = asyncio.ensure_future(self._make(*key, log))
        # Several packages wait for one environment; one of them may be cancelled.
        return await asyncio.shield(self._made[key])

    async def close(self) -> None:
        for task in self._made.values():
            task.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)

    async def _make(
        self, requirements: tuple[str, ...], find_links: Path | None, log: Path
    ) -> Environment:
        folder = Path(tempfile.mkdtemp(prefix="requirements-", dir=self.scratch))
        resolved = folder / "resolved.txt"
        links = [] if find_links is None else ["--find-links", str(find_links)]
        await self._resolve(requirements, links, folder, resolved, log)
        text = resolved.read_text(encoding="utf-8")
        if any(" @ " in line for line in text.splitlines()):
            # An address may serve other bytes tomorrow.
            return await self._install(resolved, text, folder / "environment", links, log)
        kept = cache_folder(self.environ) / self._key(text)
        if _is_whole(kept):
            os.utime(kept / _SEAL)
            return Environment(folder=kept)
        return await self._keep(kept, resolved, text, links, log)

    async def _resolve(
        self,
        requirements: tuple[str, ...],
        links: Sequence[str],
        folder: Path,
        resolved: Path,
        log: Path,
    ) -> None:
        wanted, constraints = folder / "requirements.txt", folder / "constraints.txt"
        wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        constraints.write_text("".join(f"{line}\n" for line in self.constraints), encoding="utf-8")
        argv = [
            *(self.uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *("--generate-hashes", "--no-sources", "--python", self.interpreter),
            *("--constraint", str(constraints), *links),
            *("--output-file", str(resolved), str(wanted)),
        ]
        try:
            await self._run(argv, log)
        except ChildFailed as online:
            # Without a network, what uv's cache knows is enough.
            try:
                await self._run([*argv, "--offline"], log)
            except ChildFailed:
                raise online from None

    def _key(self, resolved: str) -> str:
        status = Path(self.interpreter).stat()
        identity = json.dumps([
            _FORMAT, resolved, os.path.realpath(self.interpreter), status.st_size,
            status.st_mtime_ns,
        ])  # fmt: skip
        return hashlib.sha256(identity.encode()).hexdigest()[:32]

    async def _keep(
        self, kept: Path, resolved: Path, text: str, links: Sequence[str], log: Path
    ) -> Environment:
        kept.parent.mkdir(parents=True, exist_ok=True)
        forget_unused(kept.parent)
        with tempfile.TemporaryDirectory(prefix="making-", dir=kept.parent) as name:
            made = await self._install(resolved, text, Path(name) / "environment", links, log)
            (made.folder / _SEAL).write_text(json.dumps(_listing(made.folder)))
            try:
                made.folder.rename(kept)
            except OSError:
                if not _is_whole(kept):  # broken: out of the way; whole: another run was faster
                    kept.rename(Path(name) / "broken")  # noqa: ASYNC240 - a rename
                    made.folder.rename(kept)
        return Environment(folder=kept)

    async def _install(
        self, resolved: Path, text: str, folder: Path, links: Sequence[str], log: Path
    ) -> Environment:
        # Relocatable: it is renamed when it is whole.
        await self._run(
            [self.uv, "venv", "--quiet", "--relocatable", "--python", self.interpreter,
             "--no-project", str(folder)],
            log,
        )  # fmt: skip
        made = Environment(folder=folder)
        if text.strip():
            hashes = [] if " @ " in text else ["--require-hashes"]
            argv = [
                *(self.uv, "pip", "install", "--quiet", "--no-deps", *hashes, "--no-sources"),
                # Copies: a build that writes into its environment must not reach uv's cache.
                *("--link-mode", "copy", "--compile-bytecode", "--python", str(made.python)),
                *(*links, "--requirements", str(resolved)),
            ]
            try:
                await self._run([*argv, "--offline"], log)  # resolving has downloaded most of it
            except ChildFailed:
                await self._run(argv, log)
        return made

    async def _run(self, argv: Sequence[str], log: Path) -> None:
        await process.run(argv, cwd=self.cwd, env=self.environ, log=log, timeout=600)


def cache_folder(environ: Mapping[str, str]) -> Path:
    caches = environ.get("XDG_CACHE_HOME")
    home = Path(caches) if caches else Path(environ.get("HOME") or Path.home()) / ".cache"
    return home / "releasekit" / "build-environments"


def _is_whole(folder: Path) -> bool:
    """Whether the environment is what was installed: no file changed, added or lost."""
    try:
        seal = json.loads((folder / _SEAL).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(seal == _listing(folder))


def _listing(folder: Path) -> dict[str, list[int]]:
    return dict(sorted(_files(str(folder), "")))


def _files(folder: str, prefix: str) -> Iterator[tuple[str, list[int]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in {"__pycache__", _SEAL}:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{prefix}{entry.name}/")
                continue
            status = entry.stat(follow_symlinks=False)
            # The time of the last change of status: nobody sets that one back.
            yield f"{prefix}{entry.name}", [status.st_size, status.st_ctime_ns, status.st_mode]


def forget_unused(folder: Path, *, now: float | None = None) -> None:
    """Remove environments that nobody has used for a month, and what a crash left half-made."""
    oldest = (time.time() if now is None else now) - _UNUSED_AFTER
    for environment in folder.iterdir():
        with contextlib.suppress(OSError):
            seal = environment / _SEAL
            used = (seal if seal.exists() else environment).stat().st_mtime
            if used < oldest:
                shutil.rmtree(environment, ignore_errors=True)
