"""How fast `releasekit publish` is beside the tools themselves. Ratios of one run, never seconds.

The whole command is measured: start, discovery, lock, asking the registry, pins, builds,
inspection, ordered uploads, and reading every hash back. The others do less. All of them work
offline with warm caches and against a fresh registry of their own, on this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from releasekit import embedded, process
from releasekit.config import RegistrySettings
from tests.benchmarks.test_build import compiled, seconds, show
from tests.monorepos import committed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
SAMPLE = 6
BRANCHES = 4
"""How many packages need the same one: 60 packages are four levels deep, 200 are five."""
LATENCY = 0.3


def parent(number: int) -> int | None:
    return (number - 1) // BRANCHES if number else None


def python_workspace(root: Path, count: int, backend: str) -> Path:
    requires, module = {
        "hatchling": ("hatchling", "hatchling.build"),
        "uv_build": ("uv_build", "uv_build"),
    }[backend]
    names = [f"acme-{count - number:03}" for number in range(count)]  # against the alphabet
    files = {"pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n'}
    for number, name in enumerate(names):
        above = parent(number)
        needs = [] if above is None else [names[above]]
        sources = "".join(f"{need} = {{ workspace = true }}\n" for need in needs)
        files[f"packages/{name}/pyproject.toml"] = (
            f'[project]\nname = "{name}"\nversion = "1.0.0"\nreadme = "README.md"\n'
            f'requires-python = ">=3.9"\ndependencies = {json.dumps(needs)}\n'
            f"[tool.uv.sources]\n{sources}"
            f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{module}"\n'
        )
        files[f"packages/{name}/README.md"] = "# x\n"
        files[f"packages/{name}/src/{name.replace('-', '_')}/__init__.py"] = ""
    return committed(root, {**files, ".gitignore": "dist/\n"})


def node_workspace(root: Path, count: int, *, pnpm: bool) -> Path:
    names = [f"@acme/a{count - number:03}" for number in range(count)]
    manifest: dict[str, object] = {"name": "root", "version": "0.0.0", "private": True}
    files = {"lerna.json": '{"version": "independent"}', ".gitignore": "node_modules\n"}
    if pnpm:
        files["pnpm-workspace.yaml"] = "packages:\n  - packages/*\nlinkWorkspacePackages: true\n"
    else:
        manifest["workspaces"] = ["packages/*"]
    files["package.json"] = json.dumps(manifest)
    for number, name in enumerate(names):
        above = parent(number)
        needs = [] if above is None else [names[above]]
        folder = f"packages/{name.rpartition('/')[2]}"
        body = {
            "name": name,
            "version": "1.0.0",
            "files": ["index.js"],
            "license": "MIT",
            "publishConfig": {"access": "public"},
            "dependencies": dict.fromkeys(needs, "^1.0.0"),
        }
        files[f"{folder}/package.json"] = json.dumps(body)
        files[f"{folder}/index.js"] = "1\n"
        files[f"{folder}/README.md"] = "# x\n"
    return committed(root, files)


@pytest.fixture
def environ(build_backends: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Behind the tests' fence, offline, with a cache of releasekit's own that is warm later."""
    compiled()
    npmrc = tmp_path / "npmrc"
    npmrc.write_text("audit=false\nfund=false\nupdate-notifier=false\n")
    own = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "npm_config_userconfig": str(npmrc),
        "npm_config_cache": str(tmp_path / "npm-cache"),
        "NX_DAEMON": "false",
        "CI": "1",
    }
    return os.environ | build_backends | own


