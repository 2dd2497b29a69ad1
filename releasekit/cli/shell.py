"""What every command shares: the global options, and the way to the person and to the machine."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click
from typer.core import TyperGroup

from releasekit.errors import NoSuchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from releasekit.config import Config
    from releasekit.errors import ReleaseKitError
    from releasekit.model import Workspace
    from releasekit.pins import Recovery
    from releasekit.ui.lines import Lines
    from releasekit.ui.working import Spinner


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Progress(StrEnum):
    AUTO = "auto"
    LIVE = "live"
    PLAIN = "plain"
    QUIET = "quiet"


@dataclass(slots=True)
class Shell:
    """The global options, as given before or after the command."""

    directory: Path | None = None
    output: Output = Output.TEXT
    color: Color = Color.AUTO
    progress: Progress = Progress.AUTO
    verbose: bool = False
    debug: bool = False
    above: Callable[[str], None] | None = field(default=None, repr=False)
    """Where a live view is drawn: what prints a line above it."""
    lines: Lines | None = field(default=None, repr=False)
    """Prints while a run may not wait for who reads."""
    spinner: Spinner | None = field(default=None, repr=False)
    """Turns below the lines that are printed."""
    logged: Callable[[str], None] | None = field(default=None, repr=False)
    """Keeps a line in the log of the run."""

    def root(self) -> Path:
        """The repository: the folder given, or the one around the current directory."""
        from releasekit import workspace

        if self.directory is not None:
            if not self.directory.is_dir():
                raise NoSuchFolder(folder=self.directory)
            return self.directory.resolve()
        return workspace.find_root(Path.cwd())

    def load(self) -> tuple[Workspace, Config]:
        from releasekit import config, lock, workspace

        root = self.root()
        if lock.has_leftovers(root):
            from releasekit import pins

            self.note_recovery(pins.recover_if_needed(root))
        settings = config.load(root)
        with self.working("reading the workspace"):
            found = workspace.load(root, exclude=settings.exclude, roots=settings.roots)
        return found, settings

    @contextlib.contextmanager
    def working(self, doing: str) -> Iterator[None]:
        """A spinner on stderr while something takes longer than a second; for a terminal only."""
        if self.progress not in {Progress.AUTO, Progress.LIVE} or not self.can_draw(sys.stderr):
            yield
            return
        from releasekit.ui.working import Spinner

        with Spinner(doing, sys.stderr.fileno(), unicode=self.uses_unicode()) as spinner:
            self.spinner = spinner
            try:
                yield
            finally:
                self.spinner = None

    def can_draw(self, stream: Any) -> bool:  # noqa: ANN401 - any text stream
        return stream is not None and stream.isatty() and _is_smart(os.environ)

    def uses_unicode(self) -> bool:
        return speaks_unicode(os.environ)

    def progress_on(self, stream: Any) -> Progress:  # noqa: ANN401 - any text stream
        """How a run is shown there; where no view can be drawn, lines take its place."""
        if self.progress is Progress.AUTO and self.output is Output.JSON:
            return Progress.QUIET  # the events are on stdout
        if self.progress in {Progress.AUTO, Progress.LIVE}:
            return Progress.LIVE if self.can_draw(stream) else Progress.PLAIN
        return self.progress

    def note_recovery(self, recovery: Recovery) -> None:
        """Say in one line what an interrupted run had left, if anything."""
        from releasekit.ui.text import clean

        if told := str(recovery):
            self.say(f"{self.style('note:', '1;36', sys.stderr)} {clean(told)}")

    def uses_color(self, stream: Any) -> bool:  # noqa: ANN401 - any text stream
        if self.color is not Color.AUTO:
            return self.color is Color.ALWAYS
        # https://no-color.org: present and not empty.
        return (
            stream is not None  # closed before we started
            and not os.environ.get("NO_COLOR")
            and stream.isatty()
            and _is_smart(os.environ)
        )

    def style(self, text: str, code: str, stream: Any = None) -> str:  # noqa: ANN401
        """`text` in the colour of an SGR code, where the reader wants colour."""
        wanted = self.uses_color(sys.stdout if stream is None else stream)
        return f"\x1b[{code}m{text}\x1b[0m" if wanted else text

    def emit(self, data: object) -> None:
        """One JSON document on stdout."""
        # In ASCII: a control character that JSON allows must not reach a terminal.
        self.print(json.dumps(data, indent=2))

    def emit_line(self, data: object) -> None:
        """One JSON document of many, on a line of its own; a reader who left ends nothing."""
        from releasekit.ui import github

        line = json.dumps(data)
        if github.is_runner(os.environ):
            line = github.json_without_commands(line)
        self.print_as_is(line)

    def print(self, text: str) -> None:
        """Data, or the answer to a question: stdout."""
        with self.spinner.aside() if self.spinner else contextlib.nullcontext():
            print(text, flush=True)

    def print_of_run(self, text: str) -> None:
        """Something that a run has to tell: a reader who left (`| head`) must not end a release."""
        self.print_as_is(self.spelled(text))

    def print_as_is(self, text: str) -> None:
        self._tell(sys.stdout, text)

    def say(self, text: str) -> None:
        """For the person, not part of the answer: stderr. A dead terminal ends nothing."""
        text = self.spelled(text)
        if self.above is not None:
            self.above(text)
        else:
            self._tell(sys.stderr, text)

    def _tell(self, stream: TextIO | None, text: str) -> None:
        if stream is None:
            return
        if self.lines is not None:
            self.lines.put(stream, text)
            return
        try:
            with self.spinner.aside() if self.spinner else contextlib.nullcontext():
                print(text, file=stream, flush=True)
        except OSError:
            _silence(stream)

    @contextlib.contextmanager
    def waiting_for_no_reader(self) -> Iterator[None]:
        """All of it is written when the block has ended."""
        from releasekit.ui.lines import Lines

        self.lines = Lines()
        try:
            yield
        finally:
            lines, self.lines = self.lines, None
            lines.close()

    def ask(self, question: str) -> None:
        """The answer is typed behind it."""
        if sys.stderr is not None:
            print(self.spelled(question), end="", file=sys.stderr, flush=True)

    def spelled(self, text: str) -> str:
        """As the reader can show it: without commands to a CI runner, in ASCII if need be."""
        from releasekit.ui import github
        from releasekit.ui.text import in_ascii

        if github.is_runner(os.environ):
            text = github.without_commands(text)
        return text if self.uses_unicode() else in_ascii(text)

    def report(self, error: ReleaseKitError, exit_code: int) -> None:
        """An error with its hint; also as JSON where a program reads."""
        from releasekit.errors import PreflightFailed
        from releasekit.secrets import redact
        from releasekit.ui.text import clean

        message, hint = redact(error.message), redact(error.hint or "") or None
        if self.output is Output.JSON:
            body: dict[str, object] = {
                "kind": type(error).__name__,
                "message": message,
                "hint": hint,
                "exit_code": exit_code,
            }
            if isinstance(error, PreflightFailed):
                body["problems"] = [
                    {"package": one.package, "message": redact(one.message), "hint": one.hint}
                    for one in error.problems
                ]
            self.emit_line({"error": body})
        told = clean(message, lines=True)
        self.say(f"{self.style('error:', '1;31', sys.stderr)} {told}")
        if hint:
            self.say(f"{self.style('hint:', '1;36', sys.stderr)} {clean(hint)}")

    def start_logging(self) -> None:
        """structlog to stderr: everything with `--verbose`, otherwise warnings."""
        import logging

        import structlog

        from releasekit.secrets import redact

        def without_secrets(_logger: Any, _method: str, line: Any) -> Any:  # noqa: ANN401 - structlog's own types
            return redact(line)

        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
                structlog.dev.ConsoleRenderer(colors=self.uses_color(sys.stderr)),
                without_secrets,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(
                logging.DEBUG if self.verbose else logging.WARNING
            ),
            logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Log(self))),
        )


class _Log:
    """Where structlog prints: past a live view, and to the log of the run."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._begun = ""

    def write(self, text: str) -> None:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._shell.say(line)
            if self._shell.logged is not None:
                self._shell.logged(line)

    def flush(self) -> None:
        """Every line is written when it is whole."""


