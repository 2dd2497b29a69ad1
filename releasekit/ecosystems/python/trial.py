"""Each package in a virtual environment of its own: what it does not declare is not there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from releasekit import manifest, process
from releasekit.ecosystems import Trial, Verdict
from releasekit.ecosystems.python import probe
from releasekit.ecosystems.python.build import find_uv
from releasekit.ecosystems.python.filenames import name_and_version
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

# What uv says where it got no answer at all.
_NO_NETWORK = re.compile(r"error sending request|Could not connect")
_YES = frozenset({"1", "on", "t", "true", "y", "yes"})


@dataclass(slots=True, kw_only=True)
class _Trials:
    """All of one request, and what the first of them has found out for the rest."""

    request: TrialRequest
    uv: str
    environ: Mapping[str, str]
    own: tuple[str, ...]
    offline: bool


# What uv says where it got no answer at all.
_NO_NETWORK = re.compile(r"error sending request|Could not connect")


async def try_out(request: TrialRequest) -> None:
    environ = _environment(request)
    trials = _Trials(
        request=request,
        uv=find_uv(),
        environ=environ,
        own=tuple(one.name for one in request.workspace.packages if one.ecosystem == "python"),
        offline=request.environ.get("UV_OFFLINE", "").lower() in _YES,
    )
    async with asyncio.TaskGroup() as group:
        for number, package in enumerate(request.packages):
            folder = request.scratch / str(number)
            group.create_task(_in_turn(trials, package, folder))


async def _in_turn(trials: _Trials, package: Package, folder: Path) -> None:
    async with trials.request.slots.taken() as free:
        if free:
            started = time.monotonic()
            folder.mkdir(parents=True)  # noqa: ASYNC240 - one folder
            verdict, words = await _tried(trials, package, folder)
            seconds = time.monotonic() - started
            trials.request.finished(
                Trial(package=package.id, verdict=verdict, words=words, seconds=seconds)
            )


async def _tried(trials: _Trials, package: Package, folder: Path) -> tuple[Verdict, str]:
    request, log, answer = trials.request, folder / "log", folder / "answer.json"
    venv = folder / "venv"
    python = venv / "bin" / "python"
    try:
        await _make(trials, package, venv, log)
        await _install(trials, package, python, log)
    except (ChildFailed, ChildTimedOut) as error:
        words = process.read_tail(log) if log.exists() else error.message
        # Without a network nobody can say what is on no registry.
        missing = not trials.offline and _NOT_FOUND.search(" ".join(words.split()))
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


async def _make(trials: _Trials, package: Package, venv: Path, log: Path) -> None:
    uv, environ, request = trials.uv, trials.environ, trials.request
    interpreter = await asyncio.to_thread(_interpreter, uv, request.workspace, package, environ)
    argv = [uv, "venv", "--quiet", "--no-project", "--python", interpreter, str(venv)]
    await process.run(argv, cwd=venv.parent, env=environ, log=log, timeout=request.timeout)


async def _install(trials: _Trials, package: Package, python: Path, log: Path) -> None:
    """From the registry; without a network from the files that it holds and from uv's cache."""
    request = trials.request
    argv = [
        *(trials.uv, "pip", "install", "--python", str(python), "--no-sources"),
        *("--no-progress", "--color", "never", f"{package.name}=={package.version}"),
    ]
    # The first index that knows a name is the only one asked for it. Refreshed: an earlier
    # rehearsal may have had this port.
    online = ["--index-strategy", "first-index"]
    online += [f"--refresh-package={name}" for name in trials.own]
    environ = dict(trials.environ)
    if not trials.offline:
        try:
            await process.run(
                [*argv, *online], cwd=log.parent, env=environ, log=log, timeout=request.timeout
            )
        except ChildFailed:
            if not _NO_NETWORK.search(process.read_tail(log)):
                raise
            trials.offline = True  # the others need not wait for it
        else:
            return
    # uv knows no offline mode that would let it ask loopback.
    constraints = log.parent / "constraints.txt"
    constraints.write_text(_as_constraints(request.stored / "packages"), encoding="utf-8")
    offline = ["--offline", "--constraint", str(constraints)]
    await process.run(
        [*argv, *offline], cwd=log.parent, env=environ, log=log, timeout=request.timeout
    )


def _as_constraints(packages: Path) -> str:
    """Each name as the very file that the registry holds: no other may take its place."""
    files: dict[str, Path] = {}
    # A wheel comes after its sdist and wins.
    for file in sorted(packages.iterdir(), key=lambda file: file.suffix == ".whl"):
        if found := name_and_version(file.name):
            files[found[0]] = file
    return "".join(f"{name} @ {file.as_uri()}\n" for name, file in files.items())


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
