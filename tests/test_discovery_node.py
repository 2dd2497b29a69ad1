"""Members and edges of Node workspaces, compared with what the package managers themselves say."""

from __future__ import annotations

import json
import os
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from releasekit import workspace
from releasekit.ecosystems.node import globs, semver
from releasekit.errors import MemberOutside, MissingManifest, WrongManifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from releasekit.model import Workspace


def write(root: Path, files: Mapping[str, Any]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        file.write_text(text, encoding="utf-8")
    return root


def package(name: str, version: str = "1.0.0", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"name": name, "version": version, **fields}


def run(tools: Path, root: Path, program: str, *arguments: str) -> str:
    """The output of a package manager; its errors are errors of the test."""
    native = sorted(tools.glob("@pnpm/exe.*/pnpm"))
    programs: dict[str, list[str | Path]] = {
        "pnpm10": ["node", tools / "pnpm10/bin/pnpm.cjs"],
        "pnpm12": [*native[:1]],
        "yarn1": ["node", tools / "yarn1/bin/yarn.js"],
        "yarn4": ["node", tools / "@yarnpkg/cli-dist/bin/yarn.js"],
        "node": ["node"],
    }
    child = subprocess.run(
        [*programs[program], *arguments],
        cwd=root,
        env=os.environ | {"YARN_ENABLE_TELEMETRY": "0", "NODE_PATH": str(tools)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


MAP_WORKSPACES = """
const cwd = process.cwd()
require("@npmcli/map-workspaces")({cwd, pkg: require(cwd + "/package.json")})
  .then(found => console.log(JSON.stringify([...found.values()])))
"""


def members_by_tool(tools: Path, root: Path, tool: str) -> set[str]:
    """The members without the root, relative to it."""
    if tool.startswith("pnpm"):
        listed = json.loads(run(tools, root, tool, "ls", "-r", "--depth", "-1", "--json"))
        found = {os.path.relpath(one["path"], root) for one in listed}
    elif tool == "npm":
        listed = json.loads(run(tools, root, "node", "-e", MAP_WORKSPACES))
        found = {os.path.relpath(path, root) for path in listed}
    elif tool == "yarn1":
        information = json.loads(run(tools, root, tool, "--silent", "workspaces", "info"))
        found = {os.path.normpath(one["location"]) for one in information.values()}
    else:
        lines = run(tools, root, tool, "workspaces", "list", "--json").splitlines()
        found = {json.loads(line)["location"] for line in lines}
    return found - {"."}


def workspace_of(root: Path, tool: str, patterns: list[str]) -> None:
    """The files that make a folder this tool's workspace."""
    manifest = package("root", private=True, workspaces=patterns)
    if tool.startswith("pnpm"):
        del manifest["workspaces"]
        write(root, {"pnpm-workspace.yaml": json.dumps({"packages": patterns})})
    if tool == "yarn4":
        write(root, {"yarn.lock": "", ".yarnrc.yml": "enableTelemetry: false\n"})
    if tool == "yarn1":
        write(root, {"yarn.lock": ""})
    write(root, {"package.json": manifest})


def members(found: Workspace) -> set[str]:
    return {one.path for one in found.packages} - {"."}


TOOLS = ("npm", "pnpm10", "pnpm12", "yarn1", "yarn4")
TREES: dict[str, tuple[list[str], list[str] | str]] = {
    "hidden-and-dependencies": (
        ["packages/**"],
        [
            "packages",
            "packages/a",
            "packages/a/b",
            "packages/a/test/t",
            "packages/.hidden",
            "packages/a/node_modules/z",
        ],
    ),
    "everything": (["**"], ["a", "a/b", "node_modules/c", ".venv/d"]),
    "explicitly-hidden": ([".tools/*", ".one"], [".tools/a", ".one", ".two"]),
    "negation": (["packages/*", "!packages/b"], ["packages/a", "packages/b"]),
    "negation-of-a-parent": (
        ["packages/**", "!packages/b"],
        ["packages/a", "packages/b", "packages/b/c"],
    ),
    "negation-of-all-below": (
        ["packages/**", "!packages/b/**"],
        ["packages/a", "packages/b", "packages/b/c"],
    ),
    "negation-first": (["!packages/b", "packages/*"], ["packages/a", "packages/b"]),
    "taken-back": (
        ["packages/**", "!packages/b/**", "packages/b/c"],
        ["packages/a", "packages/b", "packages/b/c"],
    ),
    "braces-and-classes": (
        ["packages/{a,b}", "q?", "c[1-2]", "./dot", "slash/", "x*y*z"],
        [
            "packages/a",
            "packages/b",
            "packages/c",
            "qq",
            "c1",
            "c3",
            "dot",
            "slash",
            "xyz",
            "x-y-y-z",
            "xzy",
        ],
    ),
    "odd-folders": (["pack ages/*"], ["pack ages/sp ace", "pack ages/ünï-😀", "pack ages/a+b"]),
    "no-match": (["packages/*", "nothing/*", "nobody"], ["packages/a"]),
}
# `p/zz` is not among them: for pnpm 10, and for no other, `!(z)` means "begins without z".
EXTENDED = (
    ["lib-@(x|y)", "p/!(z)", "r+(a|b)", "o?(k)", "m*(n|o)", "n{1..2}"],
    ["lib-x", "lib-z", "p/z", "p/ok", "rab", "r", "o", "ok", "m", "mono", "mx", "n1", "n3"],
)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("tree", TREES)
def test_members_are_those_of_the_tool(
    tmp_path: Path, node_tools: Path, tree: str, tool: str
) -> None:
    patterns, folders = TREES[tree]
    workspace_of(tmp_path, tool, patterns)
    for number, folder in enumerate(folders.split() if isinstance(folders, str) else folders):
        write(tmp_path, {f"{folder}/package.json": package(f"p{number}")})
    theirs = members_by_tool(node_tools, tmp_path, tool)
    assert members(workspace.load(tmp_path)) == theirs
    assert theirs


@pytest.mark.parametrize("tool", ["npm", "pnpm10", "yarn1", "yarn4"])  # pnpm 12 refuses them
def test_extended_groups_mean_what_the_tool_means(
    tmp_path: Path, node_tools: Path, tool: str
) -> None:
    patterns, folders = EXTENDED
    workspace_of(tmp_path, tool, patterns)
    for folder in folders:
        write(tmp_path, {f"{folder}/package.json": package(folder.replace("/", "-"))})
    assert members(workspace.load(tmp_path)) == members_by_tool(node_tools, tmp_path, tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_links_inside_the_root_are_followed_as_the_tool_does(
    tmp_path: Path, node_tools: Path, tool: str
) -> None:
    workspace_of(tmp_path, tool, ["packages/*", "deep/**"])
    write(
        tmp_path,
        {
            "real/a/package.json": package("a"),
            "others/x/b/package.json": package("b"),
            "packages/c/package.json": package("c"),
            "deep/d/package.json": package("d"),
        },
    )
    (tmp_path / "packages/link").symlink_to("../real/a")
    (tmp_path / "deep/link").symlink_to("../others")
    assert members(workspace.load(tmp_path)) == members_by_tool(node_tools, tmp_path, tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_packages_that_lack_a_field_are_members_where_the_tool_says_so(
    tmp_path: Path, node_tools: Path, tool: str
) -> None:
    workspace_of(tmp_path, tool, ["packages/*"])
    write(
        tmp_path,
        {
            "packages/a/package.json": package("a"),
            "packages/unnamed/package.json": {"version": "1.0.0"},
            "packages/unversioned/package.json": {"name": "unversioned"},
            "packages/bom/package.json": "\ufeff" + json.dumps(package("bom")),
            "packages/empty/package.json": {},
            "packages/only-a-folder/index.js": "",
        },
    )
    found = workspace.load(tmp_path)
    assert members(found) == members_by_tool(node_tools, tmp_path, tool)
    reasons = {one.path: one.reason for one in found.packages}
    assert reasons["packages/a"] is None
    assert reasons["packages/bom"] is None
    if tool != "yarn1":
        assert reasons["packages/unnamed"] == "no `name`"
        assert reasons["packages/unversioned"] == "no `version`"


def test_yarn_4_reads_workspaces_of_members_and_the_others_do_not(
    tmp_path: Path, node_tools: Path
) -> None:
    for tool in TOOLS:
        root = tmp_path / tool
        workspace_of(root, tool, ["packages/*"])
        nested = package("a", workspaces=["inner/*"])
        write(root, {"packages/a/package.json": nested})
        write(root, {"packages/a/inner/b/package.json": package("b")})
        found = members(workspace.load(root))
        assert found == members_by_tool(node_tools, root, tool)
        assert ("packages/a/inner/b" in found) == (tool == "yarn4")


# Edges. A package `p-NAME` depends on `t` 1.5.0 by SPEC, unless the spec says otherwise.

SPECS: dict[str, tuple[str, str]] = {
    "ws-star": ("t", "workspace:*"),
    "ws-caret": ("t", "workspace:^"),
    "ws-bare": ("t", "workspace:"),
    "ws-range": ("t", "workspace:^1.0.0"),
    "ws-path": ("t", "workspace:../t"),
    "ws-alias": ("al", "workspace:t@*"),
    "ws-unversioned": ("nover", "workspace:*"),
    "range": ("t", "^1.0.0"),
    "range-missed": ("t", "^9.0.0"),
    "range-either": ("t", "^9 || ^1"),
    "x-range": ("t", "1.x"),
    "exact": ("t", "1.5.0"),
    "star": ("t", "*"),
    "empty": ("t", ""),
    "tag": ("t", "latest"),
    "npm-same": ("t", "npm:t@^1.0.0"),
    "npm-alias": ("al", "npm:t@^1.0.0"),
    "npm-range": ("t", "npm:^1.0.0"),
    "file": ("t", "file:../t"),
    "link": ("t", "link:../t"),
    "relative": ("t", "../t"),
    "tarball": ("t", "file:../t.tgz"),
    "git": ("t", "github:owner/t"),
    "address": ("t", "https://example.invalid/t.tgz"),
    "catalog": ("t", "catalog:"),
    "catalog-missed": ("t", "catalog:old"),
    "prerelease-star": ("pre", "*"),
    "prerelease-range": ("pre", "^2.0.0-rc.0"),
    "unversioned-star": ("nover", "*"),
    "unversioned-range": ("nover", "^1"),
}
CATALOGS = {"catalog": {"t": "^1.0.0"}, "catalogs": {"old": {"t": "^9"}}}
# Paths and aliases are edges for us even where a tool keeps them apart: the package that is
# published needs that sibling all the same.
PATHS = {"file", "link", "relative", "ws-path"}
ALIASES = {"npm-same", "npm-alias"}
PROTOCOL = {"ws-star", "ws-caret", "ws-bare", "ws-range", "ws-alias", "ws-unversioned"}
OURS_TOO = {
    "npm": {"link", "npm-alias", "ws-path"} | (PROTOCOL - {"ws-alias"}),
    "yarn1": PATHS | ALIASES | (PROTOCOL - {"ws-alias", "ws-unversioned"}),
    "yarn4": PATHS | ALIASES,
    "yarn4-opaque": PATHS,
    "pnpm12": set(),
    "pnpm12-linking": set(),
}


def edges_repository(root: Path, tool: str) -> None:
    workspace_of(root, tool.partition("-")[0], ["packages/*"])
    write(root, {"packages/t/package.json": package("t", "1.5.0")})
    write(root, {"packages/pre/package.json": package("pre", "2.0.0-rc.1")})
    write(root, {"packages/nover/package.json": {"name": "nover"}})
    for name, (target, spec) in SPECS.items():
        manifest = package(f"p-{name}", dependencies={target: spec})
        write(root, {f"packages/p-{name}/package.json": manifest})
    if tool.startswith("pnpm"):
        settings = {"packages": ["packages/*"], "linkWorkspacePackages": "linking" in tool}
        write(root, {"pnpm-workspace.yaml": settings | CATALOGS})
    if tool.startswith("yarn4"):
        settings = {"enableTransparentWorkspaces": "opaque" not in tool}
        write(root, {".yarnrc.yml": settings | CATALOGS})


LINKED_EDGES = """
const Arborist = require("@npmcli/arborist")
new Arborist({path: process.cwd()}).loadActual().then(tree => {
  const found = []
  for (const node of tree.inventory.values())
    for (const edge of node.edgesOut.values())
      if (edge.type !== "workspace" && edge.valid && edge.to && edge.to.isLink)
        found.push([node.packageName, edge.to.packageName])
  console.log(JSON.stringify(found))
})
"""


def edges_by_tool(tools: Path, root: Path, tool: str) -> set[tuple[str, str]]:
    program = tool.partition("-")[0]
    if program == "npm":
        (root / "node_modules").mkdir()
        for folder in (root / "packages").iterdir():
            (root / "node_modules" / folder.name).symlink_to(folder)
        return {(a, b) for a, b in json.loads(run(tools, root, "node", "-e", LINKED_EDGES))}
    if program == "yarn1":
        information = json.loads(run(tools, root, program, "--silent", "workspaces", "info"))
        return {
            (name, target)
            for name, one in information.items()
            for target in one["workspaceDependencies"]
        }
    if program == "yarn4":
        lines = run(tools, root, program, "workspaces", "list", "-v", "--json").splitlines()
        rows = [json.loads(line) for line in lines]
        names = {row["location"]: row["name"] for row in rows}
        return {(row["name"], names[one]) for row in rows for one in row["workspaceDependencies"]}
    return {edge for name in SPECS for edge in _pnpm_edges(tools, root, program, f"p-{name}")}


def _pnpm_edges(tools: Path, root: Path, program: str, name: str) -> list[tuple[str, str]]:
    arguments = ("ls", "-r", "--filter", f"{name}^...", "--depth", "-1", "--json")
    listed = run(tools, root, program, *arguments)
    if listed.startswith("["):
        return [(name, one["name"]) for one in json.loads(listed)]
    assert "No projects" in listed
    return []


@pytest.mark.parametrize("tool", OURS_TOO)
def test_edges_are_those_of_the_tool(tmp_path: Path, node_tools: Path, tool: str) -> None:
    edges_repository(tmp_path, tool)
    theirs = edges_by_tool(node_tools, tmp_path, tool)
    found = workspace.load(tmp_path)
    ours = named_edges(found)
    assert theirs <= ours
    assert {source.removeprefix("p-") for source, _ in ours - theirs} == OURS_TOO[tool]


def named_edges(found: Workspace) -> set[tuple[str, str]]:
    return {
        (edge.source.removeprefix("npm:"), edge.target.removeprefix("npm:")) for edge in found.edges
    }


@pytest.mark.parametrize("linking", [False, True])
def test_pnpm_10_links_plain_ranges_only_where_told(
    tmp_path: Path, node_tools: Path, linking: bool
) -> None:
    """The few that tell the two apart: each answer costs a start of half a second."""
    edges_repository(tmp_path, "pnpm10-linking" if linking else "pnpm10")
    ours = named_edges(workspace.load(tmp_path))
    for name in ("ws-caret", "range", "range-missed", "star", "file"):
        edges = {edge for edge in ours if edge[0] == f"p-{name}"}
        assert set(_pnpm_edges(node_tools, tmp_path, "pnpm10", f"p-{name}")) == edges
    assert (("p-range", "t") in ours) == linking


def test_pnpm_8_linked_plain_ranges_by_default(tmp_path: Path) -> None:
    for version, linked in (("8.15.9", True), ("10.20.0", False)):
        root = tmp_path / version
        workspace_of(root, "pnpm", ["packages/*"])
        manifest = package("root", private=True, packageManager=f"pnpm@{version}+sha512.0a")
        write(root, {"package.json": manifest, "packages/b/package.json": package("b")})
        write(root, {"packages/a/package.json": package("a", dependencies={"b": "^1.0.0"})})
        assert named_edges(workspace.load(root)) == ({("a", "b")} if linked else set())


def test_npmrc_tells_pnpm_to_link(tmp_path: Path) -> None:
    workspace_of(tmp_path, "pnpm", ["packages/*"])
    write(tmp_path, {".npmrc": "link-workspace-packages = deep\n"})
    write(tmp_path, {"packages/b/package.json": package("b")})
    write(tmp_path, {"packages/a/package.json": package("a", dependencies={"b": "^1.0.0"})})
    assert named_edges(workspace.load(tmp_path)) == {("a", "b")}


def test_each_field_has_its_kind_and_optional_hides_plain(tmp_path: Path) -> None:
    workspace_of(tmp_path, "npm", ["packages/*"])
    for name in ("run", "opt", "peer", "dev"):
        write(tmp_path, {f"packages/{name}/package.json": package(name)})
    manifest = package(
        "a",
        dependencies={"run": "^1.0.0", "opt": "^1.0.0"},
        optionalDependencies={"opt": "^1.0.0"},
        peerDependencies={"peer": ">=1", "run": "*"},
        devDependencies={"dev": "*", "peer": "*"},
    )
    write(tmp_path, {"packages/a/package.json": manifest})
    found = [(edge.target, edge.kind, edge.order) for edge in workspace.load(tmp_path).edges]
    assert found == [
        ("npm:dev", "dev", "none"),
        ("npm:opt", "optional", "soft"),
        ("npm:peer", "dev", "none"),
        ("npm:peer", "peer", "soft"),
        ("npm:run", "peer", "soft"),
        ("npm:run", "runtime", "hard"),
    ]


@pytest.mark.parametrize(
    ("value", "private"),
    [
        ("true", True),
        ("false", True),
        (True, True),
        (1, True),
        ({}, True),
        (False, False),
        (None, False),
        (0, False),
        ("", False),
    ],
)
def test_private_is_what_javascript_takes_for_true(
    tmp_path: Path, value: object, private: bool
) -> None:
    write(tmp_path, {"package.json": package("a", private=value)})
    (found,) = workspace.load(tmp_path).packages
    assert (found.publishable, found.reason) == (not private, "private" if private else None)


def test_names_and_versions_that_npm_refuses_are_not_publishable(tmp_path: Path) -> None:
    workspace_of(tmp_path, "npm", ["packages/*"])
    write(
        tmp_path,
        {
            "packages/a/package.json": package("Upper Case"),
            "packages/b/package.json": package("@scope/ok", "1.2"),
            "packages/c/package.json": package("{{name}}"),
            "packages/d/package.json": package("@scope/fine", "1.2.3-rc.1+build"),
        },
    )
    reasons = {one.path: one.reason for one in workspace.load(tmp_path).packages}
    assert reasons["packages/a"] == "`Upper Case` is not a valid name"
    assert reasons["packages/b"] == "`1.2` is not a valid version"
    assert reasons["packages/c"] == "`{{name}}` is not a valid name"
    assert reasons["packages/d"] is None


def test_a_package_without_a_name_is_told_by_its_path(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": {"private": True, "workspaces": ["packages/*"]}})
    write(tmp_path, {"packages/a/package.json": {"dependencies": {"b": "*"}}})
    write(tmp_path, {"packages/b/package.json": package("b")})
    found = workspace.load(tmp_path)
    assert [one.id for one in found.packages] == ["npm:.", "npm:./packages/a", "npm:b"]
    assert named_edges(found) == {("./packages/a", "b")}


def test_workspaces_may_be_an_object(tmp_path: Path) -> None:
    shape = {"packages": ["packages/*"], "nohoist": ["**/x"]}
    write(tmp_path, {"package.json": package("root", private=True, workspaces=shape)})
    write(tmp_path, {"packages/a/package.json": package("a"), "yarn.lock": ""})
    found = workspace.load(tmp_path)
    assert members(found) == {"packages/a"}
    assert [one.tool for one in found.members] == ["yarn"]


@pytest.mark.parametrize(
    ("files", "tool"),
    [
        ({"package-lock.json": "{}"}, "npm"),
        ({"yarn.lock": "# yarn lockfile v1\n"}, "yarn"),
        ({"yarn.lock": "__metadata:\n  version: 8\n"}, "yarn"),
        ({".yarnrc.yml": ""}, "yarn"),
        ({"pnpm-workspace.yaml": "packages: ['packages/*']\n"}, "pnpm"),
        ({}, "npm"),
    ],
)
def test_the_tool_is_told_by_its_files(tmp_path: Path, files: dict[str, str], tool: str) -> None:
    write(tmp_path, {"package.json": package("root", private=True, workspaces=["packages/*"])})
    write(tmp_path, {"packages/a/package.json": package("a"), **files})
    found = workspace.load(tmp_path)
    assert [(one.root, one.ecosystem, one.tool) for one in found.members] == [(".", "node", tool)]


def test_package_manager_decides_where_files_of_two_tools_lie(tmp_path: Path) -> None:
    root = package("root", private=True, workspaces=["packages/*"], packageManager="yarn@4.1.0")
    write(tmp_path, {"package.json": root, "pnpm-workspace.yaml": "packages: ['other/*']\n"})
    write(tmp_path, {"packages/a/package.json": package("a"), "other/b/package.json": package("b")})
    found = workspace.load(tmp_path)
    assert members(found) == {"packages/a"}
    assert [one.tool for one in found.members] == ["yarn"]


def test_lerna_is_only_a_hint(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": package("root", private=True)})
    write(tmp_path, {"lerna.json": {"packages": ["modules/*"]}})
    write(tmp_path, {"modules/a/package.json": package("a")})
    found = workspace.load(tmp_path)
    assert any("lerna.json" in warning for warning in found.warnings)


def test_the_same_name_in_two_folders_is_told_apart_by_path(tmp_path: Path) -> None:
    workspace_of(tmp_path, "pnpm", ["packages/*"])
    write(tmp_path, {"packages/a/package.json": package("same")})
    write(tmp_path, {"packages/b/package.json": package("same", "2.0.0")})
    write(
        tmp_path,
        {"packages/c/package.json": package("c", dependencies={"same": "workspace:^2.0.0"})},
    )
    found = workspace.load(tmp_path)
    same = [one for one in found.packages if one.id == "npm:same"]
    assert [(one.path, one.publishable) for one in same] == [
        ("packages/a", False),
        ("packages/b", False),
    ]
    assert same[0].reason == "`npm:same` is also in packages/b"
    assert "npm:same is in several folders: packages/a, packages/b" in found.warnings
    assert named_edges(found) == {("c", "same")}


def test_of_equal_names_a_private_one_does_not_stop_the_other(tmp_path: Path) -> None:
    workspace_of(tmp_path, "pnpm", ["packages/*"])
    write(tmp_path, {"packages/a/package.json": package("same", private=True)})
    write(tmp_path, {"packages/b/package.json": package("same")})
    found = workspace.load(tmp_path)
    assert {one.path: one.publishable for one in found.packages if one.name == "same"} == {
        "packages/a": False,
        "packages/b": True,
    }


@pytest.mark.parametrize("tool", ["npm", "pnpm", "yarn1", "yarn4"])
@pytest.mark.parametrize("pattern", ["../outside", "packages/../../x", "{a,../b}"])
def test_members_outside_of_the_root_are_refused(tmp_path: Path, tool: str, pattern: str) -> None:
    workspace_of(tmp_path / "repo", tool, ["packages/*", pattern])
    with pytest.raises(MemberOutside, match="leads out of the workspace"):
        workspace.load(tmp_path / "repo")


def test_an_absolute_member_is_refused_but_npm_takes_it_from_the_root(tmp_path: Path) -> None:
    workspace_of(tmp_path / "pnpm", "pnpm", ["/packages/*"])
    with pytest.raises(MemberOutside):
        workspace.load(tmp_path / "pnpm")
    workspace_of(tmp_path / "npm", "npm", ["/packages/*"])
    write(tmp_path, {"npm/packages/a/package.json": package("a")})
    assert members(workspace.load(tmp_path / "npm")) == {"packages/a"}


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"outside/package.json": package("outside")})
    workspace_of(tmp_path / "repo", "pnpm", ["packages/*"])
    write(tmp_path, {"repo/packages/a/package.json": package("a")})
    (tmp_path / "repo/packages/link").symlink_to(tmp_path / "outside")
    assert members(workspace.load(tmp_path / "repo")) == {"packages/a"}


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    workspace_of(tmp_path, "pnpm", ["packages/**"])
    write(tmp_path, {"packages/a/package.json": package("a")})
    (tmp_path / "packages/a/up").symlink_to("..")
    (tmp_path / "packages/a/self").symlink_to(".")
    assert members(workspace.load(tmp_path)) == {"packages/a"}


def test_a_pattern_without_a_folder_is_warned_of(tmp_path: Path) -> None:
    workspace_of(tmp_path, "npm", ["packages/*", "nothing/*"])
    write(tmp_path, {"packages/a/package.json": package("a")})
    (warning,) = workspace.load(tmp_path).warnings
    assert warning.endswith("the member `nothing/*` matches no folder")


def test_a_dangling_manifest_is_an_error(tmp_path: Path) -> None:
    workspace_of(tmp_path, "npm", ["packages/*"])
    (tmp_path / "packages/a").mkdir(parents=True)
    (tmp_path / "packages/a/package.json").symlink_to("nowhere")
    with pytest.raises(MissingManifest, match=r"packages/a/package\.json"):
        workspace.load(tmp_path)


def test_a_dependency_that_is_not_a_string_is_warned_of(tmp_path: Path) -> None:
    write(tmp_path, {"package.json": package("a", dependencies={"b": 1})})
    assert "`dependencies.b` is not a string" in workspace.load(tmp_path).warnings[0]
    write(tmp_path, {"package.json": package("a", dependencies=["b"])})
    with pytest.raises(WrongManifest, match="`dependencies` must be an object"):
        workspace.load(tmp_path)


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        ("workspace:^9", "no member `b` has a version in `workspace:^9`"),
        ("catalog:none", "`b` is not in the catalog `none`"),
    ],
)
def test_what_the_tool_would_refuse_is_warned_of(tmp_path: Path, spec: str, warning: str) -> None:
    workspace_of(tmp_path, "pnpm", ["packages/*"])
    write(tmp_path, {"packages/a/package.json": package("a", dependencies={"b": spec})})
    write(tmp_path, {"packages/b/package.json": package("b")})
    assert any(warning in one for one in workspace.load(tmp_path).warnings)


# Globs and ranges


def test_a_bomb_of_braces_is_refused(tmp_path: Path) -> None:
    workspace_of(tmp_path, "npm", ["{a,b}" * 20])
    with pytest.raises(WrongManifest, match="at most 1,000 alternatives"):
        workspace.load(tmp_path)


@pytest.mark.parametrize("glob", ["*a" * 60 + "b", "+(a|aa)" * 8 + "b", "+(+(a|aa)|a)b"])
def test_no_glob_is_slow(glob: str) -> None:
    (pattern,) = globs.compile_glob(glob)
    assert not pattern.matches("a" * 250)


def _version(dice: random.Random) -> str:
    version = ".".join(dice.choice("0012310") for _ in range(3))
    if dice.random() < 0.35:
        version += "-" + dice.choice(["rc.1", "rc.10", "rc.2", "alpha", "0", "alpha.beta", "a-b"])
    return version + ("+build" if dice.random() < 0.1 else "")


def _range(dice: random.Random) -> str:
    def part() -> str:
        if dice.random() < 0.5:
            return _version(dice)
        return ".".join(dice.choice("0123xX*") for _ in range(dice.randint(1, 3)))

    def alternative() -> str:
        signs = ["", "", "^", "~", ">=", "<=", ">", "<", "=", "~>", "v", ">= ", "^ ", "~ v"]
        kind = dice.random()
        if kind < 0.15:
            return f"{part()} - {part()}"
        if kind < 0.2:
            return dice.choice(["", "*", "latest", "x", ">", "^", "foo bar", "1.2.3.4", "01.0.0"])
        return " ".join(dice.choice(signs) + part() for _ in range(dice.randint(1, 2)))

    return " || ".join(alternative() for _ in range(dice.choice([1, 1, 1, 2, 3])))


SATISFIES = """
const semver = require("semver")
const cases = JSON.parse(require("fs").readFileSync(0))
console.log(JSON.stringify(cases.map(([version, range]) =>
  [semver.validRange(range) !== null, semver.satisfies(version, range)])))
"""


def test_ranges_admit_what_npm_admits(node_tools: Path, tmp_path: Path) -> None:
    dice = random.Random(7)  # noqa: S311 - the same cases every time
    cases = [[_version(dice), _range(dice)] for _ in range(5_000)]
    write(tmp_path, {"cases.json": cases, "ask.cjs": SATISFIES.replace("0))", '"cases.json"))')})
    answers = json.loads(run(node_tools, tmp_path, "node", "ask.cjs"))
    ours = []
    for version, text in cases:
        wanted, own = semver.parse_range(text), semver.parse(version)
        assert own is not None
        ours.append([wanted is not None, wanted is not None and wanted.admits(own)])
    wrong = [case for case, one, other in zip(cases, ours, answers, strict=True) if one != other]
    assert wrong == []
    assert 500 < sum(admitted for _, admitted in answers) < 4_500
