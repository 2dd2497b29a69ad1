"""Node packing: what the workspace's own tool packs, many packages in one process."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.building import build, write_tree

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("npm", "pnpm10", "pnpm12", "yarn1", "yarn4")
ONE_PROCESS = {"npm", "pnpm10", "pnpm12", "yarn4"}


@pytest.fixture
def tool(
    request: pytest.FixtureRequest,
    node_tools: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The tool in question is the one on PATH, and notes each of its starts."""
    name: str = request.param
    [native, *_] = [*node_tools.glob("@pnpm/exe.*/pnpm"), ""]
    programs = {
        "npm": f"exec {_which('npm')}",
        "pnpm10": f"exec node {node_tools / 'pnpm10/bin/pnpm.cjs'}",
        "pnpm12": f"exec {native}",
        "yarn1": f"exec node {node_tools / 'yarn1/bin/yarn.js'}",
        "yarn4": f"exec node {node_tools / '@yarnpkg/cli-dist/bin/yarn.js'}",
    }
    if name == "pnpm12" and not native:
        pytest.skip("pnpm 12 has no program for this machine")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / name.rstrip("0123456789")
    program.write_text(f'#!/bin/sh\necho start >> {tmp_path}/starts\n{programs[name]} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("YARN_ENABLE_TELEMETRY", "0")
    return name


def _which(name: str) -> str:
    import shutil

    return shutil.which(name) or name


def manifest(name: str, **fields: Any) -> str:  # noqa: ANN401 - what package.json may hold
    body = {"name": name, "version": "1.0.0", "license": "MIT", "main": "index.js", **fields}
    return json.dumps(body)


def workspace_of(tool: str, packages: dict[str, dict[str, str]]) -> dict[str, str]:
    root: dict[str, Any] = {"name": "root", "private": True}
    files = {}
    if tool.startswith("pnpm"):
        files["pnpm-workspace.yaml"] = "packages:\n  - packages/*\n"
    else:
        root["workspaces"] = ["packages/*"]
    if tool.startswith("yarn"):
        root["packageManager"] = {"yarn1": "yarn@1.22.22", "yarn4": "yarn@4.18.1"}[tool]
        files["yarn.lock"] = ""
    if tool == "yarn4":
        # A token that builds do not get: yarn refuses to start unless the name means something.
        files[".yarnrc.yml"] = "npmAuthToken: ${SOME_TOKEN}\nenableGlobalCache: false\n"
    return {
        "package.json": json.dumps(root),
        **files,
        **{
            f"packages/{folder}/{name}": text
            for folder, own in packages.items()
            for name, text in own.items()
        },
    }


def sample() -> dict[str, dict[str, str]]:
    plain = {"index.js": "1\n", "README.md": "# x\n", "left-out.js": "2\n"}
    return {
        "one": {**plain, "package.json": manifest("@acme/one", files=["index.js"])},
        "two": {
            **plain,
            "package.json": manifest(
                "acme-two",
                files=["index.js", "made.js"],
                scripts={"prepack": "echo made > made.js", "build": "touch ../built-two"},
                dependencies={"@acme/one": "1.0.0"},
            ),
        },
        "three": {**plain, ".npmignore": "left-out.js\n", "package.json": manifest("acme-three")},
    }


def members(tarball: Path) -> set[str]:
    with tarfile.open(tarball) as archive:
        return {member.name for member in archive if member.isfile()}


def install(tool: str, root: Path) -> None:
    """yarn 4 packs nothing without a lockfile; it is that of the tree before it was pinned."""
    if tool != "yarn4":
        return
    manifest = root / "packages/two/package.json"
    pinned = manifest.read_text()
    manifest.write_text(pinned.replace('"@acme/one": "1.0.0"', '"@acme/one": "workspace:^"'))
    subprocess.run(
        ["yarn", "install", "--mode=skip-build"],
        cwd=root,
        check=True,
        env=os.environ | {"SOME_TOKEN": "", "YARN_ENABLE_IMMUTABLE_INSTALLS": "false"},
        stdout=subprocess.DEVNULL,
    )
    manifest.write_text(pinned)


@pytest.mark.parametrize("tool", TOOLS, indirect=True)
def test_each_tool_packs_by_its_own_rules(tool: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "repo", workspace_of(tool, sample()))
    install(tool, root)
    (tmp_path / "starts").unlink(missing_ok=True)
    outcome = build(root, tmp_path / "scratch")
    assert {name for built in outcome.ended for name in outcome.files(built)} == {
        "acme-one-1.0.0.tgz", "acme-two-1.0.0.tgz", "acme-three-1.0.0.tgz",
    }  # fmt: skip
    [two] = outcome.files("npm:acme-two").values()
    assert members(two) == {
        "package/index.js", "package/made.js", "package/package.json", "package/README.md",
    }  # fmt: skip
    starts = len((tmp_path / "starts").read_text().splitlines())
    assert starts == (1 if tool in ONE_PROCESS else 3)
    command = ["npm", "pack"] if tool == "npm" else [tool.rstrip("0123456789"), "pack"]
    where = "--filename" if tool == "yarn1" else "--out"
    alone = tmp_path / "alone.tgz"
    if tool in {"yarn1", "yarn4"}:
        subprocess.run([*command, where, alone], cwd=root / "packages/three", check=True,
                       env=os.environ | {"SOME_TOKEN": ""}, stdout=subprocess.DEVNULL)  # fmt: skip
    else:
        subprocess.run([*command, "--pack-destination", tmp_path], cwd=root / "packages/three",
                       check=True, capture_output=True)  # fmt: skip
        alone = tmp_path / "acme-three-1.0.0.tgz"
    [three] = outcome.files("npm:acme-three").values()
    assert members(three) == members(alone)
    assert not (root / "packages/built-two").exists()  # no build script unless configured


@pytest.mark.parametrize("tool", ["npm", "pnpm12"], indirect=True)
def test_many_packages_go_to_one_process_a_core(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from releasekit.ecosystems.node import build as node_build

    monkeypatch.setattr(node_build, "_WORTH_A_PROCESS", 2)
    packages = {
        f"a{number}": {"index.js": "1\n", "package.json": manifest(f"acme-{number}")}
        for number in range(5)
    }
    packages["a1"]["package.json"] = manifest("acme-1", scripts={"prepack": "exit 7"})
    root = write_tree(tmp_path / "repo", workspace_of(tool, packages))
    outcome = build(root, tmp_path / "scratch", width=2)
    assert outcome.ended["npm:acme-1"].error is not None
    for name in {f"npm:acme-{number}" for number in (0, 2, 4)}:
        assert len(outcome.files(name)) == 1
    starts = len((tmp_path / "starts").read_text().splitlines())
    assert starts >= 3  # two for all, and one more for each that a failed one did not pack


@pytest.mark.parametrize("tool", TOOLS, indirect=True)
def test_a_failing_script_is_told_of_its_package(tool: str, tmp_path: Path) -> None:
    packages = sample()
    packages["two"]["package.json"] = manifest(
        "acme-two", scripts={"prepack": "echo a word from prepack && exit 7"}
    )
    root = write_tree(tmp_path / "repo", workspace_of(tool, packages))
    install(tool, root)
    outcome = build(root, tmp_path / "scratch", width=1)
    failed = outcome.ended["npm:acme-two"]
    assert failed.error is not None
    # yarn 4 keeps what a script says in a file of its own, and names that.
    assert ("prepack.log" if tool == "yarn4" else "a word from prepack") in failed.error
    assert "npm-acme-two.log" in (failed.hint or "")
    assert all(built.error is None or built is failed for built in outcome.ended.values())


@pytest.mark.parametrize("tool", ["npm", "pnpm12"], indirect=True)
def test_configured_build_scripts_run_in_the_order_of_their_dependencies(
    tool: str, tmp_path: Path
) -> None:
    packages = {
        name: {
            "index.js": "1\n",
            "package.json": manifest(
                f"@acme/{name}",
                files=["index.js", "dist"],
                scripts={
                    "build": f"mkdir -p dist && echo {name} >> ../../order && cp ../../order dist/"
                },
                dependencies={f"@acme/{need}": "^1.0.0" for need in needs},
            ),
        }
        for name, needs in {"aa": ["bb"], "bb": ["cc"], "cc": []}.items()
    }  # fmt: skip
    root = write_tree(tmp_path / "repo", workspace_of(tool, packages))
    if tool.startswith("pnpm"):
        with (root / "pnpm-workspace.yaml").open("a") as settings:
            # pnpm 12 would install first, and there is nothing to install from.
            settings.write("linkWorkspacePackages: true\nverifyDepsBeforeRun: false\n")
    outcome = build(
        root, tmp_path / "scratch", runs_script=lambda package: package.name != "@acme/xx"
    )
    assert (root / "order").read_text().split() == ["cc", "bb", "aa"]
    [tarball] = outcome.files("npm:@acme/aa").values()
    assert "package/dist/order" in members(tarball)


@pytest.mark.parametrize("tool", ["npm"], indirect=True)
def test_two_names_that_make_the_same_file_name_do_not_meet(tool: str, tmp_path: Path) -> None:
    packages = {
        "scoped": {"index.js": "1\n", "package.json": manifest("@acme/cli")},
        "plain": {"index.js": "22\n", "package.json": manifest("acme-cli")},
        "other": {"index.js": "333\n", "package.json": manifest("acme-other")},
    }
    outcome = build(write_tree(tmp_path / "repo", workspace_of(tool, packages)),
                    tmp_path / "scratch")  # fmt: skip
    names = {}
    for package in ("npm:@acme/cli", "npm:acme-cli"):
        [tarball] = outcome.files(package).values()
        with tarfile.open(tarball) as archive:
            content = archive.extractfile("package/package.json")
            assert content is not None
            names[package] = json.load(content)["name"]
    assert names == {"npm:@acme/cli": "@acme/cli", "npm:acme-cli": "acme-cli"}


def test_a_single_package_is_packed_by_npm(tmp_path: Path) -> None:
    files = {"package.json": manifest("alone"), "index.js": "1\n"}
    outcome = build(write_tree(tmp_path / "repo", files), tmp_path / "scratch")
    assert set(outcome.files("npm:alone")) == {"alone-1.0.0.tgz"}