def _silence(stream: Any) -> None:  # noqa: ANN401 - any text stream
    """Later lines, and the flush at exit, go nowhere without a complaint."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def speaks_unicode(environ: Mapping[str, str]) -> bool:
    """By the locale: Python itself writes UTF-8 also where `LC_ALL=C` asks for ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return "utf8" in locale.lower().replace("-", "")


def _is_smart(environ: os._Environ[str]) -> bool:
    return environ.get("TERM", "") not in {"", "dumb"}


def _stores(attribute: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def store(ctx: click.Context, _: click.Parameter, value: Any) -> Any:  # noqa: ANN401
        shell = ctx.ensure_object(Shell)
        if value is not None:
            setattr(shell, attribute, value)
        return value

    return store


def _global_options() -> list[click.Parameter]:
    def option(attribute: str, *names: str, **settings: Any) -> click.Option:  # noqa: ANN401
        return click.Option(
            names, expose_value=False, is_eager=True, callback=_stores(attribute), **settings
        )

    return [
        option(
            "directory",
            "-C",
            "--root",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Work in DIR instead of the repository around the current directory.",
        ),
        option(
            "output",
            "--output",
            type=click.Choice(Output, case_sensitive=False),
            help="Text for people or JSON for programs.  [default: text]",
        ),
        option(
            "color",
            "--color",
            type=click.Choice(Color, case_sensitive=False),
            help="When to use colour; NO_COLOR is honoured.  [default: auto]",
        ),
        option(
            "progress",
            "--progress",
            type=click.Choice(Progress, case_sensitive=False),
            help="How a run is shown; auto: live on a terminal, else plain.  [default: auto]",
        ),
        option("verbose", "-v", "--verbose", is_flag=True, default=None, help="Log to stderr."),
        option(
            "debug", "--debug", is_flag=True, default=None, help="Show a traceback with an error."
        ),
    ]


class Commands(TyperGroup):
    """A group whose global options are understood before and after the command's name."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Typer's own signature
        super().__init__(**settings)
        self.params = [*self.params, *_global_options()]
        for command in self.commands.values():
            command.params = [*command.params, *_global_options()]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)
