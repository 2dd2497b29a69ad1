"""Members and edges of uv workspaces, compared with what uv itself says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from releasekit import workspace
from releasekit.errors import MemberOutside, MissingManifest, WrongManifest
from releasekit.model import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from releasekit.model import Workspace

BACKEND = '\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return root


def project(name: str, *more: str, version: str = "1.0", backend: str = BACKEND) -> str:
    """A manifest; `more` holds further keys of `[project]`, then further tables."""
    head = f'[project]\nname = "{name}"\nversion = "{version}"\nrequires-python = ">=3.11"\n'
    return head + "\n".join(more) + backend


def sources(*names: str) -> str:
    return "[tool.uv.sources]\n" + "".join(f"{name} = {{ workspace = true }}\n" for name in names)


def root_manifest(*members: str, exclude: tuple[str, ...] = ()) -> str:
    return f"[tool.uv.workspace]\nmembers = {list(members)}\nexclude = {list(exclude)}\n"


def uv(root: Path, *arguments: str) -> str:
    child = subprocess.run(
        [Path(sys.executable).parent / "uv", *arguments, "--offline"],
        cwd=root,
        env=os.environ | {"UV_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def members_by_uv(root: Path) -> set[str]:
    lines = uv(root, "workspace", "list", "--paths").splitlines()
    return {Path(line).relative_to(root).as_posix() for line in lines}


def members(found: Workspace) -> set[str]:
    return {package.path for package in found.packages}


def edges(found: Workspace) -> set[tuple[str, str, str]]:
    return {
        (edge.source.removeprefix("pypi:"), edge.target.removeprefix("pypi:"), edge.kind.value)
        for edge in found.edges
    }


TREES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "one-level": (["packages/*"], [], ["packages/a", "packages/b", "packages/_c"]),
    "hidden": (["packages/*"], [], ["packages/a", "packages/.hidden"]),
    "nested-members": (["packages/*", "packages/*/*"], [], ["packages/a", "packages/a/b"]),
    "any-depth": (["packages/**"], [], ["packages", "packages/a", "packages/a/b"]),
    "any-depth-in-the-middle": (["p*/**/x"], [], ["pa/x", "pa/q/x", "pb/q/r/x", "pc/y"]),
    "excluded": (["packages/*"], ["packages/b*"], ["packages/a", "packages/b", "packages/bb"]),
    "exclusion-crosses-slashes": (
        ["packages/*", "packages/*/*"],
        ["packages/b*"],
        ["packages/a", "packages/a/z", "packages/b", "packages/b/z"],
    ),
    "exclusion-at-any-depth": (
        ["*", "*/*", "*/*/*"],
        ["**/x", "z/**"],
        ["x", "a", "a/x", "a/b", "a/b/x", "z", "z/a", "ax"],
    ),
    "classes-and-dots": (
        ["packages/[ab]", "packages/[!a-f]x", "packages/{c,d}", "./packages/e/", "packages/f?"],
        ["./packages/b/"],
        [f"packages/{name}" for name in ("a", "b", "c", "e", "ff", "gx", "bx")],
    ),
    "odd-folders": (["pack ages/*"], [], ["pack ages/sp ace", "pack ages/ünï-😀"]),
    "named-twice": (["packages/*", "packages/a", "nothing/*"], [], ["packages/a"]),
}


@pytest.mark.parametrize("tree", TREES)
def test_members_are_those_of_uv(tmp_path: Path, tree: str) -> None:
    wanted, exclude, folders = TREES[tree]
    write(tmp_path, {"pyproject.toml": root_manifest(*wanted, exclude=tuple(exclude))})
    for number, folder in enumerate(folders):
        write(tmp_path, {f"{folder}/pyproject.toml": project(f"p{number}")})
    theirs = members_by_uv(tmp_path)
    assert members(workspace.load(tmp_path)) == theirs
    assert theirs


def test_a_root_with_a_project_is_a_member_and_one_without_is_not(tmp_path: Path) -> None:
    for name, manifest in (
        ("with", project("root") + root_manifest("packages/*")),
        ("without", root_manifest("packages/*")),
    ):
        root = tmp_path / name
        write(root, {"pyproject.toml": manifest, "packages/a/pyproject.toml": project("a")})
        found = members(workspace.load(root))
        assert found == members_by_uv(root)
        assert ("." in found) == (name == "with")


def test_unmanaged_members_hidden_folders_and_files_are_passed_over(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project("a"),
            "packages/b/pyproject.toml": project("b") + "\n[tool.uv]\nmanaged = false\n",
            "packages/.cache/data": "",
            "packages/README.md": "",
        },
    )
    (tmp_path / "packages/empty").mkdir()
    found = workspace.load(tmp_path)
    assert members(found) == members_by_uv(tmp_path) == {"packages/a"}
    assert found.warnings == ()


def test_a_link_inside_the_root_is_a_member(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("packages/*")})
    write(tmp_path, {"real/a/pyproject.toml": project("a")})
    write(tmp_path, {"packages/b/pyproject.toml": project("b")})
    (tmp_path / "packages/link").symlink_to("../real/a")
    assert members(workspace.load(tmp_path)) == members_by_uv(tmp_path)


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"outside/pyproject.toml": project("outside")})
    write(tmp_path, {"repo/pyproject.toml": root_manifest("packages/*")})
    write(tmp_path, {"repo/packages/a/pyproject.toml": project("a")})
    (tmp_path / "repo/packages/link").symlink_to(tmp_path / "outside")
    assert members(workspace.load(tmp_path / "repo")) == {"packages/a"}


def test_environments_and_dependencies_are_never_entered(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("**/x")})
    for folder in ("node_modules", ".venv", "environment/lib", ".tox", "fine"):
        write(tmp_path, {f"{folder}/x/pyproject.toml": project(folder.replace("/", "-"))})
    write(tmp_path, {"environment/pyvenv.cfg": ""})
    assert members(workspace.load(tmp_path)) == {"fine/x"}


@pytest.mark.parametrize("member", ["../outside", "/etc", "packages/../../x"])
def test_members_outside_of_the_root_are_refused(tmp_path: Path, member: str) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("packages/*", member)})
    with pytest.raises(MemberOutside, match="leads out of the workspace"):
        workspace.load(tmp_path)


def test_a_folder_without_a_manifest_and_a_pattern_without_a_folder_are_warned_of(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*", "nothing/*"),
            "packages/a/pyproject.toml": project("a"),
            "packages/b/README.md": "",
        },
    )
    first, second = workspace.load(tmp_path).warnings
    assert "packages/b: no pyproject.toml, but `packages/*` names it" in first
    assert second.endswith("the member `nothing/*` matches no folder")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[tool.ruff]\n", "`project` must be there in a member"),
        ('[project]\nversion = "1"\n', "`project.name` must be a string"),
        ("[project]\nname = 1\n", "`project.name` must be a string"),
        ('[project]\nname = "a"\nversion = 1\n', "`project.version` must be a string"),
        ('[project]\nname = "a"\ndependencies = "b"\n', "`project.dependencies` must be a list"),
        ('[project]\nname = "a"\n[tool]\nuv = 3\n', "`tool.uv` must be a table"),
    ],
)
def test_what_uv_refuses_in_a_member_is_an_error(
    tmp_path: Path, content: str, problem: str
) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("packages/*")})
    write(tmp_path, {"packages/a/pyproject.toml": content})
    with pytest.raises(WrongManifest) as caught:
        workspace.load(tmp_path)
    assert problem in caught.value.message
    assert "packages/a/pyproject.toml" in caught.value.message


def test_a_dangling_manifest_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("packages/*")})
    (tmp_path / "packages/a").mkdir(parents=True)
    (tmp_path / "packages/a/pyproject.toml").symlink_to("nowhere")
    with pytest.raises(MissingManifest, match="no such file"):
        workspace.load(tmp_path)


# Edges


def test_edges_are_those_of_the_lock_that_uv_writes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*") + sources("e", "f"),
            "packages/a/pyproject.toml": project(
                "A_a",
                'dependencies = ["B.b[x]>=1 ; python_version > \'3\'", "c (>=1)", "e"]',
                "[project.optional-dependencies]",
                'cli = ["d", "a-a[more]"]',
                'more = ["f"]',
                "[dependency-groups]",
                'dev = ["d"]',
                'all = [{include-group = "DEV"}, "f"]',
                sources("b-b", "C", "d"),
                backend="",
            ),
            "packages/b/pyproject.toml": project(
                "b-b", "[project.optional-dependencies]", "x = []", backend=""
            ),
            "packages/c/pyproject.toml": project(
                "c", "[tool.uv]", 'dev-dependencies = ["e"]', backend=""
            ),
            "packages/d/pyproject.toml": project("d", backend=""),
            "packages/e/pyproject.toml": project("e", 'dependencies = ["f"]', backend=""),
            "packages/f/pyproject.toml": project("f", backend=""),
        },
    )
    uv(tmp_path, "lock")
    lock = tomllib.loads((tmp_path / "uv.lock").read_text())
    theirs = set()
    for package in lock["package"]:
        name = package["name"]
        for one in package.get("dependencies", ()):
            theirs.add((name, one["name"], "runtime"))
        for extra in package.get("metadata", {}).get("requires-dist", ()):
            if "extra ==" in extra.get("marker", ""):
                theirs.add((name, extra["name"], "extra"))
        for group in package.get("dev-dependencies", {}).values():
            theirs.update((name, one["name"], "group") for one in group)
    ours = {
        (source, target, "group" if kind == "dev" else kind)
        for source, target, kind in edges(workspace.load(tmp_path))
    }
    assert ours == theirs
    assert len(theirs) == 10


def test_build_requirements_are_edges(tmp_path: Path) -> None:
    backend = '\n[build-system]\nrequires = ["hatchling", "plugin"]\n'
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project("a", sources("plugin"), backend=backend),
            "packages/plugin/pyproject.toml": project("plugin"),
        },
    )
    (edge,) = workspace.load(tmp_path).edges
    assert (edge.source, edge.target, edge.kind, edge.order) == (
        "pypi:a",
        "pypi:plugin",
        EdgeKind.BUILD,
        "hard",
    )


@pytest.mark.parametrize(
    ("source", "internal"),
    [
        ("{ workspace = true }", True),
        ('{ path = "../b" }', True),
        ('{ path = "../b", editable = true }', True),
        ('{ path = "../../elsewhere" }', False),
        ('{ index = "private" }', False),
        ('{ git = "https://example.invalid/b" }', False),
        ('{ url = "https://example.invalid/b.whl" }', False),
        ("[{ workspace = true, marker = \"sys_platform == 'linux'\" }, { index = 'x' }]", True),
        ('{ workspace = true, group = "other" }', True),
    ],
)
@pytest.mark.parametrize("level", ["member", "root"])
def test_sources_decide_what_is_internal(
    tmp_path: Path, source: str, internal: bool, level: str
) -> None:
    table = f"[tool.uv.sources]\nb = {source}\n"
    if level == "root":
        table = table.replace("../b", "packages/b").replace("../../", "")
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*") + (table if level == "root" else ""),
            "packages/a/pyproject.toml": project(
                "a", 'dependencies = ["b"]', table if level == "member" else ""
            ),
            "packages/b/pyproject.toml": project("b"),
        },
    )
    assert edges(workspace.load(tmp_path)) == ({("a", "b", "runtime")} if internal else set())


def test_the_source_of_a_member_wins_over_that_of_the_root(tmp_path: Path) -> None:
    elsewhere = '[tool.uv.sources]\nb = { index = "x" }\n'
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*") + sources("b"),
            "packages/a/pyproject.toml": project("a", 'dependencies = ["b"]', elsewhere),
            "packages/b/pyproject.toml": project("b"),
        },
    )
    assert edges(workspace.load(tmp_path)) == set()


def test_a_direct_reference_is_internal_only_where_it_is_a_member(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project(
                "a",
                f'dependencies = ["b @ file://{tmp_path}/packages/b", '
                '"c @ https://example.invalid/c.whl"]',
            ),
            "packages/b/pyproject.toml": project("b"),
            "packages/c/pyproject.toml": project("c"),
        },
    )
    assert edges(workspace.load(tmp_path)) == {("a", "b", "runtime")}


def test_a_sibling_without_a_source_is_an_edge_and_a_warning(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project("a", 'dependencies = ["b>=1"]'),
            "packages/b/pyproject.toml": project("b"),
        },
    )
    found = workspace.load(tmp_path)
    assert edges(found) == {("a", "b", "runtime")}
    assert "does not say `b = { workspace = true }`" in found.warnings[0]


def test_a_name_that_only_begins_like_a_sibling_is_not_it(tmp_path: Path) -> None:
    texts = ["b-c", "b2", "bb[b]>=1", "xb", "b_ @ x"]
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project("a", f"dependencies = {texts}"),
            "packages/b/pyproject.toml": project("b"),
        },
    )
    found = workspace.load(tmp_path)
    assert edges(found) == set()
    assert [one for one in found.warnings if "is not a requirement" in one] == [
        f"{tmp_path}/packages/a/pyproject.toml: `b_ @ x` is not a requirement"
    ]


def test_groups_that_include_each_other_or_nothing(tmp_path: Path) -> None:
    circle = '[dependency-groups]\na = ["b", {include-group = "c"}]\nc = [{include-group = "a"}]\n'
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*"),
            "packages/a/pyproject.toml": project("a", circle, sources("b")),
            "packages/b/pyproject.toml": project("b"),
        },
    )
    assert edges(workspace.load(tmp_path)) == {("a", "b", "group")}
    missing = '[dependency-groups]\na = [{include-group = "nobody"}]\n'
    write(tmp_path, {"packages/a/pyproject.toml": project("a", missing)})
    with pytest.raises(WrongManifest, match="there is no `nobody`"):
        workspace.load(tmp_path)


# What is publishable


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (project("a"), None),
        (project("a", backend=""), "virtual: no `[build-system]`"),
        (project("a", "[tool.uv]", "package = true", backend=""), None),
        (project("a", "[tool.uv]", "package = false"), "virtual: `tool.uv.package` is false"),
        (
            project("a", 'classifiers = ["Private :: Do Not Upload"]'),
            "classified `Private :: Do Not Upload`",
        ),
        (project("a b"), "`a b` is not a valid name"),
    ],
)
def test_publishable_says_why_not(tmp_path: Path, manifest: str, reason: str | None) -> None:
    write(tmp_path, {"pyproject.toml": root_manifest("packages/*")})
    write(tmp_path, {"packages/a/pyproject.toml": manifest})
    (found,) = workspace.load(tmp_path).packages
    assert (found.publishable, found.reason) == (reason is None, reason)


def test_a_single_project_is_a_workspace_of_one(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": project("My.Project", version="1.0-RC1")})
    found = workspace.load(tmp_path)
    assert [(one.root, one.ecosystem, one.tool) for one in found.members] == [(".", "python", "uv")]
    (package,) = found.packages
    assert (package.id, package.name, package.version) == (
        "pypi:my-project",
        "My.Project",
        "1.0rc1",
    )
    assert (package.path, package.manifest) == (".", "pyproject.toml")


# Dynamic fields


def dynamic(*fields: str, backend: str, tables: str = "") -> str:
    return (
        f'[project]\nname = "a"\ndynamic = {list(fields)}\n{tables}'
        f'\n[build-system]\nrequires = []\nbuild-backend = "{backend}"\n'
    )


HATCH, SETUPTOOLS = "hatchling.build", "setuptools.build_meta"


@pytest.mark.parametrize(
    ("backend", "tables", "files", "version"),
    [
        (HATCH, '[tool.hatch.version]\npath = "v.py"', {"v.py": "__version__ = 'v1.2'\n"}, "1.2"),
        (HATCH, '[tool.hatch.version]\npath = "v.py"', {"v.py": 'VERSION: str = "2"\n'}, "2"),
        (HATCH, '[tool.hatch.version]\npath = "v.py"\npattern = "(.*)"', {"v.py": "1"}, None),
        (HATCH, '[tool.hatch.version]\nsource = "vcs"', {}, None),
        (HATCH, '[tool.hatch.version]\nsource = "code"\npath = "v.py"', {"v.py": "1"}, None),
        (
            HATCH,
            '[tool.hatch.version]\nsource = "nodejs"',
            {"package.json": '{"version": "3.0.0-rc.1"}'},
            "3.0.0rc1",
        ),
        (HATCH, '[tool.hatch.version]\npath = "/etc/hostname"', {}, None),
        (
            SETUPTOOLS,
            '[tool.setuptools.dynamic]\nversion = {attr = "a.__version__"}',
            {"src/a/__init__.py": "import os\n__version__: str = '4.1'\n"},
            "4.1",
        ),
        (
            SETUPTOOLS,
            '[tool.setuptools.dynamic]\nversion = {attr = "a.v.VERSION"}',
            {"a/__init__.py": "", "a/v.py": "VERSION = (4, 2)\n"},
            "4.2",
        ),
        (
            SETUPTOOLS,
            '[tool.setuptools.dynamic]\nversion = {attr = "a.v.VERSION"}',
            {"a/v.py": "VERSION = compute()\n"},
            None,
        ),
        (
            SETUPTOOLS,
            '[tool.setuptools.dynamic]\nversion = {file = ["VERSION"]}',
            {"VERSION": "5.0\n"},
            "5.0",
        ),
        (SETUPTOOLS, "[tool.setuptools_scm]", {}, None),
        ("flit_core.buildapi", "", {"a.py": '"""A."""\n__version__ = "6.0"\n'}, "6.0"),
        (
            "pdm.backend",
            '[tool.pdm.version]\nsource = "file"\npath = "a.py"',
            {"a.py": "__version__ = '7.0'  # now\n"},
            "7.0",
        ),
        ("poetry.core.masonry.api", '[tool.poetry]\nversion = "8.0"', {}, "8.0"),
        ("maturin", "", {"Cargo.toml": '[package]\nversion = "9.0.0"\n'}, "9.0.0"),
        ("maturin", "", {"Cargo.toml": "[package]\nversion.workspace = true\n"}, None),
        ("unheard_of", "", {}, None),
    ],
)
def test_a_dynamic_version_is_read_where_a_file_tells_it(
    tmp_path: Path, backend: str, tables: str, files: dict[str, str], version: str | None
) -> None:
    write(tmp_path, {"pyproject.toml": dynamic("version", backend=backend, tables=tables), **files})
    found = workspace.load(tmp_path)
    (package,) = (one for one in found.packages if one.ecosystem == "python")
    assert package.version == version
    assert package.publishable
    assert any("the version is dynamic" in one for one in found.warnings) == (version is None)


def test_dynamic_dependencies_come_from_the_files_setuptools_reads(tmp_path: Path) -> None:
    tables = (
        "[tool.setuptools.dynamic]\n"
        'dependencies = {file = ["requirements.txt"]}\n'
        'optional-dependencies.more = {file = "more.txt"}\n'
    )
    fields = ("dependencies", "optional-dependencies")
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*") + sources("b", "c"),
            "packages/a/pyproject.toml": dynamic(
                *fields, backend=SETUPTOOLS, tables=tables
            ).replace("dynamic", 'version = "1"\ndynamic', 1),
            "packages/a/requirements.txt": "# what we need\nb>=1  # here\n\nhttpx\n",
            "packages/a/more.txt": "c\n",
            "packages/b/pyproject.toml": project("b"),
            "packages/c/pyproject.toml": project("c"),
        },
    )
    found = workspace.load(tmp_path)
    assert edges(found) == {("a", "b", "runtime"), ("a", "c", "extra")}
    assert found.warnings == ()


HOOK = """
from setuptools import setup
setup(name="a", version="1", install_requires=["b"], extras_require={"more": ["c"]})
"""


def test_dynamic_dependencies_come_from_the_lock_and_otherwise_are_warned_of(
    tmp_path: Path,
) -> None:
    fields = ("version", "dependencies", "optional-dependencies")
    write(
        tmp_path,
        {
            "pyproject.toml": root_manifest("packages/*") + sources("b", "c"),
            "packages/a/pyproject.toml": dynamic(*fields, backend=SETUPTOOLS),
            "packages/a/setup.py": HOOK,
            "packages/b/pyproject.toml": project("b"),
            "packages/c/pyproject.toml": project("c"),
        },
    )
    found = workspace.load(tmp_path)
    assert edges(found) == set()
    assert sum("are dynamic and no uv.lock tells them" in one for one in found.warnings) == 2
    write(tmp_path, {"uv.lock": LOCK})
    found = workspace.load(tmp_path)
    assert edges(found) == {("a", "b", "runtime"), ("a", "c", "extra")}
    assert not any("uv.lock" in one for one in found.warnings)


# In the shape that uv 0.13 writes; having uv write it would take a build of setuptools.
LOCK = """version = 1
revision = 5
requires-python = ">=3.11"

[manifest]
members = ["a", "b", "c"]

[[package]]
name = "a"
source = { editable = "packages/a" }
dependencies = [
    { name = "b" },
]

[package.optional-dependencies]
more = [
    { name = "c" },
]

[package.metadata]
requires-dist = [
    { name = "b", editable = "packages/b" },
    { name = "c", marker = "extra == 'more'", editable = "packages/c" },
]
provides-extras = ["more"]

[[package]]
name = "b"
version = "1.0"
source = { editable = "packages/b" }

[[package]]
name = "c"
version = "1.0"
source = { editable = "packages/c" }
"""
