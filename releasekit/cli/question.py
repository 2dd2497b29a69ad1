"""A question that leaves the event loop free: signals and other terminals are heard meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell

_LONGEST = 1024


async def confirmed(shell: Shell, question: str) -> bool:
    """Whether the terminal says yes; where nobody sits at one, nobody said so."""
    if not (sys.stdin and sys.stdin.isatty()):
        return False
    answer = None
    while answer not in {"", "n", "no"}:
        shell.ask(f"{question} [y/N]: ")
        try:
            answer = (await _line(sys.stdin.fileno())).strip().lower()
        except asyncio.CancelledError:
            shell.say("")  # not on the line of the question
            raise
        if answer in {"y", "yes"}:
            return True
    return False


async def _line(terminal: int) -> str:
    """What was typed, up to Enter: the terminal itself gathers it. Empty where it is gone."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        try:
            text = os.read(terminal, _LONGEST).decode(errors="replace")
        except OSError:
            text = ""
        if not typed.done():
            typed.set_result(text)

    loop.add_reader(terminal, read)
    try:
        return await typed
    finally:
        loop.remove_reader(terminal)
