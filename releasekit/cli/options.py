"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
