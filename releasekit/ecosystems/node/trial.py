"""Each package in a folder of its own, by npm: what it does not declare is not there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from releasekit import process
from releasekit.ecosystems import Trial, Verdict
from releasekit.ecosystems.node import credentials
from releasekit.ecosystems.node.credentials import Npmrc
from releasekit.ecosystems.node.registry import npm_default
from releasekit.ecosystems.node.tarball import NEEDS_NODE
from releasekit.errors import ChildFailed, ChildTimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from releasekit.ecosystems import TrialRequest
    from releasekit.model import Package, Workspace

_LAST_LINES = 8
_PROBE = Path(__file__).parent / "probe.cjs"
_NOT_FOUND = re.compile(r"\b(E404|ETARGET)\b")
# The embedded registry answers 503 where it cannot reach its upstream.
_NO_NETWORK = re.compile(
    r"\b(E503|EAI_AGAIN|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ERR_SOCKET_TIMEOUT"
    r"|ETIMEDOUT)\b"
)
_NO_MODULE = re.compile(r"Cannot find (?:package|module) '([^']+)'")


def upstreams(workspace: Workspace, environ: Mapping[str, str]) -> dict[str, str]:
    """npm's own registry for all names, and those of the workspace's scopes."""
    npmrc = Npmrc.read(credentials.files_of(workspace.root, (), environ), environ)
    found = {"": npm_default(workspace.root)}
    for scope in _scopes(workspace):
        if address := npmrc.registry_of(f"{scope}/any"):
            found[scope] = address
    return found


@dataclass(slots=True, kw_only=True)
class _Trials:
    """All of one request, and what the first of them has found out for the rest."""

    request: TrialRequest
    npm: str
    node: str
    upstream: str
    """npm's own registry."""
    offline: bool


