"""Look into every artifact before anyone can upload it; all findings are told at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from releasekit.ecosystems import InspectRequest, ecosystem_of, is_attestation
from releasekit.events import Found
from releasekit.model import Severity
from releasekit.publish.build import artifact_folder, end_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.model import Finding, Package
    from releasekit.publish.build import Builds

_MEGABYTE = 1_000_000


async def inspect_all(builds: Builds) -> bool:
    """False when an artifact is not what it should be; warnings stop nothing."""
    found = await asyncio.to_thread(lambda: list(_findings(builds)))
    failed: dict[str, tuple[str, str | None]] = {}
    for package, finding in found:
        builds.emit(
            Found(
                package=package.id,
                check=finding.check,
                severity=finding.severity,
                file=finding.file,
                message=finding.message,
                hint=finding.hint,
            )
        )
        if finding.severity is Severity.ERROR:
            reason, hint = failed.get(package.id, ("", finding.hint))
            line = f"{finding.check}: {finding.file}: {finding.message}"
            failed[package.id] = (f"{reason}\n{line}".strip(), hint)
    if failed:
        end_all(builds, failed)
    return not failed


def _findings(builds: Builds) -> Iterator[tuple[Package, Finding]]:
    settings = builds.config.inspect
    pinned = {edit.path: edit.pinned for edit in builds.edits}
    for package in builds.packages:
        manifest = builds.workspace.root / package.manifest
        files = artifact_folder(builds.folder, package.id).iterdir()
        request = InspectRequest(
            package=package,
            files=tuple(sorted(file for file in files if not is_attestation(file))),
            folder=builds.workspace.root / package.path,
            manifest=pinned.get(manifest) or manifest.read_bytes(),
            max_bytes=settings.max_megabytes * _MEGABYTE,
        )
        for finding in ecosystem_of(package).inspect(request):
            reason = settings.reason_to_allow(package, finding.check)
            if reason is not None and finding.severity is Severity.ERROR:
                yield package, replace(finding, severity=Severity.ALLOWED, hint=reason)
            else:
                yield package, finding
