"""Upload by dependency, and believe only the hash that the registry serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from releasekit.errors import (
    NeverVisible,
    OtherBytes,
    ReleaseKitError,
    UploadRefused,
)
from releasekit.events import (
    SERVED_OUTCOMES,
    Artifact,
    Confirmed,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    UploadAnswered,
    UploadSent,
)
from releasekit.publish.build import artifact_folder

if TYPE_CHECKING:
    from releasekit.ecosystems import Answer
    from releasekit.publish import Run

VISIBLE_WITHIN = 60.0
FIRST_INTERVAL = 0.05
MAX_INTERVAL = 5.0
_ACCEPTED = range(200, 300)


async def upload_all(run: Run) -> None:
    """In the plan's order; a failure blocks what needs it, and nothing else."""
    for release in run.plan.releases:
        blocker = next((need for need in release.needs if not _is_there(run, need)), None)
        if blocker is not None:
            run.emit(
                ReleaseEnded(package=release.package, outcome=Outcome.BLOCKED, blocked_by=blocker)
            )
            continue
        try:
            for artifact in run.state.releases[release.package].artifacts:
                await _upload(run, release, artifact)
        except ReleaseKitError as error:
            run.emit(
                ReleaseEnded(
                    package=release.package,
                    outcome=Outcome.FAILED,
                    reason=error.message,
                    hint=error.hint,
                )
            )
        else:
            run.emit(ReleaseEnded(package=release.package, outcome=Outcome.PUBLISHED))


def _is_there(run: Run, package: str) -> bool:
    return run.state.releases[package].outcome in SERVED_OUTCOMES


async def _upload(run: Run, release: PlannedRelease, artifact: Artifact) -> None:
    """Send one file once, then read its hash back, whatever the answer was."""
    package = run.packages[release.package]
    file = artifact_folder(run.folder, package.id) / artifact.file
    name = artifact.file
    run.emit(UploadSent(package=package.id, file=name, sha256=artifact.sha256))
    answer: Answer | None = None
    try:
        answer = await run.registries[package.id].upload(run.client, package, file)
        words = answer.words
    except httpx.HTTPError as error:
        words = f"the answer was lost: {type(error).__name__}: {error}"
    status = answer.status if answer else None
    run.emit(UploadAnswered(package=package.id, file=name, status=status, words=words))
    refused = answer is not None and answer.status not in _ACCEPTED
    if not await _is_served(run, release, artifact, wait=not refused):
        if refused:
            raise UploadRefused(package=package.id, file=name, words=words)
        raise NeverVisible(package=package.id, file=name, seconds=VISIBLE_WITHIN, words=words)
    run.emit(Confirmed(package=package.id, file=name, sha256=artifact.sha256))


async def _is_served(run: Run, release: PlannedRelease, artifact: Artifact, *, wait: bool) -> bool:
    """Whether the registry serves exactly our bytes; other bytes under our name are an error."""
    package = run.packages[release.package]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + VISIBLE_WITHIN
    interval = FIRST_INTERVAL
    while True:
        presence = await run.registries[package.id].presence(run.client, package)
        digest = presence.files.get(artifact.file)
        if digest in {f"sha256:{artifact.sha256}", f"sha512:{artifact.sha512}"}:
            return True
        if digest is not None:
            ours = getattr(artifact, digest.partition(":")[0], artifact.sha256)
            raise OtherBytes(package=package.id, file=artifact.file, theirs=digest, ours=ours)
        if not wait or loop.time() + interval > deadline:
            return False
        await asyncio.sleep(interval)
        interval = min(interval * 2, MAX_INTERVAL)
