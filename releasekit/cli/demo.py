"""`releasekit demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from releasekit.cli.shell import Shell

EXAMPLES = """\b
Examples:
  releasekit demo
  releasekit demo --output json
"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(demo)


def demo(ctx: typer.Context) -> None:
    """Release a sample monorepo to throwaway registries on this machine, and clean up.

    Real builds and real uploads; nothing leaves this machine and nothing is kept.
    """
    import contextlib
    import tempfile
    from pathlib import Path

    from releasekit import embedded
    from releasekit.cli.publish import approval
    from releasekit.cli.steering import exit_code_of, run_and_show
    from releasekit.config import Config
    from releasekit.publish import PublishRequest
    from releasekit.sample import NODE, write_sample

    shell: Shell = ctx.obj
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="releasekit-demo-")))
        lacking = embedded.node_missing()
        if lacking:
            shell.say(f"without `{lacking}` the demo leaves out its npm packages")
        write_sample(folder / "repo", node={} if lacking else NODE)
        registries = {"pypi": stack.enter_context(embedded.pypi_registry(folder / "pypi"))}
        if not lacking:
            if not embedded.is_installed():
                shell.say("installing an npm registry, once (about half a minute)")
            registries["npm"] = stack.enter_context(embedded.npm_registry(folder / "npm"))
        request = PublishRequest(
            root=folder / "repo", config=Config(), registries=registries, environ={}
        )
        state = run_and_show(shell, request, approve=approval(shell, yes=True))
    raise typer.Exit(exit_code_of(state))
