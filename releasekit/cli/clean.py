"""`releasekit clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.cli.shell import Shell
    from releasekit.publish.retention import Cleaning

EXAMPLES = """\b
Examples:
  releasekit clean               show what would go, and ask
  releasekit clean --yes
  releasekit clean --unfinished  give up on releases that are only partly sent
"""


NOT_AGREED = 3


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(clean)


def clean(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    unfinished: Annotated[
        bool,
        typer.Option(
            "--unfinished",
            help="Also artifacts that a registry may hold in part; nothing can complete them then.",
        ),
    ] = False,
    keep_runs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the journals of so many runs.  [default: 50]"),
    ] = None,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
) -> None:
    """Remove what finished runs left behind: artifacts, and the journals of the oldest.

    What a registry may hold in part is kept, because only the same bytes complete it.
    """
    from releasekit import config
    from releasekit.cli.shell import Output
    from releasekit.lock import hold, journal_directory
    from releasekit.publish.retention import clean_up, plan_cleaning

    shell: Shell = ctx.obj
    root = shell.root()
    keep = keep_runs or config.load(root).journal.keep_runs
    home = journal_directory(root)
    with hold(home, command="releasekit clean", timeout=lock_timeout):
        cleaning = plan_cleaning(home, keep_runs=keep, give_up=unfinished)
        if shell.output is Output.TEXT:
            shell.print("\n".join(_as_text(shell, home, cleaning, give_up=unfinished)))
        agreed = yes or not cleaning.removals or _agreed()
        if shell.output is Output.JSON:
            shell.emit(_as_data(cleaning, give_up=unfinished, done=agreed))
        if not agreed:
            shell.say("nothing was removed; `--yes` goes on without asking")
            raise typer.Exit(NOT_AGREED)
        clean_up(cleaning)
    if shell.output is Output.TEXT and cleaning.removals:
        shell.print("removed")


def _agreed() -> bool:
    import sys

    if not (sys.stdin and sys.stdin.isatty()):
        return False
    return typer.confirm("Remove it?", default=False, err=True)


def _as_text(shell: Shell, home: Path, cleaning: Cleaning, *, give_up: bool) -> list[str]:
    from releasekit.ui.text import bytes_in_words
    from releasekit.ui.text import clean as safe

    lines = [
        f"{one.run:29} {bytes_in_words(one.size):>9}  "
        f"{'the run' if one.is_whole else 'artifacts'}: {one.why}"
        for one in cleaning.removals
    ]
    files = sum(one.files for one in cleaning.removals)
    if cleaning.removals:
        lines.append(f"{bytes_in_words(cleaning.size)} in {files} files below {safe(str(home))}")
    else:
        lines.append("nothing to clean")
    at_stake = [
        f"  run {one.run}: {safe(name)}" for one in cleaning.unfinished for name in one.releases
    ]
    if cleaning.damage:
        at_stake.append(f"  {safe(cleaning.damage)}")
    if not at_stake:
        return lines
    if give_up:
        lines.append(
            shell.style("WARNING:", "1;31")
            + " a registry may hold a part of these, and without their artifacts nothing can"
            " complete them: each then needs a new version"
        )
    else:
        lines.append("kept, because a registry may hold a part of it; `releasekit publish` goes on")
    return [*lines, *at_stake]


def _as_data(cleaning: Cleaning, *, give_up: bool, done: bool) -> dict[str, object]:
    return {
        "v": 1,
        "done": done,
        "bytes": cleaning.size,
        "removals": [
            {
                "path": str(one.path),
                "run": one.run,
                "whole_run": one.is_whole,
                "bytes": one.size,
                "files": one.files,
                "why": one.why,
            }
            for one in cleaning.removals
        ],
        "unfinished": [
            {"run": one.run, "releases": list(one.releases), "given_up": give_up}
            for one in cleaning.unfinished
        ],
        "damage": cleaning.damage,
    }
