"""Calls PEP 517 hooks, each in a freshly forked child of one warm process.

Runs inside an isolated build environment, on whatever Python the project builds with: stdlib
alone, and nothing newer than 3.8. Imports and one build of a package of our own happen before the
first fork (a server that has only imported its backend spends most of each build on imports that
backends do late); the project's code runs in children alone, so nothing of one package is seen by
the next.

    build_server.py KEEPER PARENT BACKEND   (an empty BACKEND: import nothing beforehand)

A request is one JSON line, and so is its answer:
    {"id": 1, "target": "sdist", "ask": true, "out": "/out", "backend": "hatchling.build",
     "backend_path": [], "source": "/tree", "unpack": null, "unpack_to": "/scratch/1/unpacked",
     "result": "/scratch/1/result.json", "log": "/logs/x.log", "timeout": 600, "env": {}}
    {"id": 1, "value": {"needs": [], "file": "x-1.tar.gz", "wheel": {…}}, "error": null}
A request with `argv` runs that program instead, and its value is null.
With `ask`, the backend is asked first what it needs beyond the environment. A `file` of null means
that it was not built yet, be it that it needs more or that its hooks want a process each. Where
they share one, the wheel follows from the sdist unpacked to `unpack_to`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from releasekit.keeper import Ended, Keeper

# Backends whose hooks for one package can share a child: they keep nothing from one to the next.
_SHARED_CHILD = {"flit_core.buildapi", "hatchling.build", "pdm.backend", "poetry.core.masonry.api"}
# Backends that are known to build a package of ours without leaving anything behind in the
# process but what they would import anyway.
_WARMED = {*_SHARED_CHILD, "setuptools.build_meta", "setuptools.build_meta:__legacy__"}
_SAMPLE = """\
[project]
name = "releasekit-warm-up"
version = "1.0"
description = "Built once so that the next build is quick."
readme = "README.md"
requires-python = ">=3.8"
dependencies = ["packaging>=20; python_version > '3'"]

