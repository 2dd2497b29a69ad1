from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from releasekit import process
from releasekit.ecosystems.python.environments import Environments, cache_folder, forget_unused
from releasekit.errors import ChildFailed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def environ(build_backends: dict[str, str], tmp_path: Path) -> dict[str, str]:
    variables = process.build_environment(os.environ) | build_backends
    return variables | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def environments(environ: dict[str, str], tmp_path: Path, uv: str = "uv") -> Environments:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return Environments(
        uv=uv, interpreter=environ["UV_PYTHON"], cwd=tmp_path, environ=environ, scratch=scratch
    )


async def test_the_same_requirements_give_the_same_environment_in_the_next_run(
    environ: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    first = await environments(environ, tmp_path).get(["flit-core"], log)
    made = first.python.lstat().st_ctime_ns
    again = await environments(environ, tmp_path).get(["flit-core", "flit-core"], log)
    assert again.folder == first.folder
    assert again.python.lstat().st_ctime_ns == made
    assert process.output([str(again.python), "-c", "import flit_core"], cwd=tmp_path) == ""
    other = await environments(environ, tmp_path).get(["poetry-core"], log)
    assert other.folder != first.folder


async def test_an_environment_that_someone_wrote_into_is_made_anew(
    environ: dict[str, str], tmp_path: Path
) -> None:
    first = await environments(environ, tmp_path).get(["flit-core"], tmp_path / "log")
    [package] = first.folder.glob("lib/python*/site-packages/flit_core")
    (package.parent / "evil.pth").write_text("import os\n")
    again = await environments(environ, tmp_path).get(["flit-core"], tmp_path / "log")
    assert again.folder == first.folder
    assert not (package.parent / "evil.pth").exists()
    module = package / "__init__.py"
    text = module.read_text()
    before = module.stat()
    module.write_text("x" * len(text))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    await environments(environ, tmp_path).get(["flit-core"], tmp_path / "log")
    assert module.read_text() == text
    assert not list(cache_folder(environ).glob("making-*"))


async def test_what_cannot_be_had_is_loud(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="no-such-backend"):
        await environments(environ, tmp_path).get(["no-such-backend-at-all"], tmp_path / "log")
    assert not list(cache_folder(environ).glob("*"))


def test_what_nobody_used_for_a_month_is_removed(tmp_path: Path) -> None:
    for name in ("old", "new", "making-half"):
        (tmp_path / name).mkdir()
    (tmp_path / "old/releasekit-seal.json").write_text("{}")
    (tmp_path / "new/releasekit-seal.json").write_text("{}")
    month = 31 * 24 * 3600
    old = time.time() - month
    os.utime(tmp_path / "old/releasekit-seal.json", (old, old))
    os.utime(tmp_path / "making-half", (old, old))
    forget_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
