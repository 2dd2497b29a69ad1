"""How fast it starts, beside the tools it stands among. Ratios of one run, never seconds."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import releasekit
from tests.sample import write_sample

ROUNDS = 15


def measure(commands: dict[str, list[str]], cwd: Path) -> dict[str, float]:
    """The best of interleaved rounds, so that a noisy moment hits every command alike."""
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            start = time.perf_counter()
            subprocess.run(argv, cwd=cwd, check=True, capture_output=True)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is what we compare with")
def test_a_cold_start_beats_npm_and_twine(tmp_path: Path) -> None:
    names = ["zeta", "yota", "xi", "upsilon", "tau", "sigma", "rho", "pi", "omega", "nu"]
    needs = {name: tuple(names[index + 1 :][:2]) for index, name in enumerate(names)}
    write_sample(tmp_path, python=needs, node={})
    beside = Path(sys.executable).parent
    # An editable install has no bytecode yet where PYTHONDONTWRITEBYTECODE is set.
    compileall.compile_dir(releasekit.__path__[0], quiet=1)
    times = measure(
        {
            "releasekit --version": [str(beside / "releasekit"), "--version"],
            "releasekit discover (10 packages)": [str(beside / "releasekit"), "discover"],
            "npm --version": ["npm", "--version"],
            "twine --version": [str(beside / "twine"), "--version"],
        },
        tmp_path,
    )
    print()
    for name, seconds in times.items():
        print(f"{name:36} {seconds * 1000:7.1f} ms")
    assert times["releasekit --version"] < times["npm --version"]
    assert times["releasekit --version"] < times["twine --version"]
    assert times["releasekit discover (10 packages)"] < 2 * times["npm --version"]
