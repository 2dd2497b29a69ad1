"""The spinner, on a real terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import os, sys
from releasekit.cli.shell import Shell
from releasekit.ui import working
working.PATIENCE = 0.0 if sys.argv[1] == "slow" else 600.0

os.system("stty -echo")  # what is typed would move the cursor
shell = Shell()
with shell.working("asking"):
    shell.print("a line")
    if sys.argv[1] == "slow":
        input()
        shell.print("on stdout")
        shell.say("on stderr")
        input()
print("done")
"""


def child(tmp_path: Path, *more: str, **environ: str) -> Terminal:
    argv = [sys.executable, "-c", CHILD, *more]
    return Terminal(argv, tmp_path, columns=40, rows=10, environ=environ)


def test_it_turns_below_the_lines_and_leaves_no_trace(tmp_path: Path) -> None:
    with child(tmp_path, "slow") as terminal:
        terminal.until_shown("a line", "asking (0 s)")
        terminal.press("\n")
        terminal.until_shown("on stdout\non stderr\n", "asking (0 s)")
        terminal.press("\n")
        assert terminal.end() == 0
        assert "asking" not in terminal.text
        assert terminal.text.endswith("on stdout\non stderr\ndone")


def test_what_is_quick_shows_none(tmp_path: Path) -> None:
    with child(tmp_path, "quick") as terminal:
        assert terminal.end() == 0
    assert terminal.raw == "a line\r\ndone\r\n"


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}], ids=str)
def test_a_dumb_terminal_gets_none(tmp_path: Path, environ: dict[str, str]) -> None:
    with child(tmp_path, "slow", **environ) as terminal:
        terminal.press("\n\n")
        assert terminal.end() == 0
    assert "asking" not in terminal.raw


def test_ascii_where_the_locale_has_no_more(tmp_path: Path) -> None:
    with child(tmp_path, "slow", LC_ALL="C") as terminal:
        terminal.until_shown("asking")
        terminal.press("\n\n")
        assert terminal.end() == 0
    assert terminal.raw.isascii()
