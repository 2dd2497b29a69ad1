"""`releasekit status`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from releasekit.cli.shell import Shell
    from releasekit.errors import DamagedJournal
    from releasekit.events import Event, RunState
    from releasekit.lock import Holder
    from releasekit.ui.status import Status

EXAMPLES = """\b
Examples:
  releasekit status
  releasekit status --watch
  releasekit status --output json
"""

KILLED, STOPPED = 1, 3


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(status)


def status(
    ctx: typer.Context,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Follow it to its end, and end with its exit code."),
    ] = False,
) -> None:
    """Show the running release, or the last one, and what an interrupted one left behind.

    It reads the journal and takes no lock, so it never disturbs a release.
    """
    from releasekit.cli.shell import Output
    from releasekit.lock import holder, journal_directory

    shell: Shell = ctx.obj
    root = shell.root()
    home = journal_directory(root)
    if watch:
        raise typer.Exit(_watch(shell, root, home))
    running = holder(home)
    told, damage = _read(root, home, running)
    if shell.output is Output.JSON:
        shell.emit(_as_data(home, running, told, damage))
    else:
        shell.print(shell.spelled("\n".join(_as_text(shell, home, running, told, damage))))


def _read(
    root: Path, home: Path, running: Holder | None
) -> tuple[Status | None, DamagedJournal | None]:
    """The running run, or the last one whose journal lies here."""
    from releasekit import journal
    from releasekit.errors import DamagedJournal
    from releasekit.publish.resume import run_folders
    from releasekit.ui.status import folded

    folder = None
    if running is not None and running.runs:
        folder = Path(running.runs) / running.id
    elif folders := run_folders(home):
        folder = folders[0]
    live = running is not None and bool(running.runs)
    if folder is None or not journal.is_kept_in(folder):
        return (folded((), workspace=root.name, folder=None, live=True) if live else None), None
    try:
        replay = journal.read(folder / journal.FILE_NAME)
        told = folded(
            replay.events, workspace=root.name, folder=folder, live=live, torn=replay.torn
        )
    except DamagedJournal as error:
        return None, error
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"its events do not belong together: {error!r}"
        return None, DamagedJournal(path=folder / journal.FILE_NAME, line=1, problem=problem)
    return told, None


def _as_text(
    shell: Shell,
    home: Path,
    running: Holder | None,
    told: Status | None,
    damage: DamagedJournal | None,
) -> list[str]:
    from releasekit import pins
    from releasekit.ui.status import as_text
    from releasekit.ui.text import clean

    lines = [f"running: {clean(str(running))}" if running else "no release is running here"]
    files = pins.pending(home)
    if files and running:
        lines.append(f"{len(files)} manifests are pinned until its builds are done")
    elif files:
        lines.append("an interrupted run left manifests behind; `releasekit recover` restores them")
        lines += [f"  {state}: `{clean(path)}`" for path, state in files]
    if told is not None:
        lines += as_text(told, shell.style, time.time())
    if damage is not None:
        lines += [shell.style(clean(damage.message), "1;31"), f"hint: {clean(damage.hint or '')}"]
    return lines


def _as_data(
    home: Path, running: Holder | None, told: Status | None, damage: DamagedJournal | None
) -> dict[str, object]:
    from releasekit import pins
    from releasekit.ui.status import as_data

    files = pins.pending(home)
    return {
        "v": 1,
        "running": asdict(running) if running else None,
        "manifests": [{"path": path, "state": state} for path, state in files],
        "needs_recovery": bool(files) and running is None,
        "run": as_data(told, time.time()) if told is not None and told.state.run else None,
        "damage": {"message": damage.message, "hint": damage.hint} if damage else None,
    }


def _watch(shell: Shell, root: Path, home: Path) -> int:
    """The exit code of the run that was followed, or of the last one."""
    from releasekit.control_socket import followed
    from releasekit.errors import NothingRunning

    try:
        with followed(home) as (replayed, told):
            return _follow(shell, root, replayed, told)
    except NothingRunning:
        return _show_last(shell, root, home)


def _follow(shell: Shell, root: Path, replayed: int, told: Iterator[Event]) -> int:
    from releasekit.cli.shell import Output
    from releasekit.lock import holder, journal_directory
    from releasekit.ui.plain import line_for
    from releasekit.ui.status import as_text, folded

    running = holder(journal_directory(root))
    seen = folded((), workspace=root.name, folder=None, live=True)

    def say(lines: Iterable[str]) -> None:
        if shell.output is Output.TEXT:
            shell.print(shell.spelled("\n".join(lines)))

    if not replayed:
        say(as_text(seen, shell.style, time.time()))
    for number, event in enumerate(told, start=1):
        seen.apply(event)
        if running is not None and seen.folder is None and seen.state.run == running.id:
            seen.folder = Path(running.runs) / running.id
        if shell.output is Output.JSON:
            _print_event(shell, event)
        elif number == replayed:
            say(as_text(seen, shell.style, time.time()))
        elif number > replayed and (line := line_for(event, shell.style)) is not None:
            say([line])
    seen.live = False
    if seen.state.run is None:
        say(["it ended before it had begun to build"])
    else:
        say(as_text(seen, shell.style, time.time()))
    return _code(seen.state)


def _show_last(shell: Shell, root: Path, home: Path) -> int:
    from releasekit import journal
    from releasekit.cli.shell import Output
    from releasekit.errors import NothingRunning

    told, damage = _read(root, home, None)
    if damage is not None:
        raise damage
    if told is None:
        raise NothingRunning
    if shell.output is Output.TEXT:
        shell.print(shell.spelled("\n".join(_as_text(shell, home, None, told, None))))
    elif told.folder is not None:
        for event in journal.read(told.folder / journal.FILE_NAME).events:
            _print_event(shell, event)
    return _code(told.state)


def _print_event(shell: Shell, event: Event) -> None:
    import json

    from releasekit import events

    shell.print(json.dumps(events.to_json(event), ensure_ascii=False))


def _code(state: RunState) -> int:
    from releasekit.cli.steering import exit_code_of

    if state.ok is None:
        return KILLED
    return STOPPED if state.stopped else exit_code_of(state)
