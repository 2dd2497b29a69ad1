from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from releasekit import workspace
from releasekit.errors import BrokenManifest, MemberOutside, NoPackages, UnreadableManifest
from releasekit.model import Package, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ReleaseKit

BACKEND = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'


def python(root: Path, name: str, *, dependencies: tuple[str, ...] = (), more: str = "") -> None:
    root.mkdir(parents=True, exist_ok=True)
    needs = f"dependencies = {list(dependencies)}\n"
    sources = "".join(f"{one} = {{ workspace = true }}\n" for one in dependencies)
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "1.0"\n{needs}{BACKEND}'
        f"[tool.uv.sources]\n{sources}{more}"
    )


def uv_workspace(root: Path, *names: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    for name in names:
        python(root / "packages" / name, name)


def node(root: Path, name: str, **fields: Any) -> None:  # noqa: ANN401
    root.mkdir(parents=True, exist_ok=True)
    (root / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0", **fields}))


def pnpm_workspace(root: Path, *names: str) -> None:
    node(root, "root", private=True)
    (root / "pnpm-workspace.yaml").write_text("packages: ['packages/*']\n")
    for name in names:
        node(root / "packages" / name, name)


def ids(root: Path, **options: tuple[str, ...]) -> list[str]:
    return [package.id for package in workspace.load(root, **options).packages]


def roots(root: Path, **options: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(one.root, one.tool) for one in workspace.load(root, **options).members]


def test_both_ecosystems_may_share_a_root(tmp_path: Path) -> None:
    uv_workspace(tmp_path, "core")
    pnpm_workspace(tmp_path, "core")
    assert ids(tmp_path) == ["npm:core", "npm:root", "pypi:core"]
    assert roots(tmp_path) == [(".", "pnpm"), (".", "uv")]


def test_workspaces_in_subfolders_are_found(tmp_path: Path) -> None:
    uv_workspace(tmp_path / "py", "a")
    pnpm_workspace(tmp_path / "js", "b")
    assert ids(tmp_path) == ["npm:b", "npm:root", "pypi:a"]
    assert roots(tmp_path) == [("js", "pnpm"), ("py", "uv")]
    paths = {package.id: package.path for package in workspace.load(tmp_path).packages}
    assert paths["pypi:a"] == "py/packages/a"


def test_a_project_at_the_root_and_a_frontend_below_are_both_found(tmp_path: Path) -> None:
    python(tmp_path, "server")
    node(tmp_path / "frontend", "frontend")
    assert roots(tmp_path) == [("frontend", "npm"), (".", "uv")]


def test_tooling_at_the_root_does_not_hide_the_workspace_below(tmp_path: Path) -> None:
    node(tmp_path, "tooling", private=True)
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    pnpm_workspace(tmp_path / "js", "b")
    uv_workspace(tmp_path / "src" / "py", "a")
    assert roots(tmp_path) == [(".", "npm"), ("js", "pnpm"), ("src/py", "uv")]


def test_a_published_root_ends_the_search(tmp_path: Path) -> None:
    python(tmp_path, "one")
    uv_workspace(tmp_path / "playground", "a")
    assert ids(tmp_path) == ["pypi:one"]


def test_where_nobody_publishes_from_is_not_searched(tmp_path: Path) -> None:
    uv_workspace(tmp_path / "py", "a")
    for folder in (
        "node_modules/x",
        "examples",
        "tests/fixtures",
        ".hidden",
        "templates",
        "environment",
    ):
        uv_workspace(tmp_path / folder, "never")
    (tmp_path / "environment/pyvenv.cfg").write_text("")
    assert roots(tmp_path) == [("py", "uv")]


def test_projects_side_by_side_without_a_workspace_are_found_with_their_edges(
    tmp_path: Path,
) -> None:
    python(tmp_path / "libs/b", "b")
    python(tmp_path / "libs/a", "a", dependencies=("b",))
    (tmp_path / "libs/a/pyproject.toml").write_text(
        (tmp_path / "libs/a/pyproject.toml").read_text().split("[tool.uv.sources]")[0]
    )
    found = workspace.load(tmp_path)
    assert [package.id for package in found.packages] == ["pypi:a", "pypi:b"]
    assert [(edge.source, edge.target) for edge in found.edges] == [("pypi:a", "pypi:b")]


def test_templates_are_packages_only_where_a_workspace_says_so(tmp_path: Path) -> None:
    python(tmp_path / "good", "good")
    python(tmp_path / "{{cookiecutter.name}}", "{{cookiecutter.name}}")
    node(tmp_path / "starter", "{{name}}")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/pyproject.toml").write_text("{% if x %}\n")
    assert ids(tmp_path) == ["pypi:good"]
    pnpm_workspace(tmp_path / "js", "{{name}}")
    found = workspace.load(tmp_path)
    (template,) = (one for one in found.packages if one.name == "{{name}}")
    assert not template.publishable


def test_roots_name_where_to_look(tmp_path: Path) -> None:
    uv_workspace(tmp_path / "py", "a")
    uv_workspace(tmp_path / "examples/demo", "b")
    assert ids(tmp_path, roots=("examples",)) == ["pypi:b"]
    assert ids(tmp_path, roots=("py/", "./examples/demo")) == ["pypi:a", "pypi:b"]


@pytest.mark.parametrize("outside", ["..", "../other", "/etc", "link"])
def test_roots_stay_inside(tmp_path: Path, outside: str) -> None:
    uv_workspace(tmp_path / "repo", "a")
    (tmp_path / "repo/link").symlink_to(tmp_path)
    with pytest.raises(MemberOutside):
        workspace.load(tmp_path / "repo", roots=(outside,))


def test_a_root_with_nothing_in_it_is_an_error(tmp_path: Path) -> None:
    uv_workspace(tmp_path / "py", "a")
    with pytest.raises(NoPackages, match="nowhere"):
        workspace.load(tmp_path, roots=("py", "nowhere"))


def test_nothing_at_all_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(NoPackages) as caught:
        workspace.load(tmp_path)
    assert caught.value.hint is not None
    assert "roots" in caught.value.hint


@pytest.mark.parametrize("pattern", ["a", "pypi:a", "pypi:*", "?"])
def test_excluded_packages_are_listed_with_the_reason(tmp_path: Path, pattern: str) -> None:
    uv_workspace(tmp_path, "a", "bb")
    found = {one.name: one for one in workspace.load(tmp_path, exclude=(pattern,)).packages}
    assert not found["a"].publishable
    assert found["a"].reason == f"excluded by `{pattern}` in the configuration"
    assert found["bb"].publishable == (pattern != "pypi:*")


def test_of_two_with_the_same_id_none_is_published_until_one_is_left_out(tmp_path: Path) -> None:
    uv_workspace(tmp_path / "one", "same")
    uv_workspace(tmp_path / "two", "same")
    found = workspace.load(tmp_path)
    assert [(one.path, one.publishable) for one in found.packages] == [
        ("one/packages/same", False),
        ("two/packages/same", False),
    ]
    (only,) = workspace.load(tmp_path, roots=("one",)).packages
    assert only.publishable
    left, right = workspace.load(tmp_path, exclude=("./two/*",)).packages
    assert (left.publishable, right.publishable) == (True, False)


def test_a_workspace_without_members_is_shown_with_its_warning(
    tmp_path: Path, releasekit: ReleaseKit
) -> None:
    uv_workspace(tmp_path)
    result = releasekit("-C", tmp_path, "discover")
    assert result.code == 0, result.err
    assert "0 packages" in result.out
    assert "the member `packages/*` matches no folder" in result.out


def test_the_root_is_the_nearest_repository_or_configuration(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/py/deep").mkdir(parents=True)
    (tmp_path / "repo/js/deep").mkdir(parents=True)
    (tmp_path / "repo/js/releasekit.toml").write_text("")
    assert workspace.find_root(tmp_path / "repo/py/deep") == tmp_path / "repo"
    assert workspace.find_root(tmp_path / "repo/js/deep") == tmp_path / "repo/js"
    assert workspace.find_root(tmp_path) in (tmp_path, *tmp_path.parents)


def test_a_pipe_as_manifest_of_a_member_is_an_error(tmp_path: Path) -> None:
    uv_workspace(tmp_path, "a")
    (tmp_path / "packages/b").mkdir()
    os.mkfifo(tmp_path / "packages/b/pyproject.toml")
    with pytest.raises(UnreadableManifest, match="not a regular file"):
        workspace.load(tmp_path)


@pytest.mark.parametrize("kind", ["pyproject.toml", "package.json"])
def test_a_manifest_that_is_a_link_out_of_the_root_is_an_error(tmp_path: Path, kind: str) -> None:
    uv_workspace(tmp_path / "repo", "a")
    pnpm_workspace(tmp_path / "repo", "a")
    original = tmp_path / "repo/packages/a" / kind
    original.rename(tmp_path / kind)
    original.symlink_to(tmp_path / kind)
    with pytest.raises(UnreadableManifest, match="link out of the repository"):
        workspace.load(tmp_path / "repo")


def test_a_broken_manifest_is_told_with_its_place(tmp_path: Path) -> None:
    pnpm_workspace(tmp_path, "a")
    (tmp_path / "packages/a/package.json").write_text('{"name": "a",\n "version" "1"}')
    with pytest.raises(BrokenManifest, match=r"packages/a/package\.json:2:12: Expecting ':'"):
        workspace.load(tmp_path)


def test_a_folder_whose_name_is_not_text_is_an_error(tmp_path: Path) -> None:
    uv_workspace(tmp_path, "a")
    os.mkdir(os.fsencode(tmp_path) + b"/packages/caf\xe9")  # noqa: PTH102 - bytes
    with pytest.raises(UnreadableManifest, match="not UTF-8"):
        workspace.load(tmp_path)


def test_finding_writes_nothing(tmp_path: Path) -> None:
    uv_workspace(tmp_path, "a")
    pnpm_workspace(tmp_path, "b")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    workspace.load(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# The commands


def sample(root: Path) -> None:
    uv_workspace(root / "py", "core")
    python(root / "py/packages/app", "app", dependencies=("core",))
    pnpm_workspace(root / "js", "base")
    node(root / "js/packages/ui", "ui", dependencies={"base": "workspace:*"})
    node(
        root / "js/packages/kit",
        "kit",
        peerDependencies={"ui": "workspace:^"},
        devDependencies={"base": "workspace:*"},
    )


def test_discover_prints_the_promised_json(tmp_path: Path, releasekit: ReleaseKit) -> None:
    sample(tmp_path)
    result = releasekit("-C", tmp_path, "discover", "--output", "json")
    assert result.code == 0, result.err
    found = result.json()
    assert list(found) == ["root", "workspaces", "packages", "edges", "cycles", "warnings"]
    assert found["root"] == str(tmp_path)
    assert found["workspaces"] == [
        {"root": "js", "ecosystem": "node", "tool": "pnpm"},
        {"root": "py", "ecosystem": "python", "tool": "uv"},
    ]
    assert found["packages"][0] == {
        "id": "npm:base",
        "name": "base",
        "ecosystem": "node",
        "version": "1.0.0",
        "path": "js/packages/base",
        "publishable": True,
        "reason": None,
    }
    assert found["edges"] == [
        {"from": "npm:kit", "to": "npm:base", "kind": "dev", "order": "none"},
        {"from": "npm:kit", "to": "npm:ui", "kind": "peer", "order": "soft"},
        {"from": "npm:ui", "to": "npm:base", "kind": "runtime", "order": "hard"},
        {"from": "pypi:app", "to": "pypi:core", "kind": "runtime", "order": "hard"},
    ]
    assert found["cycles"] == []
    assert found["warnings"] == []


def test_discover_reports_cycles(tmp_path: Path, releasekit: ReleaseKit) -> None:
    pnpm_workspace(tmp_path)
    node(tmp_path / "packages/a", "a", dependencies={"b": "workspace:*"})
    node(tmp_path / "packages/b", "b", dependencies={"a": "workspace:*"})
    found = releasekit("-C", tmp_path, "discover", "--output", "json").json()
    assert found["cycles"] == [["npm:a", "npm:b"]]
    assert found["warnings"] == ["cycle npm:a → npm:b → npm:a: released side by side"]


def test_discover_reads_well(tmp_path: Path, releasekit: ReleaseKit) -> None:
    sample(tmp_path)
    result = releasekit("-C", tmp_path, "discover")
    assert result.code == 0, result.err
    assert "pnpm workspace in `js`" in result.out
    assert "  npm:root   1.0.0       js  (not published: private)" in result.out
    assert "6 packages, 4 edges: 2 hard, 1 soft, 1 for development" in result.out


def test_a_terminal_is_not_told_what_a_name_contains(
    tmp_path: Path, releasekit: ReleaseKit
) -> None:
    node(tmp_path, "a\x1b[31m\u202ered")
    for command in (["discover"], ["graph"], ["graph", "--format", "dot"]):
        result = releasekit("-C", tmp_path, *command)
        assert result.code == 0, result.err
        assert "\x1b" not in result.out + result.err
        assert "\u202e" not in result.out + result.err


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            [],
            [
                "npm:kit",
                "├── npm:base [dev]",
                "└── npm:ui [peer]",
                "    └── npm:base",
                "npm:root",
                "pypi:app",
                "└── pypi:core",
            ],
        ),
        (
            ["--format", "levels"],
            ["0: npm:base npm:root pypi:core", "1: npm:ui pypi:app", "2: npm:kit"],
        ),
        (["--package", "ui", "--dependencies"], ["npm:ui", "└── npm:base"]),
        (["--package", "npm:base", "--dependents", "--format", "levels"], None),
        (["--kind", "dev", "--package", "kit"], ["npm:kit", "└── npm:base [dev]"]),
    ],
)
def test_graph_draws_what_was_asked(
    tmp_path: Path, releasekit: ReleaseKit, arguments: list[str], lines: list[str] | None
) -> None:
    sample(tmp_path)
    result = releasekit("-C", tmp_path, "graph", *arguments)
    assert result.code == 0, result.err
    expected = lines or ["0: npm:base", "1: npm:ui", "2: npm:kit"]
    assert result.out.splitlines() == expected


def test_graph_speaks_mermaid_dot_and_json(tmp_path: Path, releasekit: ReleaseKit) -> None:
    sample(tmp_path)
    options = ("--package", "kit", "--dependencies")
    mermaid = releasekit("-C", tmp_path, "graph", "--format", "mermaid", *options)
    assert mermaid.out.splitlines() == [
        "flowchart LR",
        '    p0["npm:base"]',
        '    p1["npm:kit"]',
        '    p2["npm:ui"]',
        "    p1 -.-|dev| p0",
        "    p1 -.->|peer| p2",
        "    p2 --> p0",
    ]
    dot = releasekit("-C", tmp_path, "graph", "--format", "dot", *options)
    assert '    "npm:kit" -> "npm:ui" [style=dashed, label="peer"];' in dot.out.splitlines()
    data = releasekit("-C", tmp_path, "graph", "--format", "json", *options).json()
    assert data["levels"] == [["npm:base"], ["npm:ui"], ["npm:kit"]]
    assert data == releasekit("-C", tmp_path, "graph", "--output", "json", *options).json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--package", "kitt"], "did you mean `kit`?"),
        (["--dependents"], "`--dependents` needs a package to start from"),
        (["--kind", "friend"], "'friend' is not one of"),
        (["--format", "poem"], "'poem' is not one of"),
    ],
)
def test_graph_refuses_what_it_does_not_know(
    tmp_path: Path, releasekit: ReleaseKit, arguments: list[str], message: str
) -> None:
    sample(tmp_path)
    result = releasekit("-C", tmp_path, "graph", *arguments)
    assert result.code == 2
    assert message in result.err


