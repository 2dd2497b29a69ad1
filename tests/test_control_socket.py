"""Wishes from another terminal: what is answered, and that nothing of it can harm a run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from releasekit import control_socket, journal
from releasekit.control_socket import Answer, Listener, Wish, ask, followed, listening
from releasekit.errors import (
    NoAnswer,
    NothingRunning,
    NotListening,
    ReleaseKitError,
    UsageError,
    WishRefused,
)
from releasekit.events import Event, Noted, Paused, RunEnded, UploadProgressed
from releasekit.lock import hold, journal_directory
from tests.building import write_tree
from tests.faults import faulty_registry
from tests.sample import write_sample
from tests.terminals import Terminal
from tests.test_build import in_tree, workspace_of
from tests.test_build_command import HANGING, _pids, hanging
from tests.test_publish import pypi_option, served
from tests.test_resume import git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result


def granted(wish: Wish) -> Answer:
    return Answer(done=True, message=f"{wish}: as you like", in_flight=2)


def refused(_: Wish) -> Answer:
    return Answer(done=False, message="not now")


@pytest.mark.anyio
async def test_a_wish_is_answered_also_deep_below_the_root(tmp_path: Path) -> None:
    home = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6)
    home.mkdir(parents=True)
    assert len(bytes(home)) > 108  # what `sun_path` takes
    async with listening(home, granted):
        answer = await asyncio.to_thread(ask, home, Wish.PAUSE)
        assert answer == Answer(done=True, message="pause: as you like", in_flight=2)
    assert list(home.iterdir()) == []
    async with listening(home, refused):
        with pytest.raises(WishRefused, match="not now"):
            await asyncio.to_thread(ask, home, Wish.RESUME)


@pytest.mark.anyio
async def test_only_its_owner_may_connect(tmp_path: Path) -> None:
    async with listening(tmp_path, granted):
        mode = (tmp_path / control_socket.FILE_NAME).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


@pytest.mark.anyio
async def test_the_socket_of_a_dead_run_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / control_socket.FILE_NAME
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NothingRunning):
        ask(tmp_path, Wish.PAUSE)
    async with listening(tmp_path, granted):
        assert (await asyncio.to_thread(ask, tmp_path, Wish.PAUSE)).done
    with pytest.raises(NothingRunning):
        ask(tmp_path, Wish.PAUSE)


def test_one_that_holds_the_lock_and_does_not_listen_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold(tmp_path, command="releasekit recover"):
        with pytest.raises(NotListening, match="`releasekit recover`"):
            ask(tmp_path, Wish.PAUSE)
        monkeypatch.setattr(control_socket, "ANSWER_WITHIN", 0.1)
        with socket.socket(socket.AF_UNIX) as stopped:  # as a process after Ctrl-Z
            stopped.bind(str(tmp_path / control_socket.FILE_NAME))
            stopped.listen(1)
            with pytest.raises(NoAnswer, match="does not answer"):
                ask(tmp_path, Wish.PAUSE)


@pytest.mark.anyio
async def test_a_folder_that_holds_no_socket_ends_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(control_socket, "_bound", refuse)
    async with listening(tmp_path, granted) as listener:
        listener.tell(Paused())
    assert not (tmp_path / control_socket.FILE_NAME).exists()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b"[]\n", b'{"wish": "explode"}\n', b"\xff\xfe\n", b"[" * 30_000 + b"\n"],
)
async def test_nonsense_gets_an_answer_and_no_more(tmp_path: Path, line: bytes) -> None:
    async with listening(tmp_path, granted):
        reader, writer = await asyncio.open_unix_connection(tmp_path / control_socket.FILE_NAME)
        writer.write(line)
        answer = json.loads(await reader.read())
        assert (answer["done"], answer["message"]) == (False, "this run knows no such wish")
        writer.close()
        assert (await asyncio.to_thread(ask, tmp_path, Wish.PAUSE)).done


@pytest.mark.anyio
async def test_who_sends_too_much_or_leaves_early_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / control_socket.FILE_NAME
    async with listening(tmp_path, granted) as listener:
        for sent in (b"x" * 200_000, b'{"wish": "pau', b'{"wish": "follow"}\n'):
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.transport.abort()
            listener.tell(Paused())
        assert (await asyncio.to_thread(ask, tmp_path, Wish.PAUSE)).done


def collect(home: Path, ready: threading.Event) -> tuple[int, list[Event], Exception | None]:
    seen: list[Event] = []
    with followed(home) as (replayed, told):
        ready.set()
        try:
            seen.extend(told)
        except ReleaseKitError as error:
            return replayed, seen, error
    return replayed, seen, None


@pytest.mark.anyio
async def test_who_follows_gets_what_was_and_then_what_happens(tmp_path: Path) -> None:
    before: list[Event] = [Noted(message=f"{number} ü\n") for number in range(1000)]
    after: list[Event] = [Paused(), RunEnded(ok=True)]
    ready = threading.Event()
    async with listening(tmp_path, granted) as listener:
        for event in before:
            listener.tell(event)
        following = asyncio.create_task(asyncio.to_thread(collect, tmp_path, ready))
        await asyncio.to_thread(ready.wait)
        for event in after:
            listener.tell(event)
    assert await following == (1000, [*before, *after], None)


@pytest.mark.anyio
async def test_who_follows_learns_of_the_error_in_its_own_kind(tmp_path: Path) -> None:
    ready = threading.Event()
    following: list[asyncio.Task[tuple[int, list[Event], Exception | None]]] = []

    async def failing() -> None:
        async with listening(tmp_path, granted):
            following.append(asyncio.create_task(asyncio.to_thread(collect, tmp_path, ready)))
            await asyncio.to_thread(ready.wait)
            raise UsageError("no such thing", hint="look again")

    with pytest.raises(UsageError):
        await failing()
    _, _, error = await following[0]
    assert isinstance(error, UsageError)
    assert (error.message, error.hint) == ("no such thing", "look again")


@pytest.mark.anyio
async def test_a_reader_that_hangs_neither_gathers_memory_nor_keeps_the_run(
    tmp_path: Path,
) -> None:
    async def told_to_nobody(listener: Listener) -> None:
        for number in range(5000):
            listener.tell(Noted(message="x" * 1000))
            listener.tell(UploadProgressed(package="p", file="f", sent=number, size=9))
            if number % 100 == 0:
                await asyncio.sleep(0)

    async with asyncio.timeout(20):
        async with listening(tmp_path, granted) as listener:
            _, writer = await asyncio.open_unix_connection(tmp_path / control_socket.FILE_NAME)
            writer.write(b'{"wish": "follow"}\n')
            while not listener._followers:
                await asyncio.sleep(0)
            await told_to_nobody(listener)
            [follower] = listener._followers
            assert follower.writer.transport.get_write_buffer_size() < 1_000_000
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


# The real command


class Run:
    """A publish in the background, its events as they come."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root = root
        self.events: list[dict[str, Any]] = []
        self.child = subprocess.Popen(
            [sys.executable, "-m", "releasekit", *arguments, "--output", "json"],
            cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def until(self, kind: str, **fields: object) -> dict[str, Any]:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            event: dict[str, Any] = json.loads(line)
            self.events.append(event)
            if event["event"] == kind and fields.items() <= event.items():
                return event
        raise AssertionError((kind, self.events))

    def end(self) -> tuple[int, str]:
        out, err = self.child.communicate(timeout=60)
        told = [json.loads(line) for line in out.splitlines()]
        self.events += [one for one in told if "event" in one]  # the last may be an error
        return self.child.returncode, err

    @property
    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]


