"""Sign what goes to registries that take attestations: after inspection, before the first upload.

Signatures stand in a public log for good, so they wait until everything that can be undone is done.
Uploads come after the last of them: a Sigstore that is down must not leave half a release.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from releasekit import scheduler
from releasekit.attestations import Signer
from releasekit.errors import CannotAttest, ReleaseKitError, SigningRefused
from releasekit.events import Attested, Noted, Outcome, ReleaseEnded
from releasekit.model import Problem, Severity
from releasekit.publish.build import artifact_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    import httpx
    import sigstore.sign

    from releasekit.attestations import Attestor, Signed
    from releasekit.ecosystems import Registry
    from releasekit.events import Artifact
    from releasekit.model import Package
    from releasekit.publish import Run

CONCURRENT_SIGNATURES = 4
MAX_RETRIES = 2
NOT_SIGNED = "nothing is uploaded before everything is signed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """By package who signs; and what should have been signed but cannot be."""

    attestors: Mapping[str, Attestor]
    problems: tuple[Problem, ...]


async def attestors(
    client: httpx.AsyncClient,
    packages: Iterable[Package],
    registries: Mapping[str, Registry],
    *,
    dry_run: bool,
) -> Wanted:
    """Found out before anything is built; nothing is signed or minted for it.

    A dry run, which signs nothing, may run where nobody could.
    """
    found: dict[str, Attestor] = {}
    refused: dict[str, CannotAttest] = {}

    async def ask(package: Package) -> None:
        try:
            attestor = await registries[package.id].attestor(client, package)
        except CannotAttest as error:
            refused.setdefault(error.message, error)
        else:
            if attestor is not None:
                found[package.id] = attestor

    try:
        async with asyncio.TaskGroup() as group:
            for package in packages:
                group.create_task(ask(package))
    except* ReleaseKitError as errors:
        raise errors.exceptions[0] from None
    problems = tuple(
        Problem.of(
            one, severity=Severity.ERROR if one.required and not dry_run else Severity.WARNING
        )
        for one in refused.values()
    )
    return Wanted(attestors=found, problems=problems)


def _unsigned(error: CannotAttest) -> str:
    return f"{error.message}; {error.hint}"


async def attest_all(run: Run) -> bool:
    """False when something that must be signed was not: then nothing is uploaded."""
    work = _Signatures(run=run)
    for step in (work.examine, work.sign):  # nothing is signed before all of it may be
        if failed := await _each(run, step):
            _end_all(run, failed)
            return False
    return True


async def _each(run: Run, step: Callable[[str], Awaitable[None]]) -> Mapping[str, BaseException]:
    """Steered as uploads are, and stopped by the first that fails."""
    signatures = scheduler.Scheduler.from_graph(
        dict.fromkeys(run.attestors, ()),
        concurrency=CONCURRENT_SIGNATURES,
        max_retries=MAX_RETRIES,
        task_timeout=None,
        on_error=scheduler.OnError.FAIL,
    )
    run.control.attach(signatures)
    return (await signatures.run(step)).failed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signatures:
    run: Run
    signers: dict[Path | None, Signer] = field(default_factory=dict)
    missing: dict[str, list[Artifact]] = field(default_factory=dict)
    """By package: the files that need a signature."""
    told: set[str] = field(default_factory=set)

    async def examine(self, name: str) -> None:
        """All that may stand against it, without a word to the log."""
        try:
            await self._require_acceptance(name)
        except CannotAttest as error:
            if error.required:
                raise
            if (reason := _unsigned(error)) not in self.told:
                self.told.add(reason)
                self.run.emit(Noted(message=reason))
            return
        there = set()
        if name in self.run.resumed:  # what its registry holds needs no signature any more
            registry, package = self.run.registries[name], self.run.packages[name]
            there = set((await registry.presence(self.run.client, package)).files)
        missing = []
        for artifact in self.run.state.releases[name].artifacts:
            file, beside = self._places(name, artifact)
            if beside.exists():
                await asyncio.to_thread(self.run.attestors[name].check, file, beside.read_bytes())
            elif artifact.file not in there:
                missing.append(artifact)
        self.missing[name] = missing

    async def _require_acceptance(self, name: str) -> None:
        attestor = self.run.attestors[name]
        if attestor.ready is not None:
            await attestor.ready(self.run.client)
        if attestor.needs_public_source and not await self._signer(name).source_is_public():
            raise SigningRefused(
                what=name,
                problem="the CI does not say that this repository is public, and the log is",
                hint="the files of a private repository are signed where `attestations` is "
                "`always`, and never for npm",
                required=attestor.signing.required,
            )

    async def sign(self, name: str) -> None:
        attestor, signer = self.run.attestors[name], self._signer(name)
        for artifact in self.missing.get(name, ()):
            file, beside = self._places(name, artifact)
            if beside.exists():
                continue  # by an attempt before this one
            signed = await signer.sign(f"`{artifact.file}`", partial(_sign, attestor, file))
            await asyncio.to_thread(attestor.check, file, signed.content)
            _write(beside, signed.content)
            self.run.emit(
                Attested(
                    package=name,
                    file=artifact.file,
                    sha256=artifact.sha256,
                    log_index=signed.log_index,
                )
            )

    def _signer(self, name: str) -> Signer:
        signing = self.run.attestors[name].signing
        fresh = Signer(client=self.run.client, signing=signing)
        return self.signers.setdefault(signing.trust_config, fresh)

    def _places(self, name: str, artifact: Artifact) -> tuple[Path, Path]:
        file = artifact_folder(self.run.folder, name) / artifact.file
        return file, self.run.attestors[name].beside(file)


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
