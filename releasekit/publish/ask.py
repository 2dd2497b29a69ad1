"""What registries are asked before a release. One that does not answer is told of once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from releasekit.access import TRUSTED
from releasekit.errors import (
    CredentialRefused,
    FirstVersionNeedsToken,
    NoCredential,
    ReadsLimited,
    RegistryUnreachable,
    ReleaseKitError,
)
from releasekit.model import Problem, Severity
from releasekit.net import is_loopback, is_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import httpx

    from releasekit.ecosystems import Presence, Registry
    from releasekit.model import Package


@dataclass(slots=True, kw_only=True)
class Answers:
    """By package, what its registry holds; and why some are missing."""

    presences: dict[str, Presence] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


async def presences(
    client: httpx.AsyncClient, packages: Iterable[Package], registries: Mapping[str, Registry]
) -> Answers:
    """All of them at once; a registry that is down costs the others nothing."""
    lanes: dict[tuple[str, str], list[Package]] = defaultdict(list)
    for package in packages:
        registry = registries[package.id]
        lanes[registry.name, registry.address].append(package)
    answers = Answers()
    async with asyncio.TaskGroup() as group:
        for lane in lanes.values():
            group.create_task(_ask_one(client, lane, registries, answers))
    return answers


async def _ask_one(
    client: httpx.AsyncClient,
    packages: Sequence[Package],
    registries: Mapping[str, Registry],
    answers: Answers,
) -> None:
    odd: dict[object, list[tuple[ReleaseKitError, str]]] = defaultdict(list)

    async def ask(package: Package) -> None:
        try:
            presence = await registries[package.id].presence(client, package)
        except (RegistryUnreachable, ReadsLimited):
            raise
        except ReleaseKitError as error:
            odd[type(error), getattr(error, "status", None)].append((error, package.id))
        else:
            answers.presences[package.id] = presence

    try:
        async with asyncio.TaskGroup() as group:
            for package in packages:
                group.create_task(ask(package))
    except* (RegistryUnreachable, ReadsLimited) as errors:
        # What holds for one of its packages holds for all.
        answers.problems.append(Problem.of(_first(errors)))
    for told in odd.values():
        error, package_id = told[0]
        if len(told) > 1:
            message = f"{error.message} (and so for {len(told) - 1} more packages)"
            problem = Problem(message=message, hint=error.hint, error=error)
        else:
            problem = Problem.of(error, package_id)
        answers.problems.append(problem)


def _first(errors: BaseExceptionGroup[ReleaseKitError]) -> ReleaseKitError:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def permissions(
    client: httpx.AsyncClient,
    packages: Sequence[Package],
    registries: Mapping[str, Registry],
    presences: Mapping[str, Presence],
    *,
    dry_run: bool,
) -> list[Problem]:
    """Whether these could be uploaded, as far as can be told without doing it.

    A missing credential stops a publish, but not a dry run: it may well run where no secret is.
    """
    groups: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for package in packages:
        registry = registries[package.id]
        source = await registry.credential_source()
        groups[registry.name, registry.address, source].append(package.id)
    problems: list[Problem] = []
    async with asyncio.TaskGroup() as group:
        checks = [
            group.create_task(_credential(client, source, ids, registries, presences, dry_run))
            for (_, _, source), ids in groups.items()
        ]
        reached = [
            group.create_task(_reach(client, registries[ids[0]]))
            for ids in {key[:2]: ids for key, ids in groups.items()}.values()
        ]
    for task in (*checks, *reached):
        problems += task.result()
    return problems


async def _reach(client: httpx.AsyncClient, registry: Registry) -> list[Problem]:
    try:
        await registry.reach(client)
    except RegistryUnreachable as error:
        return [Problem.of(error)]
    return []


async def _credential(
    client: httpx.AsyncClient,
    source: str | None,
    packages: Sequence[str],
    registries: Mapping[str, Registry],
    presences: Mapping[str, Presence],
    dry_run: bool,
) -> list[Problem]:
    registry = registries[packages[0]]
    only = packages[0] if len(packages) == 1 else None
    if source is None:
        if is_loopback(registry.address):
            return []
        error = NoCredential(
            registry=registry.name, packages=packages, places=registry.credential_places()
        )
        # Private ones often take uploads from whoever reaches them.
        lenient = dry_run or is_private(registry.address)
        return [Problem.of(error, only, Severity.WARNING if lenient else Severity.ERROR)]
    if source == TRUSTED:
        new = [one for one in packages if not presences[one].known]
        if new and not registry.trusts_new_projects and not is_loopback(registry.address):
            refusal = FirstVersionNeedsToken(packages=new, registry=registry.name)
            return [Problem.of(refusal, new[0] if len(new) == 1 else None)]
        return []
    try:
        await registry.whoami(client)
    except CredentialRefused as error:
        severity = Severity.WARNING if error.anonymous else Severity.ERROR
        return [Problem.of(error, only, severity)]
    except ReleaseKitError as error:
        # It did answer what it holds; perhaps it knows no such question.
        return [Problem.of(error, only, Severity.WARNING)]
    return []
