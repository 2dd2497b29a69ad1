"""`releasekit rehearse`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from releasekit.cli.options import ExcludedPackages, Groups, OnlyPackages, selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from releasekit.cli.shell import Shell
    from releasekit.config import Config, RegistrySettings
    from releasekit.model import Workspace
    from releasekit.publish.selection import Selection
    from releasekit.rehearse import Judged, Misbehaviour, Rehearsal

EXAMPLES = """\b
Examples:
  releasekit rehearse
  releasekit rehearse --package acme-app     with all that it needs
  releasekit rehearse --keep                 and try things by hand
  releasekit rehearse --output json
"""


INTERRUPTED = 3


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(rehearse)


def rehearse(
    ctx: typer.Context,
    package: OnlyPackages = None,
    group: Groups = None,
    exclude: ExcludedPackages = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the registries up until Ctrl-C.")
    ] = False,
    lock_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a running release.")
    ] = 0.0,
) -> None:
    """Publish everything to throwaway registries on this machine, then install and load it.

    The same builds, checks, order and confirmation as `publish`; no configured registry is
    reached, and nothing is left behind. Every package is rehearsed, also those that a registry
    holds already: what is asked for with all that it needs, without what needs an excluded one.
    """
    from releasekit.rehearse import Misbehaviour

    shell: Shell = ctx.obj
    found, config = shell.load()
    code = rehearse_and_show(
        shell,
        found,
        config,
        selection(package, group, exclude),
        keep=keep,
        lock_timeout=lock_timeout,
        misbehaviour=Misbehaviour(),
    )
    raise typer.Exit(code)


def rehearse_and_show(
    shell: Shell,
    found: Workspace,
    config: Config,
    selection: Selection,
    *,
    misbehaviour: Misbehaviour,
    keep: bool = False,
    lock_timeout: float = 0.0,
    would_publish: bool = True,
) -> int:
    """From the registries' start to their end; gives the exit code.

    `would_publish`: these packages are somebody's, who wants to know what `publish` would do.
    """
    import asyncio

    from releasekit import embedded
    from releasekit import rehearse as verb
    from releasekit.cli.steering import exit_code_of, run_and_show, until_signal
    from releasekit.events import Outcome

    with embedded.throwaway_folder("releasekit-rehearse-") as folder:
        rehearsal = verb.select(found, config, folder, selection)
        _say_what_is_missing(shell, rehearsal)
        with _started(shell, rehearsal, misbehaviour) as running:
            request = verb.request_for(rehearsal, running, lock_timeout=lock_timeout)
            approve = verb.approval(running)
            state = run_and_show(shell, request, approve=approve)
            if misbehaviour.faults and state.by_outcome(Outcome.BLOCKED) and not state.quitting:
                shell.say("the same again: it continues with what is not there yet")
                state = run_and_show(shell, request, approve=approve)
            if exit_code_of(state) == INTERRUPTED or (state.quitting and not state.ok):
                return exit_code_of(state)
            shell.say("installing each alone, and loading it")
            with shell.working("installing and loading"):
                judged = asyncio.run(
                    until_signal(verb.try_all(rehearsal, state, running, _teller(shell, rehearsal)))
                )
            told = asyncio.run(until_signal(verb.differences(rehearsal))) if would_publish else ()
            _sum_up(shell, judged, told)
            if keep:
                _keep_up(shell, running, folder)
            elif would_publish and not all(one.ok for one in judged):
                shell.say("`--keep` leaves the registries and the logs until Ctrl-C")
    return 0 if all(one.ok for one in judged) else 1


@contextlib.contextmanager
def _started(
    shell: Shell, rehearsal: Rehearsal, misbehaviour: Misbehaviour
) -> Iterator[Mapping[str, RegistrySettings]]:
    from releasekit import rehearse as verb

    with contextlib.ExitStack() as stack:
        with shell.working("starting the registries"):
            running = stack.enter_context(verb.registries(rehearsal, misbehaviour))
        yield running


def _say_what_is_missing(shell: Shell, rehearsal: Rehearsal) -> None:
    from releasekit import embedded

    for reason in dict.fromkeys(rehearsal.left_out.values()):
        shell.say(f"{len(rehearsal.left_out)} npm packages are left out: {reason}")
    uses_npm = any(package.ecosystem == "node" for package in rehearsal.packages)
    if uses_npm and not embedded.is_installed():
        shell.say("installing an npm registry, once (about half a minute)")
        with shell.working("installing the npm registry"):
            embedded.install_npm_registry()


def _teller(shell: Shell, rehearsal: Rehearsal) -> Callable[[Judged], None]:
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    width = max(len(clean(_name(one.id, one.version))) for one in rehearsal.packages)

    def tell(one: Judged) -> None:
        if shell.output is Output.JSON:
            shell.emit_line(_as_data(one))
        else:
            shell.print_of_run("\n".join(_as_text(shell, one, width)))

    return tell


def _sum_up(shell: Shell, judged: tuple[Judged, ...], differences: tuple[str, ...]) -> None:
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    bad = [one for one in judged if not one.ok]
    if shell.output is Output.JSON:
        last = {"v": 1, "event": "rehearsed", "ok": not bad, "differences": list(differences)}
        shell.emit_line(last)
        return
    said = f"{len(judged) - len(bad)} of {len(judged)} packages are fine"
    lines = ["", shell.style(said, "1;31" if bad else "32")]
    for verdict in dict.fromkeys(one.trial.verdict for one in bad):
        names = ", ".join(clean(one.package) for one in bad if one.trial.verdict is verdict)
        lines.append(f"{shell.style(verdict, '1;31')}: {names}")
    if differences:
        lines.append("a real publish would differ:")
        lines += [f"  {clean(line)}" for line in differences]
    shell.print_of_run("\n".join(lines))


def _as_data(one: Judged) -> dict[str, object]:
    return {
        "v": 1,
        "event": "verdict",
        "package": one.package,
        "version": one.version,
        "verdict": str(one.trial.verdict),
        "words": one.trial.words,
        "build_seconds": one.build_seconds,
        "trial_seconds": one.trial.seconds,
        "artifacts": [
            {
                "file": timed.artifact.file,
                "size": timed.artifact.size,
                "sha256": timed.artifact.sha256,
                "upload_seconds": timed.seconds,
            }
            for timed in one.artifacts
        ],
    }


def _as_text(shell: Shell, one: Judged, width: int) -> Iterator[str]:
    from releasekit.ui.text import clean

    name = f"{clean(_name(one.package, one.version)):{width}}"
    if one.ok:
        loaded = f"loads in {one.trial.seconds:.1f} s"
        yield f"{shell.style('ok', '32')}  {name}  {_files(one)}, {loaded}"
        return
    yield f"{shell.style('no', '1;31')}  {name}  {shell.style(one.trial.verdict, '1;31')}"
    told = clean(one.trial.words, lines=True).splitlines()
    if one.trial.verdict == "not published":
        told = told[:1]  # the run has said the rest
    yield from (f"      {line}" for line in told)


def _name(package: str, version: str | None) -> str:
    return f"{package} {version or ''}"


def _files(one: Judged) -> str:
    from releasekit.ui.text import bytes_in_words

    return ", ".join(
        f"{_kind(timed.artifact.file)} {bytes_in_words(timed.artifact.size)}"
        + (f" in {timed.seconds:.2f} s" if timed.seconds is not None else "")
        for timed in one.artifacts
    )


def _kind(file: str) -> str:
    return {"whl": "wheel", "gz": "sdist", "tgz": "tarball"}.get(file.rpartition(".")[2], file)


def _keep_up(shell: Shell, running: Mapping[str, RegistrySettings], folder: Path) -> None:
    import asyncio

    from releasekit.cli.steering import until_signal
    from releasekit.errors import StoppedBySignal

    for name, settings in running.items():
        if settings.index_url:
            shell.say(f"{name}: {settings.index_url}")
            shell.say(f"  uv pip install --index {settings.index_url} NAME")
        else:
            shell.say(f"{name}: {settings.url}")
            shell.say(f"  npm install --registry {settings.url} NAME")
    shell.say(f"logs: {folder / 'runs'} and {folder / 'trials'}")
    shell.say("the registries are up until Ctrl-C")
    with contextlib.suppress(StoppedBySignal):
        asyncio.run(until_signal(asyncio.Event().wait()))
