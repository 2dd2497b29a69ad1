"""Disks that stop, fail, or remember."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from releasekit.pins.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable

CRASHED = 137


class SteppingDisk(Disk):
    """Calls `before` with the number and the name of every step."""

    def __init__(self, *, exchange: bool = True) -> None:
        self.steps = 0
        self.has_exchange = exchange

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """What a subclass does to the step."""

    def _step(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        self.steps += 1
        self.before(name, arguments)
        return function(*arguments)

    def make_folder(self, path: Path) -> None:
        self._step("make_folder", super().make_folder, path)

    def create(self, path: Path, content: bytes, mode: int) -> None:
        self._step("create", super().create, path, content, mode)

    def overwrite(self, path: Path, content: bytes) -> None:
        """What the naive implementation does: truncate, then write."""
        self._step("overwrite", Path.write_bytes, path, content)

    def sync(self, path: Path) -> None:
        self._step("sync", super().sync, path)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename", super().rename, source, target)

    def link(self, source: Path, target: Path) -> None:
        self._step("link", super().link, source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        if not self.has_exchange:
            return False
        return bool(self._step("exchange", super().exchange, one, other))

    def change_mode(self, path: Path, mode: int) -> None:
        self._step("change_mode", super().change_mode, path, mode)

    def remove(self, path: Path) -> None:
        self._step("remove", super().remove, path)

    def remove_folder(self, path: Path) -> None:
        self._step("remove_folder", super().remove_folder, path)


class DyingDisk(SteppingDisk):
    """Ends the process at one step: before it, or in the middle of a write."""

    TEARS: ClassVar = ("before", "empty", "half", "modeless")

    def __init__(self, *, at: int, tear: str = "before", exchange: bool = True) -> None:
        super().__init__(exchange=exchange)
        self._at = at
        self._tear = tear

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.steps != self._at:
            return
        if name in {"create", "overwrite"} and self._tear != "before":
            path, content = arguments[:2]
            kept = {"empty": 0, "half": len(content) // 2, "modeless": len(content)}[self._tear]
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(descriptor, content[:kept])
        os._exit(CRASHED)


class FailingDisk(SteppingDisk):
    """Fails one step, or every step from there on."""

    def __init__(self, *, at: int, number: int, forever: bool, exchange: bool = True) -> None:
        super().__init__(exchange=exchange)
        self._at = at
        self._number = number
        self._forever = forever

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:  # noqa: ARG002
        if self.steps == self._at or (self._forever and self.steps > self._at):
            raise OSError(self._number, os.strerror(self._number), str(arguments[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    arguments: tuple[Any, ...]


class RecordingDisk(SteppingDisk):
    def __init__(self, *, exchange: bool = True) -> None:
        super().__init__(exchange=exchange)
        self.log: list[Step] = []

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.log.append(Step(name=name, arguments=arguments))
