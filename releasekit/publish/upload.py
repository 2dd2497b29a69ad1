"""Upload by dependency, and believe only the hash that the registry serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from releasekit import scheduler
from releasekit.errors import (
    DoNotRetry,
    NeverVisible,
    OtherBytes,
    ReleaseKitError,
    UploadRefused,
)
from releasekit.events import (
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

CONCURRENT_UPLOADS = 10
VISIBLE_WITHIN = 60.0
FIRST_INTERVAL = 0.05
MAX_INTERVAL = 5.0
_ACCEPTED = range(200, 300)


async def upload_all(run: Run) -> None:
    """Each the moment its dependencies are there; a failure blocks what needs it, nothing else."""
    there = {release.package for release in run.plan.already_there}
    refused = {release.package for release, _ in run.plan.partly_there}
    planned = {release.package: release for release in run.plan.releases}
    graph: dict[str, tuple[str, ...]] = dict.fromkeys(refused, ())
    for release in run.plan.releases:
        graph[release.package] = tuple(need for need in release.needs if need not in there)

    async def publish(name: str) -> None:
        if name in refused:
            raise DoNotRetry(run.state.releases[name].reason or "")
        for artifact in run.state.releases[name].artifacts:
            await _upload(run, planned[name], artifact)

    def observe(event: scheduler.Event) -> None:
        if isinstance(event, scheduler.Finished) and event.outcome.name in planned:
            run.emit(_ended(event.outcome))

    uploads = scheduler.Scheduler.from_graph(
        graph,
        concurrency=CONCURRENT_UPLOADS,
        task_timeout=None,
        lanes={name: release.registry for name, release in planned.items()},
        observe=observe,
    )
    run.control.attach(uploads)
    await uploads.run(publish)


def _ended(outcome: scheduler.Outcome) -> ReleaseEnded:
    error = outcome.error
    reason = hint = None
    if isinstance(error, ReleaseKitError):
        reason, hint = error.message, error.hint
    elif error is not None:
        reason = f"{type(error).__name__}: {error}"
    return ReleaseEnded(
        package=outcome.name,
        outcome=_OUTCOMES[outcome.status],
        reason=reason,
        hint=hint,
        blocked_by=outcome.blocked_by,
    )


_OUTCOMES = {
    scheduler.Status.PUBLISHED: Outcome.PUBLISHED,
    scheduler.Status.FAILED: Outcome.FAILED,
    scheduler.Status.BLOCKED: Outcome.BLOCKED,
    scheduler.Status.CANCELLED: Outcome.CANCELLED,
}


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
