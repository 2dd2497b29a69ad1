"""The live view, keys and signals: real processes on real terminals.

Uploads wait for permits, so that every screen can be waited for and none is met by luck.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from releasekit import events, journal, lock
from releasekit.embedded import pypi_registry
from releasekit.events import Noted, Outcome, fold
from tests.building import write_tree
from tests.faults import Fault, faulty_registry
from tests.sample import write_sample
from tests.terminals import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from releasekit.events import RunState

# Each needs the one before; the last two need nothing.
CHAIN = {"acme-c": ("acme-b",), "acme-b": ("acme-a",), "acme-a": (), "lone-1": (), "lone-2": ()}
FILES = 2
"""A wheel and an sdist are uploaded of each."""
GO_ON = 1000


@dataclass
class Stage:
    """A repository, and a registry that takes an upload for each permit."""

    root: Path
    settings: RegistrySettings
    permits: threading.Semaphore

    @property
    def command(self) -> list[str]:
        option = f"pypi={self.settings.upload_url},{self.settings.index_url}"
        return [sys.executable, "-m", "releasekit", "publish", "--yes", "--registry", option]

    def publish(
        self,
        *more: str,
        columns: int = 100,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
    ) -> Terminal:
        argv = [*self.command, *more]
        return Terminal(argv, self.root, columns=columns, rows=rows, environ=environ)

    def allow(self, files: int = GO_ON) -> None:
        self.permits.release(files)

    @property
    def state(self) -> RunState:
        return fold(journal.read(self._file(journal.FILE_NAME)).events)

    @property
    def log(self) -> str:
        return self._file("run.log").read_text()

    def notes(self) -> list[str | None]:
        events = journal.read(self._file(journal.FILE_NAME)).events
        return [event.package for event in events if isinstance(event, Noted)]

    def _file(self, name: str) -> Path:
        return max(self.root.glob(f".releasekit/runs/*/{name}"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistrySettings]:
    with pypi_registry(tmp_path_factory.mktemp("registry")) as settings:
        yield settings


@pytest.fixture
def stage(
    tmp_path: Path, shared: RegistrySettings, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """Packages with a version of their own for each test, so that all may share a registry."""
    root = tmp_path / "acme"
    version = zlib.crc32(request.node.nodeid.encode())
    write_sample(root, version=f"1.{version}", python=CHAIN, node={})
    permits = threading.Semaphore(0)
    with faulty_registry(shared, permits=permits) as settings:
        stage = Stage(root, settings, permits)
        yield stage
        permits.release(GO_ON)


def names(*short: str) -> set[str]:
    return {f"pypi:{name}" for name in short}


def in_row(terminal: Terminal, name: str, words: str) -> bool:
    return any(f"pypi:{name} " in line and words in line for line in terminal.lines)


def test_rows_while_it_runs_lines_that_stay_and_a_terminal_as_before(stage: Stage) -> None:
    with stage.publish(columns=80, rows=16) as terminal:
        terminal.until_shown("uploading 0/5", "2 waiting, next: pypi:acme-b")
        for name in ("acme-a", "lone-1", "lone-2"):
            terminal.until(partial(in_row, terminal, name, "uploading"))
        assert terminal.screen.cursor.hidden
        assert terminal.modes() != terminal.before
        stage.allow()
        assert terminal.end() == 0
        assert terminal.is_as_before
        finished = [line for line in terminal.lines if line.startswith("✓")]
        assert len(finished) == 5
        assert all("published" in line for line in finished)
        assert terminal.lines[terminal.lines.index("5 published") - 1] == ""
        assert "waiting" not in terminal.text
        assert "p pause" not in terminal.text


def test_keys_that_look(stage: Stage) -> None:
    with stage.publish(rows=10) as terminal:
        terminal.until_shown("2 waiting", "p pause")
        terminal.press("?")
        terminal.until_shown("pause between uploads", "this help")
        terminal.press("?")
        terminal.until_shown("2 waiting")
        terminal.press("a")
        terminal.until_shown("a fewer rows", "waiting for pypi:acme-a")
        terminal.press("\t")
        terminal.until(lambda: terminal.row_of("▸"))
        first = terminal.row_of("▸")
        terminal.press("\x1b[B")
        terminal.until(lambda: terminal.row_of("▸") not in {"", first})
        terminal.press("\x1b[A\x1b[A")
        terminal.until(lambda: in_row(terminal, "acme-c", "▸"))
        terminal.press("a")
        terminal.until_shown("2 waiting")
        terminal.press("l")
        terminal.until_shown("acme-c.log", "  | ")
        terminal.press("l")
        terminal.until(lambda: "  | " not in terminal.text)
        stage.allow()
        assert terminal.end() == 0
        assert terminal.is_as_before


def test_keys_that_steer(stage: Stage) -> None:
    argv = [word for word in stage.command if word != "--yes"]
    with Terminal([*argv, "--concurrency", "3"], stage.root, columns=100) as terminal:
        terminal.until_shown("Publish? [y/N]:")
        terminal.press("y\n")
        terminal.until_shown("uploading 0/5", "3 at once")
        terminal.press("+")
        terminal.until_shown("4 at once")
        terminal.press("--")
        terminal.until_shown("2 at once")
        terminal.press("p")
        terminal.until_shown("paused 0/5", "r goes on")
        stage.allow(3 * FILES)
        terminal.until_shown("paused 3/5")
        assert not in_row(terminal, "acme-b", "uploading")
        terminal.press("r")
        terminal.until(lambda: in_row(terminal, "acme-b", "uploading"))
        terminal.press("q")
        terminal.until_shown("quitting 4/5", "what is in flight finishes")
        stage.allow()
        assert terminal.end() == 3
        assert terminal.is_as_before
        assert "4 published · 1 cancelled" in terminal.text
        assert "to continue: releasekit publish --registry" in terminal.text
    assert stage.state.ok is False
    with stage.publish() as again:
        assert again.end() == 0
        assert "1 published · 4 already there" in again.text


def test_pause_and_resume_from_outside(stage: Stage) -> None:
    with stage.publish() as terminal:
        terminal.until_shown("uploading 0/5")
        terminal.send(signal.SIGUSR1)
        terminal.until_shown("paused 0/5")
        terminal.send(signal.SIGUSR2)
        terminal.until_shown("uploading 0/5")
        stage.allow()
        assert terminal.end() == 0


def test_sequences_are_no_letters(stage: Stage) -> None:
    with stage.publish() as terminal:
        terminal.until_shown("uploading 0/5")
        terminal.press("\x1bOq\x1b[1;2q\x1bq\x1b[?1;2c?")  # keypad, function key, Alt, an answer
        terminal.until_shown("this help")
        stage.allow()
        assert terminal.end() == 0


# A backend that has started and never ends; nothing to install, so that it is there at once.
STUCK = """\
import pathlib, time

