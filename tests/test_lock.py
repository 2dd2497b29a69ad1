from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from releasekit import lock
from releasekit.errors import LockHeld, LocksUnsupported, LockUnavailable
from releasekit.lock import hold, holder, journal_directory, try_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Holding = Callable[..., subprocess.Popen[str]]

HOLD = """
import os, sys
from pathlib import Path
from releasekit.lock import hold

held = hold(Path(sys.argv[1]), command="first")
if sys.argv[2:] == ["fork"]:
    if os.fork() == 0:
        # A fork's copy of the lock is closed by the child's first own steps: these.
        print("held", flush=True)
        os.close(1)
        os.read(0, 1)
        os._exit(0)
    os.close(1)
    os.wait()
if sys.argv[2:] == ["exec"]:
    os.posix_spawn("/bin/cat", ["cat"], {})
print("held", flush=True)
sys.stdin.readline()
if sys.argv[2:] == ["raise"]:
    raise SystemExit(3)
"""


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Holding]:
    started = []

    def start(*mode: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*before, sys.executable, "-c", HOLD, str(tmp_path), *mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()  # closes stdin, which ends its children too


# Where it lies


def git(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_journal_lies_where_git_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(key, "test@example.test")
    main = tmp_path / "main"
    main.mkdir()
    git("init", "-q", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=main)
    git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=main)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(main), "sub", cwd=main)
    (main / "py" / "deep").mkdir(parents=True)
    for folder in (main, main / "py" / "deep", tmp_path / "linked", main / "sub"):
        expected = folder / git("rev-parse", "--git-path", "releasekit", cwd=folder)
        assert journal_directory(folder) == expected.resolve()


