"""`releasekit pause`, `resume` and `cancel`: to the run in another terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer reads annotations at run time

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell
    from releasekit.control_socket import Wish

EXAMPLES = """\b
Examples:
  releasekit pause
  releasekit -C ../repo resume
  releasekit cancel --output json
"""


def register(app: typer.Typer) -> None:
    for command in (pause, resume, cancel):
        app.command(epilog=EXAMPLES)(command)


def pause(ctx: typer.Context) -> None:
    """Let the running release finish what is in flight and start nothing more.

    Asked for before the uploads, it holds them; nothing is paused while manifests are pinned.
    """
    from releasekit.control_socket import Wish

    _ask(ctx.obj, Wish.PAUSE)


def resume(ctx: typer.Context) -> None:
    """Let the paused release go on. (`releasekit publish --resume` continues one that ended.)"""
    from releasekit.control_socket import Wish

    _ask(ctx.obj, Wish.RESUME)


def cancel(ctx: typer.Context) -> None:
    """End the running release: at once before the uploads, else after what is in flight."""
    from releasekit.control_socket import Wish

    _ask(ctx.obj, Wish.CANCEL)


def _ask(shell: Shell, wish: Wish) -> None:
    from releasekit.cli.shell import Output
    from releasekit.control_socket import ask
    from releasekit.lock import journal_directory

    answer = ask(journal_directory(shell.root()), wish)
    if shell.output is Output.JSON:
        shell.emit({"wish": wish, "message": answer.message, "in_flight": answer.in_flight})
    else:
        shell.print(answer.message)
