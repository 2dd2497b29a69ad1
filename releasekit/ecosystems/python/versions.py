"""The version of a project, read without running its code; None where only a build can tell."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from releasekit.errors import ManifestError
from releasekit.manifest import read_json, read_text, read_toml, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releasekit.ecosystems.python.project import Project

# Already in the normal form of https://peps.python.org/pep-0440/, so nothing has to be imported.
_NUMBER = r"(?:0|[1-9]\d*)"
_NORMAL = re.compile(
    rf"{_NUMBER}(?:\.{_NUMBER})*(?:(?:a|b|rc){_NUMBER})?(?:\.post{_NUMBER})?(?:\.dev{_NUMBER})?",
    re.ASCII,
)
# The defaults of hatchling and of pdm-backend. A pattern of the project's own is not tried:
# a hostile one would never end.
_HATCH = re.compile(
    r"^(__version__|VERSION)(?: ?: ?str)? *= *(['\"])v?(?P<version>.+?)\2",
    re.IGNORECASE | re.MULTILINE,
)
_PDM = re.compile(r"^__version__\s*=\s*(['\"])(?P<version>.+?)\1\s*(?:#.*)?$", re.MULTILINE)


def of(project: Project, root: Path) -> tuple[str | None, str | None]:
    """The version, or why it is not known. Nothing outside of the root is read."""
    if project.version is not None:
        return _normalized(project.version)
    if "version" not in project.dynamic:
        return None, "there is no `project.version`, and it is not `dynamic` either"
    try:
        found = _Reader(project, root).version()
    except ManifestError as error:
        return None, f"the version is dynamic and cannot be read: {error.message}"
    if found is None:
        return None, "the version is dynamic: only a build can tell it"
    return _normalized(found)


def _normalized(text: str) -> tuple[str | None, str | None]:
    if _NORMAL.fullmatch(text):
        return text, None
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text.strip())), None
    except InvalidVersion:
        return None, f"`{text[:80]}` is not a valid version"


class _Reader:
    """What each build backend reads, as far as that is a file and not a program."""

    def __init__(self, project: Project, root: Path) -> None:
        self._project = project
        self._folder = project.file.parent
        self._root = root
        backend = table(project.file, project.document, "build-system").get("build-backend")
        # Without a backend, PEP 517 means setuptools.
        self._backend = backend if isinstance(backend, str) else "setuptools.build_meta"

    def version(self) -> str | None:
        match self._backend.partition(".")[0]:
            case "hatchling":
                return self._hatchling()
            case "setuptools":
                return self._setuptools()
            case "flit_core":
                return self._flit()
            case "pdm":
                return self._pdm()
            case "poetry":
                return _text(self._tool("poetry").get("version"))
            case "maturin":
                return self._maturin()
            case _:
                return None

    def _tool(self, *path: str) -> dict[str, Any]:
        return table(self._project.file, self._project.document, "tool", *path)

    def _inside(self, path: object) -> Path | None:
        """A file of the repository, or None: a version is not worth a look at /etc."""
        if not isinstance(path, str):
            return None
        file = self._folder / path
        return file if file.resolve().is_relative_to(self._root) else None

    def _search(self, path: object, pattern: re.Pattern[str]) -> str | None:
        file = self._inside(path)
        text = read_text(file) if file else None
        found = pattern.search(text) if text else None
        return found["version"] if found else None

    def _hatchling(self) -> str | None:
        settings = self._tool("hatch", "version")
        source = settings.get("source", "regex")
        if source == "nodejs":
            return self._package_json(settings.get("path", "package.json"))
        if source != "regex" or settings.get("pattern") not in (None, True):
            return None
        return self._search(settings.get("path"), _HATCH)

    def _package_json(self, path: object) -> str | None:
        file = self._inside(path)
        document = read_json(file, warn=lambda _: None) if file else None
        return _text(document.get("version")) if document else None

    def _setuptools(self) -> str | None:
        settings = table(self._project.file, self._tool("setuptools"), "dynamic", "version")
        if isinstance(settings.get("attr"), str):
            return self._attribute(settings["attr"])
        files = settings.get("file")
        paths = [
            self._inside(path) for path in ([files] if isinstance(files, str) else files or [])
        ]
        texts = [read_text(path) for path in paths if path]
        if not texts or len(texts) != len(paths) or None in texts:
            return None
        return "\n".join(text for text in texts if text).strip()

    def _attribute(self, dotted: str) -> str | None:
        """`package.module.NAME`, as setuptools finds it without an import."""
        module, _, name = dotted.rpartition(".")
        folders = table(self._project.file, self._tool("setuptools"), "package-dir")
        places = [folders[""]] if isinstance(folders.get(""), str) else ["src", "."]
        for place in places:
            base = f"{place}/{module.replace('.', '/')}"
            for candidate in (f"{base}.py", f"{base}/__init__.py"):
                if (file := self._inside(candidate)) and file.is_file():
                    return _assigned(file, name)
        return None

    def _flit(self) -> str | None:
        module = self._tool("flit", "module").get("name", self._project.name)
        if not isinstance(module, str):
            return None
        path = module.replace("-", "_").replace(".", "/")
        for candidate in (f"{path}/__init__.py", f"{path}.py"):
            for place in ("src", "."):
                if (file := self._inside(f"{place}/{candidate}")) and file.is_file():
                    return _assigned(file, "__version__")
        return None

    def _pdm(self) -> str | None:
        settings = self._tool("pdm", "version")
        if settings.get("source") != "file" or "pattern" in settings:
            return None
        return self._search(settings.get("path"), _PDM)

    def _maturin(self) -> str | None:
        path = self._tool("maturin").get("manifest-path", "Cargo.toml")
        file = self._inside(path)
        document = read_toml(file) if file else None
        return _text(table(file, document, "package").get("version")) if file and document else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _assigned(file: Path, name: str) -> str | None:
    """The literal that a module gives to a name at its top level."""
    try:
        tree = ast.parse(read_text(file) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for target, value in _assignments(tree):
        if target == name:
            try:
                literal = ast.literal_eval(value)
            except (ValueError, TypeError, RecursionError, MemoryError):
                return None
            if isinstance(literal, tuple | list):
                return ".".join(map(str, literal))
            return _text(literal)
    return None


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
        elif (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value
        ):
            yield statement.target.id, statement.value
