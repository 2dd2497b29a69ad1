"""The scheduler beside a bare loop and beside first-in-first-out, in one process, in one table.

The bare loop and the graphs are files outside of this repository: `floor.py` and `dags.py` in
`../shared/bench`, or in the folder that RELEASEKIT_BENCH names.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import math
import os
import random
import time
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from releasekit.scheduler import Scheduler
from tests.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import ModuleType

    Edges = dict[str, list[str]]
    Addition = Callable[[str, str, str, str, str], None]

FOLDER = Path(
    os.environ.get("RELEASEKIT_BENCH", Path(__file__).parents[2].parent / "shared" / "bench")
)
ROUNDS = 9
SLOTS = 5

pytestmark = pytest.mark.skipif(
    not (FOLDER / "floor.py").is_file(), reason=f"no floor.py in {FOLDER}: set RELEASEKIT_BENCH"
)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def floor() -> Any:  # noqa: ANN401 - a file that is not ours
    return load("floor")


@pytest.fixture(scope="module")
def dags() -> Any:  # noqa: ANN401
    return load("dags")


@pytest.fixture(scope="module")
def table() -> Iterator[Addition]:
    rows = [("", "", "reference", "releasekit", "")]
    yield lambda *row: rows.append(row)
    print()
    for what, case, reference, ours, verdict in rows:
        print(f"{what:10} {case:22} {reference:>14} {ours:>14}   {verdict}")


async def no_op(_: str) -> None:
    pass


def seconds(work: Callable[[], Coroutine[object, object, object]]) -> float:
    gc.collect()
    start = time.perf_counter()
    asyncio.run(work())
    return time.perf_counter() - start


def side_by_side(floor: Any, edges: Edges, concurrency: int, rounds: int) -> tuple[float, float]:  # noqa: ANN401
    """The best microseconds a node of interleaved rounds; both build their graph in that time."""

    async def bare() -> None:
        await floor.run_floor(edges, no_op, concurrency)

    async def ours() -> None:
        result = await Scheduler.from_graph(edges, concurrency=concurrency).run(no_op)
        assert len(result.outcomes) == len(edges)

    times = [(seconds(bare), seconds(ours)) for _ in range(rounds)]
    scale = 1e6 / len(edges)
    return min(a for a, _ in times) * scale, min(b for _, b in times) * scale


@pytest.mark.parametrize("concurrency", [5, 50])
@pytest.mark.parametrize("shape", ["layered", "chain", "star"])
def test_overhead(floor: Any, dags: Any, table: Addition, shape: str, concurrency: int) -> None:  # noqa: ANN401
    edges = getattr(dags, shape)(10_000)
    bare, ours = side_by_side(floor, edges, concurrency, ROUNDS)
    ratio = ours / bare
    case = f"{shape}, {concurrency} slots"
    table("overhead", case, f"{bare:.1f} µs", f"{ours:.1f} µs", f"{ratio:.2f} times (at most 1.5)")
    assert ratio <= 1.5


def test_growth(floor: Any, dags: Any, table: Addition) -> None:  # noqa: ANN401
    """The exponent of the growth; a bare loop's is above 1, too, for caches and the collector."""
    sizes = {1_000: 15, 10_000: 7, 100_000: 3}
    costs = {n: side_by_side(floor, dags.layered(n), 50, rounds) for n, rounds in sizes.items()}
    for n, (bare, ours) in costs.items():
        table("growth", f"layered, {n:,} nodes", f"{bare:.1f} µs", f"{ours:.1f} µs", "a node")
    bare, ours = (
        1 + math.log(last / first, 100)
        for first, last in zip(costs[1_000], costs[100_000], strict=True)
    )
    table("growth", "exponent", f"{bare:.2f}", f"{ours:.2f}", "(at most 0.1 above)")
    assert ours <= bare + 0.1


@pytest.mark.parametrize("shape", ["layered", "chain", "star"])
def test_memory(dags: Any, table: Addition, shape: str) -> None:  # noqa: ANN401
    edges = getattr(dags, shape)(10_000)
    gc.collect()
    tracemalloc.start()
    try:
        asyncio.run(Scheduler.from_graph(edges, concurrency=50).run(no_op))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    each = peak / len(edges)
    table("memory", f"{shape}, 50 slots", "", f"{each:.0f} B", "a node at the peak (at most 1024)")
    assert each <= 1024


def chains(count: int, seed: int) -> Edges:
    """Parallel chains of unequal length."""
    rng = random.Random(seed)  # noqa: S311
    edges: Edges = {}
    while len(edges) < count:
        previous: list[str] = []
        for _ in range(min(count - len(edges), rng.randint(1, 40))):
            name = f"p{len(edges):05d}"
            edges[name] = previous
            previous = [name]
    return edges


def makespan(
    durations: dict[str, float],
    start: Callable[[Callable[[str], Coroutine[None, None, None]]], Coroutine[Any, Any, object]],
) -> float:
    """Virtual seconds from the first start to the last end."""

    async def work(name: str) -> None:
        await asyncio.sleep(durations[name])

    async def main() -> float:
        await start(work)
        return asyncio.get_running_loop().time()

    return run(main())


def graph_of(dags: Any, shape: str, seed: int) -> Edges:  # noqa: ANN401
    if shape == "chains":
        return chains(200, seed)
    how = {"deps": 8} if shape == "dense" else {"layers": int(shape.split(maxsplit=1)[0])}
    edges: Edges = dags.layered(200, seed=seed, **how)
    return edges


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("shape", ["5 layers", "14 layers", "40 layers", "dense", "chains"])
def test_makespan(floor: Any, dags: Any, table: Addition, shape: str, spread: float) -> None:  # noqa: ANN401
    gaps, worst = [], -math.inf
    for seed in range(1, 21):
        edges = graph_of(dags, shape, seed)
        rng = random.Random(1000 + seed)  # noqa: S311
        durations = {name: rng.lognormvariate(0, spread) for name in edges}
        bound = max(dags.critical_path(edges, durations), sum(durations.values()) / SLOTS)
        fifo = makespan(durations, partial(floor.run_floor, edges, concurrency=SLOTS))
        scheduler = Scheduler.from_graph(edges, concurrency=SLOTS, durations=durations)
        ours = makespan(durations, scheduler.run)
        gaps.append((fifo / bound - 1, ours / bound - 1))
        worst = max(worst, ours / fifo - 1)
    fifo_gap, gap = (fmean(column) for column in zip(*gaps, strict=True))
    closed = 1 - gap / fifo_gap
    table(
        "makespan",
        f"{shape}, sigma {spread}",
        f"+{fifo_gap:.1%}",
        f"+{gap:.1%}",
        f"{closed:.0%} closed (at least 50%), at worst {worst:+.1%} (at most +1%)",
    )
    assert closed >= 0.5
    assert worst <= 0.01
