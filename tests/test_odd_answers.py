"""No read that fails, and no tool that fails, is ever taken for an answer."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from releasekit import embedded
from tests.faults import Page, Watch, faulty_registry
from tests.monorepos import committed
from tests.sample import write_sample
from tests.test_publish import pypi_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistrySettings]:
    """One for all: nothing here is ever published."""
    with embedded.pypi_registry(tmp_path_factory.mktemp("pypi")) as settings:
        yield settings


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory, npm_modules: Path) -> Iterator[RegistrySettings]:
    with embedded.npm_registry(tmp_path_factory.mktemp("npm"), modules=npm_modules) as settings:
        yield settings


LOGIN = b"<html><title>Sign in</title><form><input name=user></form>Please sign in</html>"
JSON = "application/vnd.pypi.simple.v1+json"
TO_ITSELF = {"Location": "/again"}
ODD = {
    "401": (Page(status=401, body=b"who are you?"), "answered 401"),
    "403": (Page(status=403), "answered 403"),
    "500": (Page(status=500), "it answered 500"),
    "a page to log in": (Page(body=LOGIN), "answer"),
    "truncated": (Page(body=b"<a href", missing=99), "RemoteProtocolError"),
    "a redirect to itself": (Page(status=302, headers=TO_ITSELF), "TooManyRedirects"),
}


def publish_nothing(
    releasekit: ReleaseKit, root: Path, registry: str, package: str, watch: Watch
) -> str:
    result = releasekit("publish", "--yes", "--package", package, "--registry", registry, cwd=root)
    assert result.code == 1, result.out + result.err
    assert "Traceback" not in result.err
    assert watch.uploads == []
    assert not list(root.glob("**/runs/*/artifacts"))
    return result.err


@pytest.mark.parametrize(
    "page",
    [*ODD, "not JSON", "JSON of something else"],
)
def test_an_odd_answer_of_an_index_is_loud_before_anything_is_built(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, page: str
) -> None:
    write_sample(tmp_path / "repo", node={})
    odd = ODD | {
        "not JSON": (Page(body=b"<html>", kind=JSON), "not a simple index's answer"),
        "JSON of something else": (Page(body=b"[1]", kind=JSON), "not a simple index's answer"),
    }
    answer, words = odd[page]
    watch = Watch()
    with faulty_registry(pypi, reads=lambda _: answer, watch=watch) as faulty:
        told = publish_nothing(
            releasekit, tmp_path / "repo", pypi_option(faulty), "acme-text", watch
        )
        assert words in told
        assert f"{faulty.index_url}acme-text/" in told


@pytest.mark.parametrize("page", [*ODD, "JSON of something else", "another package"])
def test_an_odd_answer_of_an_npm_registry_is_loud_before_anything_is_built(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings, page: str
) -> None:
    write_sample(tmp_path / "repo", python={})
    odd = ODD | {
        "JSON of something else": (Page(body=b'{"ok": true}'), "not an npm registry's answer"),
        "another package": (Page(body=b'{"name": "x", "versions": {}}'), "not an npm registry's"),
    }
    answer, words = odd[page]
    watch = Watch()
    with faulty_registry(npm, reads=lambda _: answer, watch=watch) as faulty:
        told = publish_nothing(
            releasekit, tmp_path / "repo", f"npm={faulty.url}", "@acme/parser", watch
        )
        assert words in told
        assert f"{faulty.url}@acme" in told


# npm and node are one: node ends, and npm with it.
SAID_OF = {
    "git": "git", "uv": "/uv ", "python3": "bin/python3", "npm": "/npm pack", "node": "/npm pack",
    "pnpm": "/pnpm pack", "yarn": "/yarn pack",
}  # fmt: skip
WAYS = {"refuses": "exit 1", "does nothing": "exit 0", "is killed": "kill -9 $$"}


def broken(folder: Path, tool: str, way: str) -> dict[str, str]:
    """PATH with this tool first."""
    folder.mkdir()
    program = folder / tool
    program.write_text(f"#!/bin/sh\n{WAYS[way]}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tool", ["git", "uv", "python3"])
def test_a_python_tool_that_fails_is_named_and_nothing_is_sent(
    releasekit: ReleaseKit,
    tmp_path: Path,
    pypi: RegistrySettings,
    build_backends: dict[str, str],
    tool: str,
    way: str,
) -> None:
    """Of git, uv, and the interpreter in which a build server lives."""
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    if tool != "uv":
        manifest = root / "python/acme-text/pyproject.toml"
        by_hatchling = manifest.read_text().replace('"uv_build"', '"hatchling.build"', 2)
        manifest.write_text(by_hatchling.replace('["hatchling.build"]', '["hatchling"]'))
    committed(root, {})
    environ = build_backends | broken(tmp_path / "bin", tool, way)
    if tool == "python3":
        environ["UV_PYTHON"] = str(tmp_path / "bin/python3")
    assert_loud(releasekit, root, pypi, environ, tool)


def assert_loud(
    releasekit: ReleaseKit,
    root: Path,
    behind: RegistrySettings,
    environ: dict[str, str],
    tool: str,
) -> None:
    watch = Watch()
    with faulty_registry(behind, watch=watch) as faulty:
        registry = f"npm={faulty.url}" if behind.url else pypi_option(faulty)
        result = releasekit("publish", "--yes", "--registry", registry, cwd=root, env=environ)
    told = result.out + result.err
    assert result.code == 1, told
    assert SAID_OF[tool] in told
    assert "hint: " in told
    assert "Traceback" not in told
    assert watch.uploads == []
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, check=True, capture_output=True
    )
    assert status.stdout == b""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tool", ["npm", "pnpm", "yarn", "node"])
def test_a_node_tool_that_fails_is_named_and_nothing_is_sent(
    releasekit: ReleaseKit,
    tmp_path: Path,
    npm: RegistrySettings,
    tool: str,
    way: str,
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={})
    files = {}
    if tool == "pnpm":
        files["pnpm-workspace.yaml"] = "packages:\n  - node/*\n"
    if tool == "yarn":
        files["yarn.lock"] = ""
    committed(root, files)
    assert_loud(releasekit, root, npm, broken(tmp_path / "bin", tool, way), tool)
