"""What a pypiserver holds, known by heart.

Its own backend looks at every file of the folder for each page and each upload: with 400 files a
page takes 7 ms. Nobody but this process writes to the folder, so it is read once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pypiserver.backend import SimpleFileBackend, valid_packages
from pypiserver.pkg_helpers import normalize_pkgname

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, BinaryIO

    from pypiserver.core import PkgFile


class KnownFiles(SimpleFileBackend):  # type: ignore[misc]
    def __init__(self, config: Any) -> None:  # noqa: ANN401 - pypiserver's own
        super().__init__(config)
        self._projects: dict[str, dict[str, PkgFile]] = {}
        for package in super().get_all_packages():
            self._note(package)

    def get_all_packages(self) -> Iterable[PkgFile]:
        return [one for name in list(self._projects) for one in self.find_project_packages(name)]

    def find_project_packages(self, project: str) -> Iterable[PkgFile]:
        held = self._projects.get(normalize_pkgname(project), {})
        # A file that somebody removed behind our back is gone; one that was added is not seen.
        return [one for one in list(held.values()) if Path(one.fn).is_file()]

    def exists(self, filename: str) -> bool:
        return bool((self.roots[0] / filename).is_file())

    def add_package(self, filename: str, stream: BinaryIO) -> None:
        super().add_package(filename, stream)
        for package in valid_packages(self.roots[0], [self.roots[0] / filename]):
            self._note(package)

    def remove_package(self, pkg: PkgFile) -> None:
        super().remove_package(pkg)
        self._projects.get(pkg.pkgname_norm, {}).pop(pkg.relfn, None)

    def _note(self, package: PkgFile) -> None:
        self._projects.setdefault(package.pkgname_norm, {})[package.relfn] = package
