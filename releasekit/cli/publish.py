"""`releasekit publish`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

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
    from collections.abc import Iterator, Mapping

    from releasekit.cli.shell import Shell
    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.events import RunState
    from releasekit.model import Problem
    from releasekit.plan import Plan
    from releasekit.publish import Approve

EXAMPLES = """\b
Examples:
  releasekit publish
  releasekit publish --yes
  releasekit publish --dry-run
  releasekit publish --snapshot
  releasekit publish --resume
  releasekit publish --yes --state .release-state --receipts receipts.json
  releasekit publish --package 'acme-*' --exclude acme-app
  releasekit publish --registry npm=http://127.0.0.1:4873/
  releasekit publish --registry pypi=http://127.0.0.1:8080/,http://127.0.0.1:8080/simple/
"""


class _Command(WithOptionalValues):
    optional: ClassVar[dict[str, tuple[str, str]]] = {
        "resume": ("RUN", "Go on with what the last run, or RUN, was about and nothing else."),
        "snapshot": SNAPSHOT,
    }


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES, cls=_Command)(publish)


def publish(
    ctx: typer.Context,
    package: OnlyPackages = None,
    group: Groups = None,
    exclude: ExcludedPackages = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Build anew what an earlier run has sent in part.")
    ] = False,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many uploads at once.  [default: 10]")
    ] = None,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
    state_directory: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="DIR", help="Keep journal and artifacts there for another machine."
        ),
    ] = None,
    receipts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the registries were seen to serve, as JSON."),
    ] = None,
    registry: Registries = None,
    tag: DistTag = None,
    access: AccessOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build and inspect, show what would be sent, stop.")
    ] = False,
    allow_dirty: AllowDirty = False,
) -> None:
    """Publish every package whose version is not on its registry yet.

    Builds everything first; uploads in dependency order; a package counts as published when the
    registry serves it with our hash.
    """
    from releasekit import config
    from releasekit.cli.shell import Output
    from releasekit.cli.steering import exit_code_of, run_and_show
    from releasekit.publish import PublishRequest

    shell: Shell = ctx.obj
    root = shell.root()
    request = PublishRequest(
        root=root,
        config=config.load(root),
        registries=parse_registries(registry or []),
        selection=selection(package, group, exclude),
        concurrency=concurrency,
        lock_timeout=lock_timeout,
        fresh=fresh,
        dry_run=dry_run,
        allow_dirty=allow_dirty,
        tag=tag,
        access=access,
        snapshot=ctx.meta["snapshot"],
        resume=ctx.meta["resume"],
        state=state_directory.absolute() if state_directory else None,
        receipts=receipts.absolute() if receipts else None,
    )
    state = run_and_show(shell, request, approve=approval(shell, yes=yes or dry_run))
    if dry_run and shell.output is Output.TEXT:
        shell.print_of_run("\n".join(_withheld(state)))
    raise typer.Exit(exit_code_of(state))


def approval(shell: Shell, *, yes: bool) -> Approve:
    """Shows the plan, and asks unless that was answered before."""
    from releasekit.cli.question import confirmed
    from releasekit.cli.shell import Output

    async def approve(plan: Plan, registries: Mapping[str, Registry]) -> bool:
        if shell.output is Output.TEXT:
            addresses = {name: registry.address for name, registry in registries.items()}
            for line in plan_lines(plan, addresses):
                shell.print_of_run(line)
        if yes:
            return True
        for warning in plan.warnings:  # with a yes they are the first notes of the run
            for line in problem_lines(shell, warning):
                shell.say(line)
        return await confirmed(shell, "Publish?")

    return approve


def plan_lines(plan: Plan, addresses: Mapping[str, str]) -> Iterator[str]:
    from releasekit.ui.text import clean

    counts = [f"{len(plan.releases)} to publish"]
    counts += [f"{len(plan.new)} of them new"] if plan.new else []
    counts += [f"{len(plan.already_there)} already there"] if plan.already_there else []
    counts += [f"{len(plan.partly_there)} only partly there"] if plan.partly_there else []
    what = f"snapshot {clean(plan.snapshot)}: " if plan.snapshot else ""
    yield f"{what}{', '.join(counts)}{', in this order:' if plan.releases else ''}"
    for release in plan.releases:
        new = " (new)" if release.package in plan.new else ""
        where = addresses[release.package]
        yield clean(f"  {release.package} {release.version} → {where}{new}")
    for release, missing in plan.partly_there:
        yield clean(f"  not {release.package} {release.version}: it is there without {missing}")


def problem_lines(shell: Shell, problem: Problem) -> Iterator[str]:
    from releasekit.model import Severity
    from releasekit.secrets import redact
    from releasekit.ui.text import clean

    color = "1;31" if problem.severity is Severity.ERROR else "1;33"
    named = problem.package is None or problem.message.startswith(problem.package)
    about = "" if named else f"{problem.package}: "
    told = clean(redact(f"{about}{problem.message}"), lines=True)
    yield f"{shell.style(f'{problem.severity}:', color)} {told}"
    if problem.hint:
        yield f"  {shell.style('hint:', '1;36')} {clean(redact(problem.hint))}"


def _withheld(state: RunState) -> Iterator[str]:
    from releasekit.ui.text import bytes_in_words, clean

    would = [held for held in state.releases.values() if held.withheld_from]
    yield "nothing was sent; this would be, in this order:" if would else "nothing was sent"
    for held in would:
        release = held.release
        yield clean(f"  {release.package} {release.version} → {held.withheld_from}")
        for one in held.artifacts:
            yield clean(f"    {one.file}  {bytes_in_words(one.size)}  sha256:{one.sha256}")


def parse_registries(values: list[str]) -> dict[str, RegistrySettings]:
    from releasekit.config import RegistrySettings
    from releasekit.errors import BadRegistryOption

    found = {}
    for value in values:
        name, _, addresses = value.partition("=")
        parts = addresses.split(",")
        if not name or not all(part.startswith(("http://", "https://")) for part in parts):
            raise BadRegistryOption(value=value)
        match parts:
            case [url]:
                found[name] = RegistrySettings(url=url)
            case [upload, index]:
                found[name] = RegistrySettings(upload_url=upload, index_url=index)
            case _:
                raise BadRegistryOption(value=value)
    return found
