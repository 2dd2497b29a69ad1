"""A rehearsal: the same publish, nothing in public, and every package installed and loaded."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from releasekit import embedded
from tests.building import write_tree
from tests.sample import write_sample
from tests.test_build_node import manifest, tool, workspace_of  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result


def project(name: str, *, needs: tuple[str, ...] = (), more: str = "") -> str:
    return f"""\
[project]
name = "{name}"
version = "1.0.0"
description = "One of a test."
readme = "README.md"
requires-python = ">=3.11"
dependencies = {json.dumps(list(needs))}
{more}
[build-system]
requires = ["uv_build"]
build-backend = "uv_build"
"""


def python_package(name: str, code: str, **settings: Any) -> dict[str, str]:  # noqa: ANN401
    module = name.replace("-", "_")
    return {
        f"python/{name}/pyproject.toml": project(name, **settings),
        f"python/{name}/README.md": f"# {name}\n",
        f"python/{name}/src/{module}/__init__.py": code,
    }


def node_package(name: str, code: str, **fields: Any) -> dict[str, str]:  # noqa: ANN401
    folder = f"node/{name.rpartition('/')[2]}"
    return {
        f"{folder}/package.json": manifest(name, **fields),
        f"{folder}/README.md": f"# {name}\n",
        f"{folder}/index.js": code,
    }


ROOTS = {
    "pyproject.toml": '[tool.uv.workspace]\nmembers = ["python/*"]\n',
    "package.json": json.dumps({"name": "root", "private": True, "workspaces": ["node/*"]}),
}


def commit(root: Path) -> Path:
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "feat: all"),
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def verdicts(result: Result) -> dict[str, tuple[str, str]]:
    return {
        event["package"]: (event["verdict"], event["words"])
        for event in result.events()
        if event["event"] == "verdict"
    }


def test_each_fault_of_a_package_gets_its_verdict_and_nothing_is_left(
    releasekit: ReleaseKit, tmp_path: Path, npm_modules: Path, pypi: RegistrySettings
) -> None:
    assert npm_modules.is_dir()
    excluded = '[tool.uv.build-backend]\nwheel-exclude = ["**/hidden.py"]\n'
    script = '[project.scripts]\nacme-run = "acme_script:gone"\n'
    root = write_tree(
        tmp_path / "repo",
        {
            **ROOTS,
            **python_package("acme-fine", "import acme_base\n", needs=("acme-base",),
                             more="[tool.uv.sources]\nacme-base = { workspace = true }\n"),
            **python_package("acme-base", "x = 1\n"),
            **python_package("acme-broken", "raise RuntimeError('no such moon')\n"),
            **python_package("acme-undeclared", "import wonderful_library\n"),
            **python_package("acme-needs", "", needs=("no-such-thing-anywhere>=1",)),
            **python_package("acme-partial", "import acme_partial.hidden\n", more=excluded),
            "python/acme-partial/src/acme_partial/hidden.py": "y = 1\n",
            **python_package("acme-script", "", more=script),
            **node_package("@acme/fine", "module.exports = require('@acme/base')\n",
                           dependencies={"@acme/base": "^1.0.0"}),
            **node_package("@acme/base", "module.exports = 1\n", bin={"base": "index.js"}),
            **node_package("@acme/broken", "throw new Error('no such moon')\n"),
            **node_package("@acme/undeclared", "require('wonderful-library')\n"),
            **node_package("@acme/partial", "require('./hidden.js')\n", files=["index.js"]),
            "node/partial/hidden.js": "1\n",
            **node_package("@acme/split", "", main=None, exports={
                ".": {"import": "./index.mjs", "require": "./index.cjs"}}),
            "node/split/index.mjs": "export default 1\n",
            "node/split/index.cjs": "module.exports = undefined_name\n",
        },
    )  # fmt: skip
    commit(root)
    (tmp_path / "tmp").mkdir()
    result = releasekit(
        "rehearse", "--output", "json", cwd=root,
        env={"TMPDIR": str(tmp_path / "tmp"), "UV_DEFAULT_INDEX": str(pypi.index_url)},
    )  # fmt: skip
    assert result.code == 1, result.err
    found = verdicts(result)
    assert {package: verdict for package, (verdict, _) in found.items()} == {
        "pypi:acme-base": "ok",
        "pypi:acme-fine": "ok",
        "pypi:acme-broken": "installs but does not load",
        "pypi:acme-undeclared": "missing dependency",
        "pypi:acme-needs": "missing dependency",
        "pypi:acme-partial": "lacks a module",
        "pypi:acme-script": "installs but does not load",
        "npm:@acme/base": "ok",
        "npm:@acme/fine": "ok",
        "npm:@acme/broken": "installs but does not load",
        "npm:@acme/undeclared": "missing dependency",
        "npm:@acme/partial": "lacks a module",
        "npm:@acme/split": "installs but does not load",
    }, found
    assert "no such moon" in found["pypi:acme-broken"][1]
    assert "no such moon" in found["npm:@acme/broken"][1]
    assert "wonderful_library" in found["pypi:acme-undeclared"][1]
    assert "no-such-thing-anywhere" in found["pypi:acme-needs"][1]
    assert "acme-run" in found["pypi:acme-script"][1]
    assert "require @acme/split" in found["npm:@acme/split"][1]
    assert result.events()[-1]["ok"] is False
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (root / ".git/releasekit/runs").exists()
    status = subprocess.run(["git", "status", "--short"], cwd=root, capture_output=True, check=True)
    assert status.stdout == b""


@contextlib.contextmanager
def trap() -> Iterator[tuple[str, list[str]]]:
    """A registry that nobody may ask anything."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_error(500)

        do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        server.shutdown()
        server.server_close()