def build_wheel(*_):
    pathlib.Path({seen!r}).touch()
    time.sleep(600)

build_sdist = build_wheel
"""


@pytest.fixture
def stuck(tmp_path: Path, shared: RegistrySettings) -> Stage:
    """A repository whose build hangs while the manifests are pinned."""
    root = tmp_path / "acme"
    project = '[project]\nname = "{}"\nversion = "1"\ndependencies = {}\n'
    system = '[build-system]\nrequires = []\nbuild-backend = "stuck"\nbackend-path = ["."]\n'
    sources = "[tool.uv.sources]\nacme-a = {workspace = true}\n"
    backend = STUCK.format(seen=str(tmp_path / "seen"))
    write_tree(
        root,
        {
            "pyproject.toml": '[tool.uv.workspace]\nmembers = ["a", "b"]\n',
            "a/pyproject.toml": project.format("acme-a", "[]") + system,
            "a/stuck.py": backend,
            "b/pyproject.toml": project.format("acme-b", '["acme-a"]') + sources + system,
            "b/stuck.py": backend,
        },
    )
    return Stage(root, shared, threading.Semaphore(0))


WORDS = {"q": "`q`", "\x03": "SIGINT"}
ENDINGS = (*WORDS, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_builds_end_and_manifests_are_restored(stuck: Stage, ending: str | signal.Signals) -> None:
    manifest = stuck.root / "b" / "pyproject.toml"
    before = manifest.read_bytes()
    with stuck.publish() as terminal:
        terminal.until_shown("building 0/2", "q quit")
        terminal.until((stuck.root.parent / "seen").exists)
        assert manifest.read_bytes() != before
        terminal.press("p")
        terminal.until_shown("building, then paused")
        if isinstance(ending, str):
            terminal.press(ending)
        else:
            terminal.send(ending)
        assert terminal.end() == 3
        assert terminal.is_as_before
        told = WORDS[ending] if isinstance(ending, str) else ending.name
        assert f"stopped by {told}; the manifests are as they were" in terminal.text
        assert "2 not begun" in terminal.text
    assert manifest.read_bytes() == before
    assert stuck.state.ok is False


def test_ctrl_c_while_uploading_lets_what_is_in_flight_finish(stage: Stage) -> None:
    with stage.publish() as terminal:
        terminal.until_shown("uploading 0/5")
        terminal.press("\x03")
        terminal.until_shown("quitting", "Ctrl-C stops now")
        stage.allow()
        assert terminal.end() == 3
        assert "3 published · 2 cancelled" in terminal.text
        assert terminal.is_as_before


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)],
    ids=["twice SIGINT", "SIGTERM", "SIGHUP"],
)
def test_impatience_leaves_what_was_in_flight_unknown(
    stage: Stage, numbers: tuple[signal.Signals, ...]
) -> None:
    """No permit is given: only the end of the patience can end this."""
    with stage.publish() as terminal:
        terminal.until_shown("uploading 0/5")
        for number in numbers:
            terminal.send(number)
            terminal.until_shown("quitting")
        assert terminal.end() == 3
        assert terminal.is_as_before
        assert "2 cancelled · 3 unknown" in terminal.text
    assert stage.state.ok is False
    assert set(stage.notes()) == names("acme-a", "lone-1", "lone-2")


def test_the_question_can_be_interrupted(stage: Stage) -> None:
    argv = [word for word in stage.command if word != "--yes"]
    with Terminal(argv, stage.root) as terminal:
        terminal.until_shown("Publish? [y/N]:")
        terminal.press("\x03")
        assert terminal.end() == 3
        assert terminal.is_as_before
        assert "\nerror: stopped by SIGINT" in terminal.text


@contextlib.contextmanager
def shell_job(stage: Stage) -> Iterator[Terminal]:
    """A shell with job control; whoever calls starts something in it."""
    environ = {"PS1": "ready> ", "PROMPT_COMMAND": ""}
    with Terminal(["bash", "--norc", "--noprofile", "-i"], stage.root, environ=environ) as terminal:
        terminal.until_shown("ready>")
        yield terminal


def command_line(stage: Stage, tail: str = "") -> str:
    """The one shell's line is short, so that it does not fill the screen."""
    script = stage.root.parent / "run"
    script.write_text(f"exec {' '.join(stage.command)}\n")
    return f"clear; sh {script}{tail}\n"


