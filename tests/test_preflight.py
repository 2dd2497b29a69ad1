"""What stands before a release is told before anything is built: all of it, each with its hint."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from releasekit import embedded, workspace
from releasekit.access import TRUSTED, Access, Minter
from releasekit.ecosystems import Presence, all_ecosystems
from releasekit.ecosystems.node.registry import NpmRegistry
from releasekit.ecosystems.python.registry import SimpleIndex
from releasekit.errors import DirtyTree, PreflightFailed
from releasekit.events import PlannedRelease
from releasekit.model import Package, Problem, Severity
from releasekit.net import http_client
from releasekit.plan import Plan
from releasekit.publish import ask, preflight
from releasekit.secrets import Credential
from tests.building import write_tree
from tests.sample import write_sample
from tests.test_build_command import commit
from tests.test_build_node import tool  # noqa: F401 - a fixture
from tests.test_node_credentials import add_user
from tests.test_publish import outcomes, pypi_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Registry
    from tests.conftest import ReleaseKit, Result


def package(identifier: str, version: str = "1.0.0") -> Package:
    kind, _, name = identifier.partition(":")
    ecosystem = {"pypi": "python", "npm": "node"}[kind]
    return Package(
        id=identifier,
        name=name,
        ecosystem=ecosystem,
        version=version,
        path=".",
        manifest="m",
        publishable=True,
    )


def publish(releasekit: ReleaseKit, root: Path, *more: str | Path) -> Result:
    return releasekit("publish", "--yes", "--output", "json", *more, cwd=root)


def error(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = result.json()["error"]
    return found


# The tree


def test_what_is_not_committed_stops_a_release_and_our_own_files_do_not(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    (root / ".gitignore").write_text("*.log\n")
    commit(root)
    (root / "build.log").write_text("ignored")
    (root / "releasekit.toml").write_text("")
    where = ("--registry", pypi_option(pypi))
    own = ("--state", "kept/state", "--receipts", "receipts.json")
    assert publish(releasekit, root, *where, *own, "--package", "acme-text").code == 0
    assert (root / "receipts.json").exists()
    assert publish(releasekit, root, *where, *own, "--package", "acme-text").code == 0
    without_own = publish(releasekit, root, *where)
    assert "`kept/state/runs/" in error(without_own)["message"]
    manifest = root / "python/acme-app/pyproject.toml"
    manifest.write_text(manifest.read_text() + "\n")
    (root / "python/acme-app/src/acme_app/new module.py").write_text("")
    refused = publish(releasekit, root, *where, *own)
    assert refused.code == 2
    assert error(refused)["kind"] == "DirtyTree"
    assert error(refused)["message"].startswith(
        "`python/acme-app/pyproject.toml`, `python/acme-app/src/acme_app/new module.py` are not "
    )
    assert "`--allow-dirty`" in error(refused)["hint"]
    allowed = publish(releasekit, root, *where, *own, "--allow-dirty")
    assert allowed.code == 0
    assert outcomes(allowed)["pypi:acme-app"] == "published"
    notes = [one["message"] for one in allowed.events() if one["event"] == "noted"]
    assert any("pyproject.toml" in note and "not in the commit" in note for note in notes)


def test_changes_beside_the_released_folder_do_not_count(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "all/repo", node={}, python={"acme-text": ()})
    commit(tmp_path / "all")
    (tmp_path / "all/notes.txt").write_text("of somebody else")
    arguments = ("-C", tmp_path / "all/repo", "publish", "--yes", "--registry", pypi_option(pypi))
    assert releasekit(*arguments).code == 0
    # What an earlier build left does not count where git does not track it.
    check = ("-C", tmp_path / "all/repo", "check", "--registry", pypi_option(pypi))
    (tmp_path / "all/repo/left.txt").write_text("")
    assert releasekit(*check).code == 1
    note = tmp_path / "all/.git/releasekit/left-by-builds.json"
    note.write_text('["repo/left.txt", "repo/pyproject.toml"]')
    assert releasekit(*check).code == 0
    manifest = tmp_path / "all/repo/pyproject.toml"
    manifest.write_text(manifest.read_text() + "\n")
    assert releasekit(*check).code == 1


def test_a_repository_without_a_commit_says_so(tmp_path: Path, releasekit: ReleaseKit) -> None:
    write_sample(tmp_path, node={})
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    result = releasekit("check", "--registry", NOWHERE, cwd=tmp_path)
    assert "there is no commit yet" in result.out


def test_where_git_cannot_tell_the_run_stops_unless_a_dirty_tree_is_allowed(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    (root / ".git").mkdir()
    where = ("--registry", pypi_option(pypi))
    refused = publish(releasekit, root, *where)
    assert refused.code == 1
    assert "git does not tell whether this tree is clean" in error(refused)["message"]
    assert publish(releasekit, root, *where, "--allow-dirty").code == 0


NOWHERE = "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/simple/"


# Everything at once


def test_problems_of_every_kind_are_told_together_each_with_its_hint(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={"acme-app": ("acme-text",), "acme-text": (), "acme-own": ()})
    app = root / "python/acme-app/pyproject.toml"
    app.write_text(
        app.read_text().replace(
            '["acme-text"]', '["acme-text<1", "acme-own"]\nclassifiers = []'
        ).replace("[tool.uv.sources]\n", "[tool.uv.sources]\nacme-own = { workspace = true }\n")
    )  # fmt: skip
    own = root / "python/acme-own/pyproject.toml"
    own.write_text(
        own.read_text().replace(
            "dependencies", 'classifiers = ["Private :: Do Not Upload"]\ndependencies', 1
        )
    )
    parser = root / "node/parser/package.json"
    parser.write_text(parser.read_text().replace('"1.0.0"', '"1.0.0-rc.1"'))
    commit(root)
    (root / "left over.txt").write_text("")
    with embedded.pypi_registry(tmp_path / "pypi") as pypi:
        where = ("--registry", pypi_option(pypi), "--registry", f"npm={npm.url}")
        result = publish(releasekit, root, *where)
    assert result.code == 1
    found = error(result)
    assert found["kind"] == "PreflightFailed"
    assert all(one["hint"] for one in found["problems"])
    messages = "\n".join(one["message"] for one in found["problems"])
    assert "`left over.txt` is not in the commit" in messages
    assert "`acme-text<1`, which excludes" in messages
    assert "pypi:acme-app needs pypi:acme-own, which is not published" in messages
    assert "@acme/parser 1.0.0-rc.1 is a prerelease" in messages
    packages = {one["package"] for one in found["problems"]}
    assert packages == {None, "pypi:acme-app", "npm:@acme/parser"}
    assert found["message"].count("hint: ") == len(found["problems"])
    assert not list(root.glob(".git/releasekit/runs/*"))


def test_a_registry_that_is_down_is_told_of_once_and_the_other_is_asked_all_the_same(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, version="1.0.0-rc.1")
    result = publish(releasekit, root, "--registry", NOWHERE, "--registry", f"npm={npm.url}")
    assert result.code == 1
    problems = error(result)["problems"]
    down = [one for one in problems if "cannot be read: ConnectError" in one["message"]]
    assert len(down) == 1
    assert down[0]["package"] is None
    assert len([one for one in problems if "dist-tag" in one["message"]]) == 2
    assert len(problems) == 3


def test_one_problem_alone_keeps_its_kind() -> None:
    one = Problem.of(DirtyTree(changed=["a"], committed=True))
    warning = Problem(message="w", hint=None, severity=Severity.WARNING)
    preflight.stop_at_errors([warning])
    with pytest.raises(DirtyTree):
        preflight.stop_at_errors([warning, one])
    with pytest.raises(PreflightFailed, match="2 problems"):
        preflight.stop_at_errors([one, Problem(message="m", hint=None)])


# npm's rules


def test_npms_rules_for_tags_and_access_are_kept_before_anything_is_built(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={}, node={"@acme/parser": (), "plain": ()}, version="2.0.0")
    where = ("--registry", f"npm={npm.url}")
    assert publish(releasekit, root, *where).code == 0
    for manifest in root.glob("node/*/package.json"):
        manifest.write_text(manifest.read_text().replace("2.0.0", "1.9.0"))
    falls = publish(releasekit, root, *where)
    messages = [one["message"] for one in error(falls)["problems"]]
    assert messages == [
        f"{name} 1.9.0 would become `latest`, below 2.0.0 on the registry"
        for name in ("@acme/parser", "plain")
    ]
    range_like = publish(releasekit, root, *where, "--tag", "v1")
    assert error(range_like)["kind"] == "BadDistTag"
    assert range_like.code == 2
    closed = publish(releasekit, root, *where, "--tag", "old", "--access", "restricted")
    assert error(closed)["kind"] == "NotRestrictable"
    assert "plain has no scope" in error(closed)["message"]
    old = publish(releasekit, root, *where, "--tag", "old")
    assert old.code == 0, old.err
    for name in ("@acme%2fparser", "plain"):
        tags = httpx.get(f"{npm.url}{name}").json()["dist-tags"]
        assert tags == {"latest": "2.0.0", "old": "1.9.0"}
    again = publish(releasekit, root, *where, "--tag", "old")
    notes = [one["message"] for one in again.events() if one["event"] == "noted"]
    assert any("`--tag old` would change nothing: every npm package" in note for note in notes)


@contextlib.contextmanager
def recording_registry() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Takes every document as it is, and shows the last."""
    taken: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(201, {})

        def do_GET(self) -> None:
            self._answer(200 if taken else 404, taken[-1] if taken else {})

        def _answer(self, status: int, body: object) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", taken
    finally:
        server.shutdown()
        server.server_close()


