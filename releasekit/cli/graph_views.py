"""A graph as text: a tree, levels, Mermaid, Graphviz, or data. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.cli.discover import edge_as_data
from releasekit.model import EdgeKind, Order
from releasekit.ui.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.graph import Graph
    from releasekit.model import Edge

_MAX_INDENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A part of the packages, with the edges between them."""

    packages: tuple[str, ...]
    edges: tuple[Edge, ...]
    graph: Graph
    start: str | None = None
    upwards: bool = False
    """Whether a tree grows from a package to its dependents."""


def as_data(view: View) -> dict[str, object]:
    return {
        "packages": list(view.packages),
        "edges": [edge_as_data(edge) for edge in view.edges],
        "levels": [list(level) for level in view.graph.levels()],
        "cycles": [list(cycle) for cycle in view.graph.cycles],
        "groups": [list(group) for group in view.graph.groups],
        "dropped": [edge_as_data(edge) for edge in view.graph.dropped],
    }


def levels(view: View) -> Iterator[str]:
    for number, level in enumerate(view.graph.levels()):
        yield f"{number}: {' '.join(map(clean, level))}"


def tree(view: View) -> Iterator[str]:
    """Each package is unfolded once: `(*)` says that it was, above, and `…` that it will be."""
    children = _children(view)
    unfolded: set[str] = set()
    for top in _tops(view, children):
        if top not in unfolded:
            yield from _branch(top, children, unfolded)


def _tops(view: View, children: dict[str, dict[str, list[EdgeKind]]]) -> list[str]:
    """The package asked for, or those that nobody needs. A circle has neither: its first serves."""
    has_parent = {child for below in children.values() for child in below}
    free = [name for name in view.packages if name not in has_parent]
    return [*([view.start] if view.start else []), *free, *view.packages]


def _branch(
    top: str, children: dict[str, dict[str, list[EdgeKind]]], unfolded: set[str]
) -> Iterator[str]:
    # What stands before a line, the package, and the kinds of the edges that lead to it.
    pending: list[tuple[str, str, str, list[EdgeKind]]] = [("", "", top, [])]
    while pending:
        indent, corner, name, kinds = pending.pop()
        label = [kind.value for kind in kinds if kind is not EdgeKind.RUNTIME]
        note = f" [{', '.join(label)}]" if label else ""
        if children[name] and name in unfolded:
            note += " (*)"
        elif children[name] and len(indent) > _MAX_INDENT:
            note += " …"
        yield f"{indent}{corner}{clean(name)}{note}"
        if note.endswith(("(*)", "…")):
            continue
        unfolded.add(name)
        deeper = indent + {"": "", "├── ": "│   ", "└── ": "    "}[corner]
        below = sorted(children[name].items(), reverse=True)
        for place, (child, its_kinds) in enumerate(below):
            pending.append((deeper, "├── " if place else "└── ", child, its_kinds))


def _children(view: View) -> dict[str, dict[str, list[EdgeKind]]]:
    children: dict[str, dict[str, list[EdgeKind]]] = {name: {} for name in view.packages}
    for edge in view.edges:
        parent, child = (edge.target, edge.source) if view.upwards else (edge.source, edge.target)
        children[parent].setdefault(child, []).append(edge.kind)
    return children


def mermaid(view: View) -> Iterator[str]:
    number = {name: f"p{place}" for place, name in enumerate(view.packages)}
    arrow = {Order.HARD: "-->", Order.SOFT: "-.->", Order.NONE: "-.-"}
    yield "flowchart LR"
    for name in view.packages:
        label = clean(name).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        yield f'    {number[name]}["{label}"]'
    for edge in view.edges:
        label = "" if edge.kind is EdgeKind.RUNTIME else f"|{edge.kind}|"
        yield f"    {number[edge.source]} {arrow[edge.order]}{label} {number[edge.target]}"


def dot(view: View) -> Iterator[str]:
    style = {Order.HARD: "solid", Order.SOFT: "dashed", Order.NONE: "dotted"}
    yield "digraph packages {"
    yield "    node [shape=box];"
    for name in view.packages:
        yield f"    {_quoted(name)};"
    for edge in view.edges:
        label = "" if edge.kind is EdgeKind.RUNTIME else f', label="{edge.kind}"'
        yield (
            f"    {_quoted(edge.source)} -> {_quoted(edge.target)}"
            f" [style={style[edge.order]}{label}];"
        )
    yield "}"


def _quoted(name: str) -> str:
    escaped = clean(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
