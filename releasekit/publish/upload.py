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
    Noted,
    Outcome,
    PlannedRelease,
    ReleaseEnded,
    RetryScheduled,
    UploadAnswered,
    UploadProgressed,
    UploadSent,
)
from releasekit.net import upload_deadline
from releasekit.publish.answers import Verdict, classify, error_for
from releasekit.publish.build import artifact_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from releasekit.ecosystems import Answer
    from releasekit.model import Package
    from releasekit.publish import Run

CONCURRENT_UPLOADS = 10
FIRST_INTERVAL = 0.05
MAX_INTERVAL = 5.0
LOST_ANSWER_LAG = 10.0
SETTLING_INTERVAL = 1.0
TOLD_FROM = 1 << 18
TOLD_EVERY = 0.1
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
        await _publish(run, planned[name])

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


async def _publish(run: Run, release: PlannedRelease) -> None:
    """Send what the registry may lack, file by file, then read all hashes back at once."""
    state = run.state.releases[release.package]
    package = run.packages[release.package]
    unsure = [one for one in state.artifacts if one.sha256 not in state.confirmed]
    # An earlier attempt or run sent it and nobody knows how that ended: look before sending again.
    doubtful = [one for one in unsure if one.sha256 in state.sent or package.id in run.resumed]
    served = await _served(run, package, doubtful) if doubtful else set()
    for artifact in unsure:
        if artifact.file in served:
            continue
        answer, words = await _send(run, package, artifact)
        verdict = classify(answer)
        if verdict is Verdict.ACCEPTED:
            continue
        wait = _lag(run, package) if verdict is Verdict.UNKNOWN else 0.0
        if not await _shows(run, package, artifact, wait=wait):
            now = asyncio.get_running_loop().time()
            raise error_for(
                verdict, answer, package=package.id, file=artifact.file, words=words, now=now
            )
    if unsure:
        await _confirm(run, package, unsure)


async def _send(run: Run, package: Package, artifact: Artifact) -> tuple[Answer | None, str]:
    """The registry's answer and its words; no answer where it was lost on the way."""
    file = artifact_folder(run.folder, package.id) / artifact.file
    names = (package.id, artifact.file)
    run.emit(UploadSent(package=names[0], file=names[1], sha256=artifact.sha256))
    await run.promised()
    answer: Answer | None = None
    seconds = upload_deadline(artifact.size)
    told = _progress(run, package, artifact)
    try:
        async with asyncio.timeout(seconds):
            answer = await run.registries[package.id].upload(run.client, package, file, told)
        words = answer.words
    except httpx.HTTPError as error:
        words = f"the answer was lost: {type(error).__name__}: {error}"
    except TimeoutError:
        words = f"the answer was lost: none came within {seconds:.0f} s"
    status = answer.status if answer else None
    run.emit(UploadAnswered(package=names[0], file=names[1], status=status, words=words))
    return answer, words


def _progress(run: Run, package: Package, artifact: Artifact) -> Callable[[float], None]:
    """Ten times a second at most; a small file is there as soon as it is sent."""
    if artifact.size < TOLD_FROM:
        return lambda _: None
    clock = asyncio.get_running_loop().time
    due = 0.0

    def told(share: float) -> None:
        nonlocal due
        if share < 1 and clock() < due:
            return
        due = clock() + TOLD_EVERY
        sent = int(share * artifact.size)
        run.emit(
            UploadProgressed(package=package.id, file=artifact.file, sent=sent, size=artifact.size)
        )

    return told


def _lag(run: Run, package: Package) -> float:
    """How long a stored file may stay invisible; none where no cache stands between."""
    return 0.0 if run.registries[package.id].confirmation.private else LOST_ANSWER_LAG


async def _shows(run: Run, package: Package, artifact: Artifact, *, wait: float) -> bool:
    clock = asyncio.get_running_loop().time
    deadline, interval = clock() + wait, FIRST_INTERVAL
    while not await _served(run, package, [artifact]):
        if clock() + interval > deadline:
            return False
        await asyncio.sleep(interval)
        interval = min(interval * 2, MAX_INTERVAL)
    return True


async def _confirm(run: Run, package: Package, artifacts: Sequence[Artifact]) -> None:
    """Wait until the registry serves all of them, as often and as long as it takes to rely on."""
    rule = run.registries[package.id].confirmation
    clock = asyncio.get_running_loop().time
    deadline = clock() + rule.within
    interval = SETTLING_INTERVAL if rule.settle else FIRST_INTERVAL
    needed, seen, ever_seen = 2 if rule.settle else 1, 0, False
    while True:
        served = await _served(run, package, artifacts)
        missing = [one.file for one in artifacts if one.file not in served]
        seen = 0 if missing else seen + 1
        ever_seen = ever_seen or seen > 0
        if seen >= needed:
            await asyncio.sleep(rule.settle)
            break
        if clock() + interval > deadline:
            if not ever_seen:
                raise NeverVisible(package=package.id, file=missing[0], seconds=rule.within)
            message = f"the registry showed it, but not twice in a row within {rule.within:g} s"
            run.emit(Noted(package=package.id, message=message))
            break
        await asyncio.sleep(interval)
        interval = min(interval * 2, MAX_INTERVAL)
    for one in artifacts:
        run.emit(Confirmed(package=package.id, file=one.file, sha256=one.sha256))


async def _served(run: Run, package: Package, artifacts: Sequence[Artifact]) -> set[str]:
    """Which of them the registry serves with our bytes; other bytes under our name are an error."""
    presence = await run.registries[package.id].presence(run.client, package)
    served = set()
    for artifact in artifacts:
        digest = presence.files.get(artifact.file)
        if digest in {f"sha256:{artifact.sha256}", f"sha512:{artifact.sha512}"}:
            served.add(artifact.file)
        elif digest is not None:
            ours = getattr(artifact, digest.partition(":")[0], artifact.sha256)
            raise OtherBytes(package=package.id, file=artifact.file, theirs=digest, ours=ours)
    return served
