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
)
from releasekit.events import (
    Artifact,
    Confirmed,
    LaneClosed,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RetryScheduled,
    UploadAnswered,
    UploadSent,
)
from releasekit.publish.answers import Verdict, classify, error_for
from releasekit.publish.build import artifact_folder

if TYPE_CHECKING:
    from releasekit.ecosystems import Answer
    from releasekit.model import Package
    from releasekit.publish import Run

CONCURRENT_UPLOADS = 10
VISIBLE_WITHIN = 60.0
FIRST_INTERVAL = 0.05
MAX_INTERVAL = 5.0
LOST_ANSWER_LAG = 10.0
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MAX_RETRIES = 5


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
        match event:
            case scheduler.Finished(outcome=outcome) if outcome.name in planned:
                run.emit(_ended(outcome))
            case scheduler.RetryScheduled():
                run.emit(_retry(event, asyncio.get_running_loop().time()))
            case scheduler.LaneClosed():
                seconds = max(0.0, event.until - asyncio.get_running_loop().time())
                run.emit(LaneClosed(registry=event.lane, seconds=seconds))

    uploads = scheduler.Scheduler.from_graph(
        graph,
        concurrency=CONCURRENT_UPLOADS,
        max_retries=MAX_RETRIES,
        task_timeout=None,
        lanes={name: release.registry for name, release in planned.items()},
        durations={name: one.expected for name, one in planned.items() if one.expected is not None},
        observe=observe,
    )
    run.control.attach(uploads)
    await uploads.run(publish)


def _retry(event: scheduler.RetryScheduled, now: float) -> RetryScheduled:
    error = event.error
    reason = error.message if isinstance(error, ReleaseKitError) else str(error)
    seconds = max(0.0, event.not_before - now)
    return RetryScheduled(package=event.name, attempt=event.attempt, reason=reason, seconds=seconds)


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
    state = run.state.releases[release.package]
    if artifact.sha256 in state.confirmed:
        return
    package, name = run.packages[release.package], artifact.file
    # An earlier attempt or run sent it and nobody knows how that ended: look before sending again.
    doubtful = artifact.sha256 in state.sent or package.id in run.resumed
    if not (doubtful and await _is_served(run, release, artifact, wait=0)):
        answer, words = await _send(run, package, artifact)
        verdict = classify(answer)
        wait = {Verdict.ACCEPTED: VISIBLE_WITHIN, Verdict.UNKNOWN: _lag(run, package)}
        if not await _is_served(run, release, artifact, wait=wait.get(verdict, 0)):
            if verdict is Verdict.ACCEPTED:
                raise NeverVisible(
                    package=package.id, file=name, seconds=VISIBLE_WITHIN, words=words
                )
            now = asyncio.get_running_loop().time()
            raise error_for(verdict, answer, package=package.id, file=name, words=words, now=now)
    run.emit(Confirmed(package=package.id, file=name, sha256=artifact.sha256))


async def _send(run: Run, package: Package, artifact: Artifact) -> tuple[Answer | None, str]:
    """The registry's answer and its words; no answer where it was lost on the way."""
    file = artifact_folder(run.folder, package.id) / artifact.file
    names = (package.id, artifact.file)
    run.emit(UploadSent(package=names[0], file=names[1], sha256=artifact.sha256))
    answer: Answer | None = None
    try:
        answer = await run.registries[package.id].upload(run.client, package, file)
        words = answer.words
    except httpx.HTTPError as error:
        words = f"the answer was lost: {type(error).__name__}: {error}"
    status = answer.status if answer else None
    run.emit(UploadAnswered(package=names[0], file=names[1], status=status, words=words))
    return answer, words


def _lag(run: Run, package: Package) -> float:
    """How long a stored file may stay invisible; none where no cache stands between."""
    host = httpx.URL(run.registries[package.id].address).host
    return 0.0 if host in LOOPBACK else LOST_ANSWER_LAG


async def _is_served(run: Run, release: PlannedRelease, artifact: Artifact, *, wait: float) -> bool:
    """Whether the registry serves exactly our bytes; other bytes under our name are an error."""
    package = run.packages[release.package]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    interval = FIRST_INTERVAL
    while True:
        presence = await run.registries[package.id].presence(run.client, package)
        digest = presence.files.get(artifact.file)
        if digest in {f"sha256:{artifact.sha256}", f"sha512:{artifact.sha512}"}:
            return True
        if digest is not None:
            ours = getattr(artifact, digest.partition(":")[0], artifact.sha256)
            raise OtherBytes(package=package.id, file=artifact.file, theirs=digest, ours=ours)
        if loop.time() + interval > deadline:
            return False
        await asyncio.sleep(interval)
        interval = min(interval * 2, MAX_INTERVAL)
