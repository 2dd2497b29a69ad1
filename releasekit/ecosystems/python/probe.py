"""Runs in an environment that holds one package: imports it and writes down how that went.

A program of its own that must run on every Python a package supports: stdlib alone, 3.8 on.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUFFIXES = (".py", ".so", ".pyd")
_NEVER = ("__pycache__", "__main__")


def modules_of(files: Iterable[str]) -> list[str]:
    """What the distribution lets one import: the outermost modules, below a namespace its parts."""
    packages, single = set(), set()
    for file in files:
        *folders, name = file.split("/")
        if not name.endswith(_SUFFIXES) or not all(part.isidentifier() for part in folders):
            continue
        module = name.split(".", 1)[0]
        if module == "__init__":
            packages.add(tuple(folders))
        elif module.isidentifier() and module not in _NEVER:
            single.add((*folders, module))
    inner = {
        one for one in packages | single for size in range(1, len(one)) if one[:size] in packages
    }
    return sorted(".".join(one) for one in (packages | single) - inner if one)


def attempts(name: str) -> Iterator[tuple[str, str]]:
    """Each thing to load, as words and as the reference of an entry point."""
    distribution = importlib.metadata.distribution(name)
    listed = [str(file) for file in distribution.files or ()]
    for module in modules_of(
        file for file in listed if ".data/" not in file and ".dist-info/" not in file
    ):
        yield f"import {module}", module
    for entry in distribution.entry_points:
        # One that needs an extra is not promised to load without.
        if entry.group in ("console_scripts", "gui_scripts") and "[" not in entry.value:
            yield f"the script `{entry.name}` ({entry.value})", entry.value


def load(reference: str) -> None:
    module, _, attributes = reference.partition(":")
    found = importlib.import_module(module.strip())
    for attribute in filter(None, attributes.strip().split(".")):
        found = getattr(found, attribute)


def main() -> None:
    name, answer = sys.argv[1:]
    loaded: list[str] = []
    body: dict[str, object] = {"loaded": loaded}
    for what, reference in attempts(name):
        try:
            load(reference)
        except BaseException as error:  # noqa: BLE001 - a module may also call sys.exit
            body["failed"] = what
            body["kind"] = type(error).__name__
            body["missing"] = (
                getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
            )
            body["words"] = traceback.format_exc()
            break
        loaded.append(what)
    draft = answer + ".new"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(body, file)
    os.replace(draft, answer)
    sys.stdout.flush()
    os._exit(0)  # threads that an import has started are not ours to wait for


if __name__ == "__main__":
    main()
