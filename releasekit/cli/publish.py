"""`releasekit publish`."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from releasekit.errors import StoppedBySignal

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterator, Mapping

    from releasekit.cli.shell import Shell
    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.events import Event, RunState
    from releasekit.plan import Plan
    from releasekit.publish import PublishRequest
    from releasekit.publish.control import RunControl

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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Build anew what an earlier run has sent in part.")
    ] = False,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
    registry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL",
            help="`pypi=UPLOAD_URL,INDEX_URL` or `npm=URL`; other names as configured.",
        ),
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
        fresh=fresh,
    )
    state = run_and_show(shell, request, yes=yes)
    raise typer.Exit(exit_code_of(state))


def run_and_show(shell: Shell, request: PublishRequest, *, yes: bool) -> RunState:
    import asyncio

    from releasekit.cli.shell import Output
    from releasekit.ui import plain

    shell.start_logging()
    state = asyncio.run(_run(shell, request, yes=yes))
    if shell.output is Output.TEXT:
        shell.print_of_run(plain.summary(state, shell.style))
    return state


def exit_code_of(state: RunState) -> int:
    """3 where a person stopped it and nothing went wrong: the same command continues."""
    from releasekit.events import Outcome

    if state.ok:
        return 0
    stopped = not state.by_outcome(Outcome.FAILED) and state.by_outcome(Outcome.CANCELLED)
    return 3 if stopped else 1


async def _run(shell: Shell, request: PublishRequest, *, yes: bool) -> RunState:
    """The run with everything that can steer it: keys, and signals from outside."""
    import asyncio

    from releasekit import publish as publisher
    from releasekit.events import RunStarted
    from releasekit.publish.control import RunControl
    from releasekit.ui.keys import Keys

    control = RunControl()

    def pause() -> None:
        shell.say("paused between uploads: `r` or SIGUSR2 goes on")
        control.pause()

    def resume() -> None:
        shell.say("going on")
        control.resume()

    def leave() -> None:
        shell.say("quitting after what is in flight")
        control.quit()

    show = reader(shell)
    with Keys({"p": pause, "r": resume, "q": leave}) as keys:

        def observe(event: Event) -> None:
            if isinstance(event, RunStarted):
                keys.start()  # not earlier: the question is answered with Enter
            show(event)

        run = asyncio.ensure_future(
            publisher.run(
                request,
                observe=observe,
                approve=_approval(shell, yes=yes),
                note_recovery=shell.note_recovery,
                control=control,
            )
        )
        with _signals(run, control, pause=pause, resume=resume, leave=leave) as received:
            try:
                return await run
            except asyncio.CancelledError:
                if received:
                    raise StoppedBySignal(signal=received[0].name) from None
                raise


@contextlib.contextmanager
def _signals(
    run: Future[RunState],
    control: RunControl,
    *,
    pause: Callable[[], None],
    resume: Callable[[], None],
    leave: Callable[[], None],
) -> Iterator[list[signal.Signals]]:
    """Before the uploads a signal ends the builds and restores the files; then we exit.

    During the uploads the first SIGINT lets what is in flight finish.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if number is signal.SIGINT and control.uploading and not control.quitting:
            leave()
        elif not received:  # a second one must not interrupt the clearing up
            received.append(number)
            run.cancel()

    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGUSR1: pause,
        signal.SIGUSR2: resume,
    }
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            handlers[number] = functools.partial(stop, number)
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield received
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def reader(shell: Shell) -> Callable[[Event], None]:
    import json

    from releasekit import events
    from releasekit.cli.shell import Output
    from releasekit.ui import plain

    def show(event: Event) -> None:
        if shell.output is Output.JSON:
            shell.print_of_run(json.dumps(events.to_json(event), ensure_ascii=False))
        elif line := plain.line_for(event, shell.style):
            shell.print_of_run(line)

    return show


def _approval(shell: Shell, *, yes: bool) -> Callable[[Plan, Mapping[str, Registry]], bool]:
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    def approve(plan: Plan, registries: Mapping[str, Registry]) -> bool:
        if shell.output is Output.TEXT:
            shell.print_of_run(f"{len(plan.releases)} to publish, in this order:")
            for release in plan.releases:
                where = registries[release.package].address
                shell.print_of_run(clean(f"  {release.package} {release.version} → {where}"))
        if yes:
            return True
        if not (sys.stdin and sys.stdin.isatty()):
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
