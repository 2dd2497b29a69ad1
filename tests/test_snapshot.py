"""Snapshots: versions for one use, exact among each other, without a commit and without a trace."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from typing import TYPE_CHECKING

import httpx
import pytest
from packaging.version import Version

from releasekit.ecosystems.node import semver
from releasekit.ecosystems.node import snapshot as node
from releasekit.ecosystems.python import snapshot as python
from releasekit.ecosystems.python.filenames import name_and_version as parsed
from releasekit.errors import BadSnapshotId
from tests.building import write_tree
from tests.faults import Fault, faulty_registry
from tests.sample import write_sample
from tests.test_build_command import commit
from tests.test_publish import outcomes, pypi_option, served
from tests.test_publish_pins import contents

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result


@pytest.mark.parametrize(
    ("version", "highest", "expected"),
    [
        ("1.2.3", None, "1.2.3.dev7"),
        ("1.2.3", "1.2.2", "1.2.3.dev7"),
        ("1.2.3", "1.2.3", "1.2.4.dev7"),
        ("1.2.3", "2.0.0", "2.0.1.dev7"),
        ("1.2", "1.2", "1.2.1.dev7"),
        ("1.2.3.4", "1.2.3.4", "1.2.3.5.dev7"),
        ("1.3.0rc1", "1.2.9", "1.3.0rc1.dev7"),
        ("1.3.0rc1", "1.3.0rc1", "1.3.0rc2.dev7"),
        ("1.3.0", "1.3.0rc1", "1.3.0rc2.dev7"),
        ("1.3.0.dev0", "1.2.9", "1.3.0.dev7"),
        ("1.3.1.dev5+gabcdef", "1.3.0", "1.3.1.dev7"),
        ("1.2.3", "1.2.3.post1", "1.2.4.dev7"),
        ("1!1.0", "1!1.0", "1!1.0.1.dev7"),
    ],
)
def test_a_python_snapshot_is_above_what_is_released(
    version: str, highest: str | None, expected: str
) -> None:
    found = python.version_of(version, highest, "7")
    assert found == expected
    assert highest is None or Version(found) > Version(highest)
    assert Version(found).is_prerelease
    assert Version(found).local is None


@pytest.mark.parametrize(
    ("version", "highest", "expected"),
    [
        ("1.2.3", None, "1.2.3-snapshot.7"),
        ("1.2.3", "1.2.2", "1.2.3-snapshot.7"),
        ("1.2.3", "1.2.3", "1.2.4-snapshot.7"),
        ("1.2.3", "2.0.0", "2.0.1-snapshot.7"),
        ("1.3.0-rc.1", "1.2.9", "1.3.0-snapshot.7"),
        ("1.3.0-rc.1", "1.3.0", "1.3.1-snapshot.7"),
    ],
)
def test_a_node_snapshot_is_above_what_is_released(
    version: str, highest: str | None, expected: str
) -> None:
    found = node.version_of(version, highest, "7")
    assert found == expected
    read = semver.parse(found)
    assert read is not None
    assert not read.release
    assert highest is None or read > (semver.parse(highest) or read)


@pytest.mark.parametrize("snapshot", ["pr-7", "07", "1.2", "-1", "1\n", "٣", "9" * 19])
def test_a_python_snapshot_carries_a_number(snapshot: str) -> None:
    with pytest.raises(BadSnapshotId):
        python.version_of("1.0.0", None, snapshot)


@pytest.mark.parametrize(
    "snapshot", ["07", "a..b", ".a", "a.", "a_b", "a+b", "a\n", "é", "9" * 101]
)
def test_a_node_snapshot_carries_what_a_version_can(snapshot: str) -> None:
    with pytest.raises(BadSnapshotId):
        node.version_of("1.0.0", None, snapshot)
    assert node.version_of("1.0.0", None, "pr-7.0a") == "1.0.0-snapshot.pr-7.0a"


def publish(releasekit: ReleaseKit, root: Path, *more: str) -> Result:
    return releasekit("publish", "--yes", "--output", "json", *more, cwd=root)


def versions(result: Result) -> dict[str, str]:
    [started] = [one for one in result.events() if one["event"] == "run-started"]
    return {one["package"]: one["version"] for one in started["releases"]}


def test_a_snapshot_of_both_worlds_is_pinned_exactly_and_leaves_no_trace(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, npm: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root)
    # Bounds that a prerelease does not satisfy by order, and a peer.
    app = root / "python/acme-app/pyproject.toml"
    needs = "acme-models~=1.0.0; sys_platform != 'none'"
    app.write_text(app.read_text().replace('"acme-models"]', f'"{needs}"]'))
    cli = root / "node/cli/package.json"
    body = json.loads(cli.read_text())
    body["peerDependencies"] = {"@acme/parser": "^1.0.0"}
    cli.write_text(json.dumps(body))
    commit(root)
    where = ("--registry", pypi_option(pypi), "--registry", f"npm={npm.url}")
    assert publish(releasekit, root, *where).code == 0
    before = contents(root)
    result = publish(releasekit, root, *where, "--snapshot", "7")
    assert result.code == 0, result.out + result.err
    assert versions(result) == {
        **dict.fromkeys(("pypi:acme-text", "pypi:acme-models", "pypi:acme-app"), "1.0.1.dev7"),
        **dict.fromkeys(("npm:@acme/parser", "npm:@acme/cli"), "1.0.1-snapshot.7"),
    }
    assert set(outcomes(result).values()) == {"published"}
    assert contents(root) == before
    assert "acme_app-1.0.1.dev7-py3-none-any.whl" in served(pypi, "acme-app")
    [wheel] = (root.parent / "pypi-registry").rglob("acme_app-*dev7*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("acme_app-1.0.1.dev7.dist-info/METADATA").decode()
    assert re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE) == [
        "acme-models==1.0.1.dev7 ; sys_platform != 'none'"
    ]
    [tarball] = (root.parent / "npm-registry").rglob("@acme/cli/*snapshot*.tgz")
    with tarfile.open(tarball) as packed:
        file = packed.extractfile("package/package.json")
        assert file is not None
        manifest = json.load(file)
    assert manifest["version"] == "1.0.1-snapshot.7"
    assert manifest["dependencies"] == {"@acme/parser": "1.0.1-snapshot.7"}
    assert manifest["peerDependencies"] == {"@acme/parser": "1.0.1-snapshot.7"}
    tags = httpx.get(f"{npm.url}@acme%2fparser").json()["dist-tags"]
    assert tags == {"latest": "1.0.0", "snapshot": "1.0.1-snapshot.7"}
    # The same id is the same snapshot; without one the next is a higher one.
    assert set(outcomes(publish(releasekit, root, *where, "--snapshot", "7")).values()) == {
        "already there"
    }
    named = publish(releasekit, root, *where, "--snapshot", "--package", "@acme/cli", "--tag", "pr")
    assert named.code == 0, named.err
    assert set(versions(named)) == {"npm:@acme/cli", "npm:@acme/parser"}
    [version] = set(versions(named).values())
    assert re.fullmatch(r"1\.0\.1-snapshot\.20\d{12}", version)
    tags = httpx.get(f"{npm.url}@acme%2fparser").json()["dist-tags"]
    assert tags == {"latest": "1.0.0", "snapshot": "1.0.1-snapshot.7", "pr": version}


_MODULE = "src/{m}/__init__.py"
BACKENDS = {
    "path": ('"hatchling"', "hatchling.build", f'[tool.hatch.version]\npath = "{_MODULE}"\n'),
    "vcs": (
        '"hatchling", "hatch-vcs"',
        "hatchling.build",
        '[tool.hatch.version]\nsource = "vcs"\nraw-options = {{ root = "../.." }}\n',
    ),
    "attr": (
        '"setuptools"',
        "setuptools.build_meta",
        '[tool.setuptools.dynamic]\nversion = {{ attr = "{m}.__version__" }}\n',
    ),
    "scm": (
        '"setuptools", "setuptools-scm"',
        "setuptools.build_meta",
        '[tool.setuptools_scm]\nroot = "../.."\n',
    ),
    "flit": ('"flit-core"', "flit_core.buildapi", ""),
    "pdm": (
        '"pdm-backend"',
        "pdm.backend",
        f'[tool.pdm.version]\nsource = "file"\npath = "{_MODULE}"\n',
    ),
    "pdmscm": ('"pdm-backend"', "pdm.backend", '[tool.pdm.version]\nsource = "scm"\n'),
    "poetry": (
        '"poetry-core"',
        "poetry.core.masonry.api",
        '[tool.poetry]\nversion = "1.0.0"\npackages = [{{ include = "{m}", from = "src" }}]\n',
    ),
}


def dynamic_package(kind: str, needs: str = "") -> dict[str, str]:
    requires, backend, settings = BACKENDS[kind]
    name, module = f"acme-{kind}", f"acme_{kind}"
    return {
        f"python/{name}/pyproject.toml": f"""\