def test_no_configured_registry_is_asked_for_the_workspace_or_sent_anything(
    releasekit: ReleaseKit, tmp_path: Path, npm_modules: Path
) -> None:
    assert npm_modules.is_dir()
    with trap() as (address, asked):
        root = write_tree(
            tmp_path / "repo",
            {
                **ROOTS,
                "pyproject.toml": ROOTS["pyproject.toml"]
                + f'[[tool.uv.index]]\nname = "named"\nurl = "{address}simple/"\n'
                + f'publish-url = "{address}"\n',
                "releasekit.toml": f"""\
[registries.pypi]
upload-url = "{address}"
index-url = "{address}simple/"
[registries.npm]
url = "{address}"
[registries.internal]
url = "{address}"
[packages."acme-named"]
registry = "named"
[packages."acme-plain"]
registry = "internal"
""",
                ".npmrc": f"@acme:registry={address}\nregistry={address}\n",
                **python_package("acme-text", ""),
                **python_package("acme-named", ""),
                **node_package("@acme/scoped", ""),
                **node_package("acme-plain", "", publishConfig={"registry": address}),
            },
        )
        result = releasekit(
            "rehearse", "--output", "json", cwd=commit(root),
            env={"UV_PUBLISH_URL": address, "UV_PUBLISH_TOKEN": "pypi-secret",
                 "NPM_TOKEN": "npm-secret", "TWINE_REPOSITORY_URL": address,
                 "npm_config_registry": address, "UV_DEFAULT_INDEX": f"{address}simple/"},
        )  # fmt: skip
        assert result.code == 0, result.out + result.err
        assert set(verdicts(result).values()) >= {("ok", "import acme_text")}
        assert asked == []
    told = "\n".join(result.events()[-1]["differences"])
    assert "4 packages" not in told
    assert address in told
    assert "UV_PUBLISH_TOKEN" in told
    assert "pypi-secret" not in result.out + result.err


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{module}/__init__.py", code)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{info}/RECORD", f"{module}/__init__.py,,\n{info}/METADATA,,\n{info}/RECORD,,\n"
        )