def test_tag_and_access_stand_in_what_is_sent_before_those_of_the_manifest(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path, python={}, node={"@acme/parser": ()})
    manifest = tmp_path / "node/parser/package.json"
    own = '"access": "public", "tag": "own"'
    manifest.write_text(manifest.read_text().replace('"access": "public"', own))
    with recording_registry() as (address, taken):
        result = publish(
            releasekit, tmp_path, "--tag", "next", "--access", "restricted",
            "--registry", f"npm={address}",
        )  # fmt: skip
    assert result.code == 0, result.out + result.err
    [document] = taken
    assert document["dist-tags"] == {"next": "1.0.0"}
    assert document["access"] == "restricted"


def test_a_tag_for_a_run_without_npm_packages_is_told(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path, node={}, python={"acme-text": ()})
    result = releasekit(
        "publish", "--yes", "--tag", "next", "--access", "public",
        "--registry", pypi_option(pypi), cwd=tmp_path,
    )  # fmt: skip
    assert result.code == 0
    assert "`--tag next` and `--access public` would change nothing: none of these" in result.out


@pytest.mark.parametrize(
    ("name", "version", "presence", "settings", "expected"),
    [
        ("@a/b", "1.0.0", {"known": False}, {}, "warning may become restricted"),
        ("@a/b", "1.0.0", {"known": False}, {"package_access": "public"}, ""),
        ("@a/b", "1.0.0", {"known": False}, {"package_access": "restricted"}, ""),
        ("@a/b", "1.0.0", {}, {}, ""),
        ("b", "1.0.0", {"withdrawn": True}, {}, "error never takes it again"),
        ("b", "1.0.0", {"supported": "1.0.1"}, {}, "error would become `latest`"),
        ("b", "1.0.0", {"supported": "1.0.1"}, {"tag": "old"}, ""),
        ("b", "1.0.0", {"supported": "0.9.9", "highest": "2.0.0"}, {}, ""),
        ("b", "1.0.0-rc.1", {}, {}, "error needs a dist-tag"),
        ("b", "1.0.0-rc.1", {}, {"tag": "next"}, ""),
        ("b", "1.0.0", {}, {"tag": "1.x"}, "error is no dist-tag"),
        ("b", "1.0.0", {}, {"tag": "a/b"}, "error is no dist-tag"),
    ],
)
def test_what_npm_objects_to(
    name: str, version: str, presence: dict[str, Any], settings: dict[str, Any], expected: str
) -> None:
    registry = NpmRegistry(name="npm", address="http://127.0.0.1:9/", **settings)
    held = Presence(registry="npm", files={}, **presence)
    told = [f"{one.severity} {one.message}" for one in
            registry.objections(package(f"npm:{name}", version), held)]  # fmt: skip
    severity, _, words = expected.partition(" ")
    assert len(told) == bool(expected)
    assert all(one.startswith(severity) and words in one for one in told)


