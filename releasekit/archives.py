"""What lies in an sdist, a wheel or an npm tarball, read without unpacking it anywhere."""

from __future__ import annotations

import posixpath
import re
import stat
import tarfile
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.errors import UnreadableArtifact
from releasekit.model import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

# What an installer would write to disk; more than that is a mistake or a bomb.
MAX_UNPACKED = 4 << 30
# Without git our journal lies in the root, where some backends pack whatever they find.
OWN_FOLDER = ".releasekit"
_SECRET = re.compile(
    r"\.env(?!\.(?:example|sample|template|dist)$)(?:\..+)?|\.npmrc|\.pypirc|\.netrc|_netrc"
    r"|\.git-credentials|\.dockercfg|id_(?:rsa|dsa|ecdsa|ed25519)|.+\.(?:p12|pfx|jks|keystore|kdbx)"
)
_MAYBE_SECRET = re.compile(r".+\.(?:pem|key|der|ppk)")
_PIECE = 1 << 20
_PRIVATE_KEY = b"PRIVATE KEY-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    size: int
    link: str | None
    """Where it leads, seen from the archive's top."""
    read: Callable[[], bytes]
    pieces: Callable[[], Iterator[bytes]] = lambda: iter(())
    """Of a wheel's entry, which may be as big as the wheel: its content bit by bit."""


def scan(file: Path) -> Iterator[Entry]:
    """Every file and link of an archive, in order. An entry is read while it is the current one."""
    try:
        yield from _zip(file) if file.suffix == ".whl" else _tar(file)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        raise UnreadableArtifact(file=file, problem=str(error)) from error


def _tar(file: Path) -> Iterator[Entry]:
    with tarfile.open(file, "r|gz") as archive:
        for member in archive:
            if member.isdir():
                continue
            link = None
            if member.issym():
                link = posixpath.join(posixpath.dirname(member.name), member.linkname)
            elif member.islnk():
                link = member.linkname
            elif not member.isfile():
                link = "/dev"  # a device or a pipe has no place in a package

            def read(member: tarfile.TarInfo = member) -> bytes:
                content = archive.extractfile(member)
                return content.read() if content else b""

            yield Entry(name=member.name, size=member.size, link=link, read=read)


def _zip(file: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue

            def read(info: zipfile.ZipInfo = info) -> bytes:
                return archive.read(info)

            def pieces(info: zipfile.ZipInfo = info) -> Iterator[bytes]:
                with archive.open(info) as content:
                    while piece := content.read(_PIECE):
                        yield piece

            link = None
            if stat.S_ISLNK(info.external_attr >> 16):
                target = read().decode("utf-8", "replace")
                link = posixpath.join(posixpath.dirname(info.filename), target)
            yield Entry(
                name=info.filename, size=info.file_size, link=link, read=read, pieces=pieces
            )


def escapes(path: str) -> bool:
    """Whether a path would be written outside of the folder that an archive is unpacked in."""
    normal = posixpath.normpath(path.replace("\\", "/"))
    return (
        normal.startswith(("/", "../"))
        or normal == ".."
        or re.match("[A-Za-z]:", normal) is not None
    )


def is_secret(name: str, read: Callable[[], bytes]) -> bool:
    base = posixpath.basename(name)
    if _SECRET.fullmatch(base):
        return True
    return _MAYBE_SECRET.fullmatch(base) is not None and _PRIVATE_KEY in read()


def find_everywhere(file: Path, entry: Entry) -> Iterator[Finding]:
    """What no archive should hold, of whatever ecosystem."""
    if escapes(entry.name) or (entry.link is not None and escapes(entry.link)):
        leads = f" → {entry.link}" if entry.link is not None else ""
        yield Finding(
            check=Check.PATHS,
            file=file.name,
            message=f"`{entry.name}`{leads} leads out of the package",
            hint="remove it from the package, or from the files that its build includes",
        )
    elif OWN_FOLDER in entry.name.split("/"):
        yield Finding(
            check=Check.FILES,
            file=file.name,
            message=f"`{entry.name}` is releasekit's own",
            hint=f"exclude `{OWN_FOLDER}/` from the build, or release from a git repository",
        )
    elif entry.link is None and is_secret(entry.name, entry.read):
        yield Finding(
            check=Check.SECRETS,
            file=file.name,
            message=f"`{entry.name}` looks like a secret",
            hint="exclude it from the build; if it is public on purpose, allow it in the config",
        )


def find_size(file: Path, entries: Sequence[Entry], limit: int) -> Iterator[Finding]:
    size = file.stat().st_size
    if size > limit:
        yield Finding(
            check=Check.SIZE,
            file=file.name,
            message=f"it has {size / 1e6:.1f} MB; the limit is {limit / 1e6:.1f} MB",
            hint="leave out what its users do not need, or raise `inspect.max-megabytes`",
        )
    unpacked = sum(entry.size for entry in entries)
    if unpacked > MAX_UNPACKED:
        yield Finding(
            check=Check.SIZE,
            file=file.name,
            message=f"it unpacks to {unpacked / 1e9:.1f} GB",
            hint="leave out what its users do not need",
        )
