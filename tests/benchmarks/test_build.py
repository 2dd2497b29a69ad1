"""How fast `releasekit build` is beside the tools themselves. Ratios of one run, never seconds.

The whole command is measured: start, discovery, lock, pins, builds, inspection and hand-over.
uv works offline with a warm cache, which is its quickest way.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.building import write_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("requires", "backend", "first", "later"),
    [("hatchling", "hatchling.build", 8, 15), ("setuptools", "setuptools.build_meta", 5, 5)],
)
def test_sixty_packages(
    requires: str, backend: str, first: int, later: int, tmp_path: Path, environ: dict[str, str]
) -> None:
    root = python_workspace(tmp_path / "repo", 60, requires, backend)
    uv: list[str | Path] = [
        "uv",
        "build",
        "--quiet",
        "--all-packages",
        "--out-dir",
        tmp_path / "theirs",
    ]
    rows = {
        f"releasekit build, first run ({requires})": seconds(ours(tmp_path / "o"), root, environ)
    }
    again = min(seconds(ours(tmp_path / f"o{n}"), root, environ) for n in range(ROUNDS))
    rows["releasekit build, later runs"] = again
    theirs = seconds(uv, root, environ)
    rows["uv build --all-packages"] = theirs
    show("60 packages", rows)
    cold = next(iter(rows.values()))
    print(f"  {theirs / cold:.1f} times faster at first, {theirs / again:.1f} times later")
    assert len(list((tmp_path / "o").glob("acme*"))) == 120
    assert theirs >= first * cold
    assert theirs >= later * again


def test_two_hundred_uv_build_packages(tmp_path: Path, environ: dict[str, str]) -> None:
    root = python_workspace(tmp_path / "repo", 200, "uv_build", "uv_build")
    uv: list[str | Path] = [
        "uv",
        "build",
        "--quiet",
        "--all-packages",
        "--out-dir",
        tmp_path / "theirs",
    ]
    stage, theirs, whole = [], [], []
    for number in range(ROUNDS):
        theirs.append(seconds(uv, root, environ))
        out = tmp_path / f"o{number}"
        whole.append(seconds([*ours(out), "--output", "json"], root, environ))
        stage.append(build_stage(root))
    rows = {
        "releasekit build, its build stage": min(stage),
        "releasekit build, the whole command": min(whole),
        "uv build --all-packages": min(theirs),
    }
    show("200 uv_build packages", rows)
    assert ratio(stage, theirs) <= 1.3


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds: within one, both met the same noise."""
    found = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    print(f"  {found:.2f} times as long")
    return found


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


# pnpm 12 needs 0.1 s for all of it; a keeper, 200 hashes, logs and journal lines add half of that.
@pytest.mark.parametrize(("tool", "limit"), [("npm", 1.3), ("pnpm", 1.7)])
def test_two_hundred_node_packages(
    tool: str, limit: float, tmp_path: Path, environ: dict[str, str], node_tools: Path
) -> None:
    root = node_workspace(tmp_path / "repo", 200, pnpm=tool == "pnpm")
    if tool == "pnpm":
        [native, *_] = node_tools.glob("@pnpm/exe.*/pnpm")
        (tmp_path / "bin").mkdir()
        shutil.copy(native, tmp_path / "bin/pnpm")
        environ["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environ['PATH']}"
    stage, theirs, whole = [], [], []
    for number in range(ROUNDS):
        out = tmp_path / f"theirs{number}"
        out.mkdir()
        recursive = ["--workspaces", "pack"] if tool == "npm" else ["-r", "pack"]
        argv: list[str | Path] = [tool, *recursive, "--pack-destination", out]
        theirs.append(seconds(argv, root, environ))
        whole.append(seconds(ours(tmp_path / f"o{number}"), root, environ))
        stage.append(build_stage(root))
    singly = 0.0
    (tmp_path / "singly").mkdir()
    for number in range(10):
        alone: list[str | Path] = [tool, "pack", "--pack-destination", tmp_path / "singly"]
        singly += seconds(alone, root / f"packages/a{number:03}", environ)
    show(f"200 packages, {tool}", {
        "releasekit build, its build stage": min(stage),
        "releasekit build, the whole command": min(whole),
        f"{tool} {' '.join(recursive)}": min(theirs),
        f"one {tool} pack a package (20 times 10 of them)": singly * 20,
    })  # fmt: skip
    assert len(list((tmp_path / "o0").glob("*.tgz"))) == 200
    assert ratio(stage, theirs) <= limit
    assert singly * 20 >= 5 * min(stage)


def test_memory_stays_small(tmp_path: Path, environ: dict[str, str]) -> None:
    import resource

    root = python_workspace(tmp_path / "repo", 60, "hatchling", "hatchling.build")
    seconds(ours(tmp_path / "out"), root, environ)
    # The largest of all children so far, in kilobytes.
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"\nlargest process: {largest} MB")
    assert largest < 300
