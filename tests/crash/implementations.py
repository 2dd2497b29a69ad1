"""What the harness can crash: the real thing, and a naive one that it must convict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from releasekit import pins
from releasekit.lock import hold, journal_directory
from releasekit.pins import Recovery
from releasekit.pins.apply import apply
from tests.crash.disks import SteppingDisk

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.pins import Decision, Edit


class Implementation(Protocol):
    name: str

    def pin_and_restore(self, root: Path, edits: tuple[Edit, ...], disk: SteppingDisk) -> None: ...

    def recover(
        self, root: Path, disk: SteppingDisk | None = None, decision: Decision | None = None
    ) -> Recovery: ...


class Releasekit:
    name = "releasekit"

    def pin_and_restore(self, root: Path, edits: tuple[Edit, ...], disk: SteppingDisk) -> None:
        with hold(journal_directory(root), command="crash test") as held:
            apply(edits, root=root, held=held, disk=disk)
            pins.recover(held, disk=disk).require_done()

    def recover(
        self, root: Path, disk: SteppingDisk | None = None, decision: Decision | None = None
    ) -> Recovery:
        if disk is None and decision is None:
            return pins.recover_if_needed(root)
        with hold(journal_directory(root), command="crash test") as held:
            return pins.recover(held, decision=decision, disk=disk)


class Naive:
    """`file.bak` and `open("w")`, as such tools are usually written."""

    name = "naive"

    def pin_and_restore(self, root: Path, edits: tuple[Edit, ...], disk: SteppingDisk) -> None:
        for edit in edits:
            backup = edit.path.with_name(edit.path.name + ".bak")
            disk.create(backup, edit.original, 0o644)
            disk.overwrite(edit.path, edit.pinned)
        self.recover(root, disk)

    def recover(
        self,
        root: Path,
        disk: SteppingDisk | None = None,
        decision: Decision | None = None,  # noqa: ARG002 - it never asks
    ) -> Recovery:
        disk = disk or SteppingDisk()
        for backup in sorted(root.rglob("*.bak")):
            disk.overwrite(backup.with_suffix(""), backup.read_bytes())
            disk.remove(backup)
        return Recovery()
