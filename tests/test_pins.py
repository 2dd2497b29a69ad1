from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit import pins
from releasekit.errors import (
    BrokenIntent,
    EditConflict,
    LockHeld,
    ManifestChanged,
    PinsFailed,
    PinsInterrupted,
    PinsRefused,
)
from releasekit.lock import hold, journal_directory
from releasekit.pins import Decision, Edit, Originals, State
from releasekit.pins.apply import apply
from releasekit.pins.disk import Disk
from releasekit.pins.restore import holds_no_pin
from tests.crash import harness, repository, tracing
from tests.crash.disks import SteppingDisk
from tests.crash.harness import Tally
from tests.crash.implementations import Naive, Releasekit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import ReleaseKit

    Signalled = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    repository.write(tmp_path, 4)
    return tmp_path


def leave_pinned(root: Path) -> None:
    """As a killed run does: everything pinned, the lock free."""
    with hold(journal_directory(root), command="killed") as held:
        apply(repository.edits(root), root=root, held=held)


def contents(root: Path) -> list[bytes]:
    return [file.read_bytes() for file in repository.manifests(root)]


# The transaction


@pytest.mark.parametrize("exchange", [True, False])
def test_files_are_pinned_inside_and_the_same_inodes_outside(root: Path, exchange: bool) -> None:
    before = repository.snapshot(root)
    originals = contents(root)
    with pins.applied(repository.edits(root), root=root, disk=SteppingDisk(exchange=exchange)):
        assert contents(root) == [repository.pinned(content) for content in originals]
        modes = [file.stat().st_mode & 0o777 for file in repository.manifests(root)]
        assert modes == [0o644, 0o444, 0o600, 0o644]
        assert (root / "package3" / "pyproject.toml").is_symlink()
    assert harness.differences(before, root) == []


def test_an_exception_restores(root: Path) -> None:
    before = repository.snapshot(root)
    with (
        pytest.raises(ZeroDivisionError),
        pins.applied(repository.edits(root), root=root),
    ):
        _ = 1 // 0
    assert harness.differences(before, root) == []


def test_nothing_to_edit_touches_nothing(root: Path) -> None:
    before = repository.snapshot(root)
    same = [
        Edit(path=edit.path, original=edit.original, pinned=edit.original)
        for edit in repository.edits(root)
    ]
    with pins.applied(same, root=root):
        assert repository.snapshot(root) == before


def test_the_lock_is_held_while_pinned_and_free_afterwards(root: Path) -> None:
    journal = journal_directory(root)
    with pins.applied(repository.edits(root), root=root), pytest.raises(LockHeld):
        hold(journal, command="second")
    hold(journal, command="third").release()


def test_the_callers_lock_stays_the_callers(root: Path) -> None:
    journal = journal_directory(root)
    with hold(journal, command="publish") as held:
        with pins.applied(repository.edits(root), root=root, held=held):
            pass
        with pytest.raises(LockHeld):
            hold(journal, command="second")


def _edit(path: Path) -> Edit:
    return Edit(path=path, original=b'"core"', pinned=b'"core==1.2.3"')


def _outside(root: Path) -> list[Edit]:
    outside = root.parent / f"{root.name}-outside.toml"
    outside.write_bytes(b'"core"')
    (root / "link.toml").symlink_to(outside)
    return [_edit(root / "link.toml")]


def _hard_linked(root: Path) -> list[Edit]:
    (root / "one.toml").write_bytes(b'"core"')
    os.link(root / "one.toml", root / "two.toml")
    return [_edit(root / "one.toml"), _edit(root / "two.toml")]


def _missing(root: Path) -> list[Edit]:
    return [_edit(root / "absent.toml")]


def _folder(root: Path) -> list[Edit]:
    return [_edit(root / "package0")]