def test_a_name_of_two_packages_needs_the_id(tmp_path: Path, releasekit: ReleaseKit) -> None:
    uv_workspace(tmp_path, "core")
    pnpm_workspace(tmp_path, "core")
    result = releasekit("-C", tmp_path, "graph", "--package", "core")
    assert result.code == 2
    assert "give the id: `npm:core`, `pypi:core`" in result.err
    assert releasekit("-C", tmp_path, "graph", "--package", "pypi:core").code == 0


def test_a_long_chain_is_drawn_without_running_over(tmp_path: Path, releasekit: ReleaseKit) -> None:
    pnpm_workspace(tmp_path)
    for number in range(300):
        needs = {f"p{number + 1:03}": "workspace:*"} if number < 299 else {}
        node(tmp_path / f"packages/p{number:03}", f"p{number:03}", dependencies=needs)
    result = releasekit("-C", tmp_path, "graph")
    assert result.code == 0, result.err
    assert max(map(len, result.out.splitlines())) < 130
    for number in range(300):
        assert f"npm:p{number:03}" in result.out


def test_discover_starts_without_what_it_does_not_need(
    tmp_path: Path, releasekit: ReleaseKit
) -> None:
    sample(tmp_path)
    result = releasekit("-C", tmp_path, "discover", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert result.code == 0
    loaded = {line.rpartition("|")[2].strip() for line in result.err.splitlines()}
    assert "releasekit.workspace" in loaded
    for heavy in ("httpx", "twine", "rich", "asyncio", "structlog", "tomlkit", "packaging"):
        assert heavy not in loaded


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_packages_with_one_id_the_publishable_one_is_meant(
    tmp_path: Path, order: int
) -> None:
    private, public = (
        Package(
            id="npm:x", name="x", ecosystem="node", version="1.0.0", path=path,
            manifest=f"{path}/package.json", publishable=path == "public",
        )
        for path in ("private", "public")
    )  # fmt: skip
    found = Workspace(root=tmp_path, members=(), packages=(private, public)[::order], edges=())
    assert found.by_id() == {"npm:x": public}
