"""Kill a real process, or fail its calls, at every system call that changes the disk."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crash import harness, repository

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.crash.harness import Tally

CALLS = (
    "openat", "write", "fchmod", "fsync", "mkdir", "link", "linkat", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "rmdir", "chmod", "fchmodat", "flock",
)  # fmt: skip
# Opening a file for reading changes nothing.
_CHANGES = re.compile(r"(?!openat\()(\w+)\(|openat\(.*O_CREAT")
_NAME = re.compile(r"(\w+)\(")

# The next command of a person: every command repairs first.
NEXT_COMMAND = ("discover",)


def missing() -> str | None:
    """Why it cannot work here."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
    return None if probe.returncode == 0 else "strace may not trace here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The `number`th call of that name in the process."""

    name: str
    number: int


def victim(root: Path, *mode: str) -> list[str]:
    return [sys.executable, "-B", "-m", "tests.crash.victim", str(root), *mode]


def strace(*options: str, command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["strace", "-e", f"trace={','.join(CALLS)}", *options, *command],
        capture_output=True,
        check=False,
        timeout=120,
    )


def changing_calls(count: int, log: Path, first_killed_at: Call | None = None) -> list[Call]:
    """Those of a whole run; or those of the recovery after a kill."""
    with repository.repository(count, in_memory=False) as root:
        mode = []
        if first_killed_at is not None:
            _kill(root, first_killed_at)
            mode = ["recover"]
        done = strace("-o", str(log), command=victim(root, *mode))
        assert done.returncode == 0, done.stderr.decode()
    seen: Counter[str] = Counter()
    found = []
    for line in log.read_text().splitlines():
        named = _NAME.match(line)
        if named is None:
            continue
        seen[named[1]] += 1
        if _CHANGES.match(line):
            found.append(Call(name=named[1], number=seen[named[1]]))
    return found


def kill_everywhere(tally: Tally, log: Path, *, count: int) -> None:
    """SIGKILL at every changing call of a run."""
    _kill_at(tally, count, [(call,) for call in changing_calls(count, log)])


def kill_recovery_everywhere(tally: Tally, log: Path, *, count: int) -> None:
    """SIGKILL while everything is pinned, then at every changing call of the recovery."""
    exchanges = [call for call in changing_calls(count, log) if call.name == "renameat2"]
    pinned = exchanges[len(exchanges) // 2]
    calls = changing_calls(count, log, first_killed_at=pinned)
    _kill_at(tally, count, [(pinned, call) for call in calls])


def _kill_at(tally: Tally, count: int, kills: Sequence[tuple[Call, ...]]) -> None:
    def one(calls: tuple[Call, ...]) -> tuple[str, str, list[str]]:
        with repository.repository(count, in_memory=False) as root:
            before = repository.snapshot(root)
            for call, mode in zip(calls, ((), ("recover",)), strict=False):
                _kill(root, call, *mode)
            image = repository.image(root, before)
            problems = _next_command(root)
            label = f"SIGKILL at {calls}"
            return image, label, problems + harness.differences(before, root)

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(one, kills):
            tally.add(*result)


def _kill(root: Path, call: Call, *mode: str) -> None:
    inject = f"inject={call.name}:signal=KILL:when={call.number}"
    done = strace("-o", os.devnull, "-e", inject, command=victim(root, *mode))
    assert done.returncode == -signal.SIGKILL, f"{call} was not reached: {done.stderr.decode()}"


def fail_everywhere(tally: Tally, log: Path, *, count: int, errors: tuple[str, ...]) -> None:
    """Every changing call of a real process fails, once and from there on."""
    jobs = [
        (call, error, forever)
        for call in changing_calls(count, log)
        if call.name not in {"openat", "flock"}
        for error in errors
        for forever in ("", "+")
    ]

    def one(job: tuple[Call, str, str]) -> tuple[str, str, list[str]]:
        call, error, forever = job
        with repository.repository(count, in_memory=False) as root:
            before = repository.snapshot(root)
            inject = f"inject={call.name}:error={error}:when={call.number}{forever}"
            strace("-o", os.devnull, "-e", inject, command=victim(root))
            problems = _next_command(root)
            label = f"{error} at {call.name} {call.number}{forever}"
            return label, label, problems + harness.differences(before, root)

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(one, jobs):
            tally.add(*result)


def _next_command(root: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "releasekit", "-C", str(root), *NEXT_COMMAND],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return (
        []
        if done.returncode == 0
        else [f"`releasekit` ended with {done.returncode}: {done.stderr}"]
    )
