"""The only door to child processes. Every exit code is looked at here."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, cast

from releasekit import keeper
from releasekit.errors import ChildFailed, ChildTimedOut, ToolMissing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

TAIL_BYTES = 4096
# A keeper asks its children to end, then makes them end; it takes a second for each at most.
GRACE_SECONDS = 2 * keeper.GRACE_SECONDS + 1.0

# Builds run the project's code, so they see what a build needs and no credential.
_BUILD_VARIABLES = frozenset({
    "ALL_PROXY", "CC", "CFLAGS", "CPPFLAGS", "CXX", "CXXFLAGS", "HOME", "HTTPS_PROXY",
    "HTTP_PROXY", "LANG", "LANGUAGE", "LDFLAGS", "LD_LIBRARY_PATH", "LOGNAME", "NO_PROXY", "PATH",
    "PKG_CONFIG_PATH", "REQUESTS_CA_BUNDLE", "SHELL", "SOURCE_DATE_EPOCH", "SSL_CERT_DIR",
    "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "UV_CACHE_DIR", "UV_OFFLINE",
    "UV_PYTHON", "XDG_CACHE_HOME", "all_proxy", "http_proxy", "https_proxy", "no_proxy",
    "npm_config_cache", "npm_config_offline", "npm_config_registry",
})  # fmt: skip


def build_environment(environ: Mapping[str, str], **extra: str) -> dict[str, str]:
    """What a build may see of our environment: an allow-list, never a deny-list."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _BUILD_VARIABLES or name.startswith("LC_")
    }
    return kept | extra


def find_tool(name: str, *, hint: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise ToolMissing(tool=name, hint=hint)
    return path


def output(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    without_terminal: bool = False,
) -> str:
    """Run a quick reading command to its end and return what it printed.

    Without a terminal it can ask nobody anything.
    """
    try:
        child = subprocess.run(  # noqa: S603 - argv is ours, no shell
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            start_new_session=without_terminal,
            check=False,
        )
    except FileNotFoundError:
        raise ToolMissing(tool=argv[0], hint=f"install `{argv[0]}` and try again") from None
    except subprocess.TimeoutExpired:
        raise ChildTimedOut(argv=argv, seconds=timeout, tail="") from None
    if child.returncode != 0:
        tail = child.stderr[-TAIL_BYTES:].decode(errors="replace").strip()
        raise ChildFailed(argv=argv, returncode=child.returncode, tail=tail)
    return child.stdout.decode(errors="surrogateescape")


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout: float = 1800.0,  # noqa: ASYNC109 - a limit on the child, ended as a group
) -> None:
    """Run a child below a keeper with its output in `log`; raise unless it exits 0.

    However this ends, all that the child started has ended when it returns, and also when we are
    killed. The log keeps the beginning and the end of what was printed.
    """
    await Keepers().run(argv, cwd=cwd, env=env, log=log, timeout=timeout)


class Keepers:
    """Runs children; keepers that wait for one have their own start, 0.02 s, behind them."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.subprocess.Process] = []

    async def prepare(self, count: int, env: Mapping[str, str]) -> None:
        for _ in range(count):
            self._waiting.append(await _start_keeper(env))

    async def close(self) -> None:
        for child in self._waiting:
            if child.stdin is not None:
                child.stdin.close()
        for child in self._waiting:
            await child.wait()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        timeout: float,  # noqa: ASYNC109 - a limit on the child, ended as a group
        started: Callable[[], None] = lambda: None,
    ) -> None:
        """As `run` above; `started` is called while the child starts, which costs no time then."""
        import asyncio

        if shutil.which(argv[0], path=env.get("PATH")) is None:
            raise ToolMissing(tool=argv[0], hint=f"install `{argv[0]}` and try again")
        log.touch()  # noqa: ASYNC240 - so that there is an end to read
        child = self._waiting.pop() if self._waiting else await _start_keeper(env)
        try:
            _tell_job(child, {"argv": argv, "cwd": str(cwd), "env": dict(env), "log": str(log)})
            started()
            async with asyncio.timeout(timeout):
                await child.wait()
        except TimeoutError:
            raise ChildTimedOut(argv=argv, seconds=timeout, tail=read_tail(log)) from None
        finally:
            await end_group(child)
        if child.returncode != 0:
            returncode = child.returncode if child.returncode is not None else -1
            raise ChildFailed(argv=argv, returncode=returncode, tail=read_tail(log), log=log)


async def _start_keeper(env: Mapping[str, str]) -> asyncio.subprocess.Process:
    import asyncio

    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", keeper.__file__, str(os.getpid())),
        cwd="/",
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # the log's, once it knows of one
        start_new_session=True,
    )


def _tell_job(child: asyncio.subprocess.Process, job: Mapping[str, object]) -> None:
    if child.stdin is not None:
        child.stdin.write(json.dumps(job).encode())
        child.stdin.close()  # after the last byte


async def end_group(child: asyncio.subprocess.Process) -> None:
    """End a keeper and, with it, all that it keeps."""
    import asyncio

    if child.returncode is None:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await child.wait()
    # Also after a clean exit: a daemon it left behind is still in the group.
    _signal_group(child.pid, signal.SIGKILL)
    await child.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in it
        os.killpg(pid, number)


def move(source: Path, target: Path) -> Path:
    """Within a filesystem by a rename, otherwise by a copy."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(source, target)
        source.unlink()
    return target


def read_tail(log: Path, limit: int = TAIL_BYTES) -> str:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - limit))
        return file.read().decode(errors="replace").strip()


@contextlib.contextmanager
def server(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, start_within: float = 30.0
) -> Iterator[str]:
    """A server of ours for as long as the block runs; gives the first line it prints.

    It must end when its standard input closes, so that it also ends when we are killed.
    """
    with log.open("ab") as sink:
        try:
            child = subprocess.Popen(  # noqa: S603 - argv is ours, no shell
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ToolMissing(tool=argv[0], hint=f"install `{argv[0]}` and try again") from None
    try:
        yield _first_line(child, argv, log, start_within)
    finally:
        with child:  # closes the pipes, and so asks it to end
            try:
                child.communicate(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(child.pid, signal.SIGKILL)
        _signal_group(child.pid, signal.SIGKILL)


def _first_line(
    child: subprocess.Popen[bytes], argv: Sequence[str], log: Path, seconds: float
) -> str:
    stream = cast("IO[bytes]", child.stdout)
    readable, _, _ = select.select([stream], [], [], seconds)
    if not readable:
        raise ChildTimedOut(argv=argv, seconds=seconds, tail=read_tail(log))
    line = stream.readline().decode().strip()
    if not line:
        raise ChildFailed(argv=argv, returncode=child.wait(), tail=read_tail(log), log=log)
    return line