@contextlib.contextmanager
def program(name: str, *arguments: object) -> Iterator[str]:
    argv = [sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with process.server(argv, cwd=Path(folder), env=os.environ, log=log) as address:
            yield address


@contextlib.contextmanager
def fresh_index(*, delay: float = 0.0) -> Iterator[RegistrySettings]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        settings = stack.enter_context(embedded.pypi_registry(Path(folder)))
        if delay:
            port = urlsplit(settings.upload_url or "").port
            address = stack.enter_context(program("distant.py", port, delay))
            settings = RegistrySettings(upload_url=address, index_url=f"{address}simple/")
        yield settings


def ours_to_index(root: Path, environ: dict[str, str], *, delay: float = 0.0) -> float:
    with fresh_index(delay=delay) as index:
        return publish(root, environ, f"pypi={index.upload_url},{index.index_url}")


def publish(root: Path, environ: dict[str, str], registry: str) -> float:
    argv = [sys.executable, "-m", "releasekit", "publish", "--yes", "--registry", registry]
    return seconds(argv, root, environ)


MEASURED = """
import atexit, resource, sys
from releasekit.__main__ import main
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
sys.argv[0] = "releasekit"
main()
"""


def memory_of_publish(root: Path, environ: dict[str, str], registry: str) -> int:
    """Megabytes, at the peak of the command itself; what backends and tools need is their own."""
    argv = [sys.executable, "-c", MEASURED, "publish", "--yes", "--registry", registry]
    child = subprocess.run(argv, cwd=root, env=environ, check=True, stdout=subprocess.PIPE)
    return int(child.stdout.split()[-1]) >> 10


def uv_publish(index: RegistrySettings) -> list[str | Path]:
    return ["uv", "publish", "--quiet", "--publish-url", str(index.upload_url),
            "--username", "nobody", "--password", "nothing"]  # fmt: skip


def online(environ: dict[str, str]) -> dict[str, str]:
    """For `uv publish`, which takes UV_OFFLINE at its word; the fence stays."""
    return {name: value for name, value in environ.items() if name != "UV_OFFLINE"}


def theirs_to_index(root: Path, environ: dict[str, str], out: Path) -> tuple[float, float]:
    """`uv build --all-packages`, then `uv publish` of all that it made."""
    build = seconds(
        ["uv", "build", "--quiet", "--all-packages", "--out-dir", out], root, environ
    )  # fmt: skip
    files = sorted(file for file in out.iterdir() if file.suffix in {".whl", ".gz"})
    with fresh_index() as index:
        return build, seconds([*uv_publish(index), *files], root, online(environ))


def loop_of_theirs(root: Path, environ: dict[str, str], out: Path, count: int) -> float:
    """`uv build --package X && uv publish`, measured for some packages and told for all."""
    taken = 0.0
    with fresh_index() as index:
        for number in range(1, SAMPLE + 1):
            own = out / str(number)
            argv: list[str | Path] = [
                "uv", "build", "--quiet", "--package", f"acme-{number:03}", "--out-dir", own,
            ]  # fmt: skip
            taken += seconds(argv, root, environ)
            files = sorted(file for file in own.iterdir() if file.suffix in {".whl", ".gz"})
            taken += seconds([*uv_publish(index), *files], root, online(environ))
    return taken / SAMPLE * count


@pytest.mark.parametrize(
    ("backend", "count", "times", "times_the_loop"),
    # uv is offline here; where it asks the index, as it does by default, it takes twice as long.
    # uv_build is uv itself, in one process, and it reads nothing back: there we are the slower.
    [("hatchling", 60, 7.0, 4.0), ("uv_build", 200, 1 / 3, 2.5)],
)
def test_python(
    backend: str,
    count: int,
    times: float,
    times_the_loop: float,
    tmp_path: Path,
    environ: dict[str, str],
) -> None:
    root = python_workspace(tmp_path / "repo", count, backend)
    ours, theirs, parts = [], [], []
    first = ours_to_index(root, environ)
    for number in range(ROUNDS):
        ours.append(ours_to_index(root, environ))
        if number == 0 or backend == "uv_build":  # hatchling takes half a minute
            parts.append(theirs_to_index(root, environ, tmp_path / f"theirs{number}"))
        theirs.append(sum(parts[-1]))
    loop = loop_of_theirs(root, environ, tmp_path / "loop", count)
    show(f"{count} {backend} packages", {
        "releasekit publish, first run": first,
        "releasekit publish, later runs": statistics.median(ours),
        "uv build --all-packages": min(build for build, _ in parts),
        "uv publish dist/*": min(sent for _, sent in parts),
        f"loop of both ({SAMPLE} packages, scaled)": loop,
    })  # fmt: skip
    ratio = statistics.median(their / our for our, their in zip(ours, theirs, strict=True))
    print(f"  {ratio:.2f} times as fast as the two commands, {loop / max(ours):.1f} as the loop")
    assert ratio >= times
    assert loop >= times_the_loop * max(ours)


def test_a_distant_index(tmp_path: Path, environ: dict[str, str]) -> None:
    root = python_workspace(tmp_path / "repo", 60, "uv_build")
    ours = ours_to_index(root, environ, delay=LATENCY)
    out = tmp_path / "out"
    seconds(["uv", "build", "--quiet", "--all-packages", "--out-dir", out], root, environ)
    files = sorted(file for file in out.iterdir() if file.suffix in {".whl", ".gz"})
    assert len(files) == 120
    with fresh_index(delay=LATENCY) as index:
        theirs = seconds([*uv_publish(index), *files], root, online(environ))
    show(f"60 packages, {LATENCY:g} s added to every request", {
        "releasekit publish, from the build to the last hash": ours,
        "uv publish dist/*, the uploads alone": theirs,
    })  # fmt: skip
    print(f"  {theirs / ours:.1f} times as fast")
    assert theirs >= 3 * ours


@contextlib.contextmanager
def fresh_npm(modules: Path, environ: dict[str, str]) -> Iterator[RegistrySettings]:
    """npm and pnpm want some token, where the registry wants none."""
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded.npm_registry(Path(folder), modules=modules) as settings,
    ):
        host = urlsplit(settings.url or "").netloc
        npmrc = Path(environ["npm_config_userconfig"])
        before = npmrc.read_text()
        npmrc.write_text(f"{before}registry={settings.url}\n//{host}/:_authToken=nothing\n")
        yield settings
        npmrc.write_text(before)


