"""Sign what goes to registries that take attestations: after inspection, before the first upload.

Signatures stand in a public log for good, so they wait until everything that can be undone is done.
Uploads come after the last of them: a Sigstore that is down must not leave half a release.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from releasekit import scheduler
from releasekit.attestations import Signer
from releasekit.errors import CannotAttest, PreflightFailed, ReleaseKitError, SigningRefused
from releasekit.events import Attested, Noted, Outcome, ReleaseEnded
from releasekit.publish.build import artifact_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import httpx
    import sigstore.sign

    from releasekit.attestations import Attestor, Signed
    from releasekit.publish import Run
    from releasekit.publish.prepare import Prepared

CONCURRENT_SIGNATURES = 4
MAX_RETRIES = 2
NOT_SIGNED = "nothing is uploaded before everything is signed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """By package who signs; and, in words, what would have been signed but cannot be."""

    attestors: Mapping[str, Attestor]
    unsigned: tuple[str, ...]


async def attestors(prepared: Prepared, client: httpx.AsyncClient) -> Wanted:
    """Found out before anything is built; nothing is signed or minted for it."""
    found: dict[str, Attestor] = {}
    refused: dict[str, CannotAttest] = {}
    for release in prepared.plan.releases:
        package = prepared.packages[release.package]
        try:
            attestor = await prepared.registries[package.id].attestor(client, package)
        except CannotAttest as error:
            refused.setdefault(error.message, error)
            continue
        if attestor is not None:
            found[package.id] = attestor
    if problems := [(one.message, one.hint) for one in refused.values() if one.required]:
        raise PreflightFailed(problems)
    return Wanted(attestors=found, unsigned=tuple(_unsigned(one) for one in refused.values()))


def _unsigned(error: CannotAttest) -> str:
    return f"{error.message}; {error.hint}"


async def attest_all(run: Run) -> bool:
    """False when something that must be signed was not: then nothing is uploaded."""
    signers: dict[Path | None, Signer] = {}
    unsigned: set[str] = set()

    async def attest(name: str) -> None:
        signing = run.attestors[name].signing
        if signing.trust_config not in signers:
            signers[signing.trust_config] = Signer(client=run.client, signing=signing)
        try:
            await _attest(run, name, signers[signing.trust_config])
        except CannotAttest as error:
            if error.required:
                raise
            if (reason := _unsigned(error)) not in unsigned:
                unsigned.add(reason)
                run.emit(Noted(message=reason))

    signatures = scheduler.Scheduler.from_graph(
        dict.fromkeys(run.attestors, ()),
        concurrency=CONCURRENT_SIGNATURES,
        max_retries=MAX_RETRIES,
        task_timeout=None,
    )
    run.control.attach(signatures)
    failed = (await signatures.run(attest)).failed
    if failed:
        _end_all(run, failed)
    return not failed


async def _attest(run: Run, name: str, signer: Signer) -> None:
    attestor = run.attestors[name]
    if attestor.ready is not None:
        await attestor.ready(run.client)
    if attestor.needs_public_source and not await signer.source_is_public():
        raise SigningRefused(
            what=name,
            problem="the CI does not say that this repository is public, and the log is",
            hint="the files of a private repository are signed where `attestations` is `always`, "
            "and never for npm",
            required=attestor.signing.required,
        )
    there = set()
    if name in run.resumed:  # what its registry holds needs no signature any more
        presence = await run.registries[name].presence(run.client, run.packages[name])
        there = set(presence.files)
    for artifact in run.state.releases[name].artifacts:
        if artifact.file in there:
            continue
        file = artifact_folder(run.folder, name) / artifact.file
        target = attestor.beside(file)
        if target.exists():
            await asyncio.to_thread(attestor.check, file, target.read_bytes())
            continue
        signed = await signer.sign(f"`{artifact.file}`", partial(_sign, attestor, file))
        await asyncio.to_thread(attestor.check, file, signed.content)
        _write(target, signed.content)
        run.emit(
            Attested(
                package=name,
                file=artifact.file,
                sha256=artifact.sha256,
                log_index=signed.log_index,
            )
        )


def _sign(attestor: Attestor, file: Path, signer: sigstore.sign.Signer) -> Signed:
    return attestor.sign(signer, file)


def _write(target: Path, content: bytes) -> None:
    draft = target.with_name(f".{target.name}.draft")
    draft.write_bytes(content)
    draft.replace(target)


def _end_all(run: Run, failed: Mapping[str, BaseException]) -> None:
    for release in run.plan.releases:
        error = failed.get(release.package)
        if error is None:
            ended = ReleaseEnded(
                package=release.package, outcome=Outcome.CANCELLED, reason=NOT_SIGNED
            )
        else:
            reason, hint = f"{type(error).__name__}: {error}", None
            if isinstance(error, ReleaseKitError):
                reason, hint = error.message, error.hint
            ended = ReleaseEnded(
                package=release.package, outcome=Outcome.FAILED, reason=reason, hint=hint
            )
        run.emit(ended)
