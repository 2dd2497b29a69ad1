"""A child process that removes a folder when its standard input closes: also when we are killed."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

ATTEMPTS, PAUSE = 40, 0.25


def main() -> None:
    folder = Path(sys.argv[1])
    print(folder, flush=True)
    sys.stdin.buffer.read()
    for _ in range(ATTEMPTS):
        # Others end at the same time and may still write.
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(PAUSE)
    sys.exit(1)


if __name__ == "__main__":
    main()
