"""What a transaction means to do, on disk before it does it: the `pins` folder of the journal.

`intent.json` exists exactly while files may be pinned. `contents` holds every original and every
pinned text, one after the other; `N.slot` is the file that changes places with the Nth manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit.errors import BrokenIntent
from releasekit.lock import PINS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from releasekit.pins.disk import Disk

_INTENT = "intent.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A checked edit of the file at `path`, relative to the root."""

    path: str
    mode: int
    original: bytes
    pinned: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One file of an intent; `original` and `pinned` are SHA-256."""

    path: str
    slot: str
    mode: int
    original: str
    pinned: str
    offset: int
    original_size: int
    pinned_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    journal: Path
    root: Path
    files: tuple[Pinned, ...]

    @property
    def folder(self) -> Path:
        return self.journal / PINS

    def target(self, file: Pinned) -> Path:
        return self.root / file.path

    def slot(self, file: Pinned) -> Path:
        return self.folder / file.slot


def exists(journal: Path) -> bool:
    return (journal / PINS / _INTENT).exists()


def sweep(journal: Path, disk: Disk) -> None:
    """Drop what no intent speaks of: the slots hold pinned texts only."""
    folder = journal / PINS
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except FileNotFoundError:
        return
    for name in names:
        disk.remove(folder / name)
    disk.remove_folder(folder)


def mark(journal: Path) -> tuple[int, int] | None:
    """Changes whenever the intent does."""
    try:
        status = (journal / PINS / _INTENT).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def read(journal: Path) -> Intent | None:
    path = journal / PINS / _INTENT
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        document = json.loads(content)
        checksum = document.pop("checksum")
        if checksum != _checksum(document):
            raise BrokenIntent(path=str(path), reason="its checksum does not fit its text")
        if document["format"] != _FORMAT:
            raise BrokenIntent(path=str(path), reason="another version of releasekit wrote it")
        files = tuple(Pinned(**file) for file in document["files"])
        root = Path(os.path.normpath(journal / document["root"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenIntent(path=str(path), reason="it cannot be read") from error
    return Intent(journal=journal, root=root, files=files)


def original(intent: Intent, file: Pinned) -> bytes | None:
    return _content(intent, file.offset, file.original_size, file.original)


def pinned(intent: Intent, file: Pinned) -> bytes | None:
    start = file.offset + file.original_size
    return _content(intent, start, file.pinned_size, file.pinned)


def _content(intent: Intent, offset: int, size: int, digest: str) -> bytes | None:
    try:
        with (intent.folder / "contents").open("rb") as file:
            file.seek(offset)
            content = file.read(size)
    except FileNotFoundError:
        return None
    return content if hashlib.sha256(content).hexdigest() == digest else None


def prepare(journal: Path, root: Path, drafts: Sequence[Draft], disk: Disk) -> Intent:
    """Write and sync all that a crash could need, then the intent: the commit point."""
    folder = journal / PINS
    sweep(journal, disk)
    intent = Intent(journal=journal, root=root, files=_lay_out(drafts))
    try:
        disk.make_folder(folder)
        contents = b"".join(draft.original + draft.pinned for draft in drafts)
        disk.create(folder / "contents", contents, 0o600)
        for draft, file in zip(drafts, intent.files, strict=True):
            disk.create(intent.slot(file), draft.pinned, draft.mode)
        # All written before the first is synced: the filesystem can then sync them together.
        disk.sync(folder / "contents")
        for file in intent.files:
            disk.sync(intent.slot(file))
        for path in (folder, journal, journal.parent):
            disk.sync(path)
        _write(intent, disk)
    except BaseException:
        if not exists(journal):
            sweep(journal, disk)
        raise
    return intent


def finish(rest: Intent, intent: Intent, disk: Disk) -> None:
    """Every file is settled but those of `rest`: make that last, then forget the others."""
    parents = {intent.target(file).parent for file in intent.files}
    for folder in sorted(parents):
        if folder.is_dir():
            disk.sync(folder)
    if rest.files:
        disk.sync(intent.folder)
        if rest.files != intent.files:
            _write(rest, disk)
        return
    disk.remove(intent.folder / _INTENT)
    disk.sync(intent.folder)
    sweep(intent.journal, disk)


def _lay_out(drafts: Sequence[Draft]) -> tuple[Pinned, ...]:
    files, offset = [], 0
    for number, draft in enumerate(drafts):
        files.append(
            Pinned(
                path=draft.path,
                slot=f"{number}.slot",
                mode=draft.mode,
                original=hashlib.sha256(draft.original).hexdigest(),
                pinned=hashlib.sha256(draft.pinned).hexdigest(),
                offset=offset,
                original_size=len(draft.original),
                pinned_size=len(draft.pinned),
            )
        )
        offset += len(draft.original) + len(draft.pinned)
    return tuple(files)


def _write(intent: Intent, disk: Disk) -> None:
    # Relative, so that a repository can be moved, or mounted elsewhere, between crash and repair.
    document: dict[str, object] = {
        "format": _FORMAT,
        "root": os.path.relpath(intent.root, intent.journal),
        "files": [asdict(file) for file in intent.files],
    }
    document["checksum"] = _checksum(document)
    draft = intent.folder / f"{_INTENT}.new"
    disk.remove(draft)
    disk.create(draft, json.dumps(document, indent=1).encode(), 0o600)
    disk.sync(draft)
    disk.rename(draft, intent.folder / _INTENT)
    disk.sync(intent.folder)


def _checksum(document: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
