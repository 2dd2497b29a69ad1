"""A run with all that shows it and all that steers it: readers, keys and signals."""

from __future__ import annotations

import contextlib
import functools
import signal
from typing import TYPE_CHECKING

from releasekit import early
from releasekit.errors import StoppedBySignal

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterator, Mapping

    from releasekit.cli.shell import Shell
    from releasekit.ecosystems import Registry
    from releasekit.events import Event, RunState
    from releasekit.plan import Plan
    from releasekit.publish import PublishRequest
    from releasekit.publish.control import RunControl

    Approve = Callable[[Plan, Mapping[str, Registry]], bool]


def run_and_show(shell: Shell, request: PublishRequest, *, approve: Approve) -> RunState:
    """One run from its first stage to its summary."""
    import asyncio

    from releasekit.cli.shell import Output
    from releasekit.ui import plain

    shell.start_logging()
    state = asyncio.run(_run(shell, request, approve=approve))
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


async def _run(shell: Shell, request: PublishRequest, *, approve: Approve) -> RunState:
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
                approve=approve,
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
    for came in early.take():
        handlers[signal.Signals(came)]()
    try:
        yield received
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
        early.remember()  # removing a handler brings the default back: death


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
