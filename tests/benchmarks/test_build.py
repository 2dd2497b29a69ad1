"""How fast `releasekit build` is beside the tools themselves. Ratios of one run, never seconds.

Measured are the whole command (start, discovery, lock, pins, builds, inspection, hand-over) and, of
the same run, the build stage alone. uv works offline with a warm cache, which is its quickest way.
Rounds are interleaved and begin with another one each time; the best of each counts. Nothing is
removed between them: ext4 looks long for an inode after many were freed, and whoever came next
would pay for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.building import write_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS = 5


def python_workspace(root: Path, count: int, requires: str, backend: str) -> Path:
    files = {"pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n'}
    for number in range(count):
        # Named against the alphabet, each needing the one before.
        name = f"acme-{count - number:03}"
        needs = [f"acme-{count - number + 1:03}"] if number else []
        folder = f"packages/{name}"
        sources = "".join(f"{need} = {{ workspace = true }}\n" for need in needs)
        files[f"{folder}/pyproject.toml"] = (
            f'[project]\nname = "{name}"\nversion = "1.0.0"\nreadme = "README.md"\n'
            f'requires-python = ">=3.9"\ndependencies = {needs}\n'
            f"[tool.uv.sources]\n{sources}"
            f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{backend}"\n'
        )
        files[f"{folder}/README.md"] = "# x\n"
        files[f"{folder}/src/{name.replace('-', '_')}/__init__.py"] = ""
    return commit(write_tree(root, files))


def node_workspace(root: Path, count: int, *, pnpm: bool) -> Path:
    manifest: dict[str, object] = {"name": "root", "private": True}
    files = {}
    if pnpm:
        files["pnpm-workspace.yaml"] = "packages:\n  - packages/*\n"
    else:
        manifest["workspaces"] = ["packages/*"]
    files["package.json"] = json.dumps(manifest)
    for number in range(count):
        folder = f"packages/a{number:03}"
        body = {"name": f"@acme/a{number:03}", "version": "1.0.0", "files": ["index.js"]}
        files[f"{folder}/package.json"] = json.dumps(body)
        files[f"{folder}/index.js"] = "1\n"
        files[f"{folder}/README.md"] = "# x\n"
    return commit(write_tree(root, files))


def commit(root: Path) -> Path:
    (root / ".gitignore").write_text("dist/\n")
    for command in (
        ["init", "--quiet"], ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "x"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def seconds(argv: Sequence[str | Path], root: Path, environ: dict[str, str]) -> float:
    start = time.perf_counter()
    child = subprocess.run(argv, cwd=root, env=environ, check=False, capture_output=True, text=True)
    taken = time.perf_counter() - start
    assert child.returncode == 0, child.stdout[-2000:] + child.stderr[-2000:]
    return taken


def ours(out: Path) -> list[str | Path]:
    return [sys.executable, "-m", "releasekit", "build", "--out", out]


def compiled() -> None:
    # An editable install has no bytecode yet where PYTHONDONTWRITEBYTECODE is set.
    import compileall

    import releasekit

    compileall.compile_dir(releasekit.__path__[0], quiet=1)


def show(title: str, rows: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<44}{value:8.2f} s")


@pytest.fixture
def environ(build_backends: dict[str, str], tmp_path: Path) -> dict[str, str]:
    compiled()
    return os.environ | build_backends | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def best_of(rounds: int, contestants: dict[str, Callable[[int], float]]) -> dict[str, float]:
    """The best of each, in rounds that all take part in and that nobody always begins."""
    best = dict.fromkeys(contestants, float("inf"))
    for number in range(rounds):
        order = list(contestants)
        for name in (*order[number % len(order) :], *order[: number % len(order)]):
            best[name] = min(best[name], contestants[name](number))
    return best


def build_stage(root: Path) -> float:
    """From the start of the builds to the last artifact, as the run's journal tells it."""
    from releasekit import journal
    from releasekit.events import BuildFinished, BuildStarted
    from releasekit.lock import journal_directory

    newest = max((journal_directory(root) / "runs").iterdir())
    events = journal.read(newest / journal.FILE_NAME).events
    started = [event.at for event in events if isinstance(event, BuildStarted)]
    ended = [event.at for event in events if isinstance(event, BuildFinished)]
    return max(ended) - min(started)


def whole_and_stage(root: Path, out: Path, environ: dict[str, str], stage: list[float]) -> float:
    taken = seconds(ours(out), root, environ)
    stage.append(build_stage(root))
    return taken