@pytest.fixture(scope="session")
def lerna(open_environment: dict[str, str]) -> Path:
    """Installed once per machine."""
    manifest = Path(__file__).parent / "tools/package.json"
    version = hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    caches = Path(open_environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    installed = caches / "releasekit-benchmarks" / version
    if not installed.is_dir():
        installed.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=installed.parent))
        shutil.copy(manifest, fresh)
        subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
            cwd=fresh, env=open_environment, check=True, timeout=600,
        )  # fmt: skip
        fresh.rename(installed)
    return installed / "node_modules/lerna/dist/cli.js"


def on_path(folder: Path, environ: dict[str, str], program: str) -> dict[str, str]:
    """`pnpm` is this program."""
    folder.mkdir()
    tool = folder / "pnpm"
    tool.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    tool.chmod(0o755)
    return environ | {"PATH": f"{folder}{os.pathsep}{environ['PATH']}"}


def ours_to_npm(root: Path, environ: dict[str, str], modules: Path) -> float:
    with fresh_npm(modules, environ) as npm:
        return publish(root, environ, f"npm={npm.url}")


def theirs_to_npm(
    root: Path, environ: dict[str, str], modules: Path, argv: list[str | Path]
) -> float:
    with fresh_npm(modules, environ) as npm:
        registry = {"npm_config_registry": str(npm.url)}
        taken = seconds([*argv, "--registry", str(npm.url)], root, environ | registry)
        assert httpx.get(f"{npm.url}@acme%2fa001", trust_env=False).status_code == 200
    subprocess.run(["git", "checkout", "--quiet", "."], cwd=root, check=True)
    return taken