@contextlib.contextmanager
def running(root: Path, *arguments: str) -> Iterator[Run]:
    run = Run(root, *arguments)
    try:
        yield run
    finally:
        run.child.kill()
        run.child.communicate()


def wish(releasekit: ReleaseKit, root: Path, word: str) -> str:
    done = releasekit(word, "--output", "json", cwd=root)
    assert done.code == 0, done.err
    assert done.json()["wish"] == word
    return str(done.json()["message"])


def test_pause_resume_and_cancel_reach_the_uploads_of_another_terminal(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    gate = threading.Event()
    with (
        faulty_registry(pypi, gate=gate) as held,
        running(root, "publish", "--yes", "--registry", pypi_option(held)) as run,
    ):
        run.until("upload-sent")
        assert wish(releasekit, root, "pause") == "paused: 1 upload in flight finishes first"
        gate.set()
        run.until("release-ended", package="pypi:acme-text", outcome="published")
        assert wish(releasekit, root, "pause") == "already paused: nothing is in flight"
        assert served(pypi, "acme-models") == {}
        gate.clear()
        assert wish(releasekit, root, "resume") == "going on"
        run.until("upload-sent", package="pypi:acme-models")
        assert wish(releasekit, root, "resume") == "it was not paused"
        assert wish(releasekit, root, "cancel") == "quitting: 1 upload in flight finishes first"
        assert wish(releasekit, root, "cancel").startswith("already quitting")
        gate.set()
        assert run.end()[0] == 3
    wishes = [kind for kind in run.kinds if kind in {"paused", "resumed", "quitting"}]
    assert wishes == ["paused", "resumed", "quitting"]
    [file] = root.glob(".releasekit/runs/*/journal.jsonl")
    kinds = [event.kind for event in journal.read(file).events]
    assert [kind for kind in kinds if kind in set(wishes)] == wishes
    assert not (root / ".releasekit" / control_socket.FILE_NAME).exists()
    outcomes = {one["package"]: one["outcome"] for one in run.events if "outcome" in one}
    assert outcomes == {
        "pypi:acme-text": "published", "pypi:acme-models": "published", "pypi:acme-app": "cancelled"
    }  # fmt: skip


def test_without_a_release_a_wish_is_an_error_that_says_what_helps(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", node={})
    for word in ("pause", "resume", "cancel"):
        none = releasekit(word, "--output", "json", cwd=tmp_path / "repo")
        assert none.code == 1
        assert none.json()["error"]["kind"] == "NothingRunning"
        assert "releasekit status" in none.json()["error"]["hint"]
    assert not (tmp_path / "repo/.releasekit").exists()


def test_a_pause_before_the_uploads_holds_them_and_the_builds_go_on(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = stuck(tmp_path)
    with running(root, "publish", "--yes", "--registry", pypi_option(pypi)) as run:
        _pids_of(run)
        assert wish(releasekit, root, "pause") == "paused: the uploads wait for `resume`"
        assert wish(releasekit, root, "cancel").startswith("ending now: nothing was uploaded")
        code, err = run.end()
    assert code == 3
    assert "stopped by `releasekit cancel`; the manifests are as they were" in err
    assert run.kinds[-1] == "run-ended"
    assert run.events[-1]["stopped"] is True
    assert "good-one==1.2.3" not in (root / "stuck/pyproject.toml").read_text()
    assert not (root / ".git/releasekit/pins").exists()


def stuck(tmp_path: Path) -> Path:
    """A workspace of which one build never ends while its manifest is pinned."""
    root = write_tree(
        tmp_path / "repo",
        workspace_of(
            in_tree("stuck", "", requires="", dependencies='["good-one"]'),
            in_tree("good-one", "", requires=""),
        ),
    )
    for name in ("stuck", "good-one"):
        (root / name / "backend.py").write_text(f"{HANGING}\nbuild_sdist = build_wheel\n")
    with (root / "stuck/pyproject.toml").open("a") as manifest:
        manifest.write("[tool.uv.sources]\ngood-one = { workspace = true }\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "one")
    return root


def _pids_of(run: Run) -> None:
    _pids(run.child, run.root)


def test_a_build_is_cancelled_but_not_paused(releasekit: ReleaseKit, tmp_path: Path) -> None:
    with hanging(tmp_path) as (child, root, _):
        no = releasekit("pause", "--output", "json", cwd=root)
        assert no.code == 1
        assert no.json()["error"]["message"] == "a build cannot be paused"
        assert "releasekit cancel" in no.json()["error"]["hint"]
        assert releasekit("cancel", cwd=root).out.startswith("ending now")
        _, err = child.communicate(timeout=60)
        assert child.returncode == 3
        assert "stopped by `releasekit cancel`" in err
        assert "good-one==1.2.3" not in (root / "stuck/pyproject.toml").read_text()


@pytest.mark.parametrize("how", ["cancel", "SIGINT", "SIGTERM", "answered"])
def test_a_run_that_asks_hears_wishes_and_signals(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, how: str
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    option = pypi_option(pypi)
    command = [sys.executable, "-m", "releasekit", "publish", "--progress", "plain"]
    with Terminal([*command, "--registry", option], root) as terminal:
        terminal.until_said("Publish?")
        assert "it has not begun to build" in releasekit("status", cwd=root).out
        if how == "answered":
            terminal.send(signal.SIGUSR1)
            told = wish(releasekit, root, "pause")
            assert told == "already paused: the uploads wait for `resume`"
            terminal.press("what?\n")
            terminal.until(lambda: terminal.raw.count("Publish?") == 2)
            terminal.press("Yes\n")
            terminal.until_said("paused between uploads")
            terminal.until_said("uploading by dependency")
            assert wish(releasekit, root, "resume") == "going on"
            terminal.until_said("3 published")
            assert terminal.end() == 0
        elif how == "cancel":
            assert wish(releasekit, root, "cancel").startswith("ending now")
            assert terminal.end() == 3
            assert "stopped by `releasekit cancel`" in terminal.raw
        else:
            terminal.send(signal.Signals[how])
            assert terminal.end() == 3
            assert f"stopped by {how}" in terminal.raw
    assert not (journal_directory(root) / control_socket.FILE_NAME).exists()


def test_a_signal_ends_the_wait_for_the_lock(releasekit: ReleaseKit, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    command = [sys.executable, "-m", "releasekit", "publish", "--lock-timeout", "600"]
    with hold(journal_directory(root), command="releasekit recover"):
        short = releasekit("publish", "--yes", "--lock-timeout", "0.5", cwd=root)
        assert short.code == 4
        assert "after waiting 0.5 s" in short.err
        with Terminal(command, root) as terminal:
            wait_for_its_loop(terminal.child)
            terminal.send(signal.SIGINT)
            assert terminal.end() == 3
            assert "stopped by SIGINT" in terminal.raw


def wait_for_its_loop(pid: int) -> None:
    """Until SIGTERM is caught: then the event loop has its handlers."""
    while True:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        [caught] = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
        if int(caught, 16) >> (signal.SIGTERM - 1) & 1:
            return


def test_after_kill_9_the_next_run_listens_again(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={})
    path = root / ".releasekit" / control_socket.FILE_NAME
    gate = threading.Event()
    with (
        faulty_registry(pypi, gate=gate) as held,
        running(root, "publish", "--yes", "--registry", pypi_option(held)) as run,
    ):
        run.until("upload-sent")
        run.child.kill()
        run.child.wait()
        assert path.exists()
        none: Result = releasekit("pause", cwd=root)
        assert (none.code, "no release is running here" in none.err) == (1, True)
        with running(root, "publish", "--yes", "--registry", pypi_option(held)) as again:
            again.until("upload-sent")
            assert wish(releasekit, root, "pause").startswith("paused: ")
            gate.set()
            assert wish(releasekit, root, "resume") == "going on"
            assert again.end()[0] == 0
    assert not path.exists()
