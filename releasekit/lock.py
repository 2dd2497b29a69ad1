"""One release at a time, and the folder where a run keeps what must not be lost.

The kernel decides who holds the lock. What is written about the holder is for people to read:
a process id means nothing in another container, and an age proves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from releasekit.errors import LockHeld, LocksUnsupported, LockUnavailable

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from filelock import FileLock

LOCK = ".releasekit.lock"
PINS = "pins"
_HOLDER = "holder.json"

# `releasekit status` takes the lock for an instant to learn whether it is free. Nobody shall be
# told "locked" because of that instant.
_GRACE = 0.2

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


def journal_directory(root: Path) -> Path:
    """Where locks, pins and journals live: git's own folder, so that no artifact can hold it.

    The same answer as `git rev-parse --git-path releasekit`, without starting git and without
    listening to GIT_DIR: a hook and a terminal must meet at the same lock. A rename cannot leave
    its filesystem, so a repository whose git folder lies on another one uses `.releasekit`.
    """
    root = root.resolve()
    git = _git_directory(root)
    if git is not None and git.stat().st_dev == root.stat().st_dev:
        return git / "releasekit"
    return root / ".releasekit"


def has_leftovers(root: Path) -> bool:
    """Whether `pins.recover_if_needed` would find work: a few `stat` calls and no import."""
    return (journal_directory(root) / PINS).exists()


def _git_directory(root: Path) -> Path | None:
    for folder in (root, *root.parents):
        candidate = folder / ".git"
        if candidate.is_file():  # a linked worktree or a submodule
            key, _, value = candidate.read_text("utf-8", "surrogateescape").partition(":")
            candidate = folder / value.strip()
            if key != "gitdir":
                continue
        if (candidate / "HEAD").is_file():
            return candidate.resolve()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who says to hold the lock, as read by a person."""

    id: str
    pid: int
    host: str
    since: str
    command: str
    runs: str = ""
    """The folder that holds the folder of its run."""

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid} on {self.host}, since {self.since})"


class Held:
    """The lock, held until `release` or the end of the process, however it ends."""

    def __init__(self, journal: Path, holder: Holder, lock: FileLock) -> None:
        self.journal = journal
        self.holder = holder
        self._lock = lock
        self._owner = os.getpid()

    def release(self) -> None:
        # A forked child holds a copy of this object, not the lock.
        if os.getpid() != self._owner or not self._lock.is_locked:
            return
        with contextlib.suppress(OSError):
            (self.journal / _HOLDER).unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def hold(
    journal: Path, *, command: str, timeout: float = 0.0, run: str | None = None, runs: str = ""
) -> Held:
    """Take the lock, waiting at most `timeout` seconds; `LockHeld` if someone else keeps it."""
    _prepare(journal)
    lock = _acquire(journal, max(timeout, _GRACE))
    if lock is None:
        raise LockHeld(lock=str(journal / LOCK), holder=_describe(journal), waited=timeout)
    return _introduce(journal, lock, command=command, run=run, runs=runs)


def try_hold(journal: Path, *, command: str) -> Held | None:
    """Take the lock if it is free this instant."""
    _prepare(journal)
    lock = _acquire(journal, 0.0)
    return None if lock is None else _introduce(journal, lock, command=command, run=None)


def holder(journal: Path) -> Holder | None:
    """Who holds the lock now; None when it is free. Changes nothing."""
    import fcntl

    try:
        descriptor = os.open(journal / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unavailable(journal, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(journal) or Holder(
            id="", pid=0, host="unknown", since="unknown", command="releasekit"
        )
    except OSError as error:
        raise _unavailable(journal, error) from error
    finally:
        os.close(descriptor)
    return None


def _prepare(journal: Path) -> None:
    try:
        journal.mkdir(parents=True, exist_ok=True)
        ignore = journal / ".gitignore"
        if journal.name == ".releasekit" and not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise _unavailable(journal, error) from error


def _acquire(journal: Path, timeout: float) -> FileLock | None:
    from filelock import FileLock, Timeout

    # Taken in a worker thread, released in the main one: not thread-local.
    lock = FileLock(journal / LOCK, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=timeout, poll_interval=0.02)
    except Timeout:
        return None
    except OSError as error:
        raise _unavailable(journal, error) from error
    return lock


def _unavailable(journal: Path, error: OSError) -> LockUnavailable:
    kind = LocksUnsupported if error.errno in _NO_LOCKS else LockUnavailable
    return kind(lock=str(journal / LOCK), reason=error.strerror or str(error))


def _introduce(
    journal: Path, lock: FileLock, *, command: str, run: str | None, runs: str = ""
) -> Held:
    import uuid

    details = Holder(
        id=run or uuid.uuid4().hex,
        pid=os.getpid(),
        host=os.uname().nodename,
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        runs=runs,
    )
    draft = journal / f"{_HOLDER}.new"
    try:
        draft.write_text(json.dumps(asdict(details)))
        draft.replace(journal / _HOLDER)
    except OSError as error:
        # Without room for a line about the holder there is no room for a release.
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        lock.release()
        raise _unavailable(journal, error) from error
    return Held(journal, details, lock)


def _read_holder(journal: Path) -> Holder | None:
    try:
        return Holder(**json.loads((journal / _HOLDER).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _describe(journal: Path) -> str | None:
    found = _read_holder(journal)
    return None if found is None else str(found)
