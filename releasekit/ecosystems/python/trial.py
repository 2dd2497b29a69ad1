"""Each package in a virtual environment of its own: what it does not declare is not there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import TYPE_CHECKING, Any

from releasekit import manifest, process
from releasekit.ecosystems import Trial, Verdict
from releasekit.ecosystems.python import probe
from releasekit.ecosystems.python.build import find_uv
from releasekit.errors import ChildFailed, ChildTimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from releasekit.ecosystems import TrialRequest
    from releasekit.model import Package, Workspace

_LAST_LINES = 8
_EMBEDDED = "releasekit-rehearsal"
# Where uv reads from, and as whom: a user's own settings for installing, no one's for publishing.
_READING = re.compile(
    r"UV_(INDEX.*|DEFAULT_INDEX|EXTRA_INDEX_URL|KEYRING_PROVIDER|CONFIG_FILE|NATIVE_TLS|SYSTEM_CERTS)"
)
_NOT_FOUND = re.compile(
    r"not found in the (package registry|cache)|no versions? of|no versions? (is|are) available"
    r"|only .* (is|are) available|(was|were) found in the cache"
)


async def try_out(request: TrialRequest) -> None:
    uv = find_uv()
    environ = _environment(request)
    async with asyncio.TaskGroup() as group:
        for number, package in enumerate(request.packages):
            folder = request.scratch / str(number)
            group.create_task(_in_turn(request, package, folder, uv, environ))


async def _in_turn(
    request: TrialRequest, package: Package, folder: Path, uv: str, environ: Mapping[str, str]
) -> None:
    async with request.slots.taken() as free:
        if free:
            started = time.monotonic()
            folder.mkdir(parents=True)  # noqa: ASYNC240 - one folder
            verdict, words = await _tried(request, package, folder, uv, environ)
            seconds = time.monotonic() - started
            request.finished(
                Trial(package=package.id, verdict=verdict, words=words, seconds=seconds)
            )


async def _tried(
    request: TrialRequest, package: Package, folder: Path, uv: str, environ: Mapping[str, str]
) -> tuple[Verdict, str]:
    log, answer = folder / "log", folder / "answer.json"
    venv = folder / "venv"
    python = venv / "bin" / "python"
    own = [one.name for one in request.workspace.packages if one.ecosystem == package.ecosystem]
    try:
        interpreter = await asyncio.to_thread(_interpreter, uv, request.workspace, package, environ)
        for argv in (
            [uv, "venv", "--quiet", "--no-project", "--python", interpreter, str(venv)],
            # The first index that knows a name is the only one asked for it. Refreshed: an earlier
            # rehearsal may have had this port.
            [uv, "pip", "install", "--python", str(python), "--index-strategy", "first-index",
             "--no-sources", "--no-progress", "--color", "never",
             *(f"--refresh-package={name}" for name in own),
             f"{package.name}=={package.version}"],
        ):  # fmt: skip
            await process.run(argv, cwd=folder, env=environ, log=log, timeout=request.timeout)
    except (ChildFailed, ChildTimedOut) as error:
        words = process.read_tail(log) if log.exists() else error.message
        missing = _NOT_FOUND.search(" ".join(words.split()))
        return (Verdict.MISSING_DEPENDENCY if missing else Verdict.NOT_INSTALLED), _last(words)
    runs = process.build_environment(request.environ, VIRTUAL_ENV=str(venv))
    # Isolated: what lies beside the probe must not be found.
    argv = [str(python), "-I", probe.__file__, package.name, str(answer)]
    try:
        await process.run(argv, cwd=folder, env=runs, log=log, timeout=request.timeout)
        told = json.loads(answer.read_bytes())
    except (ChildFailed, ChildTimedOut) as error:
        return Verdict.NOT_LOADED, _last(f"{process.read_tail(log)}\n{error.message}")
    except FileNotFoundError:
        return Verdict.NOT_LOADED, "it ended Python before it was imported"
    return judged(told, package.name)


def judged(told: Mapping[str, Any], name: str) -> tuple[Verdict, str]:
    """What the probe's answer means."""
    if "failed" not in told:
        return Verdict.OK, ", ".join(told["loaded"]) or f"{name} holds nothing to import"
    words = f"{told['failed']}:\n{_last(told['words'])}"
    missing = told["missing"]
    if not missing:
        return Verdict.NOT_LOADED, words
    wanted = re.split(r"[ :(.]", told["failed"].removeprefix("import "))[0]
    own = {wanted, *(one.removeprefix("import ").partition(".")[0] for one in told["loaded"])}
    lacks = missing.partition(".")[0] in own
    return (Verdict.LACKS_MODULE if lacks else Verdict.MISSING_DEPENDENCY), words


def _interpreter(
    uv: str, workspace: Workspace, package: Package, environ: Mapping[str, str]
) -> str:
    """The one that its workspace would use."""
    argv = [uv, "python", "find", "--system"]
    if given := environ.get("UV_PYTHON"):
        argv.append(given)
    return process.output(argv, cwd=workspace.root / package.path, env=environ).strip()


def _environment(request: TrialRequest) -> dict[str, str]:
    environ = process.build_environment(request.environ)
    environ |= {
        name: value for name, value in request.environ.items() if _READING.fullmatch(name) and value
    }
    named, default = [], None
    for index in _configured(request.workspace):
        address = f"{index['name']}={index['url']}" if "name" in index else index["url"]
        if index.get("default"):
            default = default or address
        elif not index.get("explicit"):
            named.append(address)
    first = f"{_EMBEDDED}={request.registry.index_url}"
    environ["UV_INDEX"] = " ".join([first, *environ.get("UV_INDEX", "").split(), *named])
    if default and not environ.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        environ["UV_DEFAULT_INDEX"] = default
    environ.pop("UV_INDEX_STRATEGY", None)
    return environ


def _configured(workspace: Workspace) -> Iterator[Mapping[str, Any]]:
    """The indexes that the workspace itself names."""
    roots = (member.root for member in workspace.members if member.ecosystem == "python")
    for root in dict.fromkeys((".", *roots)):
        own = manifest.read_toml(workspace.root / root / "uv.toml")
        file = workspace.root / root / "pyproject.toml"
        document = manifest.read_toml(file)
        if own is None:
            own = manifest.table(file, document, "tool", "uv") if document else {}
        for index in own.get("index", []):
            if isinstance(index, dict) and isinstance(index.get("url"), str):
                yield index


def _last(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-_LAST_LINES:])