@pytest.mark.parametrize("count", [60, 200])
def test_node_in_an_npm_workspace(
    count: int, tmp_path: Path, environ: dict[str, str], npm_modules: Path, lerna: Path
) -> None:
    root = node_workspace(tmp_path / "repo", count, pnpm=False)
    ours, npm, by_lerna = [], [], []
    for _ in range(ROUNDS):
        ours.append(ours_to_npm(root, environ, npm_modules))
        npm.append(theirs_to_npm(root, environ, npm_modules, ["npm", "publish", "--workspaces"]))
        argv: list[str | Path] = ["node", lerna, "publish", "from-package", "--yes"]
        by_lerna.append(theirs_to_npm(root, environ, npm_modules, argv))
    show(f"{count} packages in an npm workspace", {
        "releasekit publish": statistics.median(ours),
        "npm publish --workspaces": statistics.median(npm),
        "lerna publish from-package": statistics.median(by_lerna),
    })  # fmt: skip
    assert statistics.median(ours) < statistics.median(npm)
    assert statistics.median(ours) < statistics.median(by_lerna)


@pytest.mark.parametrize("count", [60, 200])
def test_node_in_a_pnpm_workspace(
    count: int, tmp_path: Path, environ: dict[str, str], npm_modules: Path, node_tools: Path
) -> None:
    root = node_workspace(tmp_path / "repo", count, pnpm=True)
    [native, *_] = node_tools.glob("@pnpm/exe.*/pnpm")
    pnpm12 = on_path(tmp_path / "pnpm12", environ, str(native))
    recursive: list[str | Path] = ["pnpm", "-r", "publish", "--no-git-checks"]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(ours_to_npm(root, pnpm12, npm_modules))
        theirs.append(theirs_to_npm(root, pnpm12, npm_modules, recursive))
    rows = {
        "releasekit publish (with pnpm 12)": statistics.median(ours),
        "pnpm 12 -r publish": statistics.median(theirs),
    }
    if count == 60:  # it takes half a minute, and 200 a minute and a half
        pnpm10 = on_path(tmp_path / "pnpm10", environ, f"node {node_tools}/pnpm10/bin/pnpm.cjs")
        rows["releasekit publish (with pnpm 10)"] = ours_to_npm(root, pnpm10, npm_modules)
        rows["pnpm 10 -r publish"] = theirs_to_npm(root, pnpm10, npm_modules, recursive)
    show(f"{count} packages in a pnpm workspace", rows)
    ratio = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    print(f"  {ratio:.2f} times as long as pnpm 12")
    assert ratio <= 2
    if count == 60:
        assert rows["releasekit publish (with pnpm 10)"] < rows["pnpm 10 -r publish"]


def test_time_grows_with_the_packages_and_memory_stays_small(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Against an index whose answers cost the same however much it holds."""
    taken = {}
    for count in (100, 200, 400, 700):
        root = python_workspace(tmp_path / f"repo{count}", count, "uv_build")
        times = []
        for _ in range(ROUNDS):
            with program("quick_index.py") as address:
                times.append(publish(root, environ, f"pypi={address},{address}simple/"))
        taken[count] = min(times)
    with program("quick_index.py") as address:
        memory = memory_of_publish(root, environ, f"pypi={address},{address}simple/")
    show("uv_build packages", {f"{count}": time for count, time in taken.items()})
    print(f"  {memory} MB at the most, with 700 packages")
    # Twice the packages take at most twice the time, and a fifth for noise; the start costs once.
    assert taken[200] <= 2.4 * taken[100]
    assert taken[400] <= 2.4 * taken[200]
    assert taken[700] <= 2.4 * 7 / 8 * taken[400]
    assert memory < 300


def test_big_artifacts_are_streamed(tmp_path: Path, environ: dict[str, str]) -> None:
    root = python_workspace(tmp_path / "repo", 4, "uv_build")
    for number in range(1, 5):
        data = root / f"packages/acme-{number:03}/src/acme_{number:03}/data.bin"
        data.write_bytes(os.urandom(60 << 20))
    committed(root, {"touched": ""})
    with program("quick_index.py") as address:
        memory = memory_of_publish(root, environ, f"pypi={address},{address}simple/")
    print(f"\n  {memory} MB at the most, with 480 MB to send")
    assert memory < 300