[project.optional-dependencies]
more = ["packaging"]
"""


def load_backend(name: str) -> Any:  # noqa: ANN401 - a module or an object in one
    module, _, attribute = name.partition(":")
    backend: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        backend = getattr(backend, part)
    return backend


def warm_up(name: str) -> None:
    """Import the backend, and build a small package with it where that is known to be clean."""
    backend = load_backend(name)
    if name not in _WARMED:
        return
    here = os.getcwd()
    folder = tempfile.mkdtemp(prefix="releasekit-warm-up-")
    try:
        os.makedirs(os.path.join(folder, "src", "releasekit_warm_up"))
        for path, text in (
            ("pyproject.toml", _SAMPLE),
            ("README.md", "# Warm-up\n"),
            ("src/releasekit_warm_up/__init__.py", ""),
        ):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        os.chdir(folder)
        _build_sample(backend, folder)
    except Exception as error:  # noqa: BLE001 - an old backend does not know [project]
        sys.stderr.write(f"not warm: {type(error).__name__}: {error}\n")
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)


def _build_sample(backend: Any, folder: str) -> None:  # noqa: ANN401
    out = os.path.join(folder, "out")
    os.mkdir(out)
    for target in ("sdist", "wheel"):
        requires = getattr(backend, "get_requires_for_build_" + target, None)
        if requires is not None:
            requires()
        getattr(backend, "build_" + target)(out)


def call_hook(request: dict[str, Any]) -> None:
    """In the child: the hooks of one build of one package."""
    os.environ.update(request["env"])
    if "argv" in request:
        os.chdir(request["source"])
        os.execvp(request["argv"][0], request["argv"])  # noqa: S606 - no shell
    sys.argv = ["-c"]
    value = build_target(request)
    if value["file"] and request["unpack_to"] and request["backend"] in _SHARED_CHILD:
        following = {
            "target": "wheel",
            "source": request["unpack_to"],
            "unpack": os.path.join(request["out"], value["file"]),
        }
        value["wheel"] = build_target({**request, **following})
    with open(request["result"], "w", encoding="utf-8") as file:
        json.dump(value, file)


def build_target(request: dict[str, Any]) -> dict[str, Any]:
    source = request["source"]
    if request["unpack"]:
        source = unpack(request["unpack"], source)
    os.chdir(source)
    for entry in reversed(request["backend_path"]):
        sys.path.insert(0, os.path.join(source, entry))
    backend = load_backend(request["backend"])
    if request["backend_path"]:
        _require_in_tree(request, source)
    value: dict[str, Any] = {"needs": [], "file": None}
    if request["ask"]:
        # PEP 517: a backend without the hook needs nothing more.
        hook = getattr(backend, "get_requires_for_build_" + request["target"], None)
        value["needs"] = list(hook()) if hook else []
    if not value["needs"] and (not request["ask"] or request["backend"] in _SHARED_CHILD):
        value["file"] = getattr(backend, "build_" + request["target"])(request["out"])
    return value


def _require_in_tree(request: dict[str, Any], source: str) -> None:
    # https://peps.python.org/pep-0517/#in-tree-build-backends
    module = sys.modules[request["backend"].partition(":")[0]]
    file = os.path.realpath(getattr(module, "__file__", None) or "")
    folders = [os.path.realpath(os.path.join(source, entry)) for entry in request["backend_path"]]
    if not any(file.startswith(folder + os.sep) for folder in folders):
        raise SystemExit(f"the backend was not loaded from `backend-path`, but from {file}")


def unpack(sdist: str, target: str) -> str:
    """The one folder that an sdist holds, below `target`; unpacked by the first who asks."""
    if not os.path.isdir(target):
        with tarfile.open(sdist) as archive:
            if not hasattr(tarfile, "data_filter"):
                raise SystemExit("this Python cannot unpack archives safely; update it")
            archive.extractall(target, filter="data")
    folders = os.listdir(target)
    if len(folders) != 1:
        raise SystemExit(f"{sdist} must hold one folder, not {sorted(folders)}")
    return os.path.join(target, folders[0])


class Server:
    def __init__(self, keeper: Keeper, answers: int) -> None:
        self._keeper = keeper
        self._answers = answers
        self._requests: dict[str, dict[str, Any]] = {}

    def answer(self, body: dict[str, Any]) -> None:
        data = (json.dumps(body) + "\n").encode()
        while data:
            data = data[os.write(self._answers, data) :]

    def serve(self, requests: int) -> None:
        os.set_blocking(requests, False)
        self._keeper.listen(requests)
        received, is_open = b"", True
        while is_open and not self._keeper.asked_to_end:
            for ended in self._keeper.step():
                self._tell(ended)
            while True:
                try:
                    data = os.read(requests, 1 << 16)
                except BlockingIOError:
                    break
                if not data:  # nobody is left to be told
                    is_open = False
                    break
                received += data
            *lines, received = received.split(b"\n")
            for line in lines:
                self._start(json.loads(line))

    def _start(self, request: dict[str, Any]) -> None:
        name = str(request["id"])
        self._requests[name] = request
        self._keeper.start(name, lambda: call_hook(request), request["log"], request["timeout"])

    def _tell(self, ended: Ended) -> None:
        request = self._requests.pop(ended.name)
        body = {"id": request["id"], "value": None, "error": _failure(ended)}
        if body["error"] is None and "argv" not in request:
            try:
                with open(request["result"], encoding="utf-8") as file:
                    body["value"] = json.load(file)
            except (OSError, ValueError) as error:
                body["error"] = f"it ended without an answer ({error})"
        self.answer(body)


def _failure(ended: Ended) -> str | None:
    if ended.timed_out:
        return "it did not end in time and was stopped"
    if os.WIFSIGNALED(ended.status):
        return f"it was ended by signal {os.WTERMSIG(ended.status)}"
    code = os.WEXITSTATUS(ended.status)
    return f"it ended with exit code {code}" if code else None


def main(arguments: list[str]) -> None:
    file, parent, backend = arguments
    spec = importlib.util.spec_from_file_location("_releasekit_keeper", file)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a .py file
    module = importlib.util.module_from_spec(spec)
    # Only now, so that no name of ours hides a module of the environment.
    spec.loader.exec_module(module)
    kept: Keeper = module.Keeper(int(parent))
    # What a backend prints while it is imported must not look like an answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    problem = None
    try:
        if backend:
            warm_up(backend)
    except BaseException as error:  # noqa: BLE001 - told to whoever asked for this backend
        problem = f"{type(error).__name__}: {error}"
    if threading.active_count() > 1:
        problem = "its backend starts threads, which do not survive a fork"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != kept.on_end:
            problem = "its backend changes signal handlers"
    gc.collect()
    gc.freeze()
    server = Server(kept, answers)
    server.answer({"id": 0, "problem": problem})
    try:
        server.serve(0)
    finally:
        kept.end_all()


if __name__ == "__main__":
    main(sys.argv[1:])