@pytest.mark.parametrize(
    ("requires", "backend", "first", "later"),
    [("hatchling", "hatchling.build", 8, 15), ("setuptools", "setuptools.build_meta", 5, 5)],
)
def test_sixty_packages(
    requires: str, backend: str, first: int, later: int, tmp_path: Path, environ: dict[str, str]
) -> None:
    root = python_workspace(tmp_path / "repo", 60, requires, backend)
    uv = ["uv", "build", "--quiet", "--all-packages", "--out-dir"]

    def anew(number: int) -> float:
        fresh = environ | {"XDG_CACHE_HOME": str(tmp_path / f"fresh-{number}")}
        return seconds(ours(tmp_path / f"first-{number}"), root, fresh)

    seconds(ours(tmp_path / "o"), root, environ)  # the run before the later ones
    best = best_of(2, {
        "releasekit build, first run": anew,
        "releasekit build, later runs": lambda n: seconds(ours(tmp_path / f"o{n}"), root, environ),
        "uv build --all-packages": lambda n: seconds([*uv, tmp_path / f"t{n}"], root, environ),
    })  # fmt: skip
    show(f"60 packages, {requires}", best)
    cold, again, theirs = best.values()
    print(f"  {theirs / cold:.1f} times faster at first, {theirs / again:.1f} times later")
    assert len(list((tmp_path / "o").glob("acme*"))) == 120
    assert theirs >= first * cold
    assert theirs >= later * again


def test_two_hundred_uv_build_packages(tmp_path: Path, environ: dict[str, str]) -> None:
    root = python_workspace(tmp_path / "repo", 200, "uv_build", "uv_build")
    uv = ["uv", "build", "--quiet", "--all-packages", "--out-dir"]
    stage: list[float] = []
    best = best_of(ROUNDS, {
        "uv build --all-packages": lambda n: seconds([*uv, tmp_path / f"t{n}"], root, environ),
        "releasekit build, the whole command": lambda n: whole_and_stage(
            root, tmp_path / f"o{n}", environ, stage
        ),
    })  # fmt: skip
    show("200 uv_build packages", best | {"releasekit build, its build stage": min(stage)})
    theirs, whole = best.values()
    print(f"  {min(stage) / theirs:.2f} times as long; the whole command {whole / theirs:.2f}")
    assert min(stage) <= 1.3 * theirs


@pytest.mark.parametrize("tool", ["npm", "pnpm"])
def test_two_hundred_node_packages(
    tool: str, tmp_path: Path, environ: dict[str, str], node_tools: Path
) -> None:
    root = node_workspace(tmp_path / "repo", 200, pnpm=tool == "pnpm")
    if tool == "pnpm":
        [native, *_] = node_tools.glob("@pnpm/exe.*/pnpm")
        (tmp_path / "bin").mkdir()
        shutil.copy(native, tmp_path / "bin/pnpm")
        environ["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environ['PATH']}"
    recursive = ["--workspaces", "pack"] if tool == "npm" else ["-r", "pack"]
    stage: list[float] = []

    def theirs(number: int) -> float:
        out = tmp_path / f"theirs{number}"
        out.mkdir()
        return seconds([tool, *recursive, "--pack-destination", out], root, environ)

    best = best_of(ROUNDS, {
        f"{tool} {' '.join(recursive)}": theirs,
        "releasekit build, the whole command": lambda n: whole_and_stage(
            root, tmp_path / f"o{n}", environ, stage
        ),
    })  # fmt: skip
    singly = 0.0
    (tmp_path / "singly").mkdir()
    for number in range(10):
        alone: list[str | Path] = [tool, "pack", "--pack-destination", tmp_path / "singly"]
        singly += seconds(alone, root / f"packages/a{number:03}", environ)
    show(f"200 packages, {tool}", best | {
        "releasekit build, its build stage": min(stage),
        f"one {tool} pack a package (20 times 10 of them)": singly * 20,
    })  # fmt: skip
    together, whole = best.values()
    print(f"  {min(stage) / together:.2f} times as long; the whole command {whole / together:.2f}")
    assert len(list((tmp_path / "o0").glob("*.tgz"))) == 200
    # pnpm packs all of them in the time that an interpreter and its imports take to start, so no
    # command in Python can be near it as a whole.
    assert (whole if tool == "npm" else min(stage)) <= 1.3 * together
    assert singly * 20 >= 5 * min(stage)


def test_memory_stays_small(tmp_path: Path, environ: dict[str, str]) -> None:
    """All our processes together, shared pages counted once: what backends need included."""
    root = python_workspace(tmp_path / "repo", 60, "hatchling", "hatchling.build")
    largest = 0
    with subprocess.Popen(ours(tmp_path / "out"), cwd=root, env=environ,
                          stdout=subprocess.DEVNULL) as child:  # fmt: skip
        while child.poll() is None:
            largest = max(largest, sum(map(proportional_size, tree(child.pid))))
            time.sleep(0.01)
    assert child.returncode == 0
    print(f"\nall processes together: {largest >> 10} MB at most")
    assert 10 << 10 < largest < 300 << 10


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for below in found for one in tree(int(below)))]


def proportional_size(pid: int) -> int:
    """In kilobytes, with a share of what is shared (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
