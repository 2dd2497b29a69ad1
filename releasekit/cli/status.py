"""`releasekit status`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer reads annotations at run time

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell

EXAMPLES = """\b
Examples:
  releasekit status
  releasekit status --output json
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(status)


def status(ctx: typer.Context) -> None:
    """Show whether a release is running here, and what an interrupted one left behind."""
    from releasekit import pins
    from releasekit.cli.shell import Output
    from releasekit.lock import holder, journal_directory
    from releasekit.ui.text import clean

    shell: Shell = ctx.obj
    journal = journal_directory(shell.root())
    running = holder(journal)
    files = pins.pending(journal)
    if shell.output is Output.JSON:
        shell.emit(
            {
                "running": asdict(running) if running else None,
                "manifests": [{"path": path, "state": state} for path, state in files],
                "needs_recovery": bool(files) and running is None,
            }
        )
        return
    lines = [f"running: {clean(str(running))}" if running else "no release is running here"]
    if files and running:
        lines.append(f"{len(files)} manifests are pinned until its builds are done")
    elif files:
        lines.append("an interrupted run left manifests behind; `releasekit recover` restores them")
        lines += [f"  {state}: `{clean(path)}`" for path, state in files]
    shell.print("\n".join(lines))
