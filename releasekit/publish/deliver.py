"""`releasekit build`: the stages up to inspection, and the artifacts in a folder of one's own."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releasekit import __version__, git, journal, pins, process, workspace
from releasekit.errors import NothingToPublish, UnknownVersion
from releasekit.events import (
    GOOD_OUTCOMES,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunEnded,
    RunStarted,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.graph import Graph
from releasekit.lock import hold, journal_directory
from releasekit.publish.build import Builds, artifact_folder, build_all, log_file, with_versions
from releasekit.publish.ending import ending
from releasekit.publish.inspect import inspect_all
from releasekit.publish.pin import pin_edits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from releasekit.config import Config
    from releasekit.events import Event
    from releasekit.model import Package, Workspace
    from releasekit.pins import Recovery

MANIFEST = "manifest.json"
_INCOMPLETE = ".incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverRequest:
    root: Path
    config: Config
    out: Path
    only: tuple[str, ...] = ()
    """Names or ids; none means all."""
    exclude: tuple[str, ...] = ()
    lock_timeout: float = 0.0


async def deliver(
    request: DeliverRequest,
    *,
    observe: Callable[[Event], None],
    note_recovery: Callable[[Recovery], None],
) -> RunState:
    """Build and inspect the packages; leave artifacts, hashes and logs in `out`, or nothing."""
    home = journal_directory(request.root)
    run_id = journal.new_run_id()
    with hold(home, command="releasekit build", timeout=request.lock_timeout, run=run_id) as held:
        recovery = pins.recover(held)
        note_recovery(recovery)
        recovery.require_done()
        found = workspace.load(
            request.root, exclude=request.config.exclude, roots=request.config.roots
        )
        found = await with_versions(found, request.config, held)
        packages = select(found, request)
        edits = pin_edits(found, packages, request.config.pins)
        folder = home / "runs" / run_id
        folder.mkdir(parents=True)
        state = RunState()
        with journal.Journal(folder / journal.FILE_NAME) as book:

            def emit(event: Event) -> None:
                book.append(event)
                state.apply(event)
                observe(event)

            emit(_started(request.root, run_id, packages))
            with ending(emit):
                await _stages(
                    Builds(
                        workspace=found,
                        config=request.config,
                        packages=packages,
                        edits=edits,
                        held=held,
                        folder=folder,
                        emit=emit,
                    ),
                    state,
                    request.out,
                )
            outcomes = {release.outcome for release in state.releases.values()}
            emit(RunEnded(ok=outcomes <= GOOD_OUTCOMES))
    return state


def select(found: Workspace, request: DeliverRequest) -> tuple[Package, ...]:
    """The publishable packages that were asked for, in the order of a release."""
    packages = found.by_id()
    wanted = {workspace.find_package(found, name) for name in request.only} or set(packages)
    wanted -= {workspace.find_package(found, name) for name in request.exclude}
    chosen = tuple(
        packages[package]
        for package in Graph.of(found).order()
        if package in wanted and packages[package].publishable
    )
    if not chosen:
        raise NothingToPublish(root=request.root)
    for package in chosen:
        if package.version is None:
            raise UnknownVersion(package=package.id, manifest=package.manifest)
    return chosen


def _started(root: Path, run_id: str, packages: tuple[Package, ...]) -> RunStarted:
    return RunStarted(
        run=run_id,
        command="build",
        releasekit=__version__,
        commit=git.head(root),
        releases=tuple(
            PlannedRelease(package=package.id, version=package.version or "", registry="")
            for package in packages
        ),
    )


async def _stages(builds: Builds, state: RunState, out: Path) -> None:
    builds.emit(StageStarted(stage=Stage.BUILD))
    if not await build_all(builds):
        return
    builds.emit(StageStarted(stage=Stage.INSPECT))
    if not await inspect_all(builds):
        return
    await asyncio.to_thread(_hand_over, builds, state, out)
    for package in builds.packages:
        builds.emit(ReleaseEnded(package=package.id, outcome=Outcome.BUILT))


def _hand_over(builds: Builds, state: RunState, out: Path) -> None:
    """Every file appears whole; the manifest comes last and names what belongs together."""
    fresh = not out.exists()
    staging = out / _INCOMPLETE
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "logs").mkdir(parents=True)
    if fresh:
        (out / ".gitignore").write_text("*\n", encoding="utf-8")
    listed: list[dict[str, Any]] = []
    taken: set[str] = set()
    for package in builds.packages:
        source = artifact_folder(builds.folder, package.id)
        for artifact in state.releases[package.id].artifacts:
            # `@acme/cli` and `acme-cli` make tarballs of the same name.
            name = artifact.file if artifact.file not in taken else f"{source.name}-{artifact.file}"
            taken.add(name)
            process.move(source / artifact.file, staging / name)
            digest = base64.b64encode(bytes.fromhex(artifact.sha512)).decode()
            listed.append(
                {
                    "package": package.id,
                    "version": package.version,
                    "file": name,
                    "size": artifact.size,
                    "sha256": artifact.sha256,
                    "integrity": f"sha512-{digest}",
                }
            )
        log = log_file(builds.folder, package.id)
        if log.exists():
            shutil.copy(log, staging / "logs" / log.name)
    (out / "logs").mkdir(exist_ok=True)
    for log in (staging / "logs").iterdir():
        log.replace(out / "logs" / log.name)
    for name in sorted(taken):
        (staging / name).replace(out / name)
    manifest = {"v": 1, "run": state.run, "commit": state.commit, "artifacts": listed}
    draft = staging / MANIFEST
    draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    draft.replace(out / MANIFEST)
    shutil.rmtree(staging)
