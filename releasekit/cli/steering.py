"""A run with all that shows it and all that steers it: readers, keys and signals."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from releasekit import early
from releasekit.errors import ReleaseKitError, StoppedBySignal

if TYPE_CHECKING:
    from asyncio import Future, TimerHandle
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from releasekit.cli.screen import Screen
    from releasekit.cli.shell import Shell
    from releasekit.ecosystems import Registry
    from releasekit.events import RunState
    from releasekit.plan import Plan
    from releasekit.publish import PublishRequest
    from releasekit.publish.control import RunControl
    from releasekit.publish.deliver import DeliverRequest
    from releasekit.ui.keys import Keys

    Approve = Callable[[Plan, Mapping[str, Registry]], Awaitable[bool]]
    Start = Callable[[Screen], Coroutine[Any, Any, RunState]]

Ended = TypeVar("Ended")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What is in flight may still end well; then whoever sent the signal loses patience.
GRACE_SECONDS = 2.0


def run_and_show(shell: Shell, request: PublishRequest, *, approve: Approve) -> RunState:
    """One publish from its first stage to its summary."""
    from releasekit import publish as publisher
    from releasekit.publish.control import RunControl

    control = RunControl()

    def start(screen: Screen) -> Coroutine[Any, Any, RunState]:
        async def asked(plan: Plan, registries: Mapping[str, Registry]) -> bool:
            with screen.aside():
                return await approve(plan, registries)

        return publisher.run(
            replace(request, again=screen.again),
            observe=screen.show,
            approve=asked,
            note_recovery=shell.note_recovery,
            control=control,
        )

    return _show(shell, request.root, start, control, request.runs_in)


def build_and_show(shell: Shell, request: DeliverRequest) -> RunState:
    """One `releasekit build` from its first stage to its summary."""
    from releasekit.publish.control import BuildControl
    from releasekit.publish.deliver import deliver

    def start(screen: Screen) -> Coroutine[Any, Any, RunState]:
        return deliver(
            replace(request, again=screen.again),
            observe=screen.show,
            note_recovery=shell.note_recovery,
            control=BuildControl(),
        )

    return _show(shell, request.root, start, None)


def exit_code_of(state: RunState) -> int:
    """3 where a person stopped it and nothing went wrong: the same command continues."""
    from releasekit.events import Outcome

    if state.ok:
        return 0
    stopped = not state.by_outcome(Outcome.FAILED) and state.by_outcome(Outcome.CANCELLED)
    return 3 if stopped else 1


def _show(
    shell: Shell,
    root: Path,
    start: Start,
    control: RunControl | None,
    runs_in: Path | None = None,
) -> RunState:
    import asyncio

    from releasekit.cli.screen import Screen

    shell.start_logging()
    with shell.waiting_for_no_reader():
        screen = Screen(shell, root, again=_this_command(), runs_in=runs_in)
        try:
            state = asyncio.run(_steered(screen, start, control))
        except ReleaseKitError:  # what was published before it is published
            screen.finish(complete=False)
            raise
        finally:
            screen.close()
        screen.finish(complete=True)
    return state


def _this_command() -> str:
    """What continues the run: the same again, but `--fresh` would give up on what it has sent."""
    return shlex.join(["releasekit", *(word for word in sys.argv[1:] if word != "--fresh")])


async def until_signal(work: Coroutine[Any, Any, Ended]) -> Ended:
    """A signal cancels the work, which clears up; then we exit."""
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:  # a second one must not interrupt the clearing up
            task.cancel()
        received.append(number)

    numbers = [
        number
        for number in _ENDING
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
        early.remember()


async def _steered(screen: Screen, start: Start, control: RunControl | None) -> RunState:
    """The run with everything that can steer it: keys, and signals from outside."""
    import asyncio

    from releasekit.ui.keys import Keys

    received: list[str] = []
    run = asyncio.ensure_future(start(screen))
    stopping = _Stopping(run, screen, control, received)
    with (
        Keys(_actions(screen, control, stopping)) as keys,
        screen.shown(keys),
        _signals(stopping, screen, keys, control),
    ):
        try:
            return await run
        except asyncio.CancelledError:
            if received:
                raise StoppedBySignal(signal=received[0]) from None
            raise


def _actions(
    screen: Screen, control: RunControl | None, stopping: _Stopping
) -> dict[str, Callable[[], None]]:
    actions = {**screen.keys(), "q": stopping.quit}
    if control is None:  # a build: nothing to pause
        return actions
    more = functools.partial(control.change_concurrency, 1)
    return actions | {
        "p": control.pause,
        "r": control.resume,
        "+": more,
        "=": more,
        "-": functools.partial(control.change_concurrency, -1),
    }


class _Stopping:
    """Before the uploads a signal ends the builds and restores the files; then we exit.

    During the uploads the first SIGINT lets what is in flight finish; a second one, SIGTERM and
    SIGHUP wait two seconds for it at most, and the journal keeps what nobody knows then.
    """

    def __init__(
        self,
        run: Future[RunState],
        screen: Screen,
        control: RunControl | None,
        received: list[str],
    ) -> None:
        self._run = run
        self._screen = screen
        self._control = control
        self._received = received
        self._timer: TimerHandle | None = None

    def quit(self) -> None:
        """The key: never in the middle of an upload."""
        if self._control is not None and self._control.uploading:
            self._control.quit()
        else:
            self._end_builds("`q`")

    def stop(self, number: signal.Signals) -> None:
        import asyncio

        control = self._control
        if control is None or not control.uploading:
            self._end_builds(number.name)
        elif number is signal.SIGINT and not control.quitting:
            control.quit()
        elif not self._received:
            self._received.append(number.name)
            control.quit()
            self._timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._give_up)

    def _end_builds(self, by: str) -> None:
        if not self._received:  # a second one must not interrupt the clearing up
            self._received.append(by)
            self._run.cancel()

    def _give_up(self) -> None:
        if not self._run.done():
            if self._control is not None:
                self._control.abandon(self._screen.in_flight())
            self._run.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@contextlib.contextmanager
def _signals(
    stopping: _Stopping, screen: Screen, keys: Keys, control: RunControl | None
) -> Iterator[None]:
    import asyncio

    loop = asyncio.get_running_loop()

    def suspend() -> None:
        """Ctrl-Z: leave a terminal that others can use, then stop as if we had done nothing."""
        screen.suspend()
        keys.stop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, suspend)
        come_back()

    def come_back() -> None:
        """In the foreground, keys and view; after `bg` neither."""
        screen.resume()

    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGUSR1: control.pause if control else screen.nothing_to_pause,
        signal.SIGUSR2: control.resume if control else screen.nothing_to_pause,
        signal.SIGTSTP: suspend,
        signal.SIGCONT: come_back,
        signal.SIGWINCH: screen.resized,
    }
    for number in _ENDING:
        handlers[number] = functools.partial(stopping.stop, number)
    for number in list(handlers):
        if signal.getsignal(number) == signal.SIG_IGN:  # nohup, a shell without jobs
            del handlers[number]
        else:
            loop.add_signal_handler(number, handlers[number])
    for came in early.take():
        handlers[signal.Signals(came)]()
    try:
        yield
    finally:
        stopping.close()
        with early.held():  # removing a handler brings the default back: death
            for number in handlers:
                loop.remove_signal_handler(number)
