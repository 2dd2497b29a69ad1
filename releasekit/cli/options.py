"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from releasekit.publish.selection import Selection


class WithOptionalValues(TyperCommand):
    """Typer knows no option whose value may be left out; Click does.

    Their values lie in `ctx.meta`, by name: None where the option is not given, and the empty
    string where its value is left out.
    """

    optional: ClassVar[dict[str, tuple[str, str]]] = {}
    """Name → metavar and help."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Typer's own signature
        super().__init__(**settings)

        def store(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
            ctx.meta[str(option.name)] = value

        for name, (metavar, help_text) in self.optional.items():
            self.params.append(
                click.Option(
                    [f"--{name}"],
                    is_flag=False,
                    flag_value="",
                    metavar=f"[{metavar}]",
                    expose_value=False,
                    callback=store,
                    help=help_text,
                )
            )


SNAPSHOT = ("ID", "Publish versions for one use, above what is released, under a dist-tag.")


class PackageAccess(StrEnum):
    PUBLIC = "public"
    RESTRICTED = "restricted"


DistTag = Annotated[
    str | None, typer.Option("--tag", metavar="NAME", help="The npm dist-tag; else `latest`.")
]
AccessOption = Annotated[
    PackageAccess | None, typer.Option("--access", help="Who may read new scoped npm packages.")
]
AllowDirty = Annotated[
    bool, typer.Option("--allow-dirty", help="Release what lies here, committed or not.")
]
Registries = Annotated[
    list[str] | None,
    typer.Option(
        "--registry",
        metavar="NAME=URL",
        help="`pypi=UPLOAD_URL,INDEX_URL` or `npm=URL`; other names as configured.",
    ),
]

OnlyPackages = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        metavar="NAME",
        help="Only this one: a name, an id or a glob; may be repeated.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group", metavar="NAME", help="Only this group of the configuration; may be repeated."
    ),
]
ExcludedPackages = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="NAME",
        help="Not this one: a name, an id or a glob; may be repeated.",
    ),
]


def selection(
    package: list[str] | None, group: list[str] | None, exclude: list[str] | None
) -> Selection:
    """What the three options above ask for together."""
    from releasekit.publish.selection import Selection

    return Selection(
        packages=tuple(package or ()), groups=tuple(group or ()), exclude=tuple(exclude or ())
    )
