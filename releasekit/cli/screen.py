"""Which readers show a run: a live view, lines, JSON or GitHub's log; and always its own log."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import events
from releasekit.cli.shell import Output, Progress
from releasekit.events import Outcome, ReleaseEnded, RunStarted, RunState
from releasekit.ui import github
from releasekit.ui.plain import line_for
from releasekit.ui.run_log import RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from releasekit.cli.shell import Shell
    from releasekit.events import Event
    from releasekit.ui.keys import Keys
    from releasekit.ui.live import Live


class Screen:
    """What a person, a program and a CI log see of one run."""

    def __init__(self, shell: Shell, root: Path, *, again: str, runs_in: Path | None) -> None:
        self.state = RunState()
        self._shell = shell
        self._root = root
        self._runs_in = runs_in
        self._command = again
        self._folder: Path | None = None
        self._log = RunLog()
        shell.logged = self._log.write
        self._keys: Keys | None = None
        self._asking = False
        self._groups: github.Groups | None = None
        self._live: Live | None = None
        # With JSON on stdout, whatever else is shown goes to stderr.
        stream = sys.stderr if shell.output is Output.JSON else sys.stdout
        self._mode = shell.progress_on(stream)
        if self._mode is Progress.LIVE:
            self._live = self._make_live(stream.fileno(), color=shell.uses_color(stream))
        elif github.is_runner(os.environ) and shell.output is Output.TEXT:
            self._groups = github.Groups(shell.print_as_is)

    def _make_live(self, fd: int, *, color: bool) -> Live:
        from releasekit.ui.live import Live
        from releasekit.ui.view import View

        return Live(
            View(workspace=self._root.name),
            fd,
            color=color,
            unicode=self._shell.uses_unicode(),
            log_of=self.log_of,
            came_back=self.resume,
        )

    def show(self, event: Event) -> None:
        self.state.apply(event)
        if isinstance(event, RunStarted):
            self._start(event)
        self._log.show(event)
        if self._shell.output is Output.JSON and self._folder is not None:
            self._shell.emit_line(events.to_json(event))
        if self._live is not None:
            self._live.show(event)
        elif self._mode is Progress.PLAIN or _is_failure(event):
            self._print_line(event)

    def _start(self, event: RunStarted) -> None:
        from releasekit.lock import journal_directory

        self._folder = (self._runs_in or journal_directory(self._root)) / "runs" / event.run
        self._log.open(self._folder)
        if self._live is not None:
            self._live.keys = "q?la" if event.command == "build" else "pq+la?"
        if self._keys is not None:
            self._keys.start()  # not earlier: the question is answered with Enter

    def _print_line(self, event: Event) -> None:
        if self._groups is not None:
            self._groups.show(event)
        stderr = self._shell.output is Output.JSON
        stream = sys.stderr if stderr else sys.stdout
        line = line_for(event, lambda text, code: self._shell.style(text, code, stream))
        if line is not None:
            (self._shell.say if stderr else self._shell.print_of_run)(line)

    def log_of(self, package: str) -> Path | None:
        from releasekit.publish.build import log_file

        return log_file(self._folder, package) if self._folder is not None else None

    def in_flight(self) -> list[str]:
        """Packages of which the registry may hold what it has not served yet."""
        return [
            name
            for name, release in self.state.releases.items()
            if release.outcome is None and release.sent - release.confirmed
        ]

    def keys(self) -> dict[str, Callable[[], None]]:
        from releasekit.ui.keys import DOWN, UP

        if self._live is None:
            return {}
        return {
            "l": self._live.toggle_log,
            "a": self._live.toggle_all,
            "?": self._live.toggle_help,
            **dict.fromkeys(("\t", *DOWN), self._live.select_next),
            **dict.fromkeys(UP, functools.partial(self._live.select_next, -1)),
        }

    @contextlib.contextmanager
    def shown(self, keys: Keys) -> Iterator[None]:
        """From here on the view may be drawn and keys may be heard."""
        self._keys = keys
        if self._live is None:
            yield
            return
        with self._live:
            self._shell.above = self._live.say
            self._live.start()
            try:
                yield
            finally:
                self._shell.above = None

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """The terminal is a question's for a while: it comes after what was said."""
        self.suspend()
        lines, self._shell.lines = self._shell.lines, None
        if lines is not None:
            lines.drain()
        self._asking = True
        try:
            yield
        finally:
            self._asking = False
            self._shell.lines = lines
            self.resume()

    def suspend(self) -> None:
        self._shell.above = None
        if self._live is not None:
            self._live.suspend()

    def resume(self) -> None:
        if self._asking:
            return
        if self._keys is not None and self._folder is not None:
            self._keys.start()
        if self._live is not None and not self._live.over:
            self._shell.above = self._live.say
            self._live.start()

    def resized(self) -> None:
        if self._live is not None:
            self._live.resized()

    def nothing_to_pause(self) -> None:
        self._shell.say("a build cannot be paused")

    def close(self) -> None:
        """Whatever happened: no group stays open and no line is lost."""
        if self._groups is not None:
            self._groups.end()
        self._shell.logged = None

    @property
    def again(self) -> str:
        """The command line; a secret in it is known as one only once the run has read it."""
        from releasekit.secrets import redact

        return redact(self.state.again or self._command)

    def finish(self, *, complete: bool) -> None:
        """The last words, here, in the log, and where CI shows them."""
        from releasekit.ui.summary import summary

        if not self.state.releases:
            self._log.close()
            return

        def text(paint: Callable[[str, str], str]) -> str:
            return summary(
                self.state, paint, again=self.again, folder=self._folder, log_of=self.log_of
            )

        if self._shell.output is Output.TEXT:
            with self._commands_stopped():
                self._shell.print_of_run(text(self._shell.style))
        self._log.write(text(lambda words, _: words))
        self._log.close()
        if complete and github.is_runner(os.environ):
            self._tell_github()

    @contextlib.contextmanager
    def _commands_stopped(self) -> Iterator[None]:
        if self._groups is None:
            yield
            return
        self._groups.stop_commands()
        try:
            yield
        finally:
            self._groups.end()

    def _tell_github(self) -> None:
        if self._shell.output is Output.TEXT and self.state.by_outcome(Outcome.FAILED):
            manifests = self._manifests()
            for line in github.errors_on_manifests(self.state, manifests.get):
                self._shell.print_as_is(line)
        if target := os.environ.get("GITHUB_STEP_SUMMARY"):
            told = github.job_summary(self.state, self.again)
            try:
                with Path(target).open("a", encoding="utf-8") as file:
                    file.write(told)
            except OSError as error:
                self._shell.say(f"the job summary was not written: {error}")

    def _manifests(self) -> dict[str, str]:
        """Manifests as annotations name them: relative to the checkout."""
        from releasekit import config, workspace
        from releasekit.errors import ReleaseKitError

        checkout = Path(os.environ.get("GITHUB_WORKSPACE") or self._root).resolve()
        try:
            settings = config.load(self._root)
            found = workspace.load(self._root, exclude=settings.exclude, roots=settings.roots)
        except ReleaseKitError:
            return {}  # an annotation without a file is better than none
        return {
            package.id: os.path.relpath(self._root.resolve() / package.manifest, checkout)
            for package in found.packages
        }


def _is_failure(event: Event) -> bool:
    """What also `--progress quiet` tells at once."""
    return isinstance(event, ReleaseEnded) and event.outcome is Outcome.FAILED
