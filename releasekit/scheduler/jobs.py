"""A graph becomes jobs: linked both ways, free of cycles, each knowing its longest chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import structlog

from releasekit.errors import CyclicGraph, DuplicatePackage

if TYPE_CHECKING:
    import asyncio

    from releasekit.scheduler.words import Outcome

log = structlog.get_logger(__name__)


@runtime_checkable
class HasDependencies(Protocol):
    @property
    def dependencies(self) -> Mapping[str, Iterable[str]]: ...


Graph = HasDependencies | Mapping[str, Iterable[str]] | Iterable[tuple[str, Iterable[str]]]

# The phases of a job: plain integers, because every start and every end compares them.
WAITING, READY, RUNNING, RETRYING, DONE = range(5)


class Lane:
    """Where packages go, with a limit of its own and a gate."""

    __slots__ = ("closed_until", "limit", "name", "ready", "running", "served", "timer")

    def __init__(self, name: str, limit: int | None) -> None:
        self.name = name
        self.limit = limit
        self.ready: list[tuple[float, int, Job]] = []
        """A heap. An entry whose job is not ready any more is dropped when it comes to the top."""
        self.running = 0
        self.served = 0
        """When this lane last got a slot, counted in starts."""
        self.closed_until: float | None = None
        self.timer: asyncio.TimerHandle | None = None


class Job:
    """One package in a run."""

    __slots__ = (
        "attempts",
        "began",
        "chain",
        "dependencies",
        "dependents",
        "duration",
        "index",
        "lane",
        "name",
        "outcome",
        "pending",
        "phase",
        "started",
    )

    lane: Lane

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.phase = WAITING
        self.pending = 0
        """How many dependencies are not satisfied yet; one named twice counts twice."""
        self.dependencies: list[Job] = []
        self.dependents: list[Job] = []
        self.duration = 1.0
        self.chain = 0.0
        """The expected length of the longest chain that starts with this job."""
        self.attempts = 0
        self.began: float | None = None
        """When its first attempt started."""
        self.started = 0.0
        """When its latest attempt started."""
        self.outcome: Outcome | None = None


def link(graph: Graph, publishable: Iterable[str] | None) -> dict[str, Job]:
    """The jobs of the publishable packages, in the order of the graph.

    A publishable package that the graph does not list has no dependencies. A dependency outside
    `publishable` counts as satisfied; if the graph does not know it either, a warning says so.
    """
    listed = _without_duplicates(graph)
    jobs = {}
    wanted: Iterable[str] = listed
    if publishable is not None:
        chosen = _unique(
            sorted(publishable) if isinstance(publishable, (set, frozenset)) else publishable
        )
        wanted = [name for name in listed if name in chosen]
        wanted += [name for name in chosen if name not in listed]
    for index, name in enumerate(wanted):
        jobs[name] = Job(name, index)
    for name, job in jobs.items():
        attach(job, listed.get(name, ()), jobs, listed)
    return jobs


def attach(
    job: Job, names: Iterable[str], jobs: Mapping[str, Job], known: Mapping[str, object]
) -> None:
    dependencies = job.dependencies
    for name in names:
        dependency = jobs.get(name)
        if dependency is not None:
            dependencies.append(dependency)
            dependency.dependents.append(job)
        elif name not in known:
            log.warning("unknown dependency taken as satisfied", package=job.name, dependency=name)
    job.pending = len(dependencies)


def weigh(jobs: Mapping[str, Job], durations: Mapping[str, float]) -> float:
    """Give every job the length of its chain; refuse a graph in which a chain has no end.

    A package without a known duration is expected to take the mean of the known ones: the result.
    """
    known = [durations[name] for name in jobs if name in durations] if durations else []
    usual = fmean(known) if known else 1.0
    if known:
        for name, job in jobs.items():
            job.duration = durations.get(name, usual)
    open_dependents = [len(job.dependents) for job in jobs.values()]
    settled = [job for job in jobs.values() if not job.dependents]
    for job in settled:
        job.chain = chain = job.chain + job.duration
        for dependency in job.dependencies:
            if dependency.chain < chain:  # noqa: PLR1730 - the call costs more than the rest
                dependency.chain = chain
            index = dependency.index
            left = open_dependents[index] = open_dependents[index] - 1
            if not left:
                settled.append(dependency)
    if len(settled) < len(jobs):
        raise CyclicGraph(path=_cycle([j for j in jobs.values() if open_dependents[j.index]]))
    return usual


def _cycle(stuck: list[Job]) -> tuple[str, ...]:
    """Every stuck job has a stuck dependent, so walking along them must come back somewhere."""
    unsettled = set(stuck)
    job, seen = stuck[0], dict[Job, None]()
    while job not in seen:
        seen[job] = None
        job = next(dependent for dependent in job.dependents if dependent in unsettled)
    walked = list(seen)
    ring = walked[walked.index(job) :][::-1]
    first = ring.index(min(ring, key=lambda member: member.index))
    ring = ring[first:] + ring[: first + 1]
    return tuple(member.name for member in ring)


def _unique(names: Iterable[str]) -> dict[str, None]:
    unique = dict[str, None]()
    for name in names:
        if name in unique:
            raise DuplicatePackage(name=name)
        unique[name] = None
    return unique


def _without_duplicates(graph: Graph) -> Mapping[str, Iterable[str]]:
    if isinstance(graph, Mapping):
        return graph
    if isinstance(graph, HasDependencies):
        return graph.dependencies
    listed = list(graph)
    _unique(name for name, _ in listed)
    return dict(listed)
