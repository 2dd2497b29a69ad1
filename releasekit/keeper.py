"""Runs children that must not outlive us, whatever they do. A program of its own: stdlib alone.

A keeper is a subreaper: what its children leave behind, even a daemon in a session of its own,
becomes the keeper's child and is ended by it. The kernel tells a keeper when its parent has died
(PR_SET_PDEATHSIG; the parent must therefore start it from a thread that lives as long as itself),
so a SIGKILL of the parent ends everything below too. Without Linux's prctl, process groups and
the closed standard input of a server are what remains.

It must run on every Python that a project builds with, so it keeps to what 3.8 knows.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time

TYPE_CHECKING = False  # typing takes longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import NoReturn

GRACE_SECONDS = 1.0
# A log keeps its beginning and its end; what a build prints between them fills no disk.
LOG_LIMIT = 16 << 20
_LOG_END = 64 << 10
_CHUNK = 64 << 10
_LONGEST_WAIT = 3600.0
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


def _prctl(option: int, value: int) -> None:
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # not Linux
        pass


def die_with_parent(parent: int, number: int) -> None:
    """Have the kernel send us the signal when the parent dies, also if it just has."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def hide_environment() -> None:
    """Keep other processes of the same user out of our /proc/PID/environ (root gets in anyway)."""
    _prctl(_PR_SET_DUMPABLE, 0)


class Log:
    """The beginning and the end of what a job printed, in a file."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._room = LOG_LIMIT
        self._left_out = 0
        self._end = b""

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._put(head)
        if rest:
            kept = self._end + rest
            self._end = kept[-_LOG_END:]
            self._left_out += len(kept) - len(self._end)

    def _put(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        if self._left_out:
            self._put(b"\n[%d bytes were left out here]\n" % self._left_out)
        self._put(self._end)
        os.close(self._descriptor)


class Job:
    def __init__(self, name: str, pid: int, output: int, log: Log, deadline: float) -> None:
        self.name = name
        self.pid = pid
        self.output = output
        self.log = log
        self.deadline = deadline
        self.timed_out = False


class Ended:
    def __init__(self, name: str, status: int, *, timed_out: bool) -> None:
        self.name = name
        self.status = status  # as `waitpid` tells it
        self.timed_out = timed_out


class Keeper:
    """Starts jobs, each in a session of its own, and ends all that is left of them."""

    def __init__(self, parent: int) -> None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.asked_to_end = False
        self._jobs: dict[int, Job] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_end)
        die_with_parent(parent, signal.SIGTERM)

    def on_end(self, *_: object) -> None:
        self.asked_to_end = True

    def listen(self, descriptor: int) -> None:
        """Have `step` return when there is something to read."""
        self._selector.register(descriptor, selectors.EVENT_READ, data="request")

    def start(self, name: str, run: Callable[[], None], log: str, timeout: float) -> None:
        """Run a function in a forked child with its output in the log."""
        book = Log(log)
        reading, writing = os.pipe()
        keeper = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become_job(keeper, writing, run)
        os.close(writing)
        os.set_blocking(reading, False)
        job = Job(name, pid, reading, book, time.monotonic() + timeout)
        self._jobs[pid] = job
        self._selector.register(reading, selectors.EVENT_READ, data=job)

    def step(self) -> list[Ended]:
        """Wait until something happens; tell which jobs have ended."""
        now = time.monotonic()
        nearest = min((job.deadline for job in self._jobs.values()), default=None)
        wait = None if nearest is None else min(max(0.0, nearest - now), _LONGEST_WAIT)
        for key, _ in self._selector.select(wait):
            if isinstance(key.data, Job):
                self._pump(key.data)
            elif key.fd == self._wake:
                _drain(self._wake)
        now = time.monotonic()
        for job in list(self._jobs.values()):
            if now >= job.deadline:
                job.timed_out = True
                job.deadline = float("inf")
                _signal_group(job.pid, signal.SIGKILL)
        return list(self._reap())

    def _reap(self) -> Iterator[Ended]:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            job = self._jobs.pop(pid, None)
            if job is not None:
                self._bury(job)
                yield Ended(job.name, status, timed_out=job.timed_out)

    def _bury(self, job: Job) -> None:
        """What a job started does not outlive it, nor does it keep its log open."""
        _signal_group(job.pid, signal.SIGKILL)
        for child in _children():
            # A daemon in a session of its own cannot be told from that of another job; it is
            # ended with the last job at the latest.
            if child not in self._jobs and (not self._jobs or _session(child) == job.pid):
                _kill(child)
        self._pump(job)
        if job.output >= 0:
            self._forget_output(job)
        job.log.close()

    def _pump(self, job: Job) -> None:
        while job.output >= 0:
            try:
                data = os.read(job.output, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._forget_output(job)
                return
            job.log.write(data)
            if len(data) < _CHUNK:
                return

    def _forget_output(self, job: Job) -> None:
        self._selector.unregister(job.output)
        os.close(job.output)
        job.output = -1

    def end_all(self) -> None:
        """End every job and every process that is left of one."""
        for job in self._jobs.values():
            _signal_group(job.pid, signal.SIGTERM)
        polite = time.monotonic() + GRACE_SECONDS
        while self._jobs and time.monotonic() < polite:
            for job in self._jobs.values():
                job.deadline = min(job.deadline, polite)
            self.step()
        for job in self._jobs.values():
            _signal_group(job.pid, signal.SIGKILL)
        end = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < end:
            # The children of a killed child become ours, and have their turn in the next round.
            for child in _children():
                _kill(child)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        for job in self._jobs.values():
            self._pump(job)
            job.log.close()


def _become_job(keeper: int, output: int, run: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        die_with_parent(keeper, signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, output), (2, output)):
            os.dup2(source, target)
        # The requests, the answers and the other jobs' output are not this job's business.
        for descriptor in _descriptors():
            if descriptor > 2:  # noqa: PLR2004 - stderr
                _close(descriptor)
        run()
        code = 0
    except BaseException:  # noqa: BLE001 - a forked child must never return into the keeper
        import traceback

        traceback.print_exc()
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    """End as an interpreter does, but without taking the inherited heap apart."""
    try:
        import atexit

        atexit._run_exitfuncs()  # noqa: SLF001 - as multiprocessing ends its children
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001, S110 - nobody is left to be told
        pass
    os._exit(code)


def _descriptors() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(1024)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, _CHUNK):
            pass
    except BlockingIOError:
        pass


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except (OSError, ValueError):
        return []


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def main(arguments: list[str]) -> NoReturn:
    """`keeper.py PARENT`: one job, which its input tells as JSON; ends as it ends."""
    keeper = Keeper(int(arguments[0]))
    # Our parent's end closes it, too.
    text = sys.stdin.buffer.read()
    if not text:
        os._exit(0)
    job = json.loads(text)
    sink = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(sink, 2)

    def run() -> None:
        os.chdir(job["cwd"])
        os.execvpe(job["argv"][0], job["argv"], job["env"])  # noqa: S606 - no shell

    keeper.start("job", run, job["log"], float("inf"))
    ended: list[Ended] = []
    while not ended and not keeper.asked_to_end:
        ended = keeper.step()
    keeper.end_all()
    if not ended:
        os._exit(1)
    status = ended[0].status
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        _mirror(number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def _mirror(number: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1:])