[project]  # a comment
name = "{name}"
readme = "README.md"
description = "One of a test."
dynamic = [
    "version",
]
requires-python = ">=3.11"
dependencies = [{needs}]

[build-system]
requires = [{requires}]
build-backend = "{backend}"

{settings.format(m=module)}""",
        f"python/{name}/README.md": f"# {name}\n",
        f"python/{name}/src/{module}/__init__.py": '"""Of a test."""\n__version__ = "1.0.0"\n',
    }


def test_dynamic_versions_come_out_as_planned(
    releasekit: ReleaseKit,
    tmp_path: Path,
    pypi: RegistrySettings,
    build_backends: dict[str, str],
) -> None:
    root = write_tree(
        tmp_path / "repo",
        {
            "pyproject.toml": '[tool.uv.workspace]\nmembers = ["python/*"]\n',
            **{
                name: text
                for kind in BACKENDS
                for name, text in dynamic_package(
                    kind, '"acme-scm>=0"' if kind == "path" else ""
                ).items()
            },
        },
    )
    commit(root)
    before = contents(root)
    arguments = ("publish", "--dry-run", "--snapshot", "7", "--output", "json")
    where = ("--registry", pypi_option(pypi))
    result = releasekit(*arguments, *where, cwd=root, env=build_backends)
    assert result.code == 0, result.out + result.err
    assert contents(root).items() >= before.items()
    withheld = {
        one["package"]: one["file"]
        for one in result.events()
        if one["event"] == "withheld" and one["file"].endswith(".whl")
    }
    planned = versions(result)
    assert set(withheld) == {f"pypi:acme-{kind}" for kind in BACKENDS} == set(planned)
    for package, file in withheld.items():
        assert Version(file.split("-")[1]) == Version(planned[package])
        assert planned[package].endswith(".dev7")
    assert planned["pypi:acme-path"] == "1.0.0.dev7"
    assert planned["pypi:acme-poetry"] == "1.0.0.dev7"
    [wheel] = root.glob(".git/releasekit/runs/*/artifacts/pypi-acme-path/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("acme_path-1.0.0.dev7.dist-info/METADATA").decode()
    assert f"Requires-Dist: acme-scm=={planned['pypi:acme-scm']}" in metadata
    # What setuptools has left in the tree is not taken for somebody's change.
    assert list(root.glob("python/*/src/*.egg-info"))
    again = releasekit("check", *where, cwd=root, env=build_backends)
    assert again.code == 0, again.out + again.err


def test_a_version_that_nobody_can_plan_is_refused_before_the_build(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, build_backends: dict[str, str]
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    manifest = root / "python/acme-text/pyproject.toml"
    text = manifest.read_text().replace('version = "1.0.0"', 'dynamic = ["version"]')
    text = text.replace('requires = ["uv_build"]', 'requires = ["hatchling"]')
    text = text.replace('"uv_build"', '"own"\nbackend-path = ["."]')
    text += '[tool.hatch.version]\npath = "src/acme_text/__init__.py"\n'
    manifest.write_text(text)
    (manifest.parent / "own.py").write_text("from hatchling.build import *\n")
    commit(root)
    where = ("--registry", pypi_option(pypi))
    result = releasekit("publish", "--yes", "--snapshot", "7", *where, cwd=root, env=build_backends)
    assert result.code == 2, result.out + result.err
    assert "computes its version while building" in result.err
    assert "write `version` in the manifest" in result.err
    assert not list(root.glob(".git/releasekit/runs/*"))


def test_resume_takes_the_same_versions_and_a_plain_run_makes_new_ones(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    commit(root)
    faults = {"acme-models": [Fault(status=400, words="not today")]}
    with faulty_registry(pypi, uploads=faults) as faulty:
        first = releasekit(
            "publish", "--yes", "--snapshot", "--registry", pypi_option(faulty), cwd=root
        )
    assert first.code == 1
    [run] = (folder.name for folder in root.glob(".git/releasekit/runs/*"))
    assert "to continue: releasekit publish --yes --snapshot --registry" in first.out
    assert f"--resume {run}" in first.out
    assert f"--resume {run}" in releasekit("status", cwd=root).out
    [version] = {str(built[1]) for name in served(pypi, "acme-text") if (built := parsed(name))}
    where = ("--registry", pypi_option(pypi))
    other = publish(releasekit, root, *where, "--resume", "--snapshot", "8")
    assert other.json()["error"]["kind"] == "OtherSnapshot"
    again = publish(releasekit, root, *where, "--resume")
    assert again.code == 0, again.out + again.err
    assert set(versions(again).values()) == {version}
    assert outcomes(again) == {
        "pypi:acme-text": "already there",
        "pypi:acme-models": "published",
        "pypi:acme-app": "published",
    }
    plain = publish(releasekit, root, *where, "--snapshot")
    assert plain.code == 0
    assert set(outcomes(plain).values()) == {"published"}
    [newer] = set(versions(plain).values())
    assert Version(newer) > Version(version)


def test_an_id_that_a_version_cannot_carry_is_refused_before_anybody_is_asked(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo")
    nowhere = "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/"
    for arguments, word in (
        (("--snapshot", "pr-7"), "carries a number"),
        (("--snapshot", "01", "--package", "@acme/cli"), "no version can carry that"),
    ):
        result = releasekit(
            "publish", "--yes", "--registry", nowhere, *arguments, cwd=tmp_path / "repo"
        )
        assert result.code == 2
        assert word in result.err