def test_ctrl_z_leaves_a_sane_terminal_and_fg_brings_all_back(stage: Stage) -> None:
    with shell_job(stage) as terminal:
        terminal.press(command_line(stage, "; echo code $?"))
        terminal.until_shown("uploading 0/5")
        terminal.until(lambda: terminal.screen.cursor.hidden)
        terminal.press("\x1a")
        terminal.until_shown("Stopped", "ready>")
        assert not terminal.screen.cursor.hidden
        assert "p pause" not in terminal.text
        terminal.press("stty -a | grep -o -- '-*icanon\\|-*echo '\n")
        terminal.until_shown("icanon", "echo")
        terminal.press("clear; fg\n")
        terminal.until_shown("uploading 0/5", "p pause")
        terminal.press("p")
        terminal.until_shown("paused 0/5")
        terminal.press("\x1a")
        terminal.until_shown("Stopped", "ready>")
        terminal.press("clear; bg\n")
        stage.allow(3 * FILES)
        # Lines are allowed among the shell's; a view that moves is not.
        terminal.until(lambda: terminal.text.count("published") == 3)
        assert "paused 3/5" not in terminal.text
        terminal.press("fg\n")
        terminal.until_shown("paused 3/5")
        terminal.press("r")
        stage.allow()
        terminal.until_shown("5 published", "ready>")
        assert not terminal.screen.cursor.hidden