# Credentials, asked without a side effect


async def permissions(
    registries: dict[str, Registry], *, known: bool = True, dry_run: bool = False
) -> list[Problem]:
    packages = [package(name) for name in registries]
    presences = {name: Presence(registry="r", files={}, known=known) for name in registries}
    async with http_client() as client:
        return await ask.permissions(client, packages, registries, presences, dry_run=dry_run)


def index_at(address: str, **settings: Any) -> SimpleIndex:  # noqa: ANN401 - its fields
    return SimpleIndex(name="pypi", address=address, index=f"{address}simple/", **settings)


PUBLIC = "https://index.example/"


@pytest.mark.parametrize(
    ("address", "dry_run", "expected"),
    [
        (PUBLIC, False, Severity.ERROR),
        (PUBLIC, True, Severity.WARNING),
        ("http://index.internal/", False, Severity.WARNING),
        ("http://127.0.0.1:9/", False, None),
    ],
)
def test_a_missing_credential_stops_a_publish_to_a_public_registry_and_no_dry_run(
    address: str, dry_run: bool, expected: Severity | None
) -> None:
    index = index_at(address)
    found = asyncio.run(permissions({"pypi:a": index, "pypi:b": index}, dry_run=dry_run))
    assert [one.severity for one in found] == ([expected] if expected else [])
    for one in found:
        assert "`pypi`: pypi:a, pypi:b" in one.message
        assert "RELEASEKIT_PYPI_TOKEN" in (one.hint or "")