async def try_out(request: TrialRequest) -> None:
    trials = _Trials(
        request=request,
        npm=process.find_tool("npm", hint=NEEDS_NODE),
        node=process.find_tool("node", hint=NEEDS_NODE),
        upstream=await asyncio.to_thread(npm_default, request.workspace.root),
        offline=request.environ.get("npm_config_offline", "") == "true",
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


async def _install(trials: _Trials, package: Package, folder: Path, log: Path) -> None:
    """From the registry; without a network from the files that it holds and from npm's cache."""
    request = trials.request
    environ = _environment(request)
    argv = [
        *(trials.npm, "install", "--no-audit", "--no-fund", "--no-package-lock"),
        *("--loglevel=error", "--no-update-notifier"),
        *("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"),
    ]
    npmrc = folder / ".npmrc"
    npmrc.touch(mode=0o600)
    npmrc.write_text(_settings(trials), encoding="utf-8")
    body: dict[str, Any] = {"name": "trial", "private": True}
    manifest = folder / "package.json"
    if not trials.offline:
        manifest.write_text(json.dumps(body), encoding="utf-8")
        online = [*argv, f"{package.name}@{package.version}"]
        try:
            await process.run(online, cwd=folder, env=environ, log=log, timeout=request.timeout)
        except ChildFailed:
            if not _NO_NETWORK.search(process.read_tail(log)):
                raise
            trials.offline = True  # the others need not wait for it
        else:
            return
    # An offline npm asks no loopback, and its cache knows names by their registry's address.
    npmrc.write_text(_settings(trials), encoding="utf-8")
    files = _stored(request)
    body["dependencies"] = {package.name: files.pop(package.name)}
    body["overrides"] = files
    manifest.write_text(json.dumps(body), encoding="utf-8")
    argv.append("--prefer-offline")
    await process.run(argv, cwd=folder, env=environ, log=log, timeout=request.timeout)


def _stored(request: TrialRequest) -> dict[str, str]:
    """Each name as the very file that the registry holds: no other may take its place."""
    found = {}
    for package in request.packages:
        file = f"{package.name.rpartition('/')[2]}-{package.version}.tgz"
        found[package.name] = f"file:{request.stored / 'storage' / package.name / file}"
    return found


async def _tried(trials: _Trials, package: Package, folder: Path) -> tuple[Verdict, str]:
    request = trials.request
    log, answer = folder / "log", folder / "answer.json"
    try:
        await _install(trials, package, folder, log)
    except (ChildFailed, ChildTimedOut) as error:
        words = process.read_tail(log) if log.exists() else error.message
        # Without a network nobody can say what is on no registry.
        missing = not trials.offline and _NOT_FOUND.search(words)
        return (Verdict.MISSING_DEPENDENCY if missing else Verdict.NOT_INSTALLED), _last(words)
    program = folder / _PROBE.name  # beside node_modules: that is where Node looks
    program.write_bytes(_PROBE.read_bytes())
    argv = [trials.node, str(program), package.name, str(answer)]
    runs = process.build_environment(request.environ)
    try:
        await process.run(argv, cwd=folder, env=runs, log=log, timeout=request.timeout)
        told = json.loads(answer.read_bytes())
    except (ChildFailed, ChildTimedOut) as error:
        return Verdict.NOT_LOADED, _last(f"{process.read_tail(log)}\n{error.message}")
    except FileNotFoundError:
        return Verdict.NOT_LOADED, "it ended Node before it was loaded"
    return judged(told, package.name, folder)


def judged(told: Mapping[str, Any], name: str, folder: Path) -> tuple[Verdict, str]:
    """What the probe's answer means."""
    if "failed" not in told:
        return Verdict.OK, ", ".join(told["loaded"]) or f"{name} holds nothing to load"
    words = f"{told['failed']}:\n{_first(told['words'])}"
    if told["code"] == "LACKS_FILE":
        return Verdict.LACKS_MODULE, words
    missing = _NO_MODULE.search(told["words"])
    if not missing or told["code"] not in {"MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"}:
        return Verdict.NOT_LOADED, words
    wanted = missing[1]
    own = str(folder / "node_modules" / name)
    inside = wanted.startswith((".", own, f"{name}/")) or wanted == name
    return (Verdict.LACKS_MODULE if inside else Verdict.MISSING_DEPENDENCY), words


def _scopes(workspace: Workspace) -> list[str]:
    names = (package.name for package in workspace.packages if package.ecosystem == "node")
    return sorted({name.partition("/")[0] for name in names if name.startswith("@")})


def _settings(trials: _Trials) -> str:
    """The repository's .npmrc, but the workspace's own names come from the embedded registry alone.

    npm knows registries for scopes, not for names: where a name has no scope, every name is asked
    of the embedded registry, which asks upstream for those that are not the workspace's own.
    """
    request = trials.request
    address = request.registry.url or ""
    scoped = all(one.name.startswith("@") for one in _asked_for(request.workspace))
    default = trials.upstream if scoped or trials.offline else address
    file = request.workspace.root / ".npmrc"
    theirs = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    scopes = [f"{scope}:registry={address}" for scope in _scopes(request.workspace)]
    return "\n".join([theirs, f"registry={default}", *scopes, ""])


def _asked_for(workspace: Workspace) -> Iterator[Package]:
    """Whose names npm may ask for: not a private root's, which nobody needs."""
    needed = {edge.target for edge in workspace.edges}
    for package in workspace.packages:
        if package.ecosystem == "node" and (package.publishable or package.id in needed):
            yield package


def _environment(request: TrialRequest) -> dict[str, str]:
    """The registry is the .npmrc's affair here; `offline` would shut out loopback, too."""
    environ = process.build_environment(request.environ)
    for name in ("npm_config_registry", "npm_config_offline"):
        environ.pop(name, None)
    for name, value in request.environ.items():
        if name.lower() == "npm_config_userconfig" and value:
            environ[name] = value
    return environ


def _last(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-_LAST_LINES:])


def _first(text: str) -> str:
    """JavaScript says it first and shows the stack after."""
    return "\n".join([line for line in text.splitlines() if line.strip()][:_LAST_LINES])
