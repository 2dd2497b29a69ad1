"""`releasekit publish`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from releasekit.cli.shell import Shell
    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.events import Event, RunState
    from releasekit.plan import Plan
    from releasekit.publish import PublishRequest

EXAMPLES = """\b
Examples:
  releasekit publish
  releasekit publish --yes
  releasekit publish --registry npm=http://127.0.0.1:4873/
  releasekit publish --registry pypi=http://127.0.0.1:8080/,http://127.0.0.1:8080/simple/
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(publish)


def publish(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
    registry: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="`pypi=UPLOAD_URL,INDEX_URL` or `npm=URL`."),
    ] = None,
) -> None:
    """Publish every package whose version is not on its registry yet.

    Builds everything first; uploads in dependency order; a package counts as published when the
    registry serves it with our hash.
    """
    from releasekit import config
    from releasekit.publish import PublishRequest

    shell: Shell = ctx.obj
    root = shell.root()
    request = PublishRequest(
        root=root,
        config=config.load(root),
        registries=parse_registries(registry or []),
        lock_timeout=lock_timeout,
    )
    state = run_and_show(shell, request, yes=yes)
    raise typer.Exit(0 if state.ok else 1)


def run_and_show(shell: Shell, request: PublishRequest, *, yes: bool) -> RunState:
    import asyncio

    from releasekit import publish as publisher
    from releasekit.cli.shell import Output
    from releasekit.ui import plain

    shell.start_logging()
    state = asyncio.run(
        until_signal(
            publisher.run(
                request,
                observe=reader(shell),
                approve=_approval(shell, yes=yes),
                note_recovery=shell.note_recovery,
            )
        )
    )
    if shell.output is Output.TEXT:
        shell.print(plain.summary(state, shell.style))
    return state


async def until_signal(run: Coroutine[Any, Any, RunState]) -> RunState:
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

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
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


def reader(shell: Shell) -> Callable[[Event], None]:
    import json

    from releasekit import events
    from releasekit.cli.shell import Output
    from releasekit.ui import plain

    def show(event: Event) -> None:
        if shell.output is Output.JSON:
            shell.print(json.dumps(events.to_json(event), ensure_ascii=False))
        elif line := plain.line_for(event, shell.style):
            shell.print(line)

    return show


def _approval(shell: Shell, *, yes: bool) -> Callable[[Plan, Mapping[str, Registry]], bool]:
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    def approve(plan: Plan, registries: Mapping[str, Registry]) -> bool:
        if shell.output is Output.TEXT:
            shell.print(f"{len(plan.releases)} to publish, in this order:")
            for release in plan.releases:
                where = registries[release.package].address
                shell.print(clean(f"  {release.package} {release.version} → {where}"))
        if yes:
            return True
        if not sys.stdin.isatty():
            return False
        return typer.confirm("Publish?", default=False, err=True)

    return approve


def parse_registries(values: list[str]) -> dict[str, RegistrySettings]:
    from releasekit.config import RegistrySettings
    from releasekit.errors import BadRegistryOption

    found = {}
    for value in values:
        name, _, addresses = value.partition("=")
        parts = addresses.split(",")
        if not name or not all(part.startswith(("http://", "https://")) for part in parts):
            raise BadRegistryOption(value=value)
        match parts:
            case [url]:
                found[name] = RegistrySettings(url=url)
            case [upload, index]:
                found[name] = RegistrySettings(upload_url=upload, index_url=index)
            case _:
                raise BadRegistryOption(value=value)
    return found
