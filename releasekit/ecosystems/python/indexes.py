"""`[[tool.uv.index]]`: an index with a `publish-url` is a registry of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from releasekit import manifest
from releasekit.config import RegistrySettings
from releasekit.errors import WrongManifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def named(root: Path, folders: Sequence[str]) -> dict[str, RegistrySettings]:
    """Of the repository's root and of its uv workspaces; the first of a name counts, as for uv."""
    found: dict[str, RegistrySettings] = {}
    for folder in dict.fromkeys((".", *folders)):
        file = root / folder / "pyproject.toml"
        document = manifest.read_toml(file)
        if document is None:
            continue
        indexes = manifest.table(file, document, "tool", "uv").get("index", [])
        if not isinstance(indexes, list):
            raise WrongManifest(file=file, key="tool.uv.index", expected="an array of tables")
        for index in indexes:
            if isinstance(index, dict) and "publish-url" in index and "name" in index:
                found.setdefault(str(index["name"]), _settings(file, index))
    return found


def _settings(file: Path, index: Mapping[str, object]) -> RegistrySettings:
    addresses = []
    for key in ("publish-url", "url"):
        value = index.get(key)
        if not isinstance(value, str) or not value.startswith(("https://", "http://")):
            raise WrongManifest(
                file=file, key=f"tool.uv.index.{key}", expected="an http or https address"
            )
        addresses.append(value)
    return RegistrySettings(upload_url=addresses[0], index_url=addresses[1])
