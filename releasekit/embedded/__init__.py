"""Throwaway registries on loopback, for `demo`, for rehearsals and for the tests.

Each is a child that picks its own port and ends when we do. It knows no upstream unless told.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import process
from releasekit.config import RegistrySettings
from releasekit.embedded.behaviour import VARIABLE, Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

_NPM_FOLDER = Path(__file__).parent / "npm"
# `user:password`; in the environment, because everybody can read an argv.
USER_VARIABLE = "RELEASEKIT_EMBEDDED_USER"
NEEDS_NODE = "install Node.js and npm to run an npm registry here"
_WELL_BEHAVED = Behaviour()


@contextlib.contextmanager
def throwaway_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder that goes when the block ends, however it ends: a child sees to it.

    While it lasts, it is also where we and our children keep temporary files.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    argv = [sys.executable, "-I", str(Path(__file__).parent / "sweeper.py"), str(folder)]
    log = folder / "sweeper.log"
    with process.server(argv, cwd=folder.parent, env=os.environ, log=log):
        try:
            with _temporary_files_in(folder / "tmp"):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    folder.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is looked up again
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


@contextlib.contextmanager
def pypi_registry(
    folder: Path,
    *,
    user: tuple[str, str] | None = None,
    behaviour: Behaviour = _WELL_BEHAVED,
) -> Iterator[RegistrySettings]:
    """A PyPI-like index that keeps its files in `folder`/packages, for one user or for all."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "releasekit.embedded.pypi", str(packages)]
    environment = os.environ | {
        "PYTHONUNBUFFERED": "1",
        USER_VARIABLE: ":".join(user or ()),
        VARIABLE: behaviour.to_json(),
    }
    with process.server(argv, cwd=folder, env=environment, log=folder / "pypi.log") as address:
        yield RegistrySettings(upload_url=address, index_url=f"{address}simple/")


@contextlib.contextmanager
def npm_registry(
    folder: Path,
    *,
    modules: Path | None = None,
    private: bool = False,
    behaviour: Behaviour = _WELL_BEHAVED,
) -> Iterator[RegistrySettings]:
    """An npm registry that keeps its files in `folder`/storage; private: for its users alone."""
    folder.mkdir(parents=True, exist_ok=True)
    node = process.find_tool("node", hint=NEEDS_NODE)
    installed = modules or install_npm_registry()
    argv = [node, str(_NPM_FOLDER / "server.cjs"), str(installed), str(folder)]
    if private:
        argv.append("private")
    environment = os.environ | {VARIABLE: behaviour.to_json()}
    with process.server(argv, cwd=folder, env=environment, log=folder / "npm.log") as address:
        yield RegistrySettings(url=address)


def install_npm_registry() -> Path:
    """verdaccio from the package.json we ship, installed once into the user's cache."""
    target = _npm_registry_folder()
    if target.is_dir():
        return target
    npm = process.find_tool("npm", hint=NEEDS_NODE)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        building = Path(name) / "building"
        building.mkdir()
        shutil.copy(_NPM_FOLDER / "package.json", building)
        process.output(
            [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
             "--loglevel=error"],
            cwd=building,
            timeout=600,
        )  # fmt: skip
        try:
            building.rename(target)
        except OSError:
            if not target.is_dir():  # somebody else was quicker
                raise
    return target


def is_installed() -> bool:
    return _npm_registry_folder().is_dir()


def _npm_registry_folder() -> Path:
    manifest = (_NPM_FOLDER / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "releasekit"
    return cache / f"npm-registry-{hashlib.sha256(manifest).hexdigest()[:12]}"


def node_missing() -> str | None:
    """Which tool an npm registry would need and this machine lacks."""
    return next((tool for tool in ("node", "npm") if shutil.which(tool) is None), None)
