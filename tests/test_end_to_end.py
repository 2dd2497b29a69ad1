"""From a monorepo of twelve packages to a stranger's machine, with nothing simulated.

Real builds, real uploads by the real command, and then what a user does: install and import.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from releasekit import embedded
from tests.monorepos import (
    NEEDS,
    VERSION,
    committed,
    edges,
    node_files,
    published_needs,
    python_files,
)
from tests.test_build_node import tool  # noqa: F401 - a fixture
from tests.test_publish import outcomes, pypi_option, served
from tests.test_publish_pins import contents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result


@pytest.fixture(scope="module")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("npm-registry")


@pytest.fixture(scope="module")
def npm(npm_folder: Path, npm_modules: Path) -> Iterator[RegistrySettings]:
    """One for all tests here: each has a scope of its own."""
    with embedded.npm_registry(npm_folder, modules=npm_modules) as settings:
        yield settings


def published(
    releasekit: ReleaseKit, root: Path, environ: dict[str, str], *registries: str
) -> Result:
    """The tree is the same to the byte, the inode and the time before and after."""
    before = contents(root)
    options = [part for one in registries for part in ("--registry", one)]
    result = releasekit("publish", "--yes", "--output", "json", *options, cwd=root, env=environ)
    assert result.code == 0, result.out[-3000:] + result.err
    assert set(outcomes(result).values()) == {"published"}
    assert contents(root) == before
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, check=True, capture_output=True
    )
    assert status.stdout == b""
    return result


def assert_order(stored: Mapping[str, list[int]]) -> None:
    """By the registry's own clock: a package's first file came after its needs' last."""
    assert set(stored) == set(NEEDS)
    for package, need in edges():
        assert min(stored[package]) > max(stored[need]), f"{package} came before {need}"


def stored_in_index(packages: Path, prefix: str) -> dict[str, list[int]]:
    found = {
        letter: [file.stat().st_mtime_ns for file in packages.glob(f"{prefix}_{letter}-*")]
        for letter in NEEDS
    }
    assert {len(files) for files in found.values()} == {2}
    return found


def stored_in_npm(folder: Path, scope: str) -> dict[str, list[int]]:
    found = {
        letter: [file.stat().st_mtime_ns for file in folder.glob(f"{scope}/{letter}/*.tgz")]
        for letter in NEEDS
    }
    assert {len(files) for files in found.values()} == {1}
    return found


def assert_python_installs(tmp_path: Path, pypi: RegistrySettings, prefix: str) -> None:
    """In an environment that knows only the registry, with all extras, in a foreign folder."""
    environment = tmp_path / "environment"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin/python"
    wanted = [f"{prefix}-{letter}" for letter in NEEDS]
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--no-cache", "--python", python, "--index-url",
         str(pypi.index_url), f"{prefix}-a[all]", f"{prefix}-l[app]", *wanted],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    script = (
        "import importlib, json, sys\nfrom importlib import metadata\nneeds = {}\n"
        f"for name in {wanted!r}:\n"
        "    module = importlib.import_module(name.replace('-', '_'))\n"
        f"    assert module.__version__ == metadata.version(name) == '{VERSION}', name\n"
        "    assert module.__file__.startswith(sys.prefix), module.__file__\n"
        "    needs[name] = metadata.requires(name) or []\n"
        "print(json.dumps(needs))"
    )
    child = subprocess.run(
        [python, "-c", script], check=True, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    needs: dict[str, list[str]] = json.loads(child.stdout)
    at = f"=={VERSION}"
    assert needs[f"{prefix}-f"] == [f"{prefix}-h{at}", f"{prefix}-i{at}"]
    assert f"{prefix}-d[more]{at} ; extra == 'fast'" in needs[f"{prefix}-a"]
    [marked] = needs[f"{prefix}-k"]  # uv_build writes markers in a way of its own
    assert marked == f"{prefix}-l{at} ; python_full_version >= '3.8'"
    assert needs[f"{prefix}-l"] == [f"{prefix}-a{at} ; extra == 'app'"]


def assert_node_installs(tmp_path: Path, npm: RegistrySettings, scope: str) -> None:
    user = tmp_path / "user"
    user.mkdir()
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", "--cache",
         tmp_path / "npm-cache", *(f"{scope}/{letter}" for letter in NEEDS)],
        check=True, cwd=user, env=os.environ | {"npm_config_registry": str(npm.url)},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    script = (
        "(async () => { const seen = {};\n"
        f"for (const letter of {list(NEEDS)!r}) {{\n"
        f"  const name = '{scope}/' + letter;\n"
        "  if (letter !== 'a') seen[letter] = require(name).name;\n"
        "  else seen[letter] = (await import(name)).name;\n"
        "}\nconsole.log(JSON.stringify(seen)) })()"
    )
    shown = subprocess.run(
        ["node", "-e", script], check=True, cwd=user, stdout=subprocess.PIPE, text=True
    )
    assert json.loads(shown.stdout) == {letter: letter for letter in NEEDS}
    assert not list(user.glob("node_modules/*/*/left-out.js"))


