"""Build a tree the way a run does it, without a run around it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from releasekit import process, workspace
from releasekit.ecosystems import BuildRequest, Built, ecosystem_of
from releasekit.workers import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from releasekit.model import Package


@dataclass
class Outcome:
    scratch: Path
    started: list[str] = field(default_factory=list)
    ended: dict[str, Built] = field(default_factory=dict)

    def files(self, package: str) -> dict[str, Path]:
        assert self.ended[package].error is None, self.ended[package].error
        return {file.name: file for file in self.ended[package].files}

    def log(self, package: str) -> str:
        return (self.scratch / f"{name_of(package)}.log").read_text()


def name_of(package: str) -> str:
    return package.replace(":", "-").replace("/", "__")


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def build(
    root: Path,
    scratch: Path,
    *,
    only: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    width: int = 2,
    runs_script: Callable[[Package], bool] = lambda _: False,
    environ: Mapping[str, str] | None = None,
) -> Outcome:
    found = workspace.load(root)
    packages = tuple(
        replace(package, version=(versions or {}).get(package.id, package.version))
        for package in found.packages
        if package.publishable and (not only or package.id in only)
    )
    outcome = Outcome(scratch)
    slots = Slots(width)

    def finished(built: Built) -> None:
        outcome.ended[built.package] = built
        if built.error is not None:
            slots.stop()

    artifacts = {package.id: scratch / "artifacts" / name_of(package.id) for package in packages}
    for folder in artifacts.values():
        folder.mkdir(parents=True)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for ecosystem in sorted({package.ecosystem for package in packages}):
                own = tuple(package for package in packages if package.ecosystem == ecosystem)
                (scratch / ecosystem).mkdir()
                request = BuildRequest(
                    workspace=found,
                    packages=own,
                    artifacts=artifacts,
                    logs={one.id: scratch / f"{name_of(one.id)}.log" for one in packages},
                    scratch=scratch / ecosystem,
                    environ=process.build_environment(
                        os.environ, SOURCE_DATE_EPOCH="1700000000", **(environ or {})
                    ),
                    slots=slots,
                    keepers=process.Keepers(),
                    timeout=timeout,
                    runs_script=runs_script,
                    started=outcome.started.append,
                    finished=finished,
                )
                group.create_task(ecosystem_of(own[0]).build(request))

    asyncio.run(run())
    return outcome
