"""Build every release at once, with the manifests pinned for as long as that takes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import git, keeper, pins, process
from releasekit.ecosystems import BuildRequest, Built, ecosystem_of, is_attestation
from releasekit.events import (
    Artifact,
    BuildFinished,
    BuildStarted,
    Event,
    Noted,
    Outcome,
    ReleaseEnded,
)
from releasekit.secrets import split_url
from releasekit.workers import Slots, width_of_machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping

    from releasekit.config import Config
    from releasekit.lock import Held
    from releasekit.model import Package, Workspace
    from releasekit.pins import Edit

_CHUNK = 1 << 20
# More start when there is work for them.
_KEEPERS = 2
NOT_YET = "nothing goes on before everything is built and inspected"
_LEFT = "left-by-builds.json"
_SCRATCH_PREFIX = "releasekit-build-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """What is built and inspected, and where it lies meanwhile."""

    workspace: Workspace
    config: Config
    packages: tuple[Package, ...]
    edits: tuple[Edit, ...]
    held: Held
    folder: Path
    """The run's own."""
    emit: Callable[[Event], None]


def artifact_folder(folder: Path, package: str) -> Path:
    return folder / "artifacts" / _folder_name(package)


def log_file(folder: Path, package: str) -> Path:
    return folder / "logs" / f"{_folder_name(package)}.log"


def _folder_name(package: str) -> str:
    """Ids hold `:` and `/`; folders should not."""
    return package.replace(":", "-", 1).replace("/", "__")


async def build_all(builds: Builds) -> bool:
    """False when a build failed; the first failure keeps the others from starting."""
    if not builds.packages:
        return True
    keeper.hide_environment()  # a build could look up at its parents, and ours may hold tokens
    with _scratch(builds.held.journal) as scratch:
        environ = await asyncio.to_thread(build_environment, builds.workspace.root)
        slots = Slots(builds.config.build.jobs or width_of_machine())
        async with _waiting_keepers(min(slots.width, _KEEPERS), environ) as keepers:
            before = await asyncio.to_thread(git.changed_files, builds.workspace.root)
            run = _Running(builds=builds, slots=slots, keepers=keepers)
            async with pins.applied(builds.edits, root=builds.workspace.root, held=builds.held):
                await run.build(scratch, environ)
        after = await asyncio.to_thread(git.changed_files, builds.workspace.root)
    if written := sorted(after - before):
        _remember_left(builds.held.journal, written)
        shown = ", ".join(written[:5]) + (", …" if len(written) > 5 else "")  # noqa: PLR2004
        builds.emit(Noted(message=f"the builds left files in the repository: {shown}"))
    if run.failed:
        _cancel_others(builds, run.failed)
    return not run.failed


def _remember_left(home: Path, written: Iterable[str]) -> None:
    """The next run is not to take them for somebody's changes."""
    known = sorted({*left_by_builds(home), *written})
    (home / _LEFT).write_text(json.dumps(known), encoding="utf-8")


def left_by_builds(home: Path) -> tuple[str, ...]:
    """What earlier builds left in the repository, relative to its top."""
    try:
        return tuple(map(str, json.loads((home / _LEFT).read_bytes())))
    except (OSError, ValueError, TypeError):
        return ()


@contextlib.asynccontextmanager
async def _waiting_keepers(
    count: int, environ: Mapping[str, str]
) -> AsyncIterator[process.Keepers]:
    """They start while git answers and the manifests are pinned."""
    keepers = process.Keepers()
    try:
        await keepers.prepare(count, environ)
        yield keepers
    finally:
        await keepers.close()


async def with_versions(workspace: Workspace, config: Config, home: Path) -> Workspace:
    """The workspace with the versions that only build systems can tell, such as those from git.

    They are asked before anything is pinned: a pinned tree is a changed one. `home` is where a
    killed run leaves word of what it left elsewhere.
    """
    unknown = [one for one in workspace.packages if one.publishable and one.version is None]
    if not unknown:
        return workspace
    told: dict[str, str] = {}
    keeper.hide_environment()
    with _scratch(home) as scratch:
        environ = await asyncio.to_thread(build_environment, workspace.root)
        for name in sorted({package.ecosystem for package in unknown}):
            packages = tuple(package for package in unknown if package.ecosystem == name)
            folders = {one.id: scratch / "told" / _folder_name(one.id) for one in packages}
            for folder in folders.values():
                folder.mkdir(parents=True)
            (scratch / name).mkdir()
            request = BuildRequest(
                workspace=workspace,
                packages=packages,
                artifacts=folders,
                logs={one.id: scratch / f"{_folder_name(one.id)}.log" for one in packages},
                scratch=scratch / name,
                environ=environ,
                slots=Slots(1),
                keepers=process.Keepers(),
                timeout=config.build.timeout,
                runs_script=lambda _: False,
                started=lambda _: None,
                finished=lambda _: None,
            )
            told |= await ecosystem_of(packages[0]).versions(request)
    return replace(
        workspace,
        packages=tuple(
            replace(one, version=told[one.id]) if one in unknown and one.id in told else one
            for one in workspace.packages
        ),
    )


