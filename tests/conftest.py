from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from releasekit import embedded, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.config import RegistrySettings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> None:
    """What was started in the background may ignore them, and so would every child of a test."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


CREDENTIALS = (
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_URL",
    "GITHUB_ACTIONS",
    "GITHUB_TOKEN",
    "GITLAB_CI",
    "NODE_AUTH_TOKEN",
    "NPM_ID_TOKEN",
    "NPM_TOKEN",
    "PYPI_ID_TOKEN",
    "SIGSTORE_ID_TOKEN",
    "TESTPYPI_ID_TOKEN",
    "TWINE_PASSWORD",
    "TWINE_REPOSITORY",
    "TWINE_USERNAME",
    "UV_PUBLISH_INDEX",
    "UV_PUBLISH_PASSWORD",
    "UV_PUBLISH_TOKEN",
    "UV_PUBLISH_USERNAME",
)


@pytest.fixture(scope="session", autouse=True)
def open_environment() -> Iterator[dict[str, str]]:
    """Fence every test: it and its children can publish nowhere but on this machine.

    Yields the environment from outside of the fence, for the few that install a tool.
    """
    outside = dict(os.environ)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}/"
    with pytest.MonkeyPatch.context() as patch:
        for name in CREDENTIALS:
            patch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.setenv(name, nowhere)
            patch.setenv(name.lower(), nowhere)
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        for name in ("npm_config_registry", "UV_PUBLISH_URL", "TWINE_REPOSITORY_URL"):
            patch.setenv(name, nowhere)
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
        yield outside


@pytest.fixture(autouse=True)
def no_secret_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_hidden", {})


@pytest.fixture
def utc() -> Iterator[None]:
    """Times of the day are the same on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:  # noqa: ANN401 - whatever the command printed
        return json.loads(self.out)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class ReleaseKit:
    """The real command in a real process."""

    def __call__(
        self, *arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Result:
        child = subprocess.run(
            [sys.executable, "-m", "releasekit", *map(str, arguments)],
            cwd=cwd,
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return Result(child.returncode, child.stdout, child.stderr)


@pytest.fixture
def releasekit() -> ReleaseKit:
    return ReleaseKit()


@pytest.fixture(scope="session")
def npm_modules(open_environment: dict[str, str]) -> Path:
    """verdaccio, installed once into the user's cache, as `releasekit demo` does it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(open_environment):
            patch.delenv(name)
        for name, value in open_environment.items():
            patch.setenv(name, value)
        return embedded.install_npm_registry()


@pytest.fixture(scope="session")
def node_tools(open_environment: dict[str, str]) -> Path:
    """`node_modules` with pnpm, both yarns and npm's libraries, installed once per machine."""
    if shutil.which("node", path=open_environment["PATH"]) is None:
        pytest.skip("node is not on this machine")
    manifest = Path(__file__).parent / "tools" / "package.json"
    version = hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    caches = Path(open_environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    installed = caches / "releasekit-tests" / version
    if not installed.is_dir():
        installed.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=installed.parent))
        shutil.copy(manifest, fresh)
        subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
            cwd=fresh,
            env=open_environment,
            check=True,
            timeout=300,
        )
        try:
            fresh.rename(installed)
        except OSError:  # another run was faster
            shutil.rmtree(fresh)
    return installed / "node_modules"


BUILD_BACKENDS = (
    "flit-core", "hatch-vcs", "hatchling", "pdm-backend", "poetry-core", "setuptools",
    "setuptools-scm", "uv_build",
)  # fmt: skip


@pytest.fixture(scope="session")
def build_backends(
    open_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Variables for builds behind the fence: backends in uv's cache, and no network."""
    folder = tmp_path_factory.mktemp("backends")
    base = str(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]
    cache = subprocess.run(
        ["uv", "cache", "dir"], env=open_environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--python", base, "--target", folder / "installed",
         *BUILD_BACKENDS],
        cwd=folder,
        env=open_environment,
        check=True,
        timeout=300,
    )  # fmt: skip
    return {
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": cache,
        "UV_PYTHON": base,
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


@pytest.fixture
def pypi(tmp_path: Path) -> Iterator[RegistrySettings]:
    with embedded.pypi_registry(tmp_path / "pypi-registry") as settings:
        yield settings


@pytest.fixture
def npm(tmp_path: Path, npm_modules: Path) -> Iterator[RegistrySettings]:
    with embedded.npm_registry(tmp_path / "npm-registry", modules=npm_modules) as settings:
        yield settings
