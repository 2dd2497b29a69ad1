"""Reading manifests while another run has them pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit.lock import journal_directory
from releasekit.pins import intent as intents
from releasekit.pins.restore import State, look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Originals:
    """Reads manifests as if no run were pinning them."""

    def __init__(self, root: Path) -> None:
        self._journal = journal_directory(root)
        self._mark: tuple[int, int] | None = None
        self._contents: dict[Path, bytes] = {}

    def read(self, path: Path, plain: Callable[[], bytes | None] | None = None) -> bytes | None:
        """The original of a pinned file; anything else as `plain` reads it."""
        while True:
            # The intent is written before the first file changes and removed after the last one
            # is back: the same intent before and after the look means that nothing moved between.
            self._refresh()
            before = self._mark
            content = path.read_bytes() if plain is None else plain()
            self._refresh()
            if self._mark == before:
                break
        return self._contents.get(path.resolve(), content) if self._contents else content

    def _refresh(self) -> None:
        mark = intents.mark(self._journal)
        if mark == self._mark:
            return
        self._mark = mark
        self._contents = {}
        intent = intents.read(self._journal)
        if intent is None:
            return
        for file in intent.files:
            # Only what was pinned is answered from the journal; a person's edit is theirs.
            if look(intent, file) in {State.PINNED, State.ORIGINAL}:
                original = intents.original(intent, file)
                if original is not None:
                    self._contents[intent.target(file)] = original