@pytest.mark.parametrize("refused", [_outside, _hard_linked, _missing, _folder])
def test_what_cannot_be_carried_through_is_refused_before_anything_is_written(
    root: Path, refused: Callable[[Path], list[Edit]]
) -> None:
    wanted = [*repository.edits(root), *refused(root)]
    before = repository.snapshot(root)
    with pytest.raises(PinsRefused), pins.applied(wanted, root=root):
        pass
    assert harness.differences(before, root) == []


def test_a_file_that_changed_since_it_was_read_is_refused(root: Path) -> None:
    edits = repository.edits(root)
    edits[0].path.write_bytes(b"mine")
    before = repository.snapshot(root)
    with pytest.raises(ManifestChanged), pins.applied(edits, root=root):
        pass
    assert harness.differences(before, root) == []


def test_a_folder_that_is_not_writable_is_refused() -> None:
    """As root every folder is writable, so a child gives that up."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file away and become somebody else")
    with repository.repository(4) as root:
        with pins.applied(repository.edits(root), root=root):
            pass  # loads what the child may not be allowed to read
        for path in [root, *root.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)
        (root / "package1").chmod(0o555)
        before = repository.snapshot(root)
        edits = repository.edits(root)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgid(65534)
                os.setuid(65534)
                code = _refusal(edits, root)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 42
        assert harness.differences(before, root) == []


def _refusal(edits: tuple[Edit, ...], root: Path) -> int:
    try:
        with pins.applied(edits, root=root):
            return 2
    except PinsRefused as error:
        return 42 if "not writable" in error.message else 3


class MeddlingDisk(SteppingDisk):
    """Somebody saves a file at the worst moment: right before an exchange."""

    def __init__(self, victim: Path, text: bytes, at: int) -> None:
        super().__init__()
        self._victim = victim
        self._text = text
        self._at = at
        self._exchanges = 0

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "exchange" and arguments[1] == self._victim:
            self._exchanges += 1
            if self._exchanges == self._at:
                draft = self._victim.with_name("draft")
                draft.write_bytes(self._text)
                draft.rename(self._victim)


def test_a_save_in_the_instant_of_pinning_is_kept(root: Path) -> None:
    victim = root / "package0" / "pyproject.toml"
    before = repository.snapshot(root)
    mine = victim.read_bytes() + b"# mine\n"
    with (
        pytest.raises(ManifestChanged),
        pins.applied(repository.edits(root), root=root, disk=MeddlingDisk(victim, mine, 1)),
    ):
        pass
    assert victim.read_bytes() == mine
    assert harness.differences(before, root, ignoring="package0/pyproject.toml") == []


def test_a_save_in_the_instant_of_restoring_is_kept(root: Path) -> None:
    victim = root / "package0" / "pyproject.toml"
    before = repository.snapshot(root)
    mine = victim.read_bytes() + b"# mine\n"
    with pins.applied(repository.edits(root), root=root, disk=MeddlingDisk(victim, mine, 2)):
        pass
    assert victim.read_bytes() == mine
    assert harness.differences(before, root, ignoring="package0/pyproject.toml") == []


def test_an_edit_through_another_hard_link_is_kept(root: Path) -> None:
    with pins.applied(repository.edits(root), root=root):
        (root / "twin.toml").write_bytes(b"edited through the twin")
    assert (root / "package2" / "pyproject.toml").read_bytes() == b"edited through the twin"
    assert (root / "package2" / "pyproject.toml").samefile(root / "twin.toml")


def test_an_edit_of_a_pinned_text_blocks_until_somebody_decides(root: Path) -> None:
    victim = root / "package0" / "pyproject.toml"
    original = victim.read_bytes()
    mine = repository.pinned(original) + b"# mine\n"
    with (
        pytest.raises(EditConflict, match=r"package0/pyproject\.toml"),
        pins.applied(repository.edits(root), root=root),
    ):
        victim.write_bytes(mine)
    assert victim.read_bytes() == mine
    others = [edit for edit in repository.edits(root) if edit.path != victim]
    with pytest.raises(EditConflict), pins.applied(others, root=root):
        pass
    with hold(journal_directory(root), command="recover") as held:
        pins.recover(held, decision=Decision.USE_ORIGINAL).require_done()
    assert victim.read_bytes() == original


def test_a_broken_intent_is_never_guessed_at(root: Path) -> None:
    leave_pinned(root)
    intent = journal_directory(root) / "pins" / "intent.json"
    intent.write_bytes(intent.read_bytes().replace(b"package0", b"package9"))
    pinned = contents(root)
    with pytest.raises(BrokenIntent):
        pins.recover_if_needed(root)
    assert contents(root) == pinned


def test_a_repository_may_move_between_crash_and_repair(root: Path) -> None:
    originals = contents(root)
    leave_pinned(root)
    moved = root.rename(root.with_name("moved"))
    recovery = pins.recover_if_needed(moved)
    assert len(recovery.restored) == 4
    assert contents(moved) == originals


def test_pending_tells_what_each_file_holds(root: Path) -> None:
    leave_pinned(root)
    first, second, *_ = repository.manifests(root)
    first.write_bytes(first.read_bytes() + b"# mine\n")
    second.chmod(0o644)
    second.write_bytes(second.read_bytes().replace(repository.PIN, b"") + b"# mine\n")
    assert dict(pins.pending(journal_directory(root))) == {
        "package0/pyproject.toml": State.CONFLICT,
        "package1/pyproject.toml": State.EDITED,
        "package2/pyproject.toml": State.PINNED,
        "package3/real.toml": State.PINNED,
    }


def test_recovery_says_what_it_did_in_one_line(root: Path) -> None:
    leave_pinned(root)
    first = repository.manifests(root)[0]
    first.write_bytes(first.read_bytes().replace(repository.PIN, b"") + b"# mine\n")
    assert str(pins.recover_if_needed(root)) == (
        "restored 3 manifests that an interrupted run left pinned; "
        "kept your edit of `package0/pyproject.toml`"
    )
    assert str(pins.recover_if_needed(root)) == ""


def test_originals_are_read_while_another_run_has_them_pinned(root: Path) -> None:
    originals = contents(root)
    reader = Originals(root)
    file = repository.manifests(root)[3]
    assert reader.read(file) == originals[3]
    with pins.applied(repository.edits(root), root=root):
        assert str(pins.recover_if_needed(root)) == ""
        assert [reader.read(file) for file in repository.manifests(root)] == originals
    file.write_bytes(b"new")
    assert reader.read(file) == b"new"


def test_originals_never_show_a_pin_while_runs_come_and_go(root: Path) -> None:
    stop = threading.Event()
    file = repository.manifests(root)[0]
    seen: set[bytes | None] = set()

    def read() -> None:
        reader = Originals(root)
        while not stop.is_set():
            seen.add(reader.read(file))

    original = file.read_bytes()
    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(30):
            with pins.applied(repository.edits(root), root=root):
                pass
    finally:
        stop.set()
        thread.join()
    assert seen == {original}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (b'["core", "httpx"] # mine', True),
        (b'["core==1.2.3", "httpx"] # mine', False),
        (b'["core == 1.2.3", "httpx"]', False),
        (b'["core[cli]==1.2.3", "httpx"]', False),
        (b'["httpx"]', True),
        (b'["core==1.2.4", "httpx"]', True),
    ],
)
def test_a_text_with_a_pin_in_it_is_told_apart(text: bytes, clean: bool) -> None:
    assert holds_no_pin(text, b'["core", "httpx"]', b'["core==1.2.3", "httpx"]') is clean


def test_a_text_made_from_a_pinned_one_is_told_by_what_is_missing() -> None:
    original = b'{"version": "1.5.0", "dependencies": {"foo": "workspace:*"}}'
    pinned = original.replace(b"workspace:*", b"1.5.0")
    bumped = [text.replace(b'"version": "1.5.0"', b'"version": "2"') for text in (original, pinned)]
    assert holds_no_pin(bumped[0], original, pinned)
    assert not holds_no_pin(bumped[1], original, pinned)


@given(
    files=st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=200)), max_size=4),
    exchange=st.booleans(),
)
def test_pin_then_restore_is_the_identity(files: list[tuple[bytes, bytes]], exchange: bool) -> None:
    with repository.repository(0) as root:
        edits = []
        for number, (original, pinned) in enumerate(files):
            path = root / f"{number}.toml"
            path.write_bytes(original)
            edits.append(Edit(path=path, original=original, pinned=pinned))
        before = repository.snapshot(root)
        with pins.applied(edits, root=root, disk=SteppingDisk(exchange=exchange)):
            assert [edit.path.read_bytes() for edit in edits] == [edit.pinned for edit in edits]
        assert harness.differences(before, root) == []


# Async


@pytest.mark.anyio
async def test_an_async_block_pins_and_restores(root: Path) -> None:
    before = repository.snapshot(root)
    async with pins.applied(repository.edits(root), root=root):
        assert repository.PIN in contents(root)[0]
    assert harness.differences(before, root) == []


@pytest.mark.anyio
async def test_cancelling_an_async_block_restores(root: Path) -> None:
    before = repository.snapshot(root)
    pinned = asyncio.Event()

    async def build() -> None:
        async with pins.applied(repository.edits(root), root=root):
            pinned.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(build())
        await pinned.wait()
        task.cancel()
    assert task.cancelled()
    assert harness.differences(before, root) == []


@pytest.mark.anyio
async def test_cancelling_while_files_are_being_pinned_restores(root: Path) -> None:
    before = repository.snapshot(root)
    loop = asyncio.get_running_loop()
    reached, go_on = asyncio.Event(), threading.Event()

    class WaitingDisk(SteppingDisk):
        def before(self, name: str, arguments: tuple[Any, ...]) -> None:  # noqa: ARG002
            if name == "exchange" and not reached.is_set():
                loop.call_soon_threadsafe(reached.set)
                assert go_on.wait(30)

    async def build() -> None:
        async with pins.applied(repository.edits(root), root=root, disk=WaitingDisk()):
            pytest.fail("the block ran although it was cancelled")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(build())
        await reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
    assert task.cancelled()
    assert harness.differences(before, root) == []


# Signals, in a real process

SIGNALLED = """
import os, signal, sys
from pathlib import Path
from releasekit import pins
from tests.crash import repository
from tests.crash.disks import SteppingDisk

