"""The way in: check everything, prepare everything, commit, then swap file by file."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.errors import ManifestChanged, PinsFailed, PinsRefused
from releasekit.pins import intent as intents
from releasekit.pins.disk import Disk
from releasekit.pins.restore import digest, exchange, read, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from releasekit.lock import Held
    from releasekit.pins.intent import Intent, Pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """`pinned` was made from `original`; a file that holds anything else is not touched."""

    path: Path
    original: bytes
    pinned: bytes


def apply(
    edits: Iterable[Edit],
    *,
    root: Path,
    held: Held,
    disk: Disk | None = None,
    stop: Callable[[], bool] = bool,
) -> None:
    """Pin all files or none. When `stop` says so between two files the rest stays unpinned."""
    disk = disk or Disk()
    recover(held, disk=disk).require_done()
    root = root.resolve()
    with _failing(root):
        checked = _check(tuple(edits), root, held.journal)
    if not checked or stop():
        return
    try:
        with _failing(root):
            intent = intents.prepare(held.journal, root, checked, disk)
            for file in intent.files:
                if stop():
                    break
                _pin(intent, file, disk)
    except BaseException:
        recover(held, disk=disk)
        raise


@contextlib.contextmanager
def _failing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = os.path.relpath(error.filename or root, root)
        raise PinsFailed(
            path=path,
            reason=error.strerror or str(error),
            hint="no manifest was changed; make room or mend the folder, then run again",
        ) from error


def _check(edits: tuple[Edit, ...], root: Path, journal: Path) -> tuple[intents.Draft, ...]:
    """Refuse, before anything is written, what could not be carried through."""
    device = journal.stat().st_dev
    seen: dict[tuple[int, int], str] = {}
    checked = []
    for edit in edits:
        shown = os.path.relpath(root / edit.path, root)
        target, status = _locate(root, edit.path, shown)
        inode = (status.st_dev, status.st_ino)
        if inode in seen:
            raise PinsRefused(
                path=shown,
                reason=f"it is the same file as `{seen[inode]}`",
                hint="one of the two names must be a file of its own",
            )
        seen[inode] = shown
        # Folders, not files: overlayfs gives a file of a lower layer a device of its own.
        if target.parent.stat().st_dev != device:
            raise PinsRefused(
                path=shown,
                reason=f"it lies on another filesystem than `{journal}`",
                hint="release from a checkout that lies on one filesystem",
            )
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PinsRefused(
                path=shown,
                reason="its folder is not writable",
                hint="make the folder writable; the file itself may stay read-only",
            )
        if target.read_bytes() != edit.original:
            raise ManifestChanged(path=shown)
        if edit.pinned != edit.original:
            checked.append(
                intents.Draft(
                    path=target.relative_to(root).as_posix(),
                    mode=status.st_mode & 0o777,
                    original=edit.original,
                    pinned=edit.pinned,
                )
            )
    return tuple(checked)


def _locate(root: Path, path: Path, shown: str) -> tuple[Path, os.stat_result]:
    """The real file behind a path: a symlink is edited where it points to."""
    try:
        target = (root / path).resolve(strict=True)
        status = target.stat()
    except OSError as error:
        raise PinsRefused(
            path=shown, reason=error.strerror or str(error), hint="check the path"
        ) from error
    if not target.is_relative_to(root):
        raise PinsRefused(
            path=shown,
            reason=f"it leads out of `{root}`",
            hint="releasekit edits nothing outside the repository",
        )
    if not stat.S_ISREG(status.st_mode):
        raise PinsRefused(path=shown, reason="it is not a regular file", hint="check the path")
    return target, status


def _pin(intent: Intent, file: Pinned, disk: Disk) -> None:
    target, slot = intent.target(file), intent.slot(file)
    if digest(read(target)) != file.original:
        raise ManifestChanged(path=file.path)
    exchange(disk, slot, target)
    if digest(read(slot)) != file.original:
        # Saved between the look and the exchange. Restoring puts this very inode back.
        raise ManifestChanged(path=file.path)
