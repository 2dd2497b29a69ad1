"""Edges, order and cycles. Pure, and iterative: a long chain needs no deep stack."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.model import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from releasekit.model import Edge, Workspace

Needs = dict[str, set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What waits for what.

    `dependencies` has no cycles: a package in a hard cycle waits for all that its group needs,
    and whoever needs one of the group waits for the whole group.
    """

    dependencies: Mapping[str, tuple[str, ...]]
    dependents: Mapping[str, tuple[str, ...]]
    groups: tuple[tuple[str, ...], ...]
    """Packages that need each other: they go side by side."""
    hard_cycles: tuple[tuple[str, ...], ...]
    """One for each group. Each package of a cycle needs the next, and the last the first."""
    soft_cycles: tuple[tuple[str, ...], ...]
    """One for each dropped edge, which is its first step."""
    dropped: tuple[Edge, ...]
    """Soft edges that would close a cycle."""

    @classmethod
    def of(cls, workspace: Workspace) -> Graph:
        return build((package.id for package in workspace.packages), workspace.edges)

    @property
    def cycles(self) -> tuple[tuple[str, ...], ...]:
        return self.hard_cycles + self.soft_cycles

    @property
    def warnings(self) -> tuple[str, ...]:
        hard = (f"{_circle(cycle)}: released side by side" for cycle in self.hard_cycles)
        soft = (
            f"{_circle(cycle)}: the {edge.kind} dependency of {edge.source} on {edge.target}"
            " does not order the release"
            for cycle, edge in zip(self.soft_cycles, self.dropped, strict=True)
        )
        return (*hard, *soft)

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Packages that may go at the same time, dependencies first."""
        missing = {name: len(needed) for name, needed in self.dependencies.items()}
        level = sorted(name for name, count in missing.items() if count == 0)
        found = []
        while level:
            found.append(tuple(level))
            following = []
            for name in level:
                for other in self.dependents[name]:
                    missing[other] -= 1
                    if missing[other] == 0:
                        following.append(other)
            level = sorted(following)
        return tuple(found)

    def order(self) -> tuple[str, ...]:
        """Dependencies before dependents; the same every time."""
        return tuple(name for level in self.levels() for name in level)

    def dependencies_of(self, package: str) -> tuple[str, ...]:
        """All that it needs, directly or through others, sorted. A hard cycle needs all of it."""
        return self._reached(package, self.dependencies)

    def dependents_of(self, package: str) -> tuple[str, ...]:
        """All that need it, directly or through others, sorted."""
        return self._reached(package, self.dependents)

    def _reached(self, package: str, step: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        group = next((group for group in self.groups if package in group), (package,))
        reached = {*group, *reach(step, group)}
        return tuple(sorted(reached - {package}))


def _circle(cycle: Sequence[str]) -> str:
    return f"cycle {' → '.join((*cycle, cycle[0]))}"


def build(packages: Iterable[str], edges: Iterable[Edge]) -> Graph:
    hard: Needs = {name: set() for name in packages}
    soft: dict[tuple[str, str], Edge] = {}
    for edge in sorted(edges, key=lambda edge: (edge.source, edge.target, edge.kind)):
        if edge.source == edge.target:
            continue
        if edge.order is Order.HARD:
            hard[edge.source].add(edge.target)
        elif edge.order is Order.SOFT:
            soft.setdefault((edge.source, edge.target), edge)
    groups = sorted(tuple(sorted(part)) for part in components(hard) if len(part) > 1)
    unit = {name: name for name in hard}
    for group in groups:
        unit.update(dict.fromkeys(group, group[0]))
    members = {name: (name,) for name in hard} | {group[0]: group for group in groups}
    units: Needs = {name: set() for name in hard if unit[name] == name}
    for name, needed in hard.items():
        units[unit[name]].update(unit[other] for other in needed if unit[other] != unit[name])
    inside = {pair: edge for pair, edge in soft.items() if unit[pair[0]] == unit[pair[1]]}
    between = [edge for pair, edge in soft.items() if pair not in inside]
    dropped = _keep_soft(units, unit, between)
    for (source, target), edge in inside.items():
        if target not in hard[source]:
            way = path(hard, target, source)
            dropped.append((edge, (source, *way[:-1])))
    dependencies = {
        name: tuple(sorted(other for needed in units[unit[name]] for other in members[needed]))
        for name in hard
    }
    return Graph(
        dependencies=dependencies,
        dependents=_reversed(dependencies),
        groups=tuple(groups),
        hard_cycles=tuple(_cycle_in(hard, group) for group in groups),
        soft_cycles=tuple(cycle for _, cycle in dropped),
        dropped=tuple(edge for edge, _ in dropped),
    )


def _keep_soft(
    units: Needs, unit: Mapping[str, str], edges: Sequence[Edge]
) -> list[tuple[Edge, tuple[str, ...]]]:
    """Add soft edges to the units; return those that would close a cycle, with the cycle."""
    together = {name: set(needed) for name, needed in units.items()}
    for edge in edges:
        together[unit[edge.source]].add(unit[edge.target])
    line = _Line(units, _order_of_leaving(together))
    against = [edge for edge in edges if not line.add_with(unit[edge.source], unit[edge.target])]
    dropped = []
    for edge in against:
        source, target = unit[edge.source], unit[edge.target]
        if not line.add_against(source, target):
            dropped.append((edge, (source, *path(units, target, source)[:-1])))
    return dropped


class _Line:
    """An order of an acyclic graph that stays right while edges are added.

    D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic
    graphs", 2007: only what lies between the two ends of an edge has to move.
    """

    def __init__(self, needs: Needs, preferred: Mapping[str, int]) -> None:
        self._needs = needs
        self._needed_by: Needs = {name: set() for name in needs}
        for name, others in needs.items():
            for other in others:
                self._needed_by[other].add(name)
        self._place = {name: place for place, name in enumerate(self._sorted(preferred))}

    def _sorted(self, preferred: Mapping[str, int]) -> Iterator[str]:
        """Dependencies first, and where that leaves a choice, as preferred."""
        missing = {name: len(others) for name, others in self._needs.items()}
        ready = [(preferred[name], name) for name, count in missing.items() if count == 0]
        heapq.heapify(ready)
        while ready:
            _, name = heapq.heappop(ready)
            yield name
            for other in self._needed_by[name]:
                missing[other] -= 1
                if missing[other] == 0:
                    heapq.heappush(ready, (preferred[other], other))

    def add_with(self, source: str, target: str) -> bool:
        """Add the edge if it agrees with the order as it is."""
        if self._place[target] > self._place[source]:
            return False
        self._needs[source].add(target)
        self._needed_by[target].add(source)
        return True

    def add_against(self, source: str, target: str) -> bool:
        """Add the edge and change the order for it, unless that closes a cycle."""
        low, high = self._place[source], self._place[target]
        if high < low:
            return self.add_with(source, target)
        before = reach(self._needs, (target,), lambda name: self._place[name] >= low)
        if source in before:
            return False
        after = reach(self._needed_by, (source,), lambda name: self._place[name] <= high)
        moved = [
            *sorted({target, *before}, key=self._place.__getitem__),
            *sorted({source, *after}, key=self._place.__getitem__),
        ]
        for place, name in zip(sorted(self._place[name] for name in moved), moved, strict=True):
            self._place[name] = place
        return self.add_with(source, target)


def reach(
    step: Mapping[str, Iterable[str]],
    starts: Iterable[str],
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> set[str]:
    """All that can be reached from the starts through wanted names; a start only by a cycle."""
    reached: set[str] = set()
    pending = list(starts)
    while pending:
        for other in step[pending.pop()]:
            if other not in reached and is_wanted(other):
                reached.add(other)
                pending.append(other)
    return reached


def path(step: Mapping[str, Iterable[str]], start: str, end: str) -> tuple[str, ...]:
    """A shortest way from start to end, both included. There must be one."""
    came_from: dict[str, str] = {}
    front = [start]
    while end not in came_from:
        following = []
        for name in front:
            for other in sorted(step[name]):
                if other not in came_from:
                    came_from[other] = name
                    following.append(other)
        front = following
    way = [end, came_from[end]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))


def _cycle_in(needs: Needs, group: Sequence[str]) -> tuple[str, ...]:
    """A shortest cycle through the first of the group."""
    inside = set(group)
    return path({name: needs[name] & inside for name in group}, group[0], group[0])[:-1]


def _reversed(needs: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in needs}
    for name, others in needs.items():
        for other in others:
            found[other].append(name)
    return {name: tuple(sorted(others)) for name, others in found.items()}


def _order_of_leaving(needs: Needs) -> dict[str, int]:
    """Where a depth-first walk leaves each name: dependencies first, but for cycles."""
    left: dict[str, int] = {}
    entered: set[str] = set()
    for root in sorted(needs):
        if root in entered:
            continue
        entered.add(root)
        work = [(root, iter(sorted(needs[root])))]
        while work:
            name, following = work[-1]
            other = next((one for one in following if one not in entered), None)
            if other is None:
                left[name] = len(left)
                work.pop()
            else:
                entered.add(other)
                work.append((other, iter(sorted(needs[other]))))
    return left


def components(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected components, by R. Tarjan, 1972, without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_names: dict[str, None] = {}
    found: list[list[str]] = []
    for root in needs:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(root, needs, index, low, open_names, work)
        while work:
            name, following = work[-1]
            other = next(following, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    found.append(_close(name, open_names))
            elif other not in index:
                _enter(other, needs, index, low, open_names, work)
            elif other in open_names:
                low[name] = min(low[name], index[other])
    return found


def _enter(
    name: str,
    needs: Mapping[str, Iterable[str]],
    index: dict[str, int],
    low: dict[str, int],
    open_names: dict[str, None],
    work: list[tuple[str, Iterator[str]]],
) -> None:
    index[name] = low[name] = len(index)
    open_names[name] = None
    work.append((name, iter(sorted(needs[name]))))


def _close(name: str, open_names: dict[str, None]) -> list[str]:
    part = []
    while name in open_names:
        part.append(open_names.popitem()[0])
    return part
