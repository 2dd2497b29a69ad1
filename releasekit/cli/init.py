"""`releasekit init`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from releasekit.cli.workflows import CI

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell
    from releasekit.model import Workspace

EXAMPLES = """\b
Examples:
  releasekit init            write releasekit.toml beside the workspace
  releasekit init --print    show it without writing
  releasekit init --ci github > .github/workflows/release.yml
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(init)


def init(
    ctx: typer.Context,
    show: Annotated[bool, typer.Option("--print", help="Show it, write nothing.")] = False,
    ci: Annotated[
        CI | None, typer.Option("--ci", help="Print a workflow that releases from there instead.")
    ] = None,
) -> None:
    """Write a commented configuration for what was found here."""
    from releasekit import config
    from releasekit.cli.shell import Output
    from releasekit.errors import ConfigExists

    shell: Shell = ctx.obj
    found, _ = shell.load()
    if ci is not None:
        _show_workflow(shell, ci, found)
        return
    text = commented_config(found)
    file = found.root / config.FILE_NAME
    if not show:
        if config.file_of(found.root):
            raise ConfigExists(root=found.root)
        file.write_text(text, encoding="utf-8")
    if shell.output is Output.JSON:
        shell.emit({"file": str(file), "written": not show, "text": text})
    elif show:
        shell.print(text.rstrip("\n"))
    else:
        shell.print(f"wrote `{file}`; every key in it is optional")
        shell.print("next: releasekit rehearse")


def _show_workflow(shell: Shell, ci: CI, found: Workspace) -> None:
    from releasekit.cli.shell import Output
    from releasekit.cli.workflows import FILES, workflow

    text = workflow(ci, {member.ecosystem for member in found.members})
    if shell.output is Output.JSON:
        shell.emit({"file": FILES[ci], "written": False, "text": text})
    else:
        shell.print(text.rstrip("\n"))


def commented_config(found: Workspace) -> str:
    """Every key with its meaning, each commented out: the defaults are what was found."""
    from releasekit.config import (
        BuildSettings,
        Config,
        InspectSettings,
        JournalSettings,
        PackageSettings,
        PinSettings,
        RegistrySettings,
    )
    from releasekit.ecosystems import all_ecosystems

    lines = ["# releasekit.toml: every key is optional; the comments show examples.", "#"]
    for member in found.members:
        count = sum(package.ecosystem == member.ecosystem for package in found.packages)
        lines.append(f"# Found: {member.tool} workspace in {member.root!r}, {count} packages.")
    for option in fields(Config):
        if "help" in option.metadata:
            name = option.name.replace("_", "-")
            lines += [
                "",
                f"# {option.metadata['help']}",
                f"# {name} = {option.metadata['example']}",
            ]
    sections = {
        "pins": PinSettings,
        "build": BuildSettings,
        "inspect": InspectSettings,
        "journal": JournalSettings,
    }
    for title, section in sections.items():
        lines += ["", f"# [{title}]"]
        for option in fields(section):
            lines.append(f"# {option.metadata['help']}")
            name = option.name.replace("_", "-")
            lines.append(f"# {name} = {option.metadata['example']}")
    present = {member.ecosystem for member in found.members}
    for world in all_ecosystems():
        if world.name in present:
            lines += ["", f"# [registries.{world.registry}]"]
            keys = (*world.registry_keys, "trusted-publishing")
            examples = {
                option.name.replace("_", "-"): option.metadata["example"]
                for option in fields(RegistrySettings)
            }
            lines += [f"# {key} = {examples[key]}" for key in keys]
    lines += ["", "# Names, ids or globs; the first that matches counts.", '# [packages."acme-*"]']
    for option in fields(PackageSettings):
        lines.append(f"# {option.metadata['help']}")
        lines.append(f"# {option.name} = {option.metadata['example']}")
    return "\n".join(lines) + "\n"
