"""The system calls that change the disk for a transaction, one method each.

They stand together so that a test can stop the world before, inside or after any of them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


class Disk:
    def make_folder(self, path: Path) -> None:
        with contextlib.suppress(FileExistsError):
            path.mkdir()

    def create(self, path: Path, content: bytes, mode: int) -> None:
        """Write a file that does not exist yet; `sync` makes it last."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        with _naming(path):
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)

    def sync(self, path: Path) -> None:
        """Make a file's content, or a folder's entries, survive a power cut."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with _naming(path):
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def link(self, source: Path, target: Path) -> None:
        # Not Path.hardlink_to: it would follow a symlink that took the file's place.
        os.link(source, target, follow_symlinks=False)

    def exchange(self, one: Path, other: Path) -> bool:
        """Swap two names in one step. False where the kernel or the filesystem cannot."""
        call = _renameat2()
        if call is None:
            return False
        number = call(os.fsencode(one), os.fsencode(other))
        if number in {errno.ENOSYS, errno.EINVAL}:
            return False
        if number:
            raise OSError(number, os.strerror(number), str(other))
        return True

    def change_mode(self, path: Path, mode: int) -> None:
        path.chmod(mode)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        path.rmdir()


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Calls on a descriptor fail without a file name; people need one."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@functools.cache
def _renameat2() -> Callable[[bytes, bytes], int] | None:
    """The call as a function that returns an errno; None where the C library lacks it."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "renameat2", None)
    if function is None:
        return None
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )

    def exchange(one: bytes, other: bytes) -> int:
        failed = function(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)
        return ctypes.get_errno() if failed else 0

    return exchange
