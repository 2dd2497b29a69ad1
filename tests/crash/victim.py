"""A real process that pins and restores, to be killed from outside: `python victim.py ROOT`."""

from __future__ import annotations

import sys
from pathlib import Path

from releasekit import pins
from tests.crash import repository


def main() -> None:
    root = Path(sys.argv[1])
    if sys.argv[2:] == ["recover"]:
        pins.recover_if_needed(root)
        return
    with pins.applied(repository.edits(root), root=root):
        pass


if __name__ == "__main__":
    main()
