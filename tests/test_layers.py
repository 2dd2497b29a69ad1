"""The import contracts hold in `.ci/run`; here each is shown to be able to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

BREACHES = {
    "Imports point downwards": ("model.py", "from releasekit import plan\n"),
    "Ecosystems know nothing of each other": (
        "ecosystems/python/build.py",
        "from releasekit.ecosystems.node import build as other\n",
    ),
    "Only the command line and the screen know Typer and Rich": (
        "ecosystems/node/build.py",
        "import rich\n",
    ),
    "The screen does not know the publisher": (
        "ui/plain.py",
        "from releasekit import publish\n",
    ),
    "The scheduler stands alone": ("scheduler/__init__.py", "from releasekit import model\n"),
}


def contracts() -> list[str]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return [contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]]


def test_every_contract_has_a_breach() -> None:
    assert set(contracts()) == set(BREACHES)


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(name: str, tmp_path: Path) -> None:
    shutil.copytree(
        REPOSITORY / "releasekit", tmp_path / "releasekit",
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    file, line = BREACHES[name]
    with (tmp_path / "releasekit" / file).open("a") as code:
        code.write(line)
    shown = subprocess.run(
        ["lint-imports", "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1, shown.stdout
    assert f"{name} BROKEN" in shown.stdout
