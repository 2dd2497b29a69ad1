"""`releasekit demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextlib import ExitStack

    from releasekit.cli.shell import Shell
    from releasekit.rehearse import Misbehaviour

EXAMPLES = """\b
Examples:
  releasekit demo
  releasekit demo --slow --fault         watch it retry, block and continue
  releasekit demo --keep acme            and try things in `acme` afterwards
"""

SLOW_SECONDS = 0.7
RETRY_AFTER = 2


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(demo)


def demo(
    ctx: typer.Context,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Leave the sample there.")
    ] = None,
    slow: Annotated[
        bool, typer.Option("--slow", help="Let the registries take their time.")
    ] = False,
    fault: Annotated[
        bool,
        typer.Option("--fault", help="Let the registries misbehave, then run the same again."),
    ] = False,
) -> None:
    """Rehearse the release of a sample monorepo, here and now, and clean up.

    Twelve Python and eight Node packages are really built, uploaded to throwaway registries on this
    machine, installed from them and loaded. Nothing leaves this machine; nothing is kept but the
    caches of uv and npm and the npm registry's program.
    """
    import contextlib

    from releasekit import embedded, workspace
    from releasekit.cli.rehearse import rehearse_and_show
    from releasekit.config import Config
    from releasekit.publish.selection import Selection
    from releasekit.sample import make_sample

    shell: Shell = ctx.obj
    with contextlib.ExitStack() as stack:
        root = _free_folder(keep) if keep else _throwaway(stack)
        if lacking := embedded.node_missing():
            shell.say(f"without `{lacking}` the demo leaves out its npm packages")
        make_sample(root, node=not lacking)
        code = rehearse_and_show(
            shell,
            workspace.load(root),
            Config(),
            Selection(),
            misbehaviour=misbehaviour(slow=slow, fault=fault),
            would_publish=False,
        )
    if keep:
        _say_what_is_next(shell, keep)
    raise typer.Exit(code)


def _throwaway(stack: ExitStack) -> Path:
    from releasekit import embedded

    # The folder's name stands above the live view.
    return stack.enter_context(embedded.throwaway_folder("releasekit-demo-")) / "acme"


def _free_folder(folder: Path) -> Path:
    from releasekit.errors import FolderTaken

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderTaken(folder=folder)
    return folder.absolute()


def misbehaviour(*, slow: bool, fault: bool) -> Misbehaviour:
    """One of each kind; the last one lasts until the run has given up on its package."""
    from releasekit.embedded.behaviour import Fault
    from releasekit.rehearse import Misbehaviour

    lost = Fault(status=503, words="Service Unavailable", stored=True)
    busy = Fault(status=503, words="Service Unavailable")
    too_many = Fault(status=429, words="Too Many Requests", retry_after=RETRY_AFTER)
    refused = Fault(status=400, words="The demo refuses this file once")
    return Misbehaviour(
        latency=SLOW_SECONDS if slow else 0.0,
        faults={
            "pypi:acme-text": (lost,),
            "pypi:acme-units": (busy,),
            "npm:@acme/wire": (too_many,),
            "pypi:acme-schedule": (refused,),
        }
        if fault
        else {},
    )


def _say_what_is_next(shell: Shell, folder: Path) -> None:
    shell.say(f"the sample is in `{folder}`; to go on:")
    for command, meaning in (
        (shlex.join(["cd", str(folder)]), ""),
        ("releasekit graph", "who needs whom"),
        ("releasekit build", "artifacts and their hashes, into dist/"),
        ("releasekit rehearse --keep", "the same again, with the registries left up"),
    ):
        shell.say(f"  {command:28} {meaning}".rstrip())
