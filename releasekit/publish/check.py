"""`releasekit check`: load, plan and preflight alone. It changes nothing and waits for nobody."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit import git, pins, workspace
from releasekit.errors import SiblingVersionUnknown, UnknownVersion
from releasekit.lock import holder, journal_directory
from releasekit.model import Problem, Severity
from releasekit.publish import preflight, with_what_was_asked
from releasekit.publish.build import with_versions
from releasekit.publish.prepare import Place, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from releasekit.ecosystems import Registry
    from releasekit.pins import Recovery
    from releasekit.plan import Plan
    from releasekit.publish import PublishRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    plan: Plan
    registries: Mapping[str, Registry]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return all(one.severity is not Severity.ERROR for one in self.problems)


async def check(request: PublishRequest, *, note_recovery: Callable[[Recovery], None]) -> Checked:
    """What `publish` would stop at. Beside a live run the originals are read, not its pins."""
    from releasekit.net import http_client

    home = journal_directory(request.root)
    recovery = pins.recover_if_needed(request.root)
    note_recovery(recovery)
    recovery.require_done()
    settings = request.config
    found = workspace.load(request.root, exclude=settings.exclude, roots=settings.roots)
    changed = git.uncommitted(found.root)
    is_live = holder(home) is not None
    if not is_live:
        # Not at home: what a live run that starts meanwhile keeps there is its own.
        with tempfile.TemporaryDirectory(prefix="releasekit-check-") as own:
            found = await with_versions(found, settings, Path(own))
    place = Place(
        workspace=found,
        home=home,
        changed=changed,
        aside=frozenset(request.root / path for path, _ in pins.pending(home)),
        read=pins.Originals(request.root).read,
    )
    request = with_what_was_asked(request, None)
    async with http_client() as client:
        prepared = await prepare(request, place, client, None)
    problems = (*prepared.problems, *preflight.partly_there(prepared.plan))
    if is_live:
        problems = tuple(_excused(one) for one in problems)
    return Checked(
        plan=prepared.plan,
        registries=prepared.registries,
        problems=preflight.told_once(problems),
    )


def _excused(problem: Problem) -> Problem:
    """What only a build can tell is not asked while another release has the files pinned."""
    if not isinstance(problem.error, UnknownVersion | SiblingVersionUnknown):
        return problem
    return replace(
        problem,
        severity=Severity.WARNING,
        hint="a release is running here, and no build is asked meanwhile: check again afterwards",
    )
