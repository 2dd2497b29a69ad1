"""The only catcher: an error becomes a message, a hint and an exit code."""

from __future__ import annotations

from releasekit import early

early.remember_if_steered()  # before the imports below: they take a tenth of a second

import io
import os
import sys
from typing import NoReturn

import click

from releasekit.cli import app
from releasekit.cli.shell import Shell
from releasekit.errors import (
    Interrupted,
    Locked,
    NeedsRecovery,
    ReleaseKitError,
    SystemRefused,
    UsageError,
)

EXIT_FAILED = 1
EXIT_CODES: tuple[tuple[type[ReleaseKitError], int], ...] = (
    (UsageError, 2),
    (Interrupted, 3),
    (Locked, 4),
    (NeedsRecovery, 5),
)


def exit_code(error: ReleaseKitError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), EXIT_FAILED)


def main() -> None:
    shell = Shell()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an arrow must not end a release
    try:
        sys.exit(app(obj=shell, prog_name="releasekit", standalone_mode=False) or 0)
    except click.ClickException as error:
        _end(UsageError(error.format_message(), hint=_help_of(error)), shell)
    except (click.Abort, KeyboardInterrupt):
        shell.say("stopped")
        sys.exit(exit_code(Interrupted("stopped")))
    except ReleaseKitError as error:
        _end(error, shell)
    except BrokenPipeError:
        # The reader of our output has left; a second flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _end(SystemRefused(error), shell)
    except Exception as error:  # noqa: BLE001 - a bug of ours, said in a person's words
        _end(_bug(error), shell)
    finally:
        early.ignore()


def _end(error: ReleaseKitError, shell: Shell) -> NoReturn:
    if shell.debug:
        import traceback

        from releasekit.secrets import redact

        shell.say(redact(traceback.format_exc()))
    code = exit_code(error)
    shell.report(error, code)
    sys.exit(code)


def _help_of(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    return f"`{ctx.command_path if ctx else 'releasekit'} --help` shows what it takes"


def _bug(error: Exception) -> ReleaseKitError:
    return ReleaseKitError(
        f"releasekit itself failed: {type(error).__name__}: {error}",
        hint="run the same command with `--debug` and report what it shows",
    )


if __name__ == "__main__":
    main()
