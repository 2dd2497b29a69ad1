"""`releasekit graph`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from releasekit.model import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from releasekit.cli.graph_views import View
    from releasekit.cli.shell import Shell
    from releasekit.model import Edge, Workspace

EXAMPLES = """\b
Examples:
  releasekit graph
  releasekit graph --format levels
  releasekit graph --package core --dependents
  releasekit graph --kind runtime --format dot | dot -Tsvg > graph.svg
"""


class Format(StrEnum):
    TREE = "tree"
    LEVELS = "levels"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(graph)


def graph(
    ctx: typer.Context,
    output_format: Annotated[
        Format | None,
        typer.Option("--format", help="How to draw it.  [default: tree]", show_default=False),
    ] = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this package and what it touches.")
    ] = None,
    dependents: Annotated[
        bool, typer.Option("--dependents", help="With --package: all that need it.")
    ] = False,
    dependencies: Annotated[
        bool, typer.Option("--dependencies", help="With --package: all that it needs.")
    ] = False,
    kind: Annotated[
        list[EdgeKind] | None, typer.Option(help="Only edges of this kind; may be repeated.")
    ] = None,
) -> None:
    """Draw who needs whom, and the order of a release."""
    from releasekit.cli import graph_views
    from releasekit.cli.shell import Output
    from releasekit.errors import OptionNeedsPackage
    from releasekit.ui.text import clean

    shell: Shell = ctx.obj
    if package is None and (dependents or dependencies):
        raise OptionNeedsPackage(option="--dependents" if dependents else "--dependencies")
    found, _ = shell.load()
    wanted = output_format or (Format.JSON if shell.output is Output.JSON else Format.TREE)
    view = select(
        found, package=package, dependents=dependents, dependencies=dependencies, kinds=kind or ()
    )
    if wanted is Format.JSON:
        shell.emit(graph_views.as_data(view))
    else:
        draw = {
            Format.TREE: graph_views.tree,
            Format.LEVELS: graph_views.levels,
            Format.MERMAID: graph_views.mermaid,
            Format.DOT: graph_views.dot,
        }[wanted]
        shell.print("\n".join(draw(view)))
    for warning in view.graph.warnings:
        shell.say(f"warning: {clean(warning)}")


def select(
    found: Workspace,
    *,
    package: str | None,
    dependents: bool,
    dependencies: bool,
    kinds: Collection[EdgeKind],
) -> View:
    """The part of the graph that was asked for; a package alone means both directions."""
    from releasekit.cli.graph_views import View
    from releasekit.graph import build, reach
    from releasekit.model import Order

    edges = [
        edge
        for edge in found.edges
        if edge.source != edge.target and (not kinds or edge.kind in kinds)
    ]
    names = sorted({one.id for one in found.packages})
    start = None
    if package is not None:
        from releasekit.workspace import find_package

        start = find_package(found, package)
        # Who develops with a package does not depend on it, unless that is what was asked.
        followed = [edge for edge in edges if kinds or edge.order is not Order.NONE]
        selected = {start}
        if dependents or not dependencies:
            selected |= reach(_steps(names, followed, forward=False), (start,))
        if dependencies or not dependents:
            selected |= reach(_steps(names, followed, forward=True), (start,))
        names = sorted(selected)
        edges = [edge for edge in edges if edge.source in selected and edge.target in selected]
    return View(
        packages=tuple(names),
        edges=tuple(edges),
        graph=build(names, edges),
        start=start,
        upwards=dependents and not dependencies,
    )


def _steps(names: Sequence[str], edges: Sequence[Edge], *, forward: bool) -> dict[str, list[str]]:
    steps: dict[str, list[str]] = {name: [] for name in names}
    for edge in edges:
        source, target = (edge.source, edge.target) if forward else (edge.target, edge.source)
        steps[source].append(target)
    return steps
