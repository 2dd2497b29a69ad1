from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from releasekit.ecosystems.node.build import inspect
from releasekit.errors import UnreadableArtifact
from releasekit.model import Package

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = Package(
    id="npm:x", name="x", ecosystem="node", version="1.0.0", path="x",
    manifest="x/package.json", publishable=True,
)  # fmt: skip


def tarball(tmp_path: Path, manifest: dict[str, object]) -> tuple[Path, ...]:
    file = tmp_path / "x-1.0.0.tgz"
    content = json.dumps(manifest).encode()
    with tarfile.open(file, "w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return (file,)


def test_a_good_tarball_has_no_findings(tmp_path: Path) -> None:
    files = tarball(tmp_path, {"name": "x", "version": "1.0.0", "dependencies": {"y": "^1.0.0"}})
    assert inspect(PACKAGE, files) == ()


@pytest.mark.parametrize("table", ["dependencies", "peerDependencies", "optionalDependencies"])
@pytest.mark.parametrize("wanted", ["workspace:*", "catalog:", "file:../y", "link:../y"])
def test_a_protocol_of_the_workspace_is_found(tmp_path: Path, table: str, wanted: str) -> None:
    files = tarball(tmp_path, {"name": "x", "version": "1.0.0", table: {"y": wanted}})
    assert inspect(PACKAGE, files) == (f"`{table}.y` still says `{wanted}`",)


def test_another_name_or_version_than_planned_is_found(tmp_path: Path) -> None:
    [problem] = inspect(PACKAGE, tarball(tmp_path, {"name": "x", "version": "1.0.1"}))
    assert "x 1.0.1" in problem


def test_a_build_that_left_nothing_is_found() -> None:
    assert inspect(PACKAGE, ()) == ("`npm pack` should leave one tarball and left nothing",)


def test_a_broken_tarball_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.0.tgz").write_bytes(b"not a tarball")
    with pytest.raises(UnreadableArtifact):
        inspect(PACKAGE, (tmp_path / "x-1.0.0.tgz",))
