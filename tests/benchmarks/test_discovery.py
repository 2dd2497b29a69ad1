"""How long `releasekit discover` takes on 1,000 packages.

Run with `uv run pytest tests/benchmarks/test_discovery.py -s`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COUNT = 1_000
ROUNDS = 5

PYPROJECT = """[project]
name = "{name}"
version = "1.2.3"
description = "A generated package"
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
authors = [{{ name = "Someone", email = "someone@example.com" }}]
classifiers = ["Development Status :: 3 - Alpha", "Programming Language :: Python :: 3"]
dependencies = {dependencies}

[project.optional-dependencies]
cli = ["rich>=14", "typer>=0.12"]

[dependency-groups]
dev = ["pytest>=8", "mypy"]

[tool.uv.sources]
{sources}
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["src/example"]
"""


def siblings(number: int) -> list[int]:
    """Two siblings each, so that names sort against the graph."""
    return sorted({one for one in (number + 1, number * 2 + 1) if number < one < COUNT})


def uv_workspace(root: Path) -> None:
    root.mkdir()
    (root / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    for number in range(COUNT):
        folder = root / f"packages/pkg-{number:04}"
        folder.mkdir(parents=True)
        names = [f"pkg-{one:04}" for one in siblings(number)]
        external = ["httpx>=0.28", "typing-extensions>=4; python_version < '3.12'"]
        (folder / "pyproject.toml").write_text(
            PYPROJECT.format(
                name=folder.name,
                dependencies=json.dumps(names + external),
                sources="".join(f"{name} = {{ workspace = true }}\n" for name in names),
            )
        )


def pnpm_workspace(root: Path) -> None:
    root.mkdir()
    (root / "package.json").write_text('{"name": "root", "private": true}')
    (root / "pnpm-workspace.yaml").write_text("packages:\n  - packages/*\n")
    for number in range(COUNT):
        folder = root / f"packages/pkg-{number:04}"
        folder.mkdir(parents=True)
        manifest = {
            "name": f"@example/{folder.name}",
            "version": "1.2.3",
            "license": "MIT",
            "main": "index.js",
            "scripts": {"build": "tsc"},
            "dependencies": {"left-pad": "^1.0.0"}
            | {f"@example/pkg-{one:04}": "workspace:*" for one in siblings(number)},
            "devDependencies": {"typescript": "^5"},
        }
        (folder / "package.json").write_text(json.dumps(manifest, indent=2))


def measure(argv: Sequence[str], cwd: Path) -> tuple[float, float, str]:
    """Seconds on the clock, seconds of CPU, and the output of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    child = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, child.stdout


DISCOVER = (sys.executable, "-m", "releasekit", "discover", "--output", "json")


def test_a_thousand_uv_packages_take_less_than_a_second_of_cpu(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    uv_workspace(root)
    runs = [measure([*DISCOVER, "-C", str(root)], root) for _ in range(ROUNDS)]
    found = json.loads(runs[0][2])
    assert len(found["packages"]) == COUNT
    assert len(found["edges"]) > COUNT
    best = min(used for _, used, _ in runs)
    print(f"\n{COUNT} uv packages: {best:.2f} s of CPU, {min(run[0] for run in runs):.2f} s")
    assert best < 1


def test_a_thousand_node_packages_are_listed_faster_than_pnpm_10_lists_them(
    tmp_path: Path, node_tools: Path
) -> None:
    root = tmp_path / "repo"
    pnpm_workspace(root)
    program = str(node_tools / "pnpm10/bin/pnpm.cjs")
    pnpm = ["node", program, "ls", "-r", "--depth", "-1", "--json"]
    ours, theirs = [], []
    for _ in range(ROUNDS):  # side by side, so that a busy machine slows both
        ours.append(measure([*DISCOVER, "-C", str(root)], root))
        theirs.append(measure(pnpm, root))
    assert len(json.loads(ours[0][2])["packages"]) == len(json.loads(theirs[0][2])) == COUNT + 1
    mine, other = min(run[0] for run in ours), min(run[0] for run in theirs)
    print(f"\n{COUNT} Node packages: discover {mine:.2f} s, pnpm 10 ls {other:.2f} s")
    assert mine < other


def test_time_grows_with_the_packages_and_not_faster(tmp_path: Path) -> None:
    """Twice the packages may take three times as long, not four."""
    from releasekit import workspace
    from releasekit.graph import Graph

    root = tmp_path / "repo"
    uv_workspace(root)
    seconds = []
    for members in (["packages/pkg-0[0-4]*"], ["packages/*"]):
        (root / "pyproject.toml").write_text(f"[tool.uv.workspace]\nmembers = {members}\n")
        times = []
        for _ in range(3):
            start = time.process_time()
            Graph.of(workspace.load(root)).order()
            times.append(time.process_time() - start)
        seconds.append(min(times))
    print(f"\n500 packages {seconds[0]:.2f} s, 1,000 packages {seconds[1]:.2f} s")
    assert seconds[1] < 3 * seconds[0]
