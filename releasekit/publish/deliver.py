"""`releasekit build`: the stages up to inspection, and the artifacts in a folder of one's own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from releasekit import process
from releasekit.errors import OutNotUsable
from releasekit.events import (
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RunState,
    Stage,
    StageStarted,
)
from releasekit.publish import retention
from releasekit.publish.build import Builds, artifact_folder, build_all, log_file
from releasekit.publish.frame import opened, recorded
from releasekit.publish.inspect import inspect_all
from releasekit.publish.pin import pin_edits
from releasekit.publish.preflight import stop_at_errors
from releasekit.publish.selection import Selection, select, unknown_versions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from releasekit.config import Config
    from releasekit.events import Event
    from releasekit.pins import Recovery
    from releasekit.publish.control import BuildControl

MANIFEST = "manifest.json"
_INCOMPLETE = ".incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverRequest:
    root: Path
    config: Config
    out: Path
    selection: Selection = field(default_factory=Selection)
    lock_timeout: float = 0.0
    again: str = ""
    """The command line that continues it."""


async def deliver(
    request: DeliverRequest,
    *,
    observe: Callable[[Event], None],
    note_recovery: Callable[[Recovery], None],
    control: BuildControl,
) -> RunState:
    """Build and inspect the packages; leave artifacts, hashes and logs in `out`, or nothing."""
    _check_place(request.out)
    async with opened(
        request, command="build", observe=observe, note_recovery=note_recovery, control=control
    ) as this:
        packages = select(this.workspace, request.selection, request.config.groups)
        stop_at_errors(tuple(unknown_versions(packages)))
        edits, problems = pin_edits(this.workspace, packages, request.config.pins)
        stop_at_errors(problems)
        releases = [
            PlannedRelease(package=package.id, version=package.version or "", registry="")
            for package in packages
        ]
        with recorded(this, releases) as record:
            builds = Builds(
                workspace=this.workspace,
                config=request.config,
                packages=packages,
                edits=edits,
                held=this.held,
                folder=record.folder,
                emit=record.emit,
            )
            await _stages(builds, record.state, request.out)
        if record.state.ok:
            keep = request.config.journal.keep_runs
            await asyncio.to_thread(retention.tidy, this.home, keep)
    return record.state


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


def _check_place(out: Path) -> None:
    """Before anything is built; it is not made yet, for a failed build leaves nothing."""
    place = next(one for one in (out, *out.parents) if os.path.lexists(one))
    if not place.is_dir():
        raise OutNotUsable(folder=out, reason=f"`{place}` is not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise OutNotUsable(folder=out, reason=f"`{place}` cannot be written to")


def _hand_over(builds: Builds, state: RunState, out: Path) -> None:
    """Every file appears whole; the manifest comes last and names what belongs together."""
    fresh = not out.exists()
    staging = out / _INCOMPLETE
    try:
        shutil.rmtree(staging, ignore_errors=True)
        (staging / "logs").mkdir(parents=True)
        listed = _stage_files(builds, state, staging)
        manifest = {"v": 1, "run": state.run, "commit": state.commit, "artifacts": listed}
        draft = staging / MANIFEST
        draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        if fresh:
            (out / ".gitignore").write_text("*\n", encoding="utf-8")
        (out / "logs").mkdir(exist_ok=True)
        (out / MANIFEST).unlink(missing_ok=True)  # it names what is now replaced
        for log in (staging / "logs").iterdir():
            log.replace(out / "logs" / log.name)
        for one in listed:
            (staging / one["file"]).replace(out / one["file"])
        draft.replace(out / MANIFEST)
    except OSError as error:
        if fresh:
            shutil.rmtree(out, ignore_errors=True)
        raise OutNotUsable(folder=out, reason=error.strerror or str(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _stage_files(builds: Builds, state: RunState, staging: Path) -> list[dict[str, Any]]:
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
            shutil.copyfile(log, staging / "logs" / log.name)
    return listed
