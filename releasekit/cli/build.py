"""`releasekit build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from releasekit.cli.shell import Shell

Ended = TypeVar("Ended")

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
    package: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Not this one; may be repeated.")
    ] = None,
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
    import asyncio

    from releasekit import config
    from releasekit.cli.shell import Output
    from releasekit.cli.steering import exit_code_of, reader
    from releasekit.publish.deliver import DeliverRequest, deliver
    from releasekit.ui import plain

    shell: Shell = ctx.obj
    root = shell.root()
    request = DeliverRequest(
        root=root,
        config=config.load(root),
        out=(out or root / "dist").absolute(),
        only=tuple(package or ()),
        exclude=tuple(exclude or ()),
        lock_timeout=lock_timeout,
    )
    shell.start_logging()
    state = asyncio.run(
        until_signal(deliver(request, observe=reader(shell), note_recovery=shell.note_recovery))
    )
    if shell.output is Output.TEXT:
        shell.print_of_run(plain.summary(state, shell.style))
        if state.ok:
            shell.print_of_run(f"in {request.out}")
    raise typer.Exit(exit_code_of(state))


async def until_signal(run: Coroutine[Any, Any, Ended]) -> Ended:
    """A signal cancels the run: builds end, files go back, then we exit."""
    import asyncio
    import signal

    from releasekit.errors import StoppedBySignal

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(run)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:  # a second one must not interrupt the clearing up
            task.cancel()
        received.append(number)

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN  # nohup
    ]
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise StoppedBySignal(signal=received[0].name) from None
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
