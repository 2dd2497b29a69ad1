"""Python builds: the same artifacts as `uv build`, and nothing that a backend does reaches far."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.building import Outcome, build, write_tree
from tests.test_process import has_ended

if TYPE_CHECKING:
    from pathlib import Path

MODULE = {
    "README.md": "# A readme\n",
    "LICENSE": "free\n",
}
NATIVE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&module); }
"""
IN_TREE = """\
import os
from flit_core import buildapi
from flit_core.buildapi import *

def build_wheel(directory, settings=None, metadata=None):
    print("an in-tree backend")
    return buildapi.build_wheel(directory, settings, metadata)
"""


@pytest.fixture(autouse=True)
def _offline(build_backends: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in build_backends.items():
        monkeypatch.setenv(name, value)


def manifest(name: str, requires: str, backend: str, rest: str = "", **project: str) -> str:
    lines = "".join(f"{key} = {value}\n" for key, value in project.items())
    version = "" if "dynamic" in project else 'version = "1.2.3"\n'
    return f"""\
[project]
name = "{name}"
{version}description = "A package of the tests."
readme = "README.md"
requires-python = ">=3.9"
{lines}
[build-system]
requires = [{requires}]
build-backend = "{backend}"
{rest}
"""


def package(
    name: str, requires: str, backend: str, rest: str = "", **project: str
) -> dict[str, str]:
    module = name.replace("-", "_")
    return {
        f"{name}/pyproject.toml": manifest(name, requires, backend, rest, **project),
        f"{name}/src/{module}/__init__.py": f"NAME = '{name}'\n",
        f"{name}/src/{module}/data.txt": "data\n",
        **{f"{name}/{file}": text for file, text in MODULE.items()},
    }


def workspace_of(*packages: dict[str, str]) -> dict[str, str]:
    members = sorted({name.partition("/")[0] for one in packages for name in one})
    return {
        "pyproject.toml": f"[tool.uv.workspace]\nmembers = {members}\n",
        **{name: text for one in packages for name, text in one.items()},
    }


DEPENDENCIES = """["packaging>=20; python_version > '3'", "acme[fast]==1.2.3"]"""
BACKENDS = {
    "hatchling": package(
        "by-hatchling", '"hatchling"', "hatchling.build", dependencies=DEPENDENCIES
    ),
    "setuptools": package(
        "by-setuptools", '"setuptools"', "setuptools.build_meta", dependencies=DEPENDENCIES
    ),
    "flit-core": package("by-flit", '"flit-core"', "flit_core.buildapi", dependencies=DEPENDENCIES),
    "pdm-backend": package("by-pdm", '"pdm-backend"', "pdm.backend", dependencies=DEPENDENCIES),
    "poetry-core": package(
        "by-poetry", '"poetry-core"', "poetry.core.masonry.api", dependencies=DEPENDENCIES
    ),
    "uv_build": package("by-uv", '"uv_build"', "uv_build", dependencies=DEPENDENCIES),
    "in-tree": {
        **package(
            "in-tree",
            '"flit-core"',
            "backend",
            'backend-path = ["build_backend"]\n[tool.flit.sdist]\ninclude = ["build_backend/"]',
        ),
        "in-tree/build_backend/backend.py": IN_TREE,
    },
    "native": {
        **package("native-one", '"setuptools"', "setuptools.build_meta"),
        "native-one/setup.py": "from setuptools import Extension, setup\n"
        "setup(ext_modules=[Extension('native_one.native', ['native.c'])])\n",
        "native-one/native.c": NATIVE,
    },
    "legacy": {
        "legacy-one/setup.py": "from setuptools import setup\nsetup()\n",
        "legacy-one/pyproject.toml": '[project]\nname = "legacy-one"\nversion = "1.2.3"\n'
        '[build-system]\nrequires = ["setuptools"]\n',
        "legacy-one/legacy_one.py": "",
    },
}


def contents(file: Path) -> dict[str, tuple[int, str]]:
    """Every member with its mode and its hash."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {
                info.filename: (
                    info.external_attr >> 16, hashlib.sha256(wheel.read(info)).hexdigest(),
                )
                for info in wheel.infolist()
            }  # fmt: skip
    with tarfile.open(file) as sdist:
        return {
            member.name: (
                member.mode, hashlib.sha256(_content(sdist, member)).hexdigest(),
            )
            for member in sdist
        }  # fmt: skip


def _content(sdist: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = sdist.extractfile(member)
    return content.read() if content else b""


@pytest.fixture(scope="module")
def warm(
    build_backends: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("equal")
    root = write_tree(folder / "repo", workspace_of(*BACKENDS.values()))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in build_backends.items():
            patch.setenv(name, value)
        return root, build(root, folder / "scratch")


@pytest.mark.parametrize("backend", BACKENDS)
def test_artifacts_equal_those_of_uv_build(
    backend: str, warm: tuple[Path, Outcome], tmp_path: Path
) -> None:
    root, outcome = warm
    name = next(iter(BACKENDS[backend])).partition("/")[0]
    ours = outcome.files(f"pypi:{name}")
    assert outcome.ended[f"pypi:{name}"].notes == ()  # it was built warm
    subprocess.run(
        ["uv", "build", "--quiet", "--no-sources", "--no-create-gitignore",
         "--out-dir", tmp_path / "theirs", root / name],
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
    )  # fmt: skip
    theirs = {file.name: file for file in (tmp_path / "theirs").iterdir()}
    assert ours.keys() == theirs.keys()
    assert len(ours) == 2
    for file, ourselves in ours.items():
        if backend == "native" and file.endswith(".whl"):
            # A compiler notes the folder it works in; RECORD notes what came out.
            varying = re.compile(r".*\.so|.*/RECORD")
            assert {n: c for n, c in contents(ourselves).items() if not varying.fullmatch(n)} == {
                n: c for n, c in contents(theirs[file]).items() if not varying.fullmatch(n)
            }
            assert contents(ourselves).keys() == contents(theirs[file]).keys()
        else:
            assert contents(ourselves) == contents(theirs[file])


def test_what_is_built_twice_has_the_same_hash(warm: tuple[Path, Outcome], tmp_path: Path) -> None:
    root, first = warm
    # pdm-backend and setuptools write the time of the build into their sdists.
    names = ("pypi:by-hatchling", "pypi:by-flit", "pypi:by-poetry", "pypi:by-uv")
    second = build(root, tmp_path / "scratch", only=names)
    for name in names:
        again = second.files(name)
        for file, path in first.files(name).items():
            assert path.read_bytes() == again[file].read_bytes(), file


def in_tree(name: str, code: str, requires: str = '"flit-core"', **project: str) -> dict[str, str]:
    return {
        **package(
            name,
            requires,
            "backend",
            'backend-path = ["."]\n[tool.flit.sdist]\ninclude = ["backend.py"]',
            **project,
        ),
        f"{name}/backend.py": f"from flit_core.buildapi import *\n{code}",
    }


def test_a_build_sees_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("UV_PUBLISH_TOKEN", "NPM_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "TWINE_PASSWORD")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    code = "import os, subprocess\nprint(dict(os.environ))\nsubprocess.run(['env'])\n"
    code += "print(open(f'/proc/{os.getppid()}/environ').read())\n"
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("curious", code)))
    outcome = build(root, tmp_path / "scratch")
    assert len(outcome.files("pypi:curious")) == 2
    log = outcome.log("pypi:curious")
    assert "SOURCE_DATE_EPOCH" in log
    assert "hunter2" not in log


def test_two_packages_that_patch_the_same_module_do_not_see_each_other(tmp_path: Path) -> None:
    setup = (
        "import textwrap\nfrom setuptools import setup\n"
        "assert not hasattr(textwrap, 'patched'), textwrap.patched\n"
        "textwrap.patched = __file__\nsetup()\n"
    )
    packages = []
    for number in range(4):
        name = f"patching-{number}"
        files = package(name, '"setuptools"', "setuptools.build_meta")
        packages.append({**files, f"{name}/setup.py": setup})
    root = write_tree(tmp_path / "repo", workspace_of(*packages))
    outcome = build(root, tmp_path / "scratch", width=1)
    for number in range(4):
        assert len(outcome.files(f"pypi:patching-{number}")) == 2


def test_a_build_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "def build_sdist(*_):\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    print('child', child.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("hanging", code)))
    outcome = build(root, tmp_path / "scratch", timeout=3)
    error = outcome.ended["pypi:hanging"].error
    assert error is not None
    assert "did not end in time" in error
    [pid] = re.findall(r"child (\d+)", outcome.log("pypi:hanging"))
    assert has_ended(int(pid))


def test_a_gigabyte_of_output_fills_neither_memory_nor_disk(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "def build_sdist(*arguments):\n"
        "    for _ in range(1000):\n"
        "        sys.stdout.write('x' * 999_999 + '\\n')\n"
        "    print('the last word', flush=True)\n"
        "    raise SystemExit(3)\n"
    )
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("noisy", code)))
    outcome = build(root, tmp_path / "scratch")
    error = outcome.ended["pypi:noisy"].error
    assert error is not None
    assert "exit code" in error
    assert "the last word" in error
    assert len(error) < 10_000
    log = tmp_path / "scratch/pypi-noisy.log"
    assert log.stat().st_size < 20 << 20
    assert "bytes were left out here" in log.read_text()


def test_a_daemon_does_not_outlive_the_builds(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "def build_sdist(*arguments):\n"
        "    from flit_core import buildapi\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            print('daemon', os.getpid(), flush=True)\n"
        "            time.sleep(600)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    time.sleep(0.2)\n"
        "    return buildapi.build_sdist(*arguments)\n"
    )
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("haunted", code)))
    outcome = build(root, tmp_path / "scratch")
    assert len(outcome.files("pypi:haunted")) == 2
    [pid] = re.findall(r"daemon (\d+)", outcome.log("pypi:haunted"))
    assert has_ended(int(pid))


def test_a_crash_takes_one_build_and_the_first_failure_stops_new_ones(tmp_path: Path) -> None:
    crash = "import os\ndef build_wheel(*_):\n    os.kill(os.getpid(), 11)\n"
    others = [in_tree(f"later-{number}", "") for number in range(3)]
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("a-crash", crash), *others))
    outcome = build(root, tmp_path / "scratch", width=1)
    assert list(outcome.ended) == ["pypi:a-crash"]
    built = outcome.ended["pypi:a-crash"]
    assert "signal 11" in (built.error or "")
    assert "pypi-a-crash.log" in (built.hint or "")
    assert outcome.started == ["pypi:a-crash"]


def test_what_the_backend_asks_for_is_there_when_it_builds(tmp_path: Path) -> None:
    code = (
        "def get_requires_for_build_wheel(*_):\n    return ['pdm-backend']\n"
        "def build_wheel(*arguments):\n"
        "    import pdm.backend\n"
        "    from flit_core import buildapi\n"
        "    return buildapi.build_wheel(*arguments)\n"
    )
    root = write_tree(tmp_path / "repo", workspace_of(in_tree("asking", code)))
    outcome = build(root, tmp_path / "scratch")
    assert len(outcome.files("pypi:asking")) == 2
    assert outcome.ended["pypi:asking"].notes == ()


def sibling_backend(code: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """A package, and another that needs the first one to be built."""
    backend = package("z-backend", '"flit-core"', "flit_core.buildapi",
                      dependencies='["flit-core"]')  # fmt: skip
    backend["z-backend/src/z_backend/__init__.py"] = f"from flit_core.buildapi import *\n{code}"
    return backend, package("a-user", '"z-backend==1.2.3"', "z_backend")


def test_a_sibling_that_others_are_built_with_is_built_first_and_offered(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "repo", workspace_of(*sibling_backend()))
    outcome = build(root, tmp_path / "scratch")
    assert outcome.started == ["pypi:z-backend", "pypi:a-user"]
    assert len(outcome.files("pypi:a-user")) == 2
    assert outcome.ended["pypi:a-user"].notes == ()


def test_a_backend_that_cannot_be_forked_is_built_by_uv_and_said(tmp_path: Path) -> None:
    threads = "import threading, time\n"
    threads += "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    root = write_tree(tmp_path / "repo", workspace_of(*sibling_backend(threads)))
    outcome = build(root, tmp_path / "scratch")
    assert len(outcome.files("pypi:a-user")) == 2
    [note] = outcome.ended["pypi:a-user"].notes
    assert "uv build" in note
    assert "threads" in note


def test_settings_that_only_uv_knows_are_left_to_uv(tmp_path: Path) -> None:
    files = workspace_of(package("special", '"flit-core"', "flit_core.buildapi"))
    files["pyproject.toml"] += '[tool.uv]\nconfig-settings = { key = "value" }\n'
    outcome = build(write_tree(tmp_path / "repo", files), tmp_path / "scratch")
    assert len(outcome.files("pypi:special")) == 2
    [note] = outcome.ended["pypi:special"].notes
    assert "config-settings" in note


def test_a_whole_workspace_of_uv_build_goes_through_one_uv(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    root = write_tree(
        tmp_path / "repo",
        workspace_of(*(package(f"uv-{name}", '"uv_build"', "uv_build") for name in names)),
    )
    whole = build(root, tmp_path / "whole")
    assert (tmp_path / "whole/python/all-packages.log").exists()
    assert "uv-one" in whole.log("pypi:uv-one")
    assert "[uv-two]" not in whole.log("pypi:uv-one")
    part = build(root, tmp_path / "part", only=("pypi:uv-one", "pypi:uv-two"))
    assert not (tmp_path / "part/python/all-packages.log").exists()
    for name in ("pypi:uv-one", "pypi:uv-two"):
        for file, path in part.files(name).items():
            assert path.read_bytes() == whole.files(name)[file].read_bytes()


def test_one_failure_in_a_whole_workspace_is_told_of_its_package(tmp_path: Path) -> None:
    broken = package("uv-broken", '"uv_build"', "uv_build")
    del broken["uv-broken/src/uv_broken/__init__.py"]
    good = package("uv-good", '"uv_build"', "uv_build")
    root = write_tree(tmp_path / "repo", workspace_of(broken, good))
    outcome = build(root, tmp_path / "scratch")
    assert "uv_broken" in (outcome.ended["pypi:uv-broken"].error or "")


@pytest.mark.parametrize(
    ("requires", "backend", "settings"),
    [
        ('"hatchling", "hatch-vcs"', "hatchling.build", '[tool.hatch.version]\nsource = "vcs"\n'),
        ('"setuptools", "setuptools-scm"', "setuptools.build_meta", "[tool.setuptools_scm]\n"),
        ('"pdm-backend"', "pdm.backend", '[tool.pdm.version]\nsource = "scm"\n'),
    ],
)
def test_a_version_from_git_comes_out_as_planned_from_a_changed_tree(
    tmp_path: Path, requires: str, backend: str, settings: str
) -> None:
    files = package("from-git", requires, backend, settings, dynamic='["version"]')
    root = write_tree(tmp_path / "repo", {
        name.partition("/")[2]: text for name, text in files.items()
    })  # fmt: skip
    for command in (
        ["init", "--quiet"], ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "x"],
        ["tag", "v1.4.0"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=root, check=True)
    with (root / "pyproject.toml").open("a") as changed:
        changed.write("# pinned\n")
    outcome = build(root, tmp_path / "scratch", versions={"pypi:from-git": "1.4.0"})
    assert set(outcome.files("pypi:from-git")) == {
        "from_git-1.4.0.tar.gz", "from_git-1.4.0-py3-none-any.whl",
    }  # fmt: skip


def test_offline_with_a_warm_cache_works_without_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the fence nothing answers; uv tries, then its cache is asked."""
    monkeypatch.delenv("UV_OFFLINE")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    files = workspace_of(package("lonely", '"flit-core"', "flit_core.buildapi"))
    outcome = build(write_tree(tmp_path / "repo", files), tmp_path / "scratch",
                    environ={"UV_HTTP_RETRIES": "0"})  # fmt: skip
    assert len(outcome.files("pypi:lonely")) == 2


def test_many_builds_take_turns_in_one_server(tmp_path: Path) -> None:
    code = "import os\nprint('parent', os.getppid())\n"
    packages = [in_tree(f"turn-{number}", code) for number in range(6)]
    root = write_tree(tmp_path / "repo", workspace_of(*packages))
    start = time.monotonic()
    outcome = build(root, tmp_path / "scratch")
    assert time.monotonic() - start < 60
    parents = {
        parent
        for number in range(6)
        for parent in re.findall(r"parent (\d+)", outcome.log(f"pypi:turn-{number}"))
    }
    assert len(parents) == 1
