"""Edges, order and cycles. Pure, and iterative: a long chain needs no deep stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.model import Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from releasekit.model import Edge, Workspace

Successors = dict[str, set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What waits for what.

    `dependencies` has no cycles: a package in a hard cycle waits for what the whole group needs,
    and whoever needs one of the group waits for all of it.
    """

    dependencies: Mapping[str, tuple[str, ...]]
    groups: tuple[tuple[str, ...], ...]
    """Packages that need each other: they go side by side."""
    cycles: tuple[tuple[str, ...], ...]
    """Each package of a cycle needs the next, and the last the first."""
    dropped: tuple[Edge, ...]
    """Soft edges that would close a cycle."""

    @classmethod
    def of(cls, workspace: Workspace) -> Graph:
        return build(
            (package.id for package in workspace.packages),
            (edge for edge in workspace.edges),
        )

    @property
    def dependents(self) -> Mapping[str, tuple[str, ...]]:
        reverse: dict[str, list[str]] = {name: [] for name in self.dependencies}
        for name, needed in self.dependencies.items():
            for other in needed:
                reverse[other].append(name)
        return {name: tuple(others) for name, others in reverse.items()}

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Packages that may go at the same time, dependencies first."""
        dependents = self.dependents
        missing = {name: len(needed) for name, needed in self.dependencies.items()}
        level = sorted(name for name, count in missing.items() if count == 0)
        found = []
        while level:
            found.append(tuple(level))
            following = []
            for name in level:
                for other in dependents[name]:
                    missing[other] -= 1
                    if missing[other] == 0:
                        following.append(other)
            level = sorted(following)
        return tuple(found)

    def order(self) -> tuple[str, ...]:
        """Dependencies before dependents; the same every time."""
        return tuple(name for level in self.levels() for name in level)

    def dependencies_of(self, package: str) -> tuple[str, ...]:
        """All that it needs, directly or through others, in the order of a release."""
        return self._reached(package, self.dependencies)

    def dependents_of(self, package: str) -> tuple[str, ...]:
        """All that need it, directly or through others, in the order of a release."""
        return self._reached(package, self.dependents)

    def _reached(self, package: str, step: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        group = next((group for group in self.groups if package in group), (package,))
        seen = set(group)
        pending = list(group)
        while pending:
            for other in step[pending.pop()]:
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        seen.discard(package)
        return tuple(name for name in self.order() if name in seen)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(
            f"hard cycle: {' → '.join((*cycle, cycle[0]))}; released side by side"
            for cycle in self.cycles[: len(self.groups)]
        )


def build(packages: Iterable[str], edges: Iterable[Edge]) -> Graph:
    names = dict.fromkeys(packages)
    hard: Successors = {name: set() for name in names}
    soft: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        if edge.source == edge.target:
            continue
        if edge.order is Order.HARD:
            hard[edge.source].add(edge.target)
        elif edge.order is Order.SOFT:
            soft.setdefault((edge.source, edge.target), edge)
    groups = [tuple(sorted(part)) for part in components(hard) if len(part) > 1]
    leader = {name: name for name in names}
    for group in groups:
        leader.update(dict.fromkeys(group, group[0]))
    condensed: Successors = {name: set() for name in names if leader[name] == name}
    for name, needed in hard.items():
        condensed[leader[name]].update(
            leader[other] for other in needed if leader[other] != leader[name]
        )
    kept, dropped, soft_cycles = _add_soft(condensed, leader, soft, hard)
    members = {name: (name,) for name in condensed} | {group[0]: group for group in groups}
    dependencies = {
        name: tuple(sorted(other for one in kept[leader[name]] for other in members[one]))
        for name in names
    }
    groups.sort()
    cycles = [cycle_through(hard, group) for group in groups]
    return Graph(
        dependencies=dependencies,
        groups=tuple(groups),
        cycles=tuple(cycles) + tuple(soft_cycles),
        dropped=tuple(dropped),
    )


def _add_soft(
    condensed: Successors,
    leader: Mapping[str, str],
    soft: Mapping[tuple[str, str], Edge],
    hard: Successors,
) -> tuple[Successors, list[Edge], list[tuple[str, ...]]]:
    """Soft edges one after the other, without those that would close a cycle."""
    kept = {name: set(needed) for name, needed in condensed.items()}
    together = {name: set(needed) for name, needed in condensed.items()}
    for source, target in soft:
        if leader[source] != leader[target]:
            together[leader[source]].add(leader[target])
    part_of: dict[str, int] = {}
    for number, part in enumerate(components(together)):
        part_of.update(dict.fromkeys(part, number))
    dropped: list[Edge] = []
    cycles: list[tuple[str, ...]] = []
    doubtful: list[Edge] = []
    for (source, target), edge in sorted(soft.items()):
        start, end = leader[source], leader[target]
        if start == end:
            if target not in hard[source]:
                dropped.append(edge)
        elif part_of[start] == part_of[end]:
            doubtful.append(edge)
        else:
            kept[start].add(end)
    for edge in doubtful:
        start, end = leader[edge.source], leader[edge.target]
        if end in kept[start]:
            continue
        way = path(kept, end, start)
        if way is None:
            kept[start].add(end)
        else:
            dropped.append(edge)
            cycles.append((start, *way[:-1]))
    return kept, dropped, cycles


def components(successors: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[list[str]] = []
    for root in successors:
        if root in index:
            continue
        work = [(root, iter(sorted(successors[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(successors[other]))))
                    break
                if other in on_stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    part: list[str] = []
                    while not part or part[-1] != name:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    found.append(part)
    return found


def path(successors: Mapping[str, Iterable[str]], start: str, end: str) -> tuple[str, ...] | None:
    """A shortest way from start to end, both included."""
    came_from: dict[str, str] = {}
    seen = {start}
    front = [start]
    while front:
        following = []
        for name in front:
            for other in sorted(successors[name]):
                if other == end:
                    came_from[other] = name
                    return _back(came_from, start, end)
                if other not in seen:
                    seen.add(other)
                    came_from[other] = name
                    following.append(other)
        front = following
    return None


def _back(came_from: Mapping[str, str], start: str, end: str) -> tuple[str, ...]:
    way = [end]
    name = came_from[end]
    while name != start:
        way.append(name)
        name = came_from[name]
    way.append(start)
    return tuple(reversed(way))


def cycle_through(successors: Mapping[str, Iterable[str]], group: Sequence[str]) -> tuple[str, ...]:
    """A shortest cycle through the first of the group."""
    inside = {name: [other for other in successors[name] if other in group] for name in group}
    way = path(inside, group[0], group[0])
    assert way is not None  # noqa: S101 - a group is strongly connected
    return way[:-1]
