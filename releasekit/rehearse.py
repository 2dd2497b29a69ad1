"""The whole release against throwaway registries: the same `publish`, then everything back again.

Nothing here can reach a configured registry: the request that is run knows no other registries than
the embedded ones, and no environment to take a credential from.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import embedded, journal
from releasekit.access import TRUSTED
from releasekit.config import Attestations
from releasekit.ecosystems import Trial, TrialRequest, Verdict, all_ecosystems
from releasekit.embedded.behaviour import Behaviour
from releasekit.errors import NotEmbedded, NothingToPublish, ReleaseKitError, ToolMissing
from releasekit.events import (
    GOOD_OUTCOMES,
    BuildFinished,
    BuildStarted,
    Confirmed,
    Outcome,
    UploadSent,
)
from releasekit.graph import reach
from releasekit.model import Order
from releasekit.publish import PublishRequest
from releasekit.publish import registries as registry_choice
from releasekit.publish.selection import asked_for, excluded
from releasekit.workers import Slots, width_of_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from releasekit.config import Config, RegistrySettings
    from releasekit.ecosystems import Ecosystem, Registry
    from releasekit.embedded.behaviour import Fault
    from releasekit.events import Artifact, ReleaseState, RunState
    from releasekit.model import Package, Workspace
    from releasekit.plan import Plan
    from releasekit.publish import Approve
    from releasekit.publish.selection import Selection

TRIAL_TIMEOUT = 600.0
NEW_PROJECTS_A_DAY = 4
_NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What is rehearsed and where."""

    found: Workspace
    config: Config
    packages: tuple[Package, ...]
    """Those that are published and tried, all of them publishable."""
    left_out: Mapping[str, str]
    """Publishable packages that were asked for and cannot be rehearsed here, and why."""
    folder: Path
    """Throwaway; outside of the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An artifact and how long it took from the first byte to the hash that came back."""

    artifact: Artifact
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How one package did, from its build to its import."""

    package: str
    version: str
    trial: Trial
    artifacts: tuple[Timed, ...] = ()
    build_seconds: float | None = None

    @property
    def ok(self) -> bool:
        return self.trial.verdict is Verdict.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """What the registries shall do wrong, by the id of a package."""

    latency: float = 0.0
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)


def select(found: Workspace, config: Config, folder: Path, selection: Selection) -> Rehearsal:
    """What was asked for and all that it needs; not what needs something that was excluded."""
    packages = found.by_id()
    needs: dict[str, list[str]] = {name: [] for name in packages}
    needed_by: dict[str, list[str]] = {name: [] for name in packages}
    for edge in found.edges:
        if edge.order is not Order.NONE:
            needs[edge.source].append(edge.target)
            needed_by[edge.target].append(edge.source)
    asked = asked_for(found, selection, config.groups)
    wanted = asked | reach(needs, tuple(asked))
    unwanted = excluded(found, selection)
    wanted -= unwanted | reach(needed_by, tuple(unwanted))
    chosen = [packages[name] for name in sorted(wanted) if packages[name].publishable]
    if not chosen:
        raise NothingToPublish(root=found.root)
    left_out = {}
    if lacking := embedded.node_missing():
        reason = f"`{lacking}` is not on this machine, and the npm registry needs it"
        left_out = {package.id: reason for package in chosen if package.ecosystem == _NODE}
        if len(left_out) == len(chosen):
            raise ToolMissing(tool=lacking, hint=embedded.NEEDS_NODE)
    return Rehearsal(
        found=found,
        config=config,
        packages=tuple(package for package in chosen if package.id not in left_out),
        left_out=left_out,
        folder=folder,
    )


@contextlib.contextmanager
def registries(
    rehearsal: Rehearsal, misbehaviour: Misbehaviour
) -> Iterator[dict[str, RegistrySettings]]:
    """By its name, one for each ecosystem that is rehearsed, for as long as the block runs."""
    used = {package.ecosystem for package in rehearsal.packages}
    with contextlib.ExitStack() as stack:
        running = {}
        for world in all_ecosystems():
            if world.name not in used:
                continue
            upstreams = dict(world.upstreams(rehearsal.found, os.environ))
            own = [one for one in rehearsal.found.packages if one.ecosystem == world.name]
            told = Behaviour(
                latency=misbehaviour.latency,
                faults={
                    package.name: misbehaviour.faults[package.id]
                    for package in own
                    if package.id in misbehaviour.faults
                },
                own=tuple(sorted({package.name for package in own})),
                upstream=upstreams.pop("", None),
                scopes=upstreams,
            )
            start = embedded.npm_registry if world.name == _NODE else embedded.pypi_registry
            server = start(_home_of(rehearsal, world), behaviour=told)
            running[world.registry] = stack.enter_context(server)
        yield running


def _home_of(rehearsal: Rehearsal, world: Ecosystem) -> Path:
    return rehearsal.folder / world.registry


def request_for(
    rehearsal: Rehearsal, running: Mapping[str, RegistrySettings], *, lock_timeout: float = 0.0
) -> PublishRequest:
    """The same as `publish` would run, with the embedded registries for all the others."""
    chosen = {package.id for package in rehearsal.packages}
    others = sorted({package.id for package in rehearsal.found.packages} - chosen)
    config = replace(
        rehearsal.config,
        exclude=(*rehearsal.config.exclude, *others),
        registries={},
        packages={
            pattern: replace(settings, registry="")
            for pattern, settings in rehearsal.config.packages.items()
        },
    )
    return PublishRequest(
        root=rehearsal.found.root,
        config=config,
        registries=running,
        environ={},
        allow_dirty=True,
        lock_timeout=lock_timeout,
        command="rehearse",
        runs_in=rehearsal.folder,
    )


def approval(running: Mapping[str, RegistrySettings]) -> Approve:
    """The last look before a rehearsal begins: every address is one of the embedded registries'."""
    embedded_ones = {settings.upload_url or settings.url for settings in running.values()}

    async def approve(plan: Plan, chosen: Mapping[str, Registry]) -> bool:
        for release in plan.releases:
            address = chosen[release.package].address
            if address not in embedded_ones:
                raise NotEmbedded(package=release.package, address=address)
        return True

    return approve