def test_trusted_publishing_counts_where_the_ci_offers_it_and_npm_knows_the_package() -> None:
    async def mint(_: httpx.AsyncClient) -> None:
        raise AssertionError("minting is no harmless question")

    by_trust = {"access": Access(minter=Minter(mint=mint)), "offered": True}
    npm = NpmRegistry(name="npm", address=PUBLIC, **by_trust)  # type: ignore[arg-type]
    assert asyncio.run(npm.credential_source()) == TRUSTED
    assert asyncio.run(permissions({"npm:a": npm})) == []
    [new] = asyncio.run(permissions({"npm:a": npm}, known=False))
    assert "knows no trusted publisher for a package before its first version" in new.message
    assert asyncio.run(permissions({"pypi:a": index_at(PUBLIC, **by_trust)}, known=False)) == []
    elsewhere = index_at(PUBLIC, **{**by_trust, "offered": False})
    [missing] = asyncio.run(permissions({"pypi:a": elsewhere}))
    assert "no credential" in missing.message


def test_a_credential_that_the_registry_does_not_know_is_found_once(
    tmp_path: Path, npm_modules: Path
) -> None:
    with embedded.npm_registry(tmp_path / "npm", modules=npm_modules, private=True) as settings:
        address = str(settings.url)
        known = Access(found=Credential(source="NPM_TOKEN", secret=add_user(address)))
        wrong = Access(found=Credential(source="NPM_TOKEN", secret="not-a-token-of-anybody"))
        fine = NpmRegistry(name="npm", address=address, access=known)
        bad = NpmRegistry(name="npm", address=address, access=wrong)
        assert asyncio.run(permissions({"npm:a": fine, "npm:b": fine})) == []
        found = asyncio.run(permissions({"npm:a": bad, "npm:b": bad}))
    assert len(found) == 1
    assert "does not know the credential from NPM_TOKEN" in found[0].message


