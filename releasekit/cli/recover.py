"""`releasekit recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell
    from releasekit.pins import Recovery

EXAMPLES = """\b
Examples:
  releasekit recover                 restore what needs no decision, show what does
  releasekit recover --keep-mine     keep what the files hold now
  releasekit recover --use-original  put the texts from before the run back
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(recover)


def recover(
    ctx: typer.Context,
    keep_mine: Annotated[
        bool, typer.Option("--keep-mine", help="Keep your edits of pinned manifests.")
    ] = False,
    use_original: Annotated[
        bool, typer.Option("--use-original", help="Drop them: restore the originals.")
    ] = False,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
) -> None:
    """Restore the manifests that an interrupted run left pinned.

    Every command does this first; this one also settles what only you can decide.
    """
    from releasekit import pins
    from releasekit.cli.shell import Output
    from releasekit.errors import TwoDecisions
    from releasekit.lock import hold, journal_directory

    shell: Shell = ctx.obj
    if keep_mine and use_original:
        raise TwoDecisions
    decision = None
    if keep_mine or use_original:
        decision = pins.Decision.KEEP_MINE if keep_mine else pins.Decision.USE_ORIGINAL
    journal = journal_directory(shell.root())
    with hold(journal, command="releasekit recover", timeout=lock_timeout) as held:
        recovery = pins.recover(held, decision=decision)
    if shell.output is Output.JSON:
        shell.emit(
            {
                "restored": list(recovery.restored),
                "kept": list(recovery.kept),
                "conflicts": list(recovery.conflicts),
            }
        )
    else:
        shell.print(_as_text(recovery))
    recovery.require_done()


def _as_text(recovery: Recovery) -> str:
    from releasekit.ui.text import clean

    lines = [f"restored `{clean(path)}`" for path in recovery.restored]
    lines += [f"kept `{clean(path)}` as you edited it" for path in recovery.kept]
    lines += [f"not touched: `{clean(path)}`" for path in recovery.conflicts]
    return "\n".join(lines) or "nothing to recover"
