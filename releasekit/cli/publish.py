"""`releasekit publish`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from typer.core import TyperCommand

from releasekit.cli.options import ExcludedPackages, Groups, OnlyPackages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from releasekit.cli.shell import Shell
    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Registry
    from releasekit.plan import Plan
    from releasekit.publish import Approve

EXAMPLES = """\b
Examples:
  releasekit publish
  releasekit publish --yes
  releasekit publish --resume
  releasekit publish --yes --state .release-state --receipts receipts.json
  releasekit publish --package 'acme-*' --exclude acme-app
  releasekit publish --registry npm=http://127.0.0.1:4873/
  releasekit publish --registry pypi=http://127.0.0.1:8080/,http://127.0.0.1:8080/simple/
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES, cls=_WithResume)(publish)


_RESUME = "releasekit.resume"


class _WithResume(TyperCommand):
    """Typer knows no option whose value may be left out; Click does."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Typer's own signature
        super().__init__(**settings)

        def store(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
            ctx.meta[_RESUME] = value

        self.params.append(
            click.Option(
                ["--resume"],
                is_flag=False,
                flag_value="",
                metavar="[RUN]",
                expose_value=False,
                callback=store,
                help="Go on with what the last run, or RUN, was about and nothing else.",
            )
        )


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
    registry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL",
            help="`pypi=UPLOAD_URL,INDEX_URL` or `npm=URL`; other names as configured.",
        ),
    ] = None,
) -> None:
    """Publish every package whose version is not on its registry yet.

    Builds everything first; uploads in dependency order; a package counts as published when the
    registry serves it with our hash.
    """
    from releasekit import config
    from releasekit.cli.steering import exit_code_of, run_and_show
    from releasekit.publish import PublishRequest
    from releasekit.publish.selection import Selection

    shell: Shell = ctx.obj
    root = shell.root()
    request = PublishRequest(
        root=root,
        config=config.load(root),
        registries=parse_registries(registry or []),
        selection=Selection(
            packages=tuple(package or ()), groups=tuple(group or ()), exclude=tuple(exclude or ())
        ),
        concurrency=concurrency,
        lock_timeout=lock_timeout,
        fresh=fresh,
        resume=ctx.meta[_RESUME],
        state=state_directory.absolute() if state_directory else None,
        receipts=receipts.absolute() if receipts else None,
    )
    state = run_and_show(shell, request, approve=approval(shell, yes=yes))
    raise typer.Exit(exit_code_of(state))


def approval(shell: Shell, *, yes: bool) -> Approve:
    from releasekit.cli.question import confirmed
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    async def approve(plan: Plan, registries: Mapping[str, Registry]) -> bool:
        if shell.output is Output.TEXT:
            there = f", {len(plan.already_there)} already there" if plan.already_there else ""
            shell.print_of_run(f"{len(plan.releases)} to publish{there}, in this order:")
            for release in plan.releases:
                where = registries[release.package].address
                shell.print_of_run(clean(f"  {release.package} {release.version} → {where}"))
        if yes:
            return True
        return await confirmed(shell, "Publish?")

    return approve


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
