"""The embedded index says what pypiserver's own backend would find on the disk."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


# pypiserver is not ours; it imports old things in old ways.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning")
def test_what_is_known_is_what_the_folder_holds(tmp_path: Path) -> None:
    from pypiserver.backend import SimpleFileBackend
    from pypiserver.config import Config

    from releasekit.embedded.known_files import KnownFiles

    (tmp_path / "acme_text-1.0.tar.gz").write_bytes(b"there before")
    config = Config.default_with_overrides(roots=[tmp_path], hash_algo="sha256")
    known, looking = KnownFiles(config), SimpleFileBackend(config)

    def same() -> None:
        for project in ("acme-text", "Acme.Text", "acme_app", "nobody"):
            ours, theirs = ([*one.find_project_packages(project)] for one in (known, looking))
            assert sorted(one.fn for one in ours) == sorted(one.fn for one in theirs)
            assert {known.digest(one) for one in ours} == {looking.digest(one) for one in theirs}
        assert {one.fn for one in known.get_all_packages()} == {
            one.fn for one in looking.get_all_packages()
        }
        assert known.get_projects() == looking.get_projects()

    same()
    for name in ("acme_text-1.0-py3-none-any.whl", "acme_app-2.0.tar.gz"):
        assert not known.exists(name)
        known.add_package(name, io.BytesIO(name.encode()))
        assert known.exists(name)
    same()
    known.remove_package(next(iter(known.find_project_packages("acme-app"))))
    (tmp_path / "acme_text-1.0.tar.gz").unlink()
    same()
    assert len(list(known.get_all_packages())) == 1
