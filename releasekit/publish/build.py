"""Build every release, then look at every artifact. All of it can be undone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from releasekit.ecosystems import ecosystem_of
from releasekit.errors import ReleaseKitError
from releasekit.events import Artifact, BuildFinished, BuildStarted, Outcome, ReleaseEnded

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.publish import Run

_CHUNK = 1 << 20


def artifact_folder(folder: Path, package: str) -> Path:
    """Ids hold `:` and `/`; folders should not."""
    return folder / "artifacts" / package.replace(":", "-", 1).replace("/", "__")


async def build_all(run: Run) -> bool:
    """False when a build failed; nothing is uploaded then."""
    for release in run.plan.releases:
        if release.package in run.resumed:
            continue
        package = run.packages[release.package]
        out = artifact_folder(run.folder, package.id)
        out.mkdir(parents=True)
        log = run.folder / "logs" / f"{out.name}.log"
        log.parent.mkdir(exist_ok=True)
        run.emit(BuildStarted(package=package.id))
        try:
            await ecosystem_of(package).build(package, run.root, out, log)
            artifacts = tuple(read_artifact(file) for file in sorted(out.iterdir()))
        except ReleaseKitError as error:
            _end_all(run, {package.id: (error.message, error.hint)})
            return False
        run.emit(BuildFinished(package=package.id, artifacts=artifacts))
    return True


def inspect_all(run: Run) -> bool:
    """False when an artifact is not what the plan says; all findings are told at once."""
    findings: dict[str, tuple[str, str | None]] = {}
    for release in run.plan.releases:
        package = run.packages[release.package]
        files = tuple(sorted(artifact_folder(run.folder, package.id).iterdir()))
        try:
            problems = ecosystem_of(package).inspect(package, files)
        except ReleaseKitError as error:
            problems = (error.message,)
        if problems:
            hint = f"mend `{package.manifest}` and run `releasekit publish` again"
            findings[package.id] = ("; ".join(problems), hint)
    if findings:
        _end_all(run, findings)
    return not findings


def _end_all(run: Run, failed: dict[str, tuple[str, str | None]]) -> None:
    for release in run.plan.releases:
        if release.package in failed:
            reason, hint = failed[release.package]
            run.emit(
                ReleaseEnded(
                    package=release.package, outcome=Outcome.FAILED, reason=reason, hint=hint
                )
            )
        else:
            run.emit(
                ReleaseEnded(
                    package=release.package,
                    outcome=Outcome.CANCELLED,
                    reason="nothing is uploaded before everything is built and inspected",
                )
            )


def read_artifact(file: Path) -> Artifact:
    sha256, sha512, size = hashlib.sha256(), hashlib.sha512(), 0
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            sha256.update(chunk)
            sha512.update(chunk)
            size += len(chunk)
    return Artifact(file=file.name, size=size, sha256=sha256.hexdigest(), sha512=sha512.hexdigest())
