"""The command line: options become a request, a request one verb, its answer a screen.

Modules here import Typer and nothing heavy; a command imports its verb when it is called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from releasekit.cli import (
    build,
    check,
    clean,
    demo,
    discover,
    graph,
    init,
    pause,
    publish,
    recover,
    rehearse,
    status,
)
from releasekit.cli.overview import show_overview
from releasekit.cli.shell import Commands

EXAMPLES = """\b
Examples:
  releasekit                     what this repository holds and what to do next
  releasekit -C ../repo publish  publish what is not on its registry yet
  releasekit demo                see a whole release against throwaway registries
"""

app = typer.Typer(
    name="releasekit",
    cls=Commands,
    epilog=EXAMPLES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from releasekit import __version__

        typer.echo(f"releasekit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def releasekit(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Release monorepos to PyPI and npm: in dependency order, with every byte confirmed."""
    if ctx.invoked_subcommand is None:
        show_overview(ctx.obj)


for module in (
    discover, graph, init, check, build, rehearse, publish, status, pause, recover, clean, demo
):  # fmt: skip
    module.register(app)
