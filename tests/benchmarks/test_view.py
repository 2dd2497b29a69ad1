"""What the live view costs: its share of one core while 700 packages are uploaded, ten at once.

    uv run pytest tests/benchmarks/test_view.py -s

The same stream of events is played twice in one child, on a real terminal of 200 by 60: with the
view and without. The difference of the CPU times over the wall time is the view's.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import asyncio, random, sys, time
from releasekit.events import (
    Artifact, BuildFinished, Confirmed, Outcome, PlannedRelease, ReleaseEnded, RetryScheduled,
    RunStarted, Stage, StageStarted, UploadAnswered, UploadProgressed, UploadSent,
)
from releasekit.ui.live import Live
from releasekit.ui.view import View

SECONDS, AT_ONCE, SIZE = 10.0, 10, 1_000_000
NAMES = [f"pypi:acme-plugin-{number:03}" for number in range(700)]
NEEDS = {name: tuple(NAMES[max(0, at - 13):at:4]) for at, name in enumerate(NAMES)}


async def upload(show, name):
    file = name + ".whl"
    show(UploadSent(package=name, file=file, sha256="aa"))
    for step in range(1, 8):  # as the publisher tells it: ten times a second
        await asyncio.sleep(0.1)
        show(UploadProgressed(package=name, file=file, sent=SIZE * step // 7, size=SIZE))
    show(UploadAnswered(package=name, file=file, status=200, words="OK"))
    await asyncio.sleep(0.1)
    show(Confirmed(package=name, file=file, sha256="aa"))
    show(ReleaseEnded(package=name, outcome=Outcome.PUBLISHED))


async def play(show):
    releases = tuple(
        PlannedRelease(package=one, version="1.0", registry="pypi", needs=NEEDS[one], expected=1.0)
        for one in NAMES
    )
    show(RunStarted(run="r", command="publish", releasekit="0", commit=None, releases=releases))
    artifact = Artifact(file="a.whl", size=SIZE, sha256="aa", sha512="bb")
    for name in NAMES:
        show(BuildFinished(package=name, artifacts=(artifact,)))
    show(StageStarted(stage=Stage.UPLOAD))
    left = iter(NAMES)
    end = time.monotonic() + SECONDS

    async def lane():
        while time.monotonic() < end:
            await upload(show, next(left))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(lane())


async def main():
    with Live(View(workspace="acme"), 1, color=True, unicode=True) as live:
        live.keys = "pq+la?"
        if sys.argv[1] == "all":
            live.toggle_all()
        live.start()
        wall, cpu = time.monotonic(), time.process_time()
        await play(live.show)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    before = time.process_time()
    await play(lambda event: None)
    print(f"\\nview {(cpu - (time.process_time() - before)) / wall:.4f} ends", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("rows", ["active", "all"])
def test_the_view_of_700_packages_takes_below_a_twentieth_of_a_core(
    tmp_path: Path, rows: str
) -> None:
    argv = [sys.executable, "-c", CHILD, rows]
    with Terminal(argv, tmp_path, columns=200, rows=60) as terminal:
        # Not emulated: this process must not take the core of the one it measures.
        terminal.emulates = False
        terminal.until_said("ends", seconds=60)
        share = float(terminal.raw.rpartition("view ")[2].split()[0])
        frames = terminal.raw.count("\x1b[?2026h")
    print(f"\n{rows}: {share:.1%} of one core, {frames} frames")
    assert frames > 80
    assert share < 0.05