def put_tarball(registry: str, name: str, version: str, code: str) -> None:
    body = {"name": name, "version": version, "main": "index.js"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file, text in (("package.json", json.dumps(body)), ("index.js", code)):
            entry = tarfile.TarInfo(f"package/{file}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    content = packed.getvalue()
    file = f"{name}-{version}.tgz"
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    dist = {"integrity": f"sha512-{digest}", "tarball": f"{registry}{name}/-/{file}"}
    data = base64.b64encode(content).decode()
    document = {
        "_id": name,
        "name": name,
        "dist-tags": {"latest": version},
        "versions": {version: {**body, "dist": dist}},
        "_attachments": {file: {"content_type": "x", "data": data, "length": len(content)}},
    }
    answer = httpx.put(f"{registry}{name.replace('/', '%2f')}", json=document)
    assert answer.status_code == 201, answer.text


def test_the_workspaces_names_come_from_the_rehearsal_alone_and_others_from_upstream(
    releasekit: ReleaseKit, tmp_path: Path, npm_modules: Path
) -> None:
    evil = "raise SystemExit('somebody else has published under this name')\n"
    files = tmp_path / "up-pypi/packages"
    files.mkdir(parents=True)
    wheel(files, "third-party", "2.0.0", "ok = 1\n")
    for name in ("acme-text", "acme-private"):
        wheel(files, name, "99.0.0", evil)
    with (
        embedded.pypi_registry(tmp_path / "up-pypi") as pypi,
        embedded.npm_registry(tmp_path / "up-npm", modules=npm_modules) as npm,
    ):
        url = str(npm.url)
        put_tarball(url, "third-party", "2.0.0", "module.exports = 1\n")
        for name in ("acme-text", "acme-private"):
            put_tarball(url, name, "99.0.0", "throw new Error('somebody else')\n")
        root = write_tree(
            tmp_path / "repo",
            {
                **ROOTS,
                **python_package("acme-text", "import third_party\n", needs=("third-party",)),
                **python_package("acme-loose", "", needs=("acme-text>=1",)),
                **python_package("acme-private", "",
                                 more='classifiers = ["Private :: Do Not Upload"]\n'),
                **node_package("acme-text", "require('third-party')\n",
                               dependencies={"third-party": "^2.0.0"}),
                **node_package("acme-loose", "require('acme-text')\n",
                               dependencies={"acme-text": ">=1.0.0"}),
                **node_package("acme-private", "", private=True),
            },
        )  # fmt: skip
        commit(root)
        result = releasekit(
            "rehearse", "--output", "json", cwd=root,
            env={"UV_DEFAULT_INDEX": str(pypi.index_url), "npm_config_registry": url,
                 "UV_INDEX_STRATEGY": "unsafe-best-match"},
        )  # fmt: skip
    assert {package: verdict for package, (verdict, _) in verdicts(result).items()} == {
        "pypi:acme-text": "ok",
        "pypi:acme-loose": "ok",
        "npm:acme-text": "ok",
        "npm:acme-loose": "ok",
    }, result.out + result.err


@pytest.mark.parametrize("tool", ["pnpm12", "yarn1"], indirect=True)
def test_workspaces_of_other_node_tools_are_rehearsed_too(
    releasekit: ReleaseKit,
    tool: str,  # noqa: F811
    tmp_path: Path,
    npm_modules: Path,
) -> None:
    assert npm_modules.is_dir()
    sibling = {"@acme/base": "workspace:^" if tool == "pnpm12" else "^1.0.0"}
    root = write_tree(
        tmp_path / "repo",
        workspace_of(
            tool,
            {
                "app": {
                    "package.json": manifest("@acme/app", dependencies=sibling),
                    "README.md": "# app\n",
                    "index.js": "require('@acme/base')\n",
                },
                "base": {
                    "package.json": manifest("@acme/base", type="module"),
                    "README.md": "# base\n",
                    "index.js": "export const one = 1\n",
                },
            },
        ),
    )
    result = releasekit("rehearse", "--package", "@acme/app", "--output", "json", cwd=commit(root))
    assert result.code == 0, result.out + result.err
    found = {package: verdict for package, (verdict, _) in verdicts(result).items()}
    assert found == {"npm:@acme/app": "ok", "npm:@acme/base": "ok"}


def bin_without_node(folder: Path) -> dict[str, str]:
    folder.mkdir()
    for name in ("uv", "git", "python3"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return {"PATH": str(folder)}


def test_without_node_the_python_part_goes_on_and_the_rest_is_not_fine(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo")
    # Excluding a package leaves out what needs it.
    arguments = ("rehearse", "--exclude", "acme-models", "--output", "json")
    env = bin_without_node(tmp_path / "bin")
    result = releasekit(*arguments, cwd=tmp_path / "repo", env=env)
    assert result.code == 1
    assert "2 npm packages are left out: `node` is not on this machine" in result.err
    assert {package: verdict for package, (verdict, _) in verdicts(result).items()} == {
        "pypi:acme-text": "ok",
        "npm:@acme/cli": "not published",
        "npm:@acme/parser": "not published",
    }


def test_without_node_there_is_nothing_to_rehearse_of_a_node_workspace(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", python={})
    env = bin_without_node(tmp_path / "bin")
    result = releasekit("rehearse", cwd=tmp_path / "repo", env=env)
    assert result.code == 1
    assert "install Node.js and npm" in result.err


def start_kept(root: Path, tmp: Path) -> tuple[subprocess.Popen[str], str]:
    """A rehearsal that has come to `--keep`, and the address of its index."""
    tmp.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "releasekit", "rehearse", "--keep"],
        cwd=root,
        env=os.environ | {"TMPDIR": str(tmp)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = ""
    for line in child.stderr or ():
        if line.startswith("pypi: "):
            address = line.removeprefix("pypi: ").strip()
        if "until Ctrl-C" in line:
            return child, address
    pytest.fail("it ended before it kept anything")


def gone(address: str) -> bool:
    try:
        httpx.get(address)
    except httpx.ConnectError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_kept_registries_serve_until_the_end_and_leave_nothing_however_it_comes(
    tmp_path: Path, number: signal.Signals
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    child, address = start_kept(tmp_path / "repo", tmp_path / "tmp")
    with child:
        assert "acme_text-1.0.0-py3-none-any.whl" in httpx.get(f"{address}acme-text/").text
        child.send_signal(number)
        code = child.wait(timeout=30)
    assert code == (0 if number is signal.SIGINT else -9)
    deadline = time.monotonic() + 30
    while not gone(address) or list((tmp_path / "tmp").iterdir()):
        assert time.monotonic() < deadline, list((tmp_path / "tmp").iterdir())
        time.sleep(0.05)
    if number is signal.SIGKILL:
        # What was left in the repository is a free lock, and no run that another could take up.
        assert not (tmp_path / "repo/.releasekit/runs").exists()


def test_a_folder_is_swept_also_when_we_were_killed_at_once_and_when_it_comes_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "throwaway"
    folder.mkdir()
    ours, theirs = os.pipe()
    os.close(ours)  # nobody reads what it prints
    program = Path(embedded.__file__).parent / "sweeper.py"
    with subprocess.Popen(
        [sys.executable, "-I", program, folder], stdin=subprocess.DEVNULL, stdout=theirs
    ) as sweeper:
        os.close(theirs)
        try:
            for _ in range(2):
                deadline = time.monotonic() + 30
                while folder.exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                folder.mkdir()  # as a registry does that was just starting
        finally:
            sweeper.kill()