def test_a_git_hook_meets_the_terminal_at_the_same_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q", cwd=tmp_path)
    expected = journal_directory(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert journal_directory(tmp_path) == expected == tmp_path / ".git" / "releasekit"


def test_without_git_the_journal_hides_in_the_root(tmp_path: Path) -> None:
    with hold(journal_directory(tmp_path), command="publish"):
        assert (tmp_path / ".releasekit" / lock.LOCK).exists()
    git("init", "-q", cwd=tmp_path)
    assert git("status", "--porcelain", cwd=tmp_path) == ""


def test_a_git_folder_on_another_filesystem_is_left_alone(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not os.access(elsewhere, os.W_OK) or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second filesystem to write to")
    folder = elsewhere / f"releasekit-test-{os.getpid()}"
    try:
        git("init", "-q", f"--separate-git-dir={folder}", cwd=tmp_path)
        assert journal_directory(tmp_path) == tmp_path / ".releasekit"
    finally:
        shutil.rmtree(folder)


def test_a_held_lock_is_not_in_gits_way(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    with hold(journal_directory(tmp_path), command="publish"):
        assert git("status", "--porcelain", "--ignored", cwd=tmp_path) == ""


# Who holds it


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with hold(tmp_path, command="releasekit publish", run="run-1") as held:
        with pytest.raises(LockHeld) as caught:
            hold(tmp_path, command="second")
        assert "`releasekit publish`" in caught.value.message
        assert f"process {os.getpid()}" in caught.value.message
        assert "--lock-timeout" in str(caught.value.hint)
        assert holder(tmp_path) == held.holder
        assert held.holder.id == "run-1"
        assert try_hold(tmp_path, command="third") is None
    assert holder(tmp_path) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [lock.LOCK]


def test_asking_who_holds_it_creates_nothing(tmp_path: Path) -> None:
    assert holder(tmp_path / "absent") is None
    assert list(tmp_path.iterdir()) == []


def test_waiting_gets_the_lock_as_soon_as_it_is_free(tmp_path: Path, holding: Holding) -> None:
    child = holding()
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLD.replace('command="first"', 'command="w", timeout=60'),
            tmp_path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "held\n"
    waiting.communicate("\n")
    assert waiting.returncode == 0


def test_waiting_ends_with_the_timeout(tmp_path: Path) -> None:
    with hold(tmp_path, command="first"), pytest.raises(LockHeld, match=r"after waiting 0\.3 s"):
        hold(tmp_path, command="second", timeout=0.3)


@pytest.mark.parametrize("ending", ["normal", "raise", "SIGTERM", "SIGINT", "SIGKILL"])
def test_every_kind_of_exit_frees_the_lock(tmp_path: Path, holding: Holding, ending: str) -> None:
    child = holding("raise") if ending == "raise" else holding()
    assert try_hold(tmp_path, command="second") is None
    if ending.startswith("SIG"):
        child.send_signal(getattr(signal, ending))
    child.communicate("\n")
    freed = try_hold(tmp_path, command="second")
    assert freed is not None
    freed.release()


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_children_of_a_killed_holder_do_not_keep_the_lock(
    tmp_path: Path, holding: Holding, mode: str
) -> None:
    child = holding(mode)
    child.kill()
    child.wait()
    freed = try_hold(tmp_path, command="second")
    assert freed is not None
    freed.release()


def test_a_forked_child_cannot_release_its_parents_lock(tmp_path: Path) -> None:
    held = hold(tmp_path, command="first")
    child = os.fork()
    if child == 0:
        held.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert try_hold(tmp_path, command="second") is None
    held.release()


def test_a_lie_about_the_holder_does_not_take_or_free_the_lock(tmp_path: Path) -> None:
    (tmp_path / "holder.json").write_text('{"pid": 1}')
    with hold(tmp_path, command="first"):
        (tmp_path / "holder.json").write_text("nonsense")
        with pytest.raises(LockHeld, match="another process"):
            hold(tmp_path, command="second")
        assert holder(tmp_path) is not None


def test_the_kernel_decides_across_pid_namespaces(tmp_path: Path, holding: Holding) -> None:
    inside = ("unshare", "--fork", "--pid", "--kill-child")
    probe = subprocess.run([*inside, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("this user may not create PID namespaces")
    child = holding(before=inside)
    second = subprocess.run(
        [*inside, sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "LockHeld" in second.stderr
    found = holder(tmp_path)
    assert found is not None
    assert found.pid in {1, 2}, "its own namespace's number, which means nothing here"
    child.kill()
    child.wait()
    deadline = time.monotonic() + 30
    while (freed := try_hold(tmp_path, command="third")) is None:
        assert time.monotonic() < deadline, "the namespace outlived its parent"
    freed.release()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_filesystem_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(_: int, __: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(LocksUnsupported, match="no file locks") as caught:
        hold(tmp_path, command="publish")
    assert "local filesystem" in str(caught.value.hint)
    (tmp_path / lock.LOCK).touch()
    with pytest.raises(LocksUnsupported):
        holder(tmp_path)


def test_a_symlink_in_the_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / lock.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockUnavailable):
        hold(tmp_path, command="publish")
    assert not (tmp_path / "elsewhere").exists()


def test_a_journal_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LockUnavailable, match="Not a directory"):
        hold(tmp_path / "file" / "releasekit", command="publish")


# A witness lock that must always be free for whoever holds the lock. The kernel drops POSIX locks
# when the dying process closes its files, before it lets go of the flock of `hold`.
RACE = """
import fcntl, os, sys, time
from pathlib import Path
from releasekit.lock import hold

journal = Path(sys.argv[1])
witness = open(journal / "witness", "a")
log = os.open(journal / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while True:
    with hold(journal, command="race", timeout=60):
        try:
            fcntl.lockf(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.write(log, b"two holders\\n")
        else:
            os.write(log, b"held\\n")
            time.sleep(0.002)
            fcntl.lockf(witness, fcntl.LOCK_UN)
"""


def test_problem_6_eight_racing_processes_never_hold_the_lock_together(tmp_path: Path) -> None:
    chance = random.Random(8)  # noqa: S311 - reproducible

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)])

    racers = [start() for _ in range(8)]
    log = tmp_path / "log"
    kills, deadline = 0, time.monotonic() + 60
    try:
        while kills < 24 or log.read_bytes().count(b"held") < 200:
            assert time.monotonic() < deadline, f"{kills} kills, {log.read_bytes()[-200:]!r}"
            if log.exists() and log.stat().st_size > kills * 20:
                victim = chance.randrange(8)
                racers[victim].kill()
                racers[victim].wait()
                racers[victim] = start()
                kills += 1
            time.sleep(0.01)
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert b"two holders" not in log.read_bytes()
    hold(tmp_path, command="last").release()