def test_an_address_for_uploads_where_nobody_answers_is_found(pypi: RegistrySettings) -> None:
    index = SimpleIndex(
        name="pypi", address="http://127.0.0.1:9/legacy/", index=str(pypi.index_url)
    )
    [found] = asyncio.run(permissions({"pypi:a": index, "pypi:b": index}))
    assert "`http://127.0.0.1:9/legacy/` cannot be read" in found.message
    answers = SimpleIndex(name="pypi", address=str(pypi.upload_url), index="http://127.0.0.1:9/")
    assert asyncio.run(permissions({"pypi:a": answers})) == []


# New projects


def releases(needs: dict[str, tuple[str, ...]]) -> tuple[PlannedRelease, ...]:
    return tuple(
        PlannedRelease(package=name, version="1", registry="pypi", needs=wanted)
        for name, wanted in needs.items()
    )


def test_more_new_projects_than_a_day_takes_are_named_in_the_order_they_go() -> None:
    from twine import utils

    public = SimpleIndex(name="pypi", address=utils.DEFAULT_REPOSITORY, index=PUBLIC)
    own = index_at(PUBLIC)
    needs: dict[str, tuple[str, ...]] = {
        "leaf-1": (), "leaf-2": (), "leaf-3": (), "core": (), "known": (),
        "mid": ("core",), "top": ("mid",), "old": ("leaf-2", "leaf-3"),
    }  # fmt: skip
    plan = Plan(
        releases=releases(needs),
        already_there=(),
        partly_there=(),
        new=frozenset(needs) - {"known", "old"},
    )
    assert list(preflight.new_projects(plan, dict.fromkeys(needs, own))) == []
    [told] = preflight.new_projects(plan, dict.fromkeys(needs, public))
    assert told.severity is Severity.WARNING
    order = "core, leaf-2, leaf-3, mid go first; leaf-1, top must wait"
    assert f"6 projects are new on pypi, which takes 4 a day: {order}" in told.message
    few = replace(plan, new=frozenset({"core", "mid", "top", "leaf-1"}))
    assert list(preflight.new_projects(few, dict.fromkeys(needs, public))) == []
    blocked = replace(plan, new=plan.new - {"leaf-2"} | {"known"})
    [told] = preflight.new_projects(blocked, dict.fromkeys(needs, public))
    assert "core, leaf-3, mid, leaf-1 go first; known, top must wait" in told.message


# Lock files


def stale(root: Path) -> list[str]:
    found = workspace.load(root)
    return [one.message for world in all_ecosystems() for one in world.stale_locks(found)]


def uv(root: Path, *arguments: str) -> None:
    subprocess.run(["uv", *arguments, "--offline", "--quiet"], cwd=root, check=True)


def test_uvs_lock_is_compared_with_the_manifests(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    assert stale(root) == []
    app = root / "python/acme-app/pyproject.toml"
    text = app.read_text().replace(
        '["acme-models"]', "[\"acme-models[x]>=1,<2; python_version > '3.8'\"]"
    )
    text = text.replace(
        "[tool.uv.sources]", '[project.optional-dependencies]\nall = ["acme-app[x]"]\nx = []\n'
        '[dependency-groups]\ndev = ["acme-text"]\n[tool.uv.sources]\n'
        "acme-text = { workspace = true }\n",
    )  # fmt: skip
    app.write_text(text)
    uv(root, "lock")
    assert stale(root) == []
    app.write_text(text.replace('version = "1.0.0"', 'version = "1.1.0"'))
    assert stale(root) == [
        "`uv.lock` is not up to date: `acme-app` is 1.1.0, there it is 1.0.0"
    ]  # fmt: skip
    app.write_text(text.replace('["acme-models[x]', '["httpx>=0.28", "acme-models[x]'))
    assert "`acme-app` requires `httpx`, there it does not" in stale(root)[0]
    app.write_text(text)
    write_tree(
        root, {"python/acme-new/pyproject.toml": '[project]\nname="acme-new"\nversion="1"\n'}
    )
    assert "it lacks `acme-new`" in stale(root)[0]
    (root / "uv.lock").write_text("version = 1\n[[package]]\nname = ")
    assert "is not up to date" in stale(root)[0]


def test_other_bounds_than_the_lock_holds_are_stale(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n'
            'dependencies = ["httpx>=0.28,<1"]\n',
            "uv.lock": 'version = 1\n\n[[package]]\nname = "app"\nversion = "1"\n'
            'source = { virtual = "." }\n\n[package.metadata]\n'
            'requires-dist = [{ name = "httpx", specifier = ">=0.28,<1" }]\n',
        },
    )
    assert stale(root) == []
    manifest = root / "pyproject.toml"
    manifest.write_text(manifest.read_text().replace("0.28", "0.29"))
    assert "`app` requires `httpx<1,>=0.29`, there `httpx>=0.28,<1`" in stale(root)[0]


