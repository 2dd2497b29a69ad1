from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit.graph import Graph, build
from releasekit.model import Edge, EdgeKind, Order


def graph(*edges: str, packages: str = "") -> Graph:
    """`a>b` a hard edge, `a~b` a soft one, `a.b` one that orders nothing."""
    kinds = {">": EdgeKind.RUNTIME, "~": EdgeKind.PEER, ".": EdgeKind.DEV}
    found = [Edge(source=edge[0], target=edge[2], kind=kinds[edge[1]]) for edge in edges]
    names = {name for edge in found for name in (edge.source, edge.target)} | set(packages)
    return build(sorted(names), found)


def test_dependencies_come_first_and_equals_in_alphabetical_order() -> None:
    assert graph("a>z", "b>z", "z>m").levels() == (("m",), ("z",), ("a", "b"))
    assert graph("a>z", packages="qc").order() == ("c", "q", "z", "a")


def test_soft_edges_order_and_dev_edges_do_not() -> None:
    assert graph("a~b").order() == ("b", "a")
    assert graph("a.b").levels() == (("a", "b"),)


def test_a_package_that_needs_itself_is_nothing_special() -> None:
    found = graph("a>a", "b~b", "a>b")
    assert found.order() == ("b", "a")
    assert found.cycles == ()
    assert found.dropped == ()


def test_a_soft_edge_that_closes_a_cycle_is_dropped_and_shown() -> None:
    found = graph("b>a", "a~b")
    assert found.order() == ("a", "b")
    assert [(edge.source, edge.target) for edge in found.dropped] == [("a", "b")]
    assert found.cycles == (("a", "b"),)
    assert found.groups == ()
    assert found.warnings == (
        "cycle a → b → a: the peer dependency of a on b does not order the release",
    )


def test_of_two_soft_edges_in_a_cycle_one_is_kept() -> None:
    found = graph("a~b", "b~a")
    assert len(found.dropped) == 1
    assert len(found.levels()) == 2


def test_packages_in_a_hard_cycle_go_side_by_side() -> None:
    found = graph("a>b", "b>c", "c>a", "c>x", "y>b")
    assert found.groups == (("a", "b", "c"),)
    assert found.levels() == (("x",), ("a", "b", "c"), ("y",))
    assert found.cycles == (("a", "b", "c"),)
    assert found.warnings == ("cycle a → b → c → a: released side by side",)


def test_a_hard_cycle_shares_what_it_needs_and_who_needs_it() -> None:
    found = graph("a>b", "b>a", "b>x", "y>a")
    assert found.dependencies["a"] == ("x",)
    assert found.dependencies["y"] == ("a", "b")
    assert found.dependents["x"] == ("a", "b")


def test_a_soft_edge_inside_a_hard_cycle_is_dropped() -> None:
    found = graph("a>b", "b>c", "c>a", "a~c")
    assert [(edge.source, edge.target) for edge in found.dropped] == [("a", "c")]
    assert found.cycles == (("a", "b", "c"), ("a", "c"))


def test_dependents_and_dependencies_are_transitive() -> None:
    found = graph("a>b", "b>c", "d~c", "e.c")
    assert found.dependencies_of("a") == ("b", "c")
    assert found.dependents_of("c") == ("a", "b", "d")
    assert found.dependents_of("a") == ()


def test_in_a_hard_cycle_each_needs_the_others() -> None:
    found = graph("a>b", "b>a", "b>x")
    assert found.dependencies_of("a") == ("b", "x")
    assert found.dependents_of("x") == ("a", "b")


def test_two_kinds_between_the_same_packages_are_one_dependency() -> None:
    edges = [Edge(source="a", target="b", kind=kind) for kind in EdgeKind]
    assert build(["a", "b"], edges).dependencies == {"a": ("b",), "b": ()}


@pytest.mark.parametrize("kind", [EdgeKind.RUNTIME, EdgeKind.PEER])
def test_a_chain_of_ten_thousand_needs_no_recursion(kind: EdgeKind) -> None:
    names = [f"p{number:05}" for number in range(10_000)]
    edges = [Edge(source=name, target=following, kind=kind) for name, following in pairwise(names)]
    found = build(names, edges)
    assert found.order() == tuple(reversed(names))
    assert len(found.dependencies_of(names[0])) == 9_999


@pytest.mark.parametrize("kind", [EdgeKind.RUNTIME, EdgeKind.PEER])
def test_a_ring_of_ten_thousand_needs_no_recursion(kind: EdgeKind) -> None:
    names = [f"p{number:05}" for number in range(10_000)]
    edges = [
        Edge(source=name, target=names[(number + 1) % len(names)], kind=kind)
        for number, name in enumerate(names)
    ]
    found = build(names, edges)
    assert len(found.order()) == 10_000
    assert len(found.cycles) == 1
    assert len(found.cycles[0]) == 10_000
    assert len(found.dropped) == (1 if kind is EdgeKind.PEER else 0)


NAMES = "abcdefgh"
EDGES = st.lists(
    st.builds(
        lambda source, target, kind: Edge(source=source, target=target, kind=kind),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from([EdgeKind.RUNTIME, EdgeKind.PEER, EdgeKind.DEV]),
    ),
    max_size=30,
)


def _reaches(steps: set[tuple[str, str]], start: str, end: str) -> bool:
    seen, pending = set(), [start]
    while pending:
        name = pending.pop()
        for source, target in steps:
            if source == name and target not in seen:
                seen.add(target)
                pending.append(target)
    return end in seen


@given(EDGES)
def test_every_package_is_ordered_once_after_all_it_needs(edges: list[Edge]) -> None:
    found = build(NAMES, edges)
    order = found.order()
    assert sorted(order) == list(NAMES)
    place = {name: number for number, name in enumerate(order)}
    for name, needed in found.dependencies.items():
        assert all(place[other] < place[name] for other in needed)


@given(EDGES)
def test_every_edge_is_kept_inside_a_group_or_dropped(edges: list[Edge]) -> None:
    found = build(NAMES, edges)
    dropped = {(edge.source, edge.target) for edge in found.dropped}
    for edge in edges:
        pair = (edge.source, edge.target)
        together = any(set(pair) <= set(group) for group in found.groups)
        kept = edge.target in found.dependencies[edge.source]
        if edge.order is Order.HARD and edge.source != edge.target:
            assert kept or together
        if edge.order is Order.SOFT and edge.source != edge.target:
            assert kept or together or pair in dropped


@given(EDGES)
def test_groups_are_exactly_the_hard_cycles(edges: list[Edge]) -> None:
    hard = {
        (edge.source, edge.target)
        for edge in edges
        if edge.order is Order.HARD and edge.source != edge.target
    }
    found = build(NAMES, edges)
    for first in NAMES:
        for second in NAMES:
            if first < second:
                together = any({first, second} <= set(group) for group in found.groups)
                circular = _reaches(hard, first, second) and _reaches(hard, second, first)
                assert together == circular


@given(EDGES)
def test_a_dropped_edge_really_would_close_a_cycle(edges: list[Edge]) -> None:
    found = build(NAMES, edges)
    kept = {(name, other) for name, needed in found.dependencies.items() for other in needed}
    for edge in found.dropped:
        together = any({edge.source, edge.target} <= set(group) for group in found.groups)
        assert together or _reaches(kept, edge.target, edge.source)
    for cycle in found.cycles:
        assert len(set(cycle)) == len(cycle) > 1