root, kind, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
number = getattr(signal, name)


class Again(SteppingDisk):
    '''The same signal comes again in every step of the restoration.'''
    armed = False

    def before(self, step, arguments):
        if self.armed:
            os.kill(os.getpid(), number)


disk = Again()
if kind == "survivor":
    signal.signal(number, lambda *_: None)
if kind == "ignored":
    signal.signal(number, signal.SIG_IGN)
if kind == "pinning":
    disk.armed = True
with pins.applied(repository.edits(root), root=root, disk=disk):
    disk.armed = kind == "twice"
    print("pinned", flush=True)
    if kind == "exit":
        pins.guard.atexit._run_exitfuncs()
        os._exit(0)
    if kind == "fork" and os.fork() == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    sys.stdin.readline()
"""


@pytest.fixture
def signalled(root: Path) -> Iterator[Signalled]:
    started = []

    def start(kind: str, name: str = "SIGTERM") -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", SIGNALLED, str(root), kind, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        if kind != "pinning":
            assert child.stdout is not None
            assert child.stdout.readline() == "pinned\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("kind", ["once", "twice"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_restores_and_then_acts(
    root: Path, signalled: Signalled, name: str, kind: str
) -> None:
    before = repository.snapshot(root)
    child = signalled(kind, name)
    assert repository.PIN in contents(root)[0]
    child.send_signal(getattr(signal, name))
    _, errors = child.communicate(timeout=60)
    assert child.returncode == -getattr(signal, name)
    assert ("KeyboardInterrupt" in errors) == (name == "SIGINT")
    assert harness.differences(before, root) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_while_files_are_being_pinned_restores(
    root: Path, signalled: Signalled, name: str
) -> None:
    before = repository.snapshot(root)
    child = signalled("pinning", name)
    child.communicate(timeout=60)
    assert child.returncode == -getattr(signal, name)
    assert harness.differences(before, root) == []


def test_a_program_that_survives_the_signal_never_takes_the_block_for_done(
    root: Path, signalled: Signalled
) -> None:
    before = repository.snapshot(root)
    child = signalled("survivor")
    child.send_signal(signal.SIGTERM)
    _, errors = child.communicate("go on\n", timeout=60)
    assert PinsInterrupted.__name__ in errors
    assert harness.differences(before, root) == []


def test_an_ignored_signal_stays_ignored(signalled: Signalled) -> None:
    child = signalled("ignored", "SIGHUP")
    child.send_signal(signal.SIGHUP)
    child.communicate("go on\n", timeout=60)
    assert child.returncode == 0


def test_a_forked_child_restores_nothing(root: Path, signalled: Signalled) -> None:
    before = repository.snapshot(root)
    child = signalled("fork")
    while b"\nState:\tZ" not in _status_of_only_child(child.pid):
        os.sched_yield()
    assert repository.PIN in contents(root)[0]
    child.communicate("go on\n", timeout=60)
    assert child.returncode == 0
    assert harness.differences(before, root) == []


def _status_of_only_child(pid: int) -> bytes:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        children = file.read().split()
    if not children:
        return b""
    with open(f"/proc/{children[0]}/status", "rb") as file:  # noqa: PTH123
        return file.read()


def test_the_end_of_the_interpreter_restores(root: Path, signalled: Signalled) -> None:
    before = repository.snapshot(root)
    child = signalled("exit")
    child.communicate(timeout=60)
    assert harness.differences(before, root) == []


def test_a_thread_installs_no_handlers(root: Path) -> None:
    handlers = []

    def run() -> None:
        with pins.applied(repository.edits(root), root=root):
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    before = signal.getsignal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert handlers == [before]


# Crashes. `uv run pytest tests/crash -s` runs the long version.


def test_problem_5_no_crash_leaves_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    real = Releasekit()
    for exchange in (True, False):
        harness.crash_everywhere(real, tally, count=4, exchange=exchange)
        harness.crash_recovery_everywhere(real, tally, count=2, exchange=exchange, every=2)
        harness.power_cuts(real, tally, count=2, exchange=exchange, samples=1)
    harness.crash_and_edit(real, tally, count=2, every=3)
    with capsys.disabled():
        print(f"\n  pins: {tally}", end=" ")
    assert tally.bad == []
    assert len(tally.images) >= 150


def test_no_kill_at_a_system_call_leaves_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := tracing.missing():
        pytest.skip(reason)
    tally = Tally()
    tracing.kill_everywhere(tally, tmp_path / "log", count=1)
    tracing.kill_recovery_everywhere(tally, tmp_path / "log", count=1)
    with capsys.disabled():
        print(f"\n  pins under strace: {tally}", end=" ")
    assert tally.bad == []


def test_every_failing_step_is_told_and_leaves_no_trace() -> None:
    tally = Tally()
    harness.fail_everywhere(Releasekit(), tally, count=2)
    assert tally.bad == []
    assert tally.tried > 300


def test_a_full_disk_refuses_before_the_commit_point(root: Path) -> None:
    exchanged = []

    class FullDisk(SteppingDisk):
        def before(self, name: str, arguments: tuple[Any, ...]) -> None:  # noqa: ARG002
            if name == "exchange":
                exchanged.append(name)

        def create(self, path: Path, content: bytes, mode: int) -> None:
            if path.name == "3.slot":
                Disk().create(path, content[:5], mode)
                raise OSError(28, os.strerror(28), str(path))
            super().create(path, content, mode)

    before = repository.snapshot(root)
    with (
        pytest.raises(PinsFailed, match="No space left"),
        pins.applied(repository.edits(root), root=root, disk=FullDisk()),
    ):
        pass
    assert exchanged == []
    assert harness.differences(before, root) == []


def test_the_harness_convicts_a_naive_implementation() -> None:
    crashed, edited, cut = Tally(), Tally(), Tally()
    harness.crash_everywhere(Naive(), crashed, count=2)
    harness.crash_and_edit(Naive(), edited, count=1)
    assert any(" holds " in problem for problem in crashed.bad)
    assert any("edit was lost" in problem for problem in edited.bad)
    harness.power_cuts(Releasekit(), cut, count=1, synced=False)
    assert cut.bad != [], "without syncing, a power cut must do harm"


# The commands


def test_recover_restores_and_says_so(root: Path, releasekit: ReleaseKit) -> None:
    before = repository.snapshot(root)
    leave_pinned(root)
    result = releasekit("-C", root, "status")
    assert "pinned: `package0/pyproject.toml`" in result.out
    result = releasekit("-C", root, "recover")
    assert (result.code, result.out.count("restored")) == (0, 4)
    assert harness.differences(before, root) == []
    assert releasekit("-C", root, "recover").out == "nothing to recover\n"
    assert releasekit("-C", root, "status").out == "no release is running here\n"


def test_the_next_command_repairs_says_so_in_one_line_and_goes_on(
    root: Path, releasekit: ReleaseKit
) -> None:
    before = repository.snapshot(root)
    leave_pinned(root)
    result = releasekit("-C", root, "discover")
    assert result.code == 0
    assert result.err == "note: restored 4 manifests that an interrupted run left pinned\n"
    assert "4 packages" in result.out
    assert harness.differences(before, root) == []


def test_reading_commands_see_the_originals_during_a_live_run(
    root: Path, releasekit: ReleaseKit
) -> None:
    quiet = releasekit("-C", root, "discover", "--output", "json")
    edits = [
        Edit(
            path=edit.path,
            original=edit.original,
            pinned=edit.original.replace(b'version = "1.0"', b'version = "9.9"'),
        )
        for edit in repository.edits(root)
    ]
    with pins.applied(edits, root=root):
        assert b'"9.9"' in contents(root)[0]
        during = releasekit("-C", root, "discover", "--output", "json")
    assert during == quiet
    assert '"1.0"' in during.out


@pytest.mark.parametrize("decision", Decision)
def test_recover_asks_before_it_drops_an_edit(
    root: Path, releasekit: ReleaseKit, decision: Decision
) -> None:
    leave_pinned(root)
    file = repository.manifests(root)[0]
    original = file.read_bytes().replace(repository.PIN, b"")
    mine = file.read_bytes() + b"# mine\n"
    file.write_bytes(mine)
    first = releasekit("-C", root, "recover", "--output", "json")
    assert first.code == 5
    assert '"conflicts": [\n    "package0/pyproject.toml"\n  ]' in first.out
    assert file.read_bytes() == mine
    assert "conflict: `package0/pyproject.toml`" in releasekit("-C", root, "status").out
    second = releasekit("-C", root, "recover", f"--{decision}")
    assert second.code == 0
    assert file.read_bytes() == (mine if decision is Decision.KEEP_MINE else original)
    shown = releasekit("-C", root, "status", "--output", "json").json()
    assert shown == {
        "v": 1, "running": None, "manifests": [], "needs_recovery": False, "run": None,
        "damage": None,
    }  # fmt: skip


def test_recover_takes_one_decision(root: Path, releasekit: ReleaseKit) -> None:
    assert releasekit("-C", root, "recover", "--keep-mine", "--use-original").code == 2


def test_recover_waits_for_no_living_run(root: Path, releasekit: ReleaseKit) -> None:
    with pins.applied(repository.edits(root), root=root):
        result = releasekit("-C", root, "recover")
        assert result.code == 4
        assert "`releasekit pins` (process" in result.err
        status = releasekit("-C", root, "status").out
        assert "4 manifests are pinned" in status
        assert repository.PIN in contents(root)[0]
