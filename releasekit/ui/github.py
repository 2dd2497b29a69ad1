"""On GitHub Actions: groups, annotations on manifests and a job summary.

A runner takes commands from every line of the log: `::name::` at its start and `##[name]` anywhere.
Text from outside must not give any, so commands are stopped by a secret word but for our own.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from releasekit.events import Outcome, Stage, StageStarted
from releasekit.ui.summary import word_for
from releasekit.ui.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from releasekit.events import Event, ReleaseState, RunState

# A job summary may hold 1 MiB; more is refused whole.
_SUMMARY_BYTES = 900_000
# A step shows ten annotations of a kind.
_ANNOTATIONS = 10
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_GROUPS = {
    Stage.LOAD: "Read the workspace",
    Stage.PREFLIGHT: "Ask the registries",
    Stage.BUILD: "Build",
    Stage.INSPECT: "Inspect",
    Stage.SIGN: "Sign",
    Stage.UPLOAD: "Upload",
}


def is_runner(environ: Mapping[str, str]) -> bool:
    return environ.get("GITHUB_ACTIONS") == "true"


def without_commands(text: str) -> str:
    """The same to the eye; nothing in it is a command to the runner."""
    if "::" not in text and "##[" not in text:
        return text
    return _COMMAND.sub(r"\1: ", text).replace("##[", "## [")


def json_without_commands(line: str) -> str:
    """The same JSON, spelled so that no string in it is a command."""
    return line.replace("##[", "##\\u005b")


class Groups:
    """The stages as groups of the log; all between is text, not commands."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._word = secrets.token_hex(16)
        self._stopped = False
        self._open = False

    def show(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self.end()
            self._write(f"::group::{_GROUPS[event.stage]}")
            self._open = True
            self.stop_commands()

    def stop_commands(self) -> None:
        if not self._stopped:
            self._write(f"::stop-commands::{self._word}")
            self._stopped = True

    def end(self) -> None:
        """No group is open and commands are heard again; whatever happened before."""
        if self._stopped:
            self._write(f"::{self._word}::")
            self._stopped = False
        if self._open:
            self._write("::endgroup::")
            self._open = False


def errors_on_manifests(state: RunState, manifest_of: Callable[[str], str | None]) -> list[str]:
    """An error for each failed package, on its manifest."""
    failed = state.by_outcome(Outcome.FAILED)
    told = []
    for release in failed[:_ANNOTATIONS]:
        package = release.release.package
        words = clean(release.reason or "failed", lines=True)
        if release.hint:
            words += f"\nhint: {clean(release.hint)}"
        manifest = manifest_of(package)
        where = f"file={_property(manifest)}," if manifest else ""
        title = _property(f"{clean(package)} {clean(release.release.version)} failed")
        told.append(f"::error {where}title={title}::{_data(words)}")
    return told


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def job_summary(state: RunState, again: str | None) -> str:
    """Markdown: the counts, and every package with its outcome."""
    counts = ", ".join(
        f"{len(found)} {outcome}" for outcome in Outcome if (found := state.by_outcome(outcome))
    )
    lines = [f"### releasekit {state.command or ''}: {counts or 'nothing to do'}", ""]
    if again and not state.ok:
        lines += ["To continue:", "", f"    {clean(again)}", ""]
    lines += ["| Package | Version | Outcome | Why |", "|---|---|---|---|"]
    ordered = sorted(state.releases.values(), key=_worst_first)
    size = sum(len(line.encode()) + 1 for line in lines)
    for number, release in enumerate(ordered):
        row = _row(release)
        size += len(row.encode()) + 1
        if size > _SUMMARY_BYTES:
            lines.append(f"| … | | | {len(ordered) - number} more |")
            break
        lines.append(row)
    return "\n".join(lines) + "\n\n"


def _worst_first(release: ReleaseState) -> int:
    order = (Outcome.FAILED, Outcome.BLOCKED, Outcome.CANCELLED, None, Outcome.PUBLISHED)
    return order.index(release.outcome) if release.outcome in order else len(order)


def _row(release: ReleaseState) -> str:
    why = f"needs {release.blocked_by}" if release.blocked_by else release.reason or ""
    cells = (release.release.package, release.release.version, word_for(release), why)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """Plain text within a table: no Markdown, no HTML, one line."""
    one_line = clean(text.replace("\n", " "))
    escaped = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~@-])", r"\\\1", escaped)
