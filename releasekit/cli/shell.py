"""What every command shares: the global options, and the way to the person and to the machine."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from typer.core import TyperGroup

from releasekit.errors import NoSuchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from releasekit.config import Config
    from releasekit.errors import ReleaseKitError
    from releasekit.model import Workspace
    from releasekit.pins import Recovery


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(slots=True)
class Shell:
    """The global options, as given before or after the command."""

    directory: Path | None = None
    output: Output = Output.TEXT
    color: Color = Color.AUTO
    verbose: bool = False
    debug: bool = False

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
        found = workspace.load(root, exclude=settings.exclude, roots=settings.roots)
        return found, settings

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
        self.print(json.dumps(data, indent=2, ensure_ascii=False))

    def print(self, text: str) -> None:
        """Data, or the answer to a question: stdout."""
        print(text, flush=True)

    def print_of_run(self, text: str) -> None:
        """Something that a run has to tell: a reader who left (`| head`) must not end a release."""
        try:
            self.print(text)
        except OSError:
            # Later lines, and the flush at exit, go nowhere without a complaint.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def say(self, text: str) -> None:
        """For the person, not part of the answer: stderr."""
        print(text, file=sys.stderr, flush=True)

    def report(self, error: ReleaseKitError, exit_code: int) -> None:
        """An error with its hint; also as JSON where a program reads."""
        from releasekit.secrets import redact
        from releasekit.ui.text import clean

        message, hint = redact(error.message), redact(error.hint or "") or None
        if self.output is Output.JSON:
            body = {
                "kind": type(error).__name__,
                "message": message,
                "hint": hint,
                "exit_code": exit_code,
            }
            self.emit({"error": body})
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
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


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