async def try_all(
    rehearsal: Rehearsal,
    state: RunState,
    running: Mapping[str, RegistrySettings],
    told: Callable[[Judged], None],
) -> tuple[Judged, ...]:
    """Install and load what was published, each alone, as wide as the machine.

    One verdict for every package that was asked for: told as it is known, given in the order of
    the release.
    """
    record = _recorded(rehearsal.folder)
    found: dict[str, Judged] = {}

    def note(trial: Trial) -> None:
        one = record.judged(trial, state.releases[trial.package].release.version)
        found[one.package] = one
        told(one)

    packages = rehearsal.found.by_id()
    for package, release in state.releases.items():
        if release.outcome not in GOOD_OUTCOMES:
            words = _why_not(release)
            note(Trial(package=package, verdict=Verdict.NOT_PUBLISHED, words=words))
    slots = Slots(width_of_machine())
    async with asyncio.TaskGroup() as group:
        for world in all_ecosystems():
            published = tuple(
                # As it was released: only a build may have known the version.
                replace(packages[package], version=release.release.version)
                for package, release in state.releases.items()
                if release.outcome in GOOD_OUTCOMES and packages[package].ecosystem == world.name
            )
            if published:
                request = TrialRequest(
                    workspace=rehearsal.found,
                    packages=published,
                    registry=running[world.registry],
                    stored=_home_of(rehearsal, world),
                    scratch=rehearsal.folder / "trials" / world.name,
                    environ=os.environ,
                    slots=slots,
                    timeout=TRIAL_TIMEOUT,
                    finished=note,
                )
                group.create_task(world.try_out(request))
    judged = [found[package] for package in state.releases]
    for package, reason in rehearsal.left_out.items():
        trial = Trial(package=package, verdict=Verdict.NOT_PUBLISHED, words=reason)
        judged.append(record.judged(trial, packages[package].version or ""))
        told(judged[-1])
    return tuple(judged)


def _why_not(release: ReleaseState) -> str:
    if release.outcome is Outcome.BLOCKED:
        return f"it needs {release.blocked_by}"
    return release.reason or str(release.outcome or "the run ended before it")


@dataclass(frozen=True, slots=True)
class _Record:
    """What the journals of a rehearsal say: one run, or one and the same again."""

    artifacts: dict[str, tuple[Artifact, ...]] = field(default_factory=dict)
    builds: dict[str, float] = field(default_factory=dict)
    uploads: dict[tuple[str, str], float] = field(default_factory=dict)

    def judged(self, trial: Trial, version: str) -> Judged:
        package = trial.package
        return Judged(
            package=package,
            version=version,
            trial=trial,
            artifacts=tuple(
                Timed(artifact=artifact, seconds=self.uploads.get((package, artifact.file)))
                for artifact in self.artifacts.get(package, ())
            ),
            build_seconds=self.builds.get(package),
        )


def _recorded(folder: Path) -> _Record:
    record = _Record()
    for file in sorted((folder / "runs").glob(f"*/{journal.FILE_NAME}")):
        started: dict[str, float] = {}
        sent: dict[tuple[str, str], float] = {}
        for event in journal.read(file).events:
            match event:
                case BuildStarted(package=package):
                    started[package] = event.at
                case BuildFinished(package=package):
                    record.artifacts[package] = event.artifacts
                    if package in started:  # else its artifacts were taken over
                        record.builds[package] = event.at - started[package]
                case UploadSent(package=package, file=name):
                    sent.setdefault((package, name), event.at)
                case Confirmed(package=package, file=name) if (package, name) in sent:
                    record.uploads[package, name] = event.at - sent[package, name]
    return record


async def differences(rehearsal: Rehearsal) -> tuple[str, ...]:
    """What a real publish would do otherwise, as far as this machine alone can tell."""
    request = PublishRequest(root=rehearsal.found.root, config=rehearsal.config)
    by_id = {package.id: package for package in rehearsal.packages}
    try:
        chosen = registry_choice.choose(request, rehearsal.found, rehearsal.packages)
    except ReleaseKitError as error:
        return (f"it would stop before it begins: {error.message}",)
    groups: dict[tuple[str, str, str], list[Package]] = {}
    for package, registry in chosen.items():
        source = await registry.credential_source()
        key = (registry.name, registry.address, source or "")
        groups.setdefault(key, []).append(by_id[package])
    told = []
    for (name, address, source), packages in groups.items():
        credential = f"with the credential from {source}" if source else "without a credential"
        if source == TRUSTED:
            credential = "by trusted publishing"
        told.append(f"{_count(packages)} would go to {name}, {address}, {credential}")
        if name == "pypi" and len(packages) > NEW_PROJECTS_A_DAY:
            told.append(
                f"{name} may take no more than {NEW_PROJECTS_A_DAY} new projects a day;"
                " it was not asked which of them it knows"
            )
    wishes = (settings.attestations for settings in rehearsal.config.registries.values())
    if any(wish is not Attestations.NEVER for wish in wishes):
        told.append("what the configuration asks to be signed would be: a rehearsal signs nothing")
    told.append("versions that a registry holds already would be left alone; none was asked")
    return tuple(told)


def _count(packages: list[Package]) -> str:
    return packages[0].id if len(packages) == 1 else f"{len(packages)} packages"
