"""The last words of a run: what became of every package, why, and how to go on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from releasekit.events import Outcome
from releasekit.ui.run_log import tail
from releasekit.ui.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from releasekit.events import ReleaseState, RunState

_GOOD, _BAD, _WARN = "32", "1;31", "33"
_NAMES = 10
_LEAVES_NOTHING = frozenset({"rehearse"})
"""Commands whose logs go when they end, and which begin anew."""
_LOG_LINES = 12


def summary(
    state: RunState,
    paint: Callable[[str, str], str],
    *,
    again: str | None = None,
    folder: Path | None = None,
    log_of: Callable[[str], Path | None] = lambda _: None,
) -> str:
    """Failures grouped by cause, then what they kept back, then the counts."""
    lines = [""]
    for group in _groups(state.by_outcome(Outcome.FAILED), lambda one: (one.reason, one.hint)):
        lines += _failure(group, paint, log_of)
    for group in _groups(state.by_outcome(Outcome.BLOCKED), lambda one: one.blocked_by):
        verb = "needs" if len(group) == 1 else "need"
        blocker = clean(group[0].blocked_by or "")
        lines.append(f"{paint('blocked:', _WARN)} {_names(group)}, which {verb} {blocker}")
    unknown = [one for one in state.releases.values() if _is_unknown(one)]
    cancelled = [one for one in state.by_outcome(Outcome.CANCELLED) if one not in unknown]
    for group in _groups(cancelled, lambda one: one.reason):
        why = f": {clean(group[0].reason)}" if group[0].reason else ""
        lines.append(f"{paint('cancelled:', _WARN)} {_names(group)}{why}")
    if unknown:
        lines.append(
            f"{paint('unknown:', _WARN)} {_names(unknown)}: sent, and not seen there before we"
            " stopped; the next run asks the registry"
        )
    lines.append(paint(_counts(state), _GOOD if state.ok else _BAD))
    if not state.ok and state.command not in _LEAVES_NOTHING:
        if folder is not None:
            lines.append(
                f"logs: {clean(str(folder / 'run.log'))} and {clean(str(folder / 'logs'))}"
            )
        command = again or f"releasekit {state.command or 'publish'}"
        lines.append(f"to continue: {clean(command)}")
    return "\n".join(lines)


def word_for(release: ReleaseState) -> str:
    """Its outcome, or what else there is to say where a run was stopped."""
    if _is_unknown(release):
        return "unknown"
    return str(release.outcome or "not begun")


def _is_unknown(release: ReleaseState) -> bool:
    """It was stopped in flight: the registry may hold what it has not served."""
    stopped = release.outcome in {None, Outcome.CANCELLED}
    return stopped and bool(release.sent - release.confirmed)


def _counts(state: RunState) -> str:
    words = Counter(word_for(release) for release in state.releases.values())
    ordered = [*map(str, Outcome), "unknown", "not begun"]
    return " · ".join(f"{words[word]} {word}" for word in ordered if words[word])


def _failure(
    group: list[ReleaseState],
    paint: Callable[[str, str], str],
    log_of: Callable[[str], Path | None],
) -> list[str]:
    first = group[0]
    lines = [paint(f"failed: {_names(group)}", _BAD)]
    reason = clean(first.reason or "", lines=True)
    lines += [f"  {line}" for line in reason.splitlines()]
    if first.hint:
        lines.append(f"  hint: {clean(first.hint)}")
    # Of one that was built the log says nothing about an upload.
    for release in [one for one in group if not one.artifacts][:_NAMES]:
        log = log_of(release.release.package)
        told = tail(log, _LOG_LINES) if log is not None else []
        told = [line for line in told if line.strip() not in reason]
        if told:
            lines.append(f"  the end of {clean(str(log))}:")
            lines += [f"  | {line}" for line in told]
    return lines


def _groups(
    releases: Iterable[ReleaseState], cause: Callable[[ReleaseState], object]
) -> list[list[ReleaseState]]:
    found: dict[object, list[ReleaseState]] = {}
    for release in releases:
        found.setdefault(cause(release), []).append(release)
    return list(found.values())


def _names(group: list[ReleaseState]) -> str:
    told = ", ".join(clean(one.release.package) for one in group[:_NAMES])
    rest = len(group) - _NAMES
    return f"{told} and {rest} more" if rest > 0 else told