@dataclass(slots=True, kw_only=True)
class _Running:
    builds: Builds
    slots: Slots
    keepers: process.Keepers
    failed: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    async def build(self, scratch: Path, environ: Mapping[str, str]) -> None:
        by_ecosystem: dict[str, list[Package]] = {}
        for package in self.builds.packages:
            by_ecosystem.setdefault(package.ecosystem, []).append(package)
            artifact_folder(self.builds.folder, package.id).mkdir(parents=True)
        (self.builds.folder / "logs").mkdir(exist_ok=True)
        async with asyncio.TaskGroup() as group:
            for name, packages in by_ecosystem.items():
                own = scratch / name
                own.mkdir()
                request = self._request(tuple(packages), own, environ)
                group.create_task(ecosystem_of(packages[0]).build(request))

    def _request(
        self, packages: tuple[Package, ...], scratch: Path, environ: Mapping[str, str]
    ) -> BuildRequest:
        folder, settings = self.builds.folder, self.builds.config.build
        return BuildRequest(
            workspace=self.builds.workspace,
            packages=packages,
            artifacts={package.id: artifact_folder(folder, package.id) for package in packages},
            logs={package.id: log_file(folder, package.id) for package in packages},
            scratch=scratch,
            environ=environ,
            slots=self.slots,
            keepers=self.keepers,
            timeout=settings.timeout,
            runs_script=settings.runs_script,
            started=lambda package: self.builds.emit(BuildStarted(package=package)),
            finished=self._finished,
        )

    def _finished(self, built: Built) -> None:
        for note in built.notes:
            self.builds.emit(Noted(package=built.package, message=note))
        if built.error is not None:
            self.failed[built.package] = (built.error, built.hint)
            self.slots.stop()
            # At once: what is being built beside it may take a while.
            self.builds.emit(_failure(built.package, built.error, built.hint))
            return
        artifacts = tuple(read_artifact(file) for file in built.files if not is_attestation(file))
        self.builds.emit(BuildFinished(package=built.package, artifacts=artifacts))


def build_environment(root: Path) -> dict[str, str]:
    """What builds see; the commit's time makes archives the same whenever they are built."""
    environ = {
        # A proxy's or a registry's address may hold a password.
        name: split_url(value, source=f"`{name}`")[0] if "://" in value else value
        for name, value in process.build_environment(os.environ).items()
    }
    if "SOURCE_DATE_EPOCH" not in environ and (time := git.commit_time(root)):
        environ["SOURCE_DATE_EPOCH"] = time
    return environ


@contextlib.contextmanager
def _scratch(home: Path) -> Iterator[Path]:
    """A folder outside of the repository: inside, tools would take it for a part of it.

    It is noted in the journal's folder, so that the next run removes what a kill left behind.
    """
    note = home / "scratch"
    with contextlib.suppress(OSError):
        left = Path(note.read_text(encoding="utf-8"))
        if left.name.startswith(_SCRATCH_PREFIX):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX))
    note.write_text(str(folder), encoding="utf-8")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)


def end_all(builds: Builds, failed: Mapping[str, tuple[str, str | None]]) -> None:
    for package, (reason, hint) in failed.items():
        builds.emit(_failure(package, reason, hint))
    _cancel_others(builds, failed)


def _failure(package: str, reason: str, hint: str | None) -> ReleaseEnded:
    return ReleaseEnded(package=package, outcome=Outcome.FAILED, reason=reason, hint=hint)


def _cancel_others(builds: Builds, failed: Container[str]) -> None:
    for package in builds.packages:
        if package.id not in failed:
            builds.emit(ReleaseEnded(package=package.id, outcome=Outcome.CANCELLED, reason=NOT_YET))


def read_artifact(file: Path) -> Artifact:
    sha256, sha512, size = hashlib.sha256(), hashlib.sha512(), 0
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            sha256.update(chunk)
            sha512.update(chunk)
            size += len(chunk)
    return Artifact(file=file.name, size=size, sha256=sha256.hexdigest(), sha512=sha512.hexdigest())
