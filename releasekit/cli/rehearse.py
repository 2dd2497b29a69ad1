"""`releasekit rehearse`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from releasekit.cli.options import ExcludedPackages, Groups, OnlyPackages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from releasekit.cli.shell import Shell
    from releasekit.config import Config, RegistrySettings
    from releasekit.ecosystems import Trial
    from releasekit.model import Workspace
    from releasekit.publish.selection import Selection
    from releasekit.rehearse import Misbehaviour, Rehearsal, Verdicts

EXAMPLES = """\b
Examples:
  releasekit rehearse
  releasekit rehearse --package acme-app     with all that it needs
  releasekit rehearse --keep                 and try things by hand
  releasekit rehearse --output json
"""


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
    from releasekit.publish.selection import Selection
    from releasekit.rehearse import Misbehaviour

    shell: Shell = ctx.obj
    found, config = shell.load()
    code = rehearse_and_show(
        shell,
        found,
        config,
        Selection(
            packages=tuple(package or ()), groups=tuple(group or ()), exclude=tuple(exclude or ())
        ),
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
) -> int:
    """From the registries' start to their end; gives the exit code."""
    import asyncio

    from releasekit import embedded
    from releasekit import rehearse as verb
    from releasekit.cli.steering import exit_code_of, run_and_show, until_signal

    with embedded.throwaway_folder("releasekit-rehearse-") as folder:
        rehearsal = verb.select(found, config, folder, selection)
        _say_what_is_missing(shell, rehearsal)
        with verb.registries(rehearsal, misbehaviour) as running:
            request = verb.request_for(rehearsal, running, lock_timeout=lock_timeout)
            approve = verb.approval(running)
            state = run_and_show(shell, request, approve=approve)
            if misbehaviour.faults and not state.ok:
                shell.say("the same again: it continues with what is not there yet")
                state = run_and_show(shell, request, approve=approve)
            if exit_code_of(state) == INTERRUPTED:
                return INTERRUPTED
            trials = asyncio.run(
                until_signal(verb.try_all(rehearsal, state, running, _teller(shell)))
            )
            judged = verb.verdicts(rehearsal, state, trials)
            _show(shell, judged, verb.differences(rehearsal))
            if keep:
                _keep_up(shell, running)
    return 0 if all(one.ok for one in judged) else 1


INTERRUPTED = 3


def _say_what_is_missing(shell: Shell, rehearsal: Rehearsal) -> None:
    from releasekit import embedded

    for reason in dict.fromkeys(rehearsal.left_out.values()):
        shell.say(f"{len(rehearsal.left_out)} npm packages are left out: {reason}")
    uses_npm = any(package.ecosystem == "node" for package in rehearsal.packages)
    if uses_npm and not embedded.is_installed():
        shell.say("installing an npm registry, once (about half a minute)")
        with shell.working("installing the npm registry"):
            embedded.install_npm_registry()


def _teller(shell: Shell) -> Any:  # noqa: ANN401 - a callable
    from releasekit.cli.shell import Output
    from releasekit.ui.text import clean

    def tell(trial: Trial) -> None:
        if shell.output is Output.TEXT:
            good = trial.verdict == "ok"
            told = f"installed and loaded in {trial.seconds:.1f} s" if good else trial.verdict
            painted = shell.style(told, "32" if good else "1;31")
            shell.print_of_run(f"{clean(trial.package)}  {painted}")

    return tell


def _show(shell: Shell, judged: tuple[Verdicts, ...], differences: tuple[str, ...]) -> None:
    import json

    from releasekit.cli.shell import Output

    ok = all(one.ok for one in judged)
    if shell.output is Output.JSON:
        for one in judged:
            shell.print_of_run(json.dumps(_as_data(one), ensure_ascii=False))
        last = {"v": 1, "event": "rehearsed", "ok": ok, "differences": list(differences)}
        shell.print_of_run(json.dumps(last, ensure_ascii=False))
        return
    shell.print_of_run("\n".join(_as_text(shell, judged, differences)))


def _as_data(one: Verdicts) -> dict[str, object]:
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


def _as_text(
    shell: Shell, judged: tuple[Verdicts, ...], differences: tuple[str, ...]
) -> Iterator[str]:
    from releasekit.ui.text import bytes_in_words, clean

    width = max(len(clean(f"{one.package} {one.version}")) for one in judged)
    yield ""
    for one in judged:
        mark = shell.style("ok", "32") if one.ok else shell.style("no", "1;31")
        name = clean(f"{one.package} {one.version}")
        files = ", ".join(
            f"{_kind(timed.artifact.file)} {bytes_in_words(timed.artifact.size)}"
            + (f" in {timed.seconds:.2f} s" if timed.seconds is not None else "")
            for timed in one.artifacts
        )
        if one.ok:
            yield f"{mark}  {name:{width}}  {files}"
            continue
        yield f"{mark}  {name:{width}}  {shell.style(one.trial.verdict, '1;31')}"
        yield from (f"      {line}" for line in clean(one.trial.words, lines=True).splitlines())
    bad = sum(not one.ok for one in judged)
    said = f"{len(judged) - bad} of {len(judged)} packages are fine"
    yield ""
    yield shell.style(said, "1;31" if bad else "32")
    yield "a real publish would differ:"
    yield from (f"  {clean(line)}" for line in differences)


def _kind(file: str) -> str:
    return {"whl": "wheel", "gz": "sdist", "tgz": "tarball"}.get(file.rpartition(".")[2], file)


def _keep_up(shell: Shell, running: Mapping[str, RegistrySettings]) -> None:
    import asyncio
    import contextlib

    from releasekit.cli.steering import until_signal
    from releasekit.errors import StoppedBySignal

    for name, settings in running.items():
        if settings.index_url:
            shell.say(f"{name}: {settings.index_url}")
            shell.say(f"  uv pip install --index {settings.index_url} NAME")
        else:
            shell.say(f"{name}: {settings.url}")
            shell.say(f"  npm install --registry {settings.url} NAME")
    shell.say("the registries are up until Ctrl-C")
    with contextlib.suppress(StoppedBySignal):
        asyncio.run(until_signal(asyncio.Event().wait()))
