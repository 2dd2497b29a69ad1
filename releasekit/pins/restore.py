"""The way back: after success, after an error and after a power cut the same idempotent code.

It looks at what each file holds and never guesses.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from releasekit.errors import EditConflict, LockUnavailable, RecoveryFailed
from releasekit.lock import has_leftovers, journal_directory, try_hold
from releasekit.pins import intent as intents
from releasekit.pins.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.lock import Held
    from releasekit.pins.intent import Intent, Pinned

_ATTEMPTS = 8
_STOP = rb"\s\"',;\[\](){}<>=~!^"
_WORD = re.compile(rb"[<>=~!^]+\s*[^" + _STOP + rb"]*|[^" + _STOP + rb"]+")


class Decision(StrEnum):
    """What a person wants done with the files that hold an edit of theirs."""

    KEEP_MINE = "keep-mine"
    USE_ORIGINAL = "use-original"


class State(StrEnum):
    """What a file of an unfinished run holds."""

    ORIGINAL = "original"
    PINNED = "pinned"
    EDITED = "edited"
    """Someone's text without a trace of a pin: theirs to keep."""
    CONFLICT = "conflict"
    """Anything else: gone, replaced, or someone's text with a pin in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What restoring did. Paths are relative to the root, as in messages."""

    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for a person; empty when there was nothing to do."""
        parts = []
        if self.restored:
            parts.append(f"restored {_count(self.restored)} that an interrupted run left pinned")
        if self.kept:
            parts.append(f"kept your edit of {_names(self.kept)}")
        if self.conflicts:
            parts.append(f"edited while pinned, see `releasekit recover`: {_names(self.conflicts)}")
        return "; ".join(parts)

    def require_done(self) -> None:
        if self.conflicts:
            raise EditConflict(paths=self.conflicts)


def _count(paths: tuple[str, ...]) -> str:
    return f"`{paths[0]}`" if len(paths) == 1 else f"{len(paths)} manifests"


def _names(paths: tuple[str, ...]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def pending(journal: Path) -> tuple[tuple[str, State], ...]:
    """Every file an unfinished run left behind and what it holds now. Changes nothing.

    During a live run these are the files it has pinned: ask `lock.holder` first.
    """
    intent = intents.read(journal)
    if intent is None:
        return ()
    return tuple((file.path, look(intent, file)) for file in intent.files)


def recover_if_needed(root: Path) -> Recovery:
    """What every command does first: repair what a killed run left, unless that run is alive.

    Costs a few `stat` calls when there is nothing to do. While another run is alive the files
    belong to it, and readers see its originals through `Originals`.
    """
    if not has_leftovers(root):
        return Recovery()
    try:
        held = try_hold(journal_directory(root), command="releasekit recover")
    except LockUnavailable:
        return Recovery()  # a checkout that only its owner may write; reading still works
    if held is None:
        return Recovery()
    with held:
        return recover(held)


def recover(held: Held, *, decision: Decision | None = None, disk: Disk | None = None) -> Recovery:
    """Restore what an unfinished run left; conflicts wait for a decision."""
    disk = disk or Disk()
    intent = intents.read(held.journal)
    if intent is not None:
        return _Restoration(intent, disk, decision).run()
    try:
        intents.sweep(held.journal, disk)
    except OSError as error:
        raise RecoveryFailed(
            path=str(error.filename), reason=str(error.strerror), journal=str(held.journal)
        ) from error
    return Recovery()


class _Restoration:
    def __init__(self, intent: Intent, disk: Disk, decision: Decision | None) -> None:
        self._intent = intent
        self._disk = disk
        self._decision = decision

    def run(self) -> Recovery:
        found: dict[State, list[Pinned]] = {state: [] for state in State}
        failures: list[tuple[Pinned, OSError]] = []
        for file in self._intent.files:
            try:
                found[self._settle(file)].append(file)
            except OSError as error:
                failures.append((file, error))  # the other files can still go home
        conflicts = found[State.CONFLICT]
        rest = (*conflicts, *(file for file, _ in failures))
        try:
            intents.finish(replace(self._intent, files=rest), self._intent, self._disk)
        except OSError as error:
            failures.append((self._intent.files[0], error))
        if failures:
            raise self._failure(*failures[0])
        return Recovery(
            restored=tuple(file.path for file in found[State.PINNED]),
            kept=tuple(file.path for file in found[State.EDITED]),
            conflicts=tuple(file.path for file in conflicts),
        )

    def _failure(self, file: Pinned, error: OSError) -> RecoveryFailed:
        failure = RecoveryFailed(
            path=os.fspath(error.filename or file.path),
            reason=error.strerror or str(error),
            journal=str(self._intent.folder),
        )
        failure.__cause__ = error
        return failure

    def _settle(self, file: Pinned) -> State:
        """What the file held; afterwards it holds no pin unless the answer is a conflict."""
        _finish_exchange(self._disk, self._intent.slot(file))
        state = State.CONFLICT
        for _ in range(_ATTEMPTS):
            state = look(self._intent, file)
            if state is not State.PINNED:
                break
            settled = self._swap_back(file)
            if settled is not None:
                return settled
        if state is State.CONFLICT and self._decision is not None:
            return self._decide(file, self._decision)
        return state

    def _swap_back(self, file: Pinned) -> State | None:
        """None when someone saved the file between the look and the exchange."""
        target, slot = self._intent.target(file), self._intent.slot(file)
        waiting = digest(read(slot))
        if waiting in {file.pinned, None} and not self._refill(file):
            return State.CONFLICT
        mode = target.stat().st_mode
        if mode & 0o777 != file.mode:  # someone's chmod belongs to the file, not to our text
            self._disk.change_mode(slot, stat.S_IMODE(slot.stat().st_mode) & ~0o777 | mode & 0o777)
        exchange(self._disk, slot, target)
        if digest(read(slot)) != file.pinned:
            exchange(self._disk, slot, target)
            return None
        # Edited through another of its hard links: the inode is back, and so is the edit.
        return State.PINNED if waiting in {file.original, file.pinned, None} else State.EDITED

    def _refill(self, file: Pinned) -> bool:
        """Write the original into the slot when its own inode is lost; False if the copy is."""
        content = intents.original(self._intent, file)
        if content is None:
            return False
        slot = self._intent.slot(file)
        fresh = slot.with_suffix(".fresh")
        self._disk.remove(fresh)
        self._disk.create(fresh, content, file.mode)
        self._disk.sync(fresh)
        self._disk.rename(fresh, slot)
        return True

    def _decide(self, file: Pinned, decision: Decision) -> State:
        if decision is Decision.KEEP_MINE:
            return State.EDITED
        target, slot = self._intent.target(file), self._intent.slot(file)
        if target.is_dir() and not target.is_symlink():
            return State.CONFLICT  # a folder took its place; what is in there is not ours to drop
        if digest(read(slot)) != file.original and not self._refill(file):
            return State.CONFLICT
        if os.path.lexists(target):
            exchange(self._disk, slot, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._disk.rename(slot, target)
        return State.PINNED


def exchange(disk: Disk, slot: Path, target: Path) -> None:
    """Swap the two, or do it in three steps that `_finish_exchange` can complete.

    The three steps can lose a file that someone renames into place between the first and the
    second; only filesystems without RENAME_EXCHANGE need them.
    """
    if disk.exchange(slot, target):
        return
    aside = _aside(slot)
    disk.link(target, aside)
    disk.rename(slot, target)
    disk.rename(aside, slot)


def _finish_exchange(disk: Disk, slot: Path) -> None:
    aside = _aside(slot)
    if not os.path.lexists(aside):
        return
    if os.path.lexists(slot):
        disk.remove(aside)  # a second name of a file that is still in place, or was replaced
    else:
        disk.rename(aside, slot)


def _aside(slot: Path) -> Path:
    return slot.with_suffix(".aside")


def look(intent: Intent, file: Pinned) -> State:
    content = read(intent.target(file))
    found = digest(content)
    if found == file.original:
        return State.ORIGINAL
    if found == file.pinned:
        return State.PINNED
    original, pinned = intents.original(intent, file), intents.pinned(intent, file)
    if content is None or original is None or pinned is None:
        return State.CONFLICT
    return State.EDITED if holds_no_pin(content, original, pinned) else State.CONFLICT


def holds_no_pin(content: bytes, original: bytes, pinned: bytes) -> bool:
    """Whether a text can only have been made from the original.

    It must still hold every word that pinning took away, and no word that pinning brought.
    A person may have changed the very requirement that was pinned; then only they can tell.
    """
    before, after, found = _words(original), _words(pinned), _words(content)
    taken, brought = before - after, after - before
    if not taken and not brought:
        return False  # only order or space changed: nothing to tell the texts apart by
    if any(found[word] < before[word] for word in taken):
        return False
    return all(found[word] <= before[word] for word in brought)


def _words(content: bytes) -> Counter[bytes]:
    """Names, values, and each bound with its operator however it is spaced."""
    return Counter(b"".join(word.split()) for word in _WORD.findall(content))


def read(path: Path) -> bytes | None:
    """The content of a regular file; None for anything else, a symlink included."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a symlink; a socket
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
