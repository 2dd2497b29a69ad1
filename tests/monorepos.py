"""Monorepos of twelve packages, as real as they come, for the tests that publish them for real.

Named against the alphabet: an order that only sorts names would send every dependent first.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from tests.building import write_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NEEDS: Mapping[str, str] = {
    "a": "bc", "b": "e", "c": "ef", "d": "g", "e": "h", "f": "hi",
    "g": "i", "h": "j", "i": "jk", "j": "l", "k": "l", "l": "",
}  # fmt: skip
"""Each letter is a package; these are its hard needs."""
SOFT = {"a": "d"}
"""An extra and an optional or a peer dependency: they order a release too."""
VERSION = "1.4.2"


def committed(root: Path, files: Mapping[str, str]) -> Path:
    """A repository with these files and nothing to commit."""
    write_tree(root, files)
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "feat: all"),
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def edges() -> Iterable[tuple[str, str]]:
    for letter in NEEDS:
        for need in NEEDS[letter] + SOFT.get(letter, ""):
            yield letter, need


def python_files(prefix: str, folder: str = "python") -> dict[str, str]:
    files = {"pyproject.toml": f'[tool.uv.workspace]\nmembers = ["{folder}/*"]\n'}
    for letter in NEEDS:
        files |= _python_package(prefix, letter, f"{folder}/{prefix}-{letter}")
    return files


def _python_package(prefix: str, letter: str, path: str) -> dict[str, str]:
    name, module = f"{prefix}-{letter}", f"{prefix}_{letter}"
    needs = [f"{prefix}-{need}" for need in NEEDS[letter]]
    extras: dict[str, list[str]] = {}
    if letter == "a":
        extras = {"fast": [f"{prefix}-d[more]"], "all": [f"{name}[fast]"]}  # needs itself
    elif letter == "d":
        extras = {"more": [f"{prefix}-k"]}
    elif letter == "k":
        needs = [f'{prefix}-l>=1,<2; python_version >= "3.8"']
    elif letter == "l":
        extras = {"app": [f"{prefix}-a"]}  # soft, and closes a circle
    others = sorted({*NEEDS[letter], *{"a": "d", "d": "k", "l": "a"}.get(letter, "")})
    sources = "".join(f"{prefix}-{other} = {{ workspace = true }}\n" for other in others)
    by_hatchling = letter in "ch"
    own_version = letter == "h"  # only its build backend can tell
    version = 'dynamic = ["version"]' if own_version else f'version = "{VERSION}"'
    optional = "".join(f"{extra} = {json.dumps(listed)}\n" for extra, listed in extras.items())
    backend = (
        'requires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        if by_hatchling
        else 'requires = ["uv_build"]\nbuild-backend = "uv_build"\n'
    )
    if own_version:
        backend += f'[tool.hatch.version]\npath = "src/{module}/__init__.py"\n'
    imports = "".join(f"import {prefix}_{need}\n" for need in NEEDS[letter])
    return {
        f"{path}/pyproject.toml": (
            f'[project]\nname = "{name}"\n{version}\ndescription = "One of twelve."\n'
            f'readme = "README.md"\nrequires-python = ">=3.9"  # kept as it is\r\n'
            f"dependencies = {json.dumps(needs)}\n"
            f"[project.optional-dependencies]\n{optional}"
            f"[tool.uv.sources]\n{sources}[build-system]\n{backend}"
        ),
        f"{path}/README.md": f"# {name}\n",
        f"{path}/src/{module}/__init__.py": f'{imports}__version__ = "{VERSION}"\n',
    }


def node_files(scope: str, tool: str, folder: str = "node") -> dict[str, str]:
    """A workspace of `tool` (npm, pnpm10, pnpm12, yarn1, yarn4)."""
    root: dict[str, Any] = {"name": "root", "private": True}
    files = {}
    if tool.startswith("pnpm"):
        files["pnpm-workspace.yaml"] = (
            # Otherwise a plain range means what is on the registry, not the sibling.
            f"packages:\n  - {folder}/*\nlinkWorkspacePackages: true\n"
            f"catalog:\n  '{scope}/l': workspace:^\ncatalogs:\n  old:\n    '{scope}/j': ^1.0.0\n"
        )
    else:
        root["workspaces"] = [f"{folder}/*"]
    if tool.startswith("yarn"):
        root["packageManager"] = {"yarn1": "yarn@1.22.22", "yarn4": "yarn@4.18.1"}[tool]
        files["yarn.lock"] = ""
    if tool == "yarn4":
        files[".yarnrc.yml"] = "enableGlobalCache: false\nenableTelemetry: false\n"
    files["package.json"] = json.dumps(root)
    for letter in NEEDS:
        files |= _node_package(scope, letter, tool, f"{folder}/{letter}")
    return files


def _node_package(scope: str, letter: str, tool: str, path: str) -> dict[str, str]:
    protocol = tool.startswith("pnpm") or tool == "yarn4"
    ranges = {
        need: "*^~"[number % 3] for number, need in enumerate(NEEDS[letter], start=ord(letter))
    }
    asked = {
        f"{scope}/{need}": f"workspace:{sign}" if protocol else f"^{VERSION}"
        for need, sign in ranges.items()
    }
    body: dict[str, Any] = {
        "name": f"{scope}/{letter}",
        "version": VERSION,
        "license": "MIT",
        "files": ["index.js"],
        "main": "index.js",
        "type": "module" if letter == "a" else "commonjs",
        "publishConfig": {"access": "public"},
        "dependencies": asked,
    }
    if letter == "a":
        sibling = f"{scope}/d"
        body["optionalDependencies"] = {sibling: "workspace:*" if protocol else VERSION}
    if letter == "g":
        body["peerDependencies"] = {f"{scope}/i": "^1.0.0"}
        body["devDependencies"] = {f"{scope}/i": asked.pop(f"{scope}/i")}
    if tool.startswith("pnpm"):
        if letter == "k":
            asked[f"{scope}/l"] = "catalog:"
        if letter == "i":
            asked[f"{scope}/j"] = "catalog:old"
    needed = [f"{scope}/{need}" for need in NEEDS[letter]]
    if letter == "a":
        code = "".join(f'import "{need}";\n' for need in needed) + 'export const name = "a";\n'
    else:
        code = "".join(f'require("{need}");\n' for need in needed)
        code += f'exports.name = "{letter}";\n'
    return {
        f"{path}/package.json": json.dumps(body, indent="\t") + "\n\n",
        f"{path}/README.md": f"# {letter}\n",
        f"{path}/index.js": code,
        f"{path}/left-out.js": "throw 1\n",
    }


def published_needs(letter: str) -> dict[str, str]:
    """What the registry must show as a Node package's ranges on its siblings, where they differ."""
    return {
        need: {"*": VERSION, "^": f"^{VERSION}", "~": f"~{VERSION}"}["*^~"[number % 3]]
        for number, need in enumerate(NEEDS[letter], start=ord(letter))
    }
