"""`releasekit build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from releasekit.cli.options import ExcludedPackages, Groups, OnlyPackages, selection

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell

EXAMPLES = """\b
Examples:
  releasekit build
  releasekit build --package acme-text --package npm:@acme/cli
  releasekit build --exclude acme-app --out /tmp/artifacts
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(build)


def build(
    ctx: typer.Context,
    package: OnlyPackages = None,
    group: Groups = None,
    exclude: ExcludedPackages = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to leave them.  [default: dist]")
    ] = None,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
) -> None:
    """Build and inspect every package, and leave the artifacts in a folder.

    Siblings' versions are written into the manifests for the length of the builds. Nothing is
    left in the folder unless everything was built and may be uploaded.
    """
    from releasekit import config
    from releasekit.cli.shell import Output
    from releasekit.cli.steering import build_and_show, exit_code_of
    from releasekit.publish.deliver import DeliverRequest

    shell: Shell = ctx.obj
    root = shell.root()
    request = DeliverRequest(
        root=root,
        config=config.load(root),
        out=(out or root / "dist").absolute(),
        selection=selection(package, group, exclude),
        lock_timeout=lock_timeout,
    )
    state = build_and_show(shell, request)
    if state.ok and shell.output is Output.TEXT:
        shell.print_of_run(f"in {request.out}")
    raise typer.Exit(exit_code_of(state))
