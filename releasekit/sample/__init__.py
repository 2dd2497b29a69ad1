"""A small honest monorepo with a history: what `releasekit demo` rehearses."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from releasekit import git
from releasekit.sample.packages import CHECKER, HISTORY, PACKAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from releasekit.sample.packages import Sample

FIRST_VERSION = "1.2.0"
_FIRST_COMMIT, _A_DAY = 1_793_520_000, 86_400
_BACKENDS = {
    "uv_build": ("uv_build>=0.9,<1", "uv_build"),
    "hatchling": ("hatchling>=1.27", "hatchling.build"),
}


def make_sample(root: Path, *, node: bool = True) -> None:
    """The repository as its last commit leaves it; the release before that one is tagged."""
    samples = {one.name: one for one in PACKAGES if node or not one.is_node}
    there: list[Sample] = []
    version = FIRST_VERSION
    _write_roots(root, node=node)
    _git(root, 0, "init", "--quiet", "--template=", "--initial-branch=main")
    for number, change in enumerate(HISTORY):
        added = [samples[name] for name in change.adds if name in samples]
        if change.adds and not added:
            continue  # it is about Node alone
        there += added
        version = change.releases or version
        for sample in added:
            _write_code(root, sample)
        for sample in there if change.releases else added:
            _write_manifest(root, sample, version)
        for name, before, after in change.mends:
            program = root / samples[name].program
            _write(program, program.read_text(encoding="utf-8").replace(before, after))
        _git(root, number, "add", "--all")
        _git(root, number, "commit", "--quiet", "--message", change.message)
        if change.releases and change is not HISTORY[-1]:
            _git(root, number, "tag", f"v{change.releases}")


def _write_roots(root: Path, *, node: bool) -> None:
    _write(root / ".gitignore", "__pycache__/\n.venv/\ndist/\nnode_modules/\n")
    _write(root / "README.md", "# acme\n\nThe sample of `releasekit demo`.\n")
    _write(root / "pyproject.toml", '[tool.uv.workspace]\nmembers = ["python/*"]\n')
    if node:
        workspace = {"name": "acme", "private": True, "workspaces": ["node/*"]}
        _write(root / "package.json", _as_json(workspace))


def _write_code(root: Path, sample: Sample) -> None:
    _write(root / sample.folder / "README.md", f"# {sample.name}\n\n{sample.about}\n")
    program = root / sample.program
    _write(program, sample.code)
    if not sample.is_node:
        _write(program.with_name("py.typed"), "")


def _write_manifest(root: Path, sample: Sample, version: str) -> None:
    folder = root / sample.folder
    if sample.is_node:
        _write(folder / "package.json", _as_json(_package_json(sample, version)))
    else:
        _write(folder / "pyproject.toml", _pyproject(sample, version))


def _pyproject(sample: Sample, version: str) -> str:
    requirement, backend = _BACKENDS[sample.backend]
    extras = [name for listed in sample.extras.values() for name in listed]
    siblings = {need.partition("[")[0] for need in (*sample.needs, *extras)}
    requires = [requirement]
    if sample.checked:
        siblings.add(CHECKER)
        requires.append(CHECKER)
    lines = [
        "[project]",
        f'name = "{sample.name}"',
        f'version = "{version}"',
        f'description = "{sample.about}"',
        'readme = "README.md"',
        'license = "Apache-2.0"',
        'requires-python = ">=3.11"',
        f"dependencies = {json.dumps([*sample.needs, *sample.third_party])}",
    ]
    if sample.private:
        lines.append('classifiers = ["Private :: Do Not Upload"]')
    if sample.extras:
        lines += ["", "[project.optional-dependencies]"]
        lines += [f"{name} = {json.dumps(listed)}" for name, listed in sample.extras.items()]
    if sample.command:
        entry = f"{sample.name.replace('-', '_')}:main"
        lines += ["", "[project.scripts]", f'{sample.command} = "{entry}"']
    if sample.name == CHECKER:
        lines += ["", "[project.entry-points.hatch]", f'{CHECKER} = "{CHECKER.replace("-", "_")}"']
    if siblings:
        lines += ["", "[tool.uv.sources]"]
        lines += [f"{name} = {{ workspace = true }}" for name in sorted(siblings)]
    if sample.checked:
        lines += ["", f"[tool.hatch.build.hooks.{CHECKER}]"]
    lines += ["", "[build-system]", f"requires = {json.dumps(requires)}"]
    lines += [f'build-backend = "{backend}"', ""]
    return "\n".join(lines)


def _package_json(sample: Sample, version: str) -> Mapping[str, Any]:
    def ranges(names: tuple[str, ...]) -> dict[str, str]:
        return dict.fromkeys(names, f"^{version}")

    body = {
        "name": sample.name,
        "version": version,
        "description": sample.about,
        "private": sample.private,
        "license": "Apache-2.0",
        "main": "index.js",
        "files": ["index.js"],
        "bin": {sample.command: "index.js"} if sample.command else {},
        "publishConfig": {} if sample.private else {"access": "public"},
        "dependencies": ranges(sample.needs),
        "peerDependencies": ranges((*sample.peers, *sample.optional_peers)),
        "peerDependenciesMeta": {one: {"optional": True} for one in sample.optional_peers},
        "optionalDependencies": ranges(sample.optional),
    }
    return {key: value for key, value in body.items() if value}


def _as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")


def _git(root: Path, number: int, *arguments: str) -> None:
    """As nobody in particular, so that every sample has the same commits."""
    when = f"{_FIRST_COMMIT + number * _A_DAY} +0000"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        own |= {f"GIT_{who}_NAME": "Acme", f"GIT_{who}_EMAIL": "acme@example.com"}
        own[f"GIT_{who}_DATE"] = when
    git.git(root, *arguments, env=kept | own)