NODE = {
    "package.json": json.dumps(
        {"name": "root", "version": "0.0.0", "private": True, "workspaces": ["node/*"]}
    ),
    "node/a/package.json": json.dumps(
        {"name": "@acme/a", "version": "1.0.0", "dependencies": {"@acme/b": "^1.0.0"}}
    ),
    "node/b/package.json": json.dumps({"name": "@acme/b", "version": "1.0.0"}),
}
LOCK_COMMANDS = {
    "npm": ["npm", "install", "--package-lock-only", "--offline", "--no-audit", "--no-fund"],
    "pnpm10": ["pnpm", "install", "--lockfile-only", "--offline"],
    "pnpm12": ["pnpm", "install", "--lockfile-only", "--offline"],
    "yarn4": ["yarn", "install", "--mode=update-lockfile"],
}


@pytest.mark.parametrize("tool", LOCK_COMMANDS, indirect=True)
def test_node_locks_are_compared_with_the_manifests(
    tool: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    root = write_tree(tmp_path / "repo", NODE)
    a = root / "node/a/package.json"
    if tool.startswith("pnpm"):
        a.write_text(a.read_text().replace("^1.0.0", "workspace:^"))
        (root / "pnpm-workspace.yaml").write_text("packages:\n  - node/*\n")
    if tool == "yarn4":
        (root / ".yarnrc.yml").write_text("enableTelemetry: false\n")
    text = a.read_text()
    command = LOCK_COMMANDS[tool]
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=60)
    assert stale(root) == []
    a.write_text(text.replace("}}", ', "left-pad": "^1.3.0"}}'))
    [told] = stale(root)
    assert "`node/a` requires `left-pad`, there it does not" in told
    a.write_text(text.replace("@acme/b", "@acme/c"))
    [told] = stale(root)
    assert "`node/a` does not require `@acme/b`, there it does" in told
    a.write_text(text)
    body = {"name": "n", "version": "1.0.0", "dependencies": {"@acme/b": "*"}}
    write_tree(root, {"node/n/package.json": json.dumps(body)})
    [told] = stale(root)
    assert "it lacks `node/n`" in told


def test_yarn_1s_lock_is_compared_with_what_comes_from_elsewhere(tmp_path: Path) -> None:
    root = write_tree(tmp_path, NODE)
    (root / "yarn.lock").write_text(
        '# yarn lockfile v1\n\n\n"left-pad@^1.3.0", left-pad@1.x:\n  version "1.3.0"\n'
    )
    a = root / "node/a/package.json"
    a.write_text(a.read_text().replace("}}", ', "left-pad": "^1.3.0"}}'))
    assert stale(root) == []
    a.write_text(a.read_text().replace("^1.3.0", "^1.2.0"))
    assert stale(root) == [
        "`yarn.lock` is not up to date: `node/a` requires `left-pad` ^1.2.0, there nobody does"
    ]


def test_a_stale_lock_is_a_warning(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    uv(root, "lock")
    manifest = root / "python/acme-text/pyproject.toml"
    manifest.write_text(manifest.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))
    result = releasekit("publish", "--yes", "--registry", pypi_option(pypi), cwd=root)
    assert result.code == 0
    assert "note: `uv.lock` is not up to date" in result.out
    assert "(hint: run `uv lock`" in result.out