def manifest_of(npm: RegistrySettings, scope: str, letter: str) -> dict[str, Any]:
    document = httpx.get(f"{npm.url}{scope}%2f{letter}").json()
    manifest: dict[str, Any] = document["versions"][VERSION]
    return manifest


def test_twelve_python_packages_of_a_uv_workspace(
    releasekit: ReleaseKit,
    tmp_path: Path,
    pypi: RegistrySettings,
    build_backends: dict[str, str],
) -> None:
    root = committed(tmp_path / "repo", python_files("alpha"))
    result = published(releasekit, root, build_backends, pypi_option(pypi))
    assert_order(stored_in_index(tmp_path / "pypi-registry/packages", "alpha"))
    built = {
        artifact["file"]: artifact["sha256"]
        for event in result.events()
        if event["event"] == "build-finished"
        for artifact in event["artifacts"]
    }
    shown = [served(pypi, f"alpha-{letter}") for letter in NEEDS]
    assert {name: digest for files in shown for name, digest in files.items()} == built
    assert_python_installs(tmp_path, pypi, "alpha")


@pytest.mark.parametrize("tool", ["npm", "pnpm10", "pnpm12", "yarn1", "yarn4"], indirect=True)
def test_twelve_node_packages_of_each_tool(
    releasekit: ReleaseKit,
    tool: str,  # noqa: F811
    tmp_path: Path,
    npm: RegistrySettings,
    npm_folder: Path,
) -> None:
    scope = f"@{tool}"
    files = node_files(scope, tool)
    root = committed(tmp_path / "repo", files)
    if tool == "yarn4":  # it packs nothing without a lockfile
        subprocess.run(
            ["yarn", "install", "--mode=skip-build"], cwd=root, check=True,
            env=os.environ | {"YARN_ENABLE_IMMUTABLE_INSTALLS": "false"},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        lockfile = {"yarn.lock": (root / "yarn.lock").read_text(), ".gitignore": "/.*\n!/.yarnrc*"}
        committed(root, lockfile | {"node_modules/.gitignore": "*\n"})
    published(releasekit, root, {}, f"npm={npm.url}")
    assert_order(stored_in_npm(npm_folder / "storage", scope))
    for letter in NEEDS:
        shown = manifest_of(npm, scope, letter).get("dependencies", {})
        assert set(shown.values()) <= {VERSION, f"^{VERSION}", f"~{VERSION}", "^1.0.0"}
    if "workspace:" in files["node/c/package.json"]:
        expected = {f"{scope}/{need}": shown for need, shown in published_needs("c").items()}
        assert manifest_of(npm, scope, "c")["dependencies"] == expected
    if tool.startswith("pnpm"):
        assert manifest_of(npm, scope, "k")["dependencies"] == {f"{scope}/l": f"^{VERSION}"}
        assert manifest_of(npm, scope, "i")["dependencies"][f"{scope}/j"] == "^1.0.0"
    assert manifest_of(npm, scope, "g")["peerDependencies"] == {f"{scope}/i": "^1.0.0"}
    assert manifest_of(npm, scope, "a")["optionalDependencies"] == {f"{scope}/d": VERSION}
    assert_node_installs(tmp_path, npm, scope)


def test_one_repository_with_python_and_node(
    releasekit: ReleaseKit,
    tmp_path: Path,
    pypi: RegistrySettings,
    npm: RegistrySettings,
    npm_folder: Path,
    build_backends: dict[str, str],
) -> None:
    files = python_files("mixed") | node_files("@mixed", "npm")
    root = committed(tmp_path / "repo", files)
    result = published(releasekit, root, build_backends, pypi_option(pypi), f"npm={npm.url}")
    assert len(outcomes(result)) == 24
    assert_order(stored_in_index(tmp_path / "pypi-registry/packages", "mixed"))
    assert_order(stored_in_npm(npm_folder / "storage", "@mixed"))
    assert_python_installs(tmp_path, pypi, "mixed")
    assert_node_installs(tmp_path, npm, "@mixed")
