"""A small repository of awkward files, and what must be true of it after any crash."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit.pins import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator

PIN = b"==1.2.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a restored file must share with the original."""

    content: bytes | str
    mode: int
    inode: int
    links: int
    modified: int


def scratch_folder() -> Path | None:
    """Memory where there is some: a kill does not care about the disk, and syncing is slow."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


@contextmanager
def repository(count: int = 4, *, in_memory: bool = True) -> Iterator[Path]:
    folder = scratch_folder() if in_memory else None
    root = Path(tempfile.mkdtemp(prefix="releasekit-crash-", dir=folder))
    try:
        write(root, count)
        yield root
    finally:
        shutil.rmtree(root)


def write(root: Path, count: int) -> None:
    """CRLF, a read-only file, a hard link, a symlink; then plain ones."""
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for number in range(count):
        folder = root / f"package{number}"
        folder.mkdir()
        file = folder / "pyproject.toml"
        end = "\r\n" if number == 0 else "\n"
        file.write_text(
            f'[project]{end}name = "package{number}"{end}version = "1.0"{end}'
            f'dependencies = ["core", "httpx"]{end}',
            newline="",
        )
        if number == 1:
            file.chmod(0o444)
        elif number == 2:
            os.link(file, root / "twin.toml")
            file.chmod(0o600)
        elif number == 3:
            file.rename(folder / "real.toml")
            file.symlink_to("real.toml")
    for index, file in enumerate(manifests(root)):
        os.utime(file, ns=(0, 1_700_000_000_000_000_001 + index))


def manifests(root: Path) -> list[Path]:
    return sorted(root.glob("package*/pyproject.toml"))


def edits(root: Path) -> tuple[Edit, ...]:
    return tuple(
        Edit(path=file, original=file.read_bytes(), pinned=pinned(file.read_bytes()))
        for file in manifests(root)
    )


def pinned(content: bytes) -> bytes:
    return content.replace(b'"core"', b'"core' + PIN + b'"')


def snapshot(root: Path) -> dict[str, Entry]:
    """Everything outside of the journal's home."""
    found = {}
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name not in {".git", ".releasekit"}]
        for name in files:
            path = Path(folder, name)
            status = path.lstat()
            link = stat.S_ISLNK(status.st_mode)
            found[str(path.relative_to(root))] = Entry(
                content=str(path.readlink()) if link else path.read_bytes(),
                mode=status.st_mode,
                inode=status.st_ino,
                links=status.st_nlink,
                modified=status.st_mtime_ns,
            )
    return found


def image(root: Path, before: dict[str, Entry]) -> str:
    """A name for the state of the whole disk: two equal images are one crash state."""
    inodes = {entry.inode: path for path, entry in before.items()}
    lines = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*files, *folders]):
            path = Path(folder, name)
            status = path.lstat()
            content = b""
            if stat.S_ISREG(status.st_mode) and name != "holder.json":
                content = path.read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                content = os.fsencode(path.readlink())
            digest = hashlib.sha256(content).hexdigest()
            inode = inodes.get(status.st_ino, "new")
            lines.append(f"{path.relative_to(root)} {status.st_mode:o} {inode} {digest}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
