"""Record the real demo on a pseudo-terminal and write it down as one animated SVG.

    uv run python -m tests.record_demo docs/demo.svg

What is drawn is what a terminal of this size would show, at the times at which it did.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pyte

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMMAND = ("releasekit", "demo", "--slow", "--fault")
COLUMNS, ROWS = 104, 30
SMALLEST_STEP = 0.2
LAST_FRAME_SECONDS = 6.0
_CELL, _LINE, _EDGE = 8.0, 18, 14
_COLORS = {
    "default": "#d0d7de", "red": "#ff7b72", "green": "#3fb950", "brown": "#d29922",
    "blue": "#58a6ff", "magenta": "#bc8cff", "cyan": "#39c5cf", "white": "#ffffff",
    "black": "#6e7681", "brightblack": "#6e7681",
}  # fmt: skip
_DIM = re.compile(rb"\x1b\[2m")

Chunk = tuple[float, bytes]
Span = tuple[int, str, str]
"""The column where it starts, its style, its text."""
Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    at: float
    lines: tuple[Line, ...]


def record(argv: Iterable[str], *, columns: int, rows: int) -> Iterator[Chunk]:
    """What the command writes to its terminal, and when."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environ = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(
        list(argv), stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
    )
    os.close(theirs)
    began = time.monotonic()
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # its last holder has closed the terminal
            break
        yield time.monotonic() - began, data
    os.close(ours)
    if child.wait() != 0:
        sys.exit(f"the command ended with {child.returncode}")


def frames(chunks: Iterable[Chunk], *, columns: int, rows: int, typed: str) -> Iterator[Frame]:
    """The screens that differ, no more of them than an eye can tell apart."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {typed}\r\n".encode())
    shown = Frame(at=0.0, lines=_lines(screen))
    yield shown
    now = 0.0
    for at, data in chunks:
        if at - shown.at >= SMALLEST_STEP and (lines := _lines(screen)) != shown.lines:
            shown = Frame(at=now, lines=lines)
            yield shown
        # pyte knows no faint text; black is a colour that nothing else here has.
        stream.feed(_DIM.sub(b"\x1b[30m", data))
        now = at
    if (lines := _lines(screen)) != shown.lines:
        yield Frame(at=now, lines=lines)


def _lines(screen: pyte.Screen) -> tuple[Line, ...]:
    return tuple(_spans(screen, row) for row in range(screen.lines))


def _spans(screen: pyte.Screen, row: int) -> Line:
    found: list[Span] = []
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        style = f"{'b ' if cell.bold else ''}{cell.fg}"
        if not cell.data.strip():
            if found and found[-1][0] + len(found[-1][2]) == column:
                found[-1] = (found[-1][0], found[-1][1], found[-1][2] + " ")
        elif found and found[-1][1] == style and found[-1][0] + len(found[-1][2]) == column:
            found[-1] = (found[-1][0], style, found[-1][2] + cell.data)
        else:
            found.append((column, style, cell.data))
    return tuple((column, style, text.rstrip()) for column, style, text in found)


def svg(recorded: list[Frame], *, columns: int, rows: int) -> str:
    """All frames below each other behind a window; who moves nothing sees the last one."""
    width, height = columns * _CELL + 2 * _EDGE, rows * _LINE + 2 * _EDGE
    total = recorded[-1].at + LAST_FRAME_SECONDS
    known: dict[Line, str] = {}
    drawn = []
    for number, frame in enumerate(recorded):
        for row, line in enumerate(frame.lines):
            if line:
                name = known.setdefault(line, f"l{len(known)}")
                drawn.append(f'<use href="#{name}" y="{number * height + row * _LINE:.0f}"/>')
    steps = "".join(
        f"{frame.at / total:.3%}{{transform:translateY({-number * height:.0f}px)}}"
        for number, frame in enumerate(recorded)
    )
    last = f"translateY({-(len(recorded) - 1) * height:.0f}px)"
    used = {style.rpartition(" ")[2] for line in known for _, style, _ in line}
    colors = "".join(f".{name}{{fill:{_color(name)}}}" for name in sorted(used))
    definitions = "".join(f'<g id="{name}">{_text(line)}</g>' for line, name in known.items())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">
<title>{escape(" ".join(COMMAND))}</title>
<style>
text{{font:13px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;white-space:pre}}
.b{{font-weight:bold}}{colors}
.film{{transform:{last};animation:film {total:.2f}s step-end infinite}}
@keyframes film{{{steps}100%{{transform:{last}}}}}
@media (prefers-reduced-motion:reduce){{.film{{animation:none}}}}
</style>
<defs>{definitions}</defs>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<svg x="{_EDGE}" y="{_EDGE}" width="{columns * _CELL:.0f}" height="{rows * _LINE}">
<g class="film" transform="translate(0 {-(len(recorded) - 1) * height:.0f})">{"".join(drawn)}</g>
</svg>
</svg>
"""


def _color(name: str) -> str:
    return _COLORS.get(name) or f"#{name}"


def _text(line: Line) -> str:
    return "".join(
        f'<text x="{column * _CELL:.0f}" y="13" class="{style}"'
        f' textLength="{len(text) * _CELL:.0f}">{escape(text, quote=False)}</text>'
        for column, style, text in line
    )


def main() -> None:
    target = Path(sys.argv[1])
    argv = [sys.executable, "-m", *COMMAND]
    chunks = record(argv, columns=COLUMNS, rows=ROWS)
    size = {"columns": COLUMNS, "rows": ROWS}
    recorded = list(frames(chunks, typed=" ".join(COMMAND), **size))
    target.write_text(svg(recorded, **size), encoding="utf-8")
    print(f"{len(recorded)} frames, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
