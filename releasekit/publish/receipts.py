"""`--receipts FILE`: what the registries were seen to serve, as one JSON document."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from releasekit.errors import ReceiptsNotWritable
from releasekit.events import Confirmed, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from releasekit.events import Event, ReleaseState


def check_place(file: Path) -> None:
    """Told before anything is published, not after."""
    if file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
        raise ReceiptsNotWritable(file=file)


def write(file: Path, events: Iterable[Event], addresses: Mapping[str, str]) -> None:
    """From a run's events; the file appears whole, also where something failed."""
    told = tuple(events)
    state = fold(told)
    confirmed = {(one.package, one.sha256): one.at for one in told if isinstance(one, Confirmed)}
    body = {
        "v": 1,
        "run": state.run,
        "commit": state.commit,
        "ok": bool(state.ok),
        "receipts": [
            receipt
            for package, held in state.releases.items()
            for receipt in _receipts(held, addresses.get(package), confirmed)
        ],
    }
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as writing:
            writing.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
            writing.flush()
            os.fsync(writing.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _receipts(
    held: ReleaseState, address: str | None, confirmed: Mapping[tuple[str, str], float]
) -> list[dict[str, Any]]:
    package = held.release.package
    common = {
        "package": package,
        "version": held.release.version,
        "registry": held.release.registry,
        "address": address,
        "outcome": held.outcome,
        "reason": held.reason,
    }
    nothing: dict[str, Any] = {"file": None, "size": None, "sha256": None, "confirmed": None}
    files: list[dict[str, Any]] = [
        {
            "file": artifact.file,
            "size": artifact.size,
            "sha256": artifact.sha256,
            "confirmed": _moment(confirmed.get((package, artifact.sha256))),
        }
        for artifact in held.artifacts
    ]
    return [common | file for file in files or [nothing]]


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
