"""`releasekit` alone: what is here, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell
    from releasekit.model import Workspace


def show_overview(shell: Shell) -> None:
    from releasekit.cli.shell import Output

    found, _ = shell.load()
    if shell.output is Output.JSON:
        shell.emit(_as_data(found))
    else:
        shell.print("\n".join(_as_text(shell, found)))


def _as_text(shell: Shell, found: Workspace) -> list[str]:
    from releasekit.ui.text import clean

    publishable = [package for package in found.packages if package.publishable]
    lines = [shell.style(clean(str(found.root)), "1")]
    for member in found.members:
        count = sum(package.ecosystem == member.ecosystem for package in found.packages)
        lines.append(f"  {member.tool} workspace in `{clean(member.root)}`: {count} packages")
    lines.append(f"  {len(publishable)} of {len(found.packages)} packages are publishable")
    lines += [f"  warning: {clean(warning)}" for warning in found.warnings]
    lines.append("")
    if publishable:
        lines += [
            "next:",
            "  releasekit publish   publish what is not on its registry yet (asks first)",
            "  releasekit init      write a configuration to start from",
        ]
    else:
        lines += ["next:", "  releasekit demo      see a whole release on a sample repository"]
    return lines


def _as_data(found: Workspace) -> dict[str, object]:
    return {
        "root": str(found.root),
        "workspaces": [
            {"root": member.root, "ecosystem": member.ecosystem, "tool": member.tool}
            for member in found.members
        ],
        "packages": len(found.packages),
        "publishable": sum(package.publishable for package in found.packages),
        "warnings": list(found.warnings),
    }
