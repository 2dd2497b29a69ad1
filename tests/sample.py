"""A monorepo as small as a test wants it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Named against the alphabet: an order that only sorts names would be wrong.
PYTHON = {"acme-app": ("acme-models",), "acme-models": ("acme-text",), "acme-text": ()}
NODE = {"@acme/cli": ("@acme/parser",), "@acme/parser": ()}


def write_sample(
    root: Path,
    *,
    version: str = "1.0.0",
    python: Mapping[str, tuple[str, ...]] = PYTHON,
    node: Mapping[str, tuple[str, ...]] = NODE,
) -> None:
    """A uv workspace and an npm workspace in one repository; needs map a name to its siblings."""
    root.mkdir(parents=True, exist_ok=True)
    if python:
        _write(root / "pyproject.toml", '[tool.uv.workspace]\nmembers = ["python/*"]\n')
        for name, needs in python.items():
            _write_python(root / "python" / name, name, version, needs)
    if node:
        workspace = {"name": "acme", "private": True, "workspaces": ["node/*"]}
        _write(root / "package.json", json.dumps(workspace, indent=2) + "\n")
        for name, needs in node.items():
            _write_node(root / "node" / name.rpartition("/")[2], name, version, needs)


def _write_python(folder: Path, name: str, version: str, needs: tuple[str, ...]) -> None:
    module = name.replace("-", "_")
    sources = "".join(f"{need} = {{ workspace = true }}\n" for need in needs)
    _write(
        folder / "pyproject.toml",
        f"""\
[project]
name = "{name}"
version = "{version}"
description = "A package of a test."
readme = "README.md"
requires-python = ">=3.11"
dependencies = {json.dumps(list(needs))}

[tool.uv.sources]
{sources}
[build-system]
requires = ["uv_build"]
build-backend = "uv_build"
""",
    )
    _write(folder / "README.md", f"# {name}\n")
    imports = "".join(f"import {need.replace('-', '_')}\n" for need in needs)
    _write(folder / "src" / module / "__init__.py", f'{imports}\n__version__ = "{version}"\n')


def _write_node(folder: Path, name: str, version: str, needs: tuple[str, ...]) -> None:
    manifest = {
        "name": name,
        "version": version,
        "description": "A package of a test.",
        "license": "Apache-2.0",
        "main": "index.js",
        "files": ["index.js"],
        "publishConfig": {"access": "public"},
        "dependencies": dict.fromkeys(needs, f"^{version}"),
    }
    _write(folder / "package.json", json.dumps(manifest, indent=2) + "\n")
    _write(folder / "README.md", f"# {name}\n")
    requires = ", ".join(f'require("{need}")' for need in needs)
    _write(folder / "index.js", f'module.exports = {{ name: "{name}", needs: [{requires}] }};\n')


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