def test_a_run_in_the_background_draws_nothing_and_takes_no_key(stage: Stage) -> None:
    with shell_job(stage) as terminal:
        terminal.press(command_line(stage, " &"))
        terminal.until(lambda: len(list(stage.root.glob(".releasekit/runs/*/run.log"))) == 1)
        terminal.until(lambda: stage.log.count("uploading acme") + stage.log.count("lone") > 3)
        terminal.press("echo p''q\n")
        terminal.until_shown("\npq")
        assert "p pause" not in terminal.text
        stage.allow()
        terminal.until_shown("5 published")
    assert stage.state.ok is True


def test_it_fits_whatever_the_size(stage: Stage) -> None:
    with stage.publish(columns=80, rows=24) as terminal:
        terminal.until_shown("uploading 0/5", "? help")
        for columns, rows in ((200, 60), (40, 10), (20, 5), (80, 10)):
            terminal.resize(columns, rows)
            terminal.screen.reset()
            shown = len(terminal.raw)
            terminal.until(lambda since=shown: terminal.raw.count("\x1b[?2026l", since) >= 2)  # type: ignore[misc]
            header, *rest = terminal.text.split("\n")
            assert header.startswith("acme"), (columns, rows)
            assert "pypi:" in rest[0], (columns, rows)
            assert len(rest) < rows, (columns, rows)
            # Nothing wrapped: one line each for the header, rows, what waits and the keys.
            assert len(rest) <= 3 + 1 + 1, (columns, rows)
        stage.allow()
        assert terminal.end() == 0
        assert terminal.is_as_before


def test_a_terminal_held_by_ctrl_s_holds_no_run(stage: Stage) -> None:
    with stage.publish() as terminal:
        terminal.until_shown("uploading 0/5")
        terminal.press("\x13")
        stage.allow()
        terminal.until(
            lambda: (stage.state.ok, lock.holder(stage.root / ".releasekit")) == (True, None)
        )
        assert "published" not in terminal.text
        terminal.press("\x11")
        terminal.until_shown("5 published")
        assert terminal.end() == 0
        assert terminal.is_as_before


