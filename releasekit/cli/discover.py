"""`releasekit discover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer reads annotations at run time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.cli.shell import Shell
    from releasekit.graph import Graph
    from releasekit.model import Edge, Package, Workspace

EXAMPLES = """\b
Examples:
  releasekit discover
  releasekit discover --output json
  releasekit -C ../repo discover
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(discover)


def discover(ctx: typer.Context) -> None:
    """Show the workspaces and packages of this repository, and who needs whom."""
    from releasekit.cli.shell import Output
    from releasekit.graph import Graph

    shell: Shell = ctx.obj
    found, _ = shell.load()
    graph = Graph.of(found)
    if shell.output is Output.JSON:
        shell.emit(as_data(found, graph))
    else:
        shell.print("\n".join(_as_text(shell, found, graph)))


def as_data(found: Workspace, graph: Graph) -> dict[str, object]:
    return {
        "root": str(found.root),
        "workspaces": [
            {"root": member.root, "ecosystem": member.ecosystem, "tool": member.tool}
            for member in found.members
        ],
        "packages": [_package_as_data(package) for package in found.packages],
        "edges": [edge_as_data(edge) for edge in found.edges],
        "cycles": [list(cycle) for cycle in graph.cycles],
        "warnings": [*found.warnings, *graph.warnings],
    }


def _package_as_data(package: Package) -> dict[str, object]:
    return {
        "id": package.id,
        "name": package.name,
        "ecosystem": package.ecosystem,
        "version": package.version,
        "path": package.path,
        "publishable": package.publishable,
        "reason": package.reason,
    }


def edge_as_data(edge: Edge) -> dict[str, str]:
    return {
        "from": edge.source,
        "to": edge.target,
        "kind": edge.kind.value,
        "order": edge.order.value,
    }


def _as_text(shell: Shell, found: Workspace, graph: Graph) -> Iterator[str]:
    from releasekit.ui.text import clean

    yield shell.style(clean(str(found.root)), "1")
    for member in found.members:
        yield f"{member.tool} workspace in `{clean(member.root)}`"
    width = max((len(clean(package.id)) for package in found.packages), default=0)
    for package in found.packages:
        version = clean(package.version or "?")
        line = f"  {clean(package.id):{width}}  {version:10}  {clean(package.path)}"
        yield (
            line
            if package.publishable
            else f"{line}  (not published: {clean(package.reason or '')})"
        )
    hard = sum(edge.order == "hard" for edge in found.edges)
    soft = sum(edge.order == "soft" for edge in found.edges)
    other = len(found.edges) - hard - soft
    yield (
        f"{len(found.packages)} packages, {len(found.edges)} edges:"
        f" {hard} hard, {soft} soft, {other} for development"
    )
    for warning in (*found.warnings, *graph.warnings):
        yield f"{shell.style('warning:', '1;33')} {clean(warning)}"
