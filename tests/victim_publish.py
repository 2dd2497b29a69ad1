"""A program: releasekit that is killed at one exact point. Usage: victim_publish.py POINT ARGUMENT…

Points are where a kill can fall, not what a reader of the output happens to see in time.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from releasekit import events, net
from releasekit.__main__ import main
from releasekit.pins.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable

PINNED_FILES = 2
POINTS = (
    "load", "preflight", "pin", "build", "restore", "inspect", "upload", "send", "answer",
    "confirm", "finish",
)  # fmt: skip


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before_event(kind: type[events.Event], *, stage: events.Stage | None = None) -> None:
    """Die where this event is about to be told."""
    told: Callable[..., None] = kind.__init__

    def tell(self: object, *positional: Any, **fields: Any) -> None:  # noqa: ANN401
        if stage is None or fields.get("stage") is stage:
            die()
        told(self, *positional, **fields)

    kind.__init__ = tell  # type: ignore[method-assign]


def after_exchanges(count: int) -> None:
    """Die in the middle of pinning, or of taking the pins back."""
    exchange = Disk.exchange
    done = 0

    def counted(self: Disk, *paths: Any) -> bool:  # noqa: ANN401
        nonlocal done
        result = exchange(self, *paths)
        done += 1
        if done == count:
            die()
        return result

    Disk.exchange = counted  # type: ignore[method-assign,assignment]


def before_sending() -> None:
    async def send(*_: object, **__: object) -> None:
        die()

    net.send = send  # type: ignore[assignment]


def prepare(point: str) -> None:
    match point:
        case "pin":
            after_exchanges(1)
        case "restore":
            after_exchanges(PINNED_FILES + 1)
        case "build":
            before_event(events.BuildStarted)
        case "send":
            before_sending()
        case "answer":
            before_event(events.UploadAnswered)
        case "confirm":
            before_event(events.Confirmed)
        case "finish":
            before_event(events.RunEnded)
        case "stored":
            pass  # whoever started us sees the file stored, and kills us
        case _:
            before_event(events.StageStarted, stage=events.Stage(point))


if __name__ == "__main__":
    prepare(sys.argv.pop(1))
    main()