def test_a_terminal_that_dies_ends_no_run_that_ignores_the_hangup(stage: Stage) -> None:
    """As under nohup; without, SIGHUP ends it in order."""
    with Terminal(["sh", "-c", f"trap '' HUP; exec {' '.join(stage.command)}"], stage.root) as one:
        one.until_shown("uploading 0/5")
        one.hang_up()
        stage.allow()
        assert one.wait() == 0
    assert stage.state.ok is True
    assert "5 published" in stage.log


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_reads_nothing_holds_no_run(stage: Stage, *, blocking: bool) -> None:
    """As a pager that waits for a key: the pipe is full long before the end."""
    stage.allow()
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    argv = [*stage.command, "--output", "json"]
    child = subprocess.Popen(argv, cwd=stage.root, stdout=writing, stdin=subprocess.DEVNULL)
    os.close(writing)
    deadline = time.monotonic() + 30
    while not (list(stage.root.glob(".releasekit/runs/*/run.log")) and stage.state.ok):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with open(reading, encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        told = [events.from_json(json.loads(line)) for line in pipe]
    assert child.wait(timeout=30) == 0
    assert fold(told).ok is True
    assert len("".join(map(str, told))) > 8192


# A bug of ours: between the builds and the uploads, or in what draws the view.
BUG = """
import sys
from releasekit import publish
from releasekit.ui import live

async def break_down(*_):
    raise RuntimeError("broken on purpose")

if sys.argv.pop(1) == "run":
    publish.inspect_all = break_down
else:
    live.frame = None
from releasekit.__main__ import main
main()
"""


@pytest.mark.parametrize("place", ["run", "view"])
def test_the_terminal_is_as_before_after_a_bug(stage: Stage, place: str) -> None:
    stage.allow()
    argv = [sys.executable, "-c", BUG, place, *stage.command[3:]]
    with Terminal(argv, stage.root) as terminal:
        code = terminal.end()
        assert terminal.is_as_before
        # A release does not depend on its picture.
        assert code == (1 if place == "run" else 0), terminal.text


@pytest.mark.parametrize(
    ("environ", "live", "sgr", "ascii_only"),
    [
        ({"LC_ALL": "C"}, True, True, True),
        ({"TERM": "dumb"}, False, False, False),
        ({"NO_COLOR": "1"}, True, False, False),
    ],
    ids=["LC_ALL=C", "TERM=dumb", "NO_COLOR"],
)
def test_poor_terminals(
    stage: Stage, environ: dict[str, str], *, live: bool, sgr: bool, ascii_only: bool
) -> None:
    stage.allow()
    with stage.publish(environ=environ) as terminal:
        assert terminal.end() == 0
        assert "5 published" in terminal.text
        assert terminal.is_as_before
    assert ("\x1b[?2026h" in terminal.raw) is live
    assert ("\x1b[32m" in terminal.raw) is sgr
    assert terminal.raw.isascii() is ascii_only
    assert ("\x1b" in terminal.raw) is (live or sgr)


def test_a_failure_a_rate_limit_and_what_they_keep_back(stage: Stage) -> None:
    stage.allow()
    waits = Fault(status=429, words="Too Many Requests", headers={"Retry-After": "2"})
    refuses = Fault(status=403, words="Forbidden: \x1b]0;owned\x07")
    faults = {"acme-b": [refuses], "lone-1": [waits]}
    with (
        faulty_registry(stage.settings, uploads=faults) as settings,
        Stage(stage.root, settings, stage.permits).publish() as terminal,
    ):
        terminal.until_shown("asked us to wait until", "rate-limited until")
        assert terminal.end() == 1
        assert "✗ pypi:acme-b" in terminal.text
        assert "⊘ pypi:acme-c" in terminal.text
        assert "3 published · 1 failed · 1 blocked" in terminal.text
        assert "owned" not in terminal.screen.title
        assert terminal.is_as_before
    assert stage.state.by_outcome(Outcome.BLOCKED)[0].blocked_by == "pypi:acme-b"


def test_a_failed_build_is_told_while_others_are_still_at_work(stuck: Stage) -> None:
    (stuck.root / "b" / "stuck.py").write_text("raise RuntimeError('broken on purpose')\n")
    with stuck.publish() as terminal:
        terminal.until_shown("✗ pypi:acme-b 1  failed", "1 failed")
        terminal.until(lambda: in_row(terminal, "acme-a", "building"))
        assert not in_row(terminal, "acme-b", "building")
        terminal.press("l")
        terminal.until_shown("acme-b.log", "broken on purpose")
        terminal.press("q")
        assert terminal.end() == 3
        assert "broken on purpose" in terminal.text
    assert stuck.state.releases["pypi:acme-b"].outcome is Outcome.FAILED


def test_a_build_shows_the_same_view_and_q_ends_it(stuck: Stage) -> None:
    argv = [sys.executable, "-m", "releasekit", "build"]
    with Terminal(argv, stuck.root) as terminal:
        terminal.until_shown("building 0/2", "q quit  l log")
        assert "p pause" not in terminal.text
        terminal.send(signal.SIGUSR1)
        terminal.until_shown("a build cannot be paused")
        terminal.press("q")
        assert terminal.end() == 3
        assert terminal.is_as_before
    assert not (stuck.root / "dist").exists()
