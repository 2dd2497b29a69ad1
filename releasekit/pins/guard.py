"""`with pins.applied(edits, root=root):` and its promises about signals and endings."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Self

from releasekit.errors import PinsInterrupted, ReleaseKitError
from releasekit.lock import hold, journal_directory
from releasekit.pins.apply import apply
from releasekit.pins.disk import Disk
from releasekit.pins.restore import recover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import FrameType, TracebackType

    from releasekit.lock import Held
    from releasekit.pins.apply import Edit

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def applied(
    edits: Iterable[Edit],
    *,
    root: Path,
    held: Held | None = None,
    signals: bool = True,
    disk: Disk | None = None,
) -> Applied:
    """Pin the files for the length of a `with` or an `async with` block.

    Takes the lock unless the caller passes the one it holds. With `signals`, and in the main
    thread, SIGINT, SIGTERM and SIGHUP restore the files and are then handed to whoever handled
    them before. A caller with handlers of its own passes `signals=False` and may call `restore`
    from them.
    """
    return Applied(tuple(edits), root, held, signals=signals, disk=disk or Disk())


class Applied:
    def __init__(
        self, edits: tuple[Edit, ...], root: Path, held: Held | None, *, signals: bool, disk: Disk
    ) -> None:
        self._edits = edits
        self._root = root
        self._held = held
        self._owns_lock = held is None
        self._signals = signals
        self._disk = disk
        self._owner = os.getpid()
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int] = {}
        self._received: list[int] = []
        self._cancelled = False
        self._busy = False
        self._applied = False
        self._problem: ReleaseKitError | None = None

    def __enter__(self) -> Self:
        self._install()
        try:
            self._begin()
        finally:
            self._after_beginning()
        self._refuse_if_interrupted()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()
        self._conclude(error)

    async def __aenter__(self) -> Self:
        self._install()
        try:
            await _in_thread(self._begin, self._cancel)
        except BaseException:
            # The thread may have pinned everything before the cancellation was seen.
            await _in_thread(self._restore_files)
            raise
        finally:
            self._after_beginning()
        self._refuse_if_interrupted()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await _in_thread(self._restore_files)
        finally:
            self._hand_on()
        self._conclude(error)

    def restore(self) -> None:
        """Put every file back now. Harmless twice, in a forked child and in a signal handler."""
        if self._busy:
            return
        self._restore_files()
        self._hand_on()

    def _begin(self) -> None:
        self._busy = True
        try:
            if self._held is None:
                self._held = hold(journal_directory(self._root), command="releasekit pins")
            atexit.register(self.restore)
            self._applied = True
            apply(
                self._edits,
                root=self._root,
                held=self._held,
                disk=self._disk,
                stop=lambda: self._cancelled or bool(self._received),
            )
        except BaseException:
            self._applied = False  # `apply` has put everything back, or said why it could not
            self._release()
            raise
        finally:
            self._busy = False

    def _cancel(self) -> None:
        self._cancelled = True

    def _after_beginning(self) -> None:
        """A signal came while the files were being pinned: undo, then let it act."""
        if self._received or not self._applied:
            self.restore()

    def _refuse_if_interrupted(self) -> None:
        # Reached only where the previous handler let the program live.
        if self._received:
            raise PinsInterrupted(signal=signal.Signals(self._received[0]).name)

    def _restore_files(self) -> None:
        if os.getpid() != self._owner or not self._applied or self._held is None:
            return
        self._busy = True
        try:
            recover(self._held, disk=self._disk).require_done()
        except ReleaseKitError as error:
            self._problem = error  # told when the block ends, or by the next command
        finally:
            self._applied = False
            self._busy = False
            self._release()

    def _release(self) -> None:
        atexit.unregister(self.restore)
        if self._owns_lock and self._held is not None:
            self._held.release()

    def _conclude(self, error: BaseException | None) -> None:
        if self._problem is not None:
            raise self._problem from error
        if error is None:
            self._refuse_if_interrupted()

    def _install(self) -> None:
        if not self._signals or threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            # An ignored signal (nohup) stays ignored; None is a handler that Python cannot see.
            if previous is not None and previous != signal.SIG_IGN:
                self._previous[number] = previous
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._received.append(number)
        self.restore()

    def _hand_on(self) -> None:
        """Give the signals back to whoever handled them before, with the first that came."""
        if threading.current_thread() is not threading.main_thread():
            return
        previous, self._previous = self._previous, {}
        for number, handler in previous.items():
            signal.signal(number, handler)
        if previous and self._received and self._received[0] in previous:
            signal.raise_signal(self._received[0])


async def _in_thread(
    function: Callable[[], None], cancel: Callable[[], None] | None = None
) -> None:
    """Run to the end, cancelled or not: half a restoration is none."""
    import asyncio

    # A future, not a task: the end of the event loop cancels tasks.
    work = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if cancel is not None:
            cancel()
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        work.exception()
        raise
