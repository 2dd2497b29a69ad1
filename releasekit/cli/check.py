"""`releasekit check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import typer

from releasekit.cli.options import (
    SNAPSHOT,
    AccessOption,
    AllowDirty,
    DistTag,
    ExcludedPackages,
    Groups,
    OnlyPackages,
    Registries,
    WithOptionalValues,
    selection,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.cli.shell import Shell
    from releasekit.publish.check import Checked

EXAMPLES = """\b
Examples:
  releasekit check
  releasekit check --output json
  releasekit check --package acme-app --tag next
"""


class _Command(WithOptionalValues):
    optional: ClassVar[dict[str, tuple[str, str]]] = {"snapshot": SNAPSHOT}


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES, cls=_Command)(check)


def check(
    ctx: typer.Context,
    package: OnlyPackages = None,
    group: Groups = None,
    exclude: ExcludedPackages = None,
    registry: Registries = None,
    tag: DistTag = None,
    access: AccessOption = None,
    allow_dirty: AllowDirty = False,
) -> None:
    """Look for all that stands before a release, and change nothing.

    Clean tree, versions, registries, credentials, npm's rules, siblings, lock files: all problems
    at once, each with a hint. Works beside a running release; never asks.
    """
    import asyncio

    from releasekit import config
    from releasekit.cli.publish import parse_registries
    from releasekit.cli.shell import Output
    from releasekit.cli.steering import until_signal
    from releasekit.publish import PublishRequest
    from releasekit.publish.check import check as look

    shell: Shell = ctx.obj
    shell.start_logging()
    root = shell.root()
    request = PublishRequest(
        root=root,
        config=config.load(root),
        registries=parse_registries(registry or []),
        selection=selection(package, group, exclude),
        allow_dirty=allow_dirty,
        tag=tag,
        access=access,
        snapshot=ctx.meta["snapshot"],
    )
    with shell.working("looking for what stands before a release"):
        checked = asyncio.run(until_signal(look(request, note_recovery=shell.note_recovery)))
    if shell.output is Output.JSON:
        shell.emit(as_data(checked))
    else:
        shell.print("\n".join(_as_text(shell, checked)))
    raise typer.Exit(0 if checked.ok else 1)


def as_data(checked: Checked) -> dict[str, object]:
    from releasekit.secrets import redact

    plan = checked.plan
    return {
        "v": 1,
        "ok": checked.ok,
        "snapshot": plan.snapshot,
        "releases": [
            {
                "package": release.package,
                "version": release.version,
                "registry": release.registry,
                "address": redact(checked.registries[release.package].address),
                "new": release.package in plan.new,
                "needs": list(release.needs),
            }
            for release in plan.releases
        ],
        "already_there": [
            {"package": release.package, "version": release.version}
            for release in plan.already_there
        ],
        "partly_there": [
            {"package": release.package, "version": release.version, "missing": missing}
            for release, missing in plan.partly_there
        ],
        "problems": [
            {
                "severity": str(one.severity),
                "package": one.package,
                "message": redact(one.message),
                "hint": redact(one.hint) if one.hint else None,
            }
            for one in checked.problems
        ],
    }


def _as_text(shell: Shell, checked: Checked) -> Iterator[str]:
    from releasekit.cli.publish import plan_lines, problem_lines
    from releasekit.model import Severity

    addresses = {name: registry.address for name, registry in checked.registries.items()}
    yield from plan_lines(checked.plan, addresses)
    for problem in checked.problems:
        yield from problem_lines(shell, problem)
    errors = sum(one.severity is Severity.ERROR for one in checked.problems)
    warnings = len(checked.problems) - errors
    counts = [_count(errors, "error")] if errors else []
    counts += [_count(warnings, "warning")] if warnings else []
    if checked.ok:
        told = f" ({counts[0]})" if counts else ""
        yield shell.style(f"nothing stands before this release{told}", "32")
    else:
        yield shell.style(f"{' and '.join(counts)}: nothing could be published", "1;31")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("s" if number != 1 else "")
