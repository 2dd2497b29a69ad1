"""What inspection finds, one artifact at a time."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from releasekit import archives
from releasekit.archives import escapes
from releasekit.ecosystems import InspectRequest
from releasekit.ecosystems.node import inspect as node
from releasekit.ecosystems.python import inspect as python
from releasekit.model import Check, Finding, Package, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PYTHON = Package(
    id="pypi:acme-one", name="acme-one", ecosystem="python", version="1.0.0", path="one",
    manifest="one/pyproject.toml", publishable=True,
)  # fmt: skip
NODE = Package(
    id="npm:x", name="x", ecosystem="node", version="1.0.0", path="x",
    manifest="x/package.json", publishable=True,
)  # fmt: skip
MANIFEST = """\
[project]
name = "acme-one"
version = "1.0.0"
dependencies = ["acme-two[fast]==1.0.0", "tomli>=2; python_version < '3.11'"]
[project.optional-dependencies]
all = ["acme-three==1.0.0; os_name == 'posix' or os_name == 'nt'", "idna"]
"""
METADATA = """\
Metadata-Version: 2.4
Name: acme-one
Version: 1.0.0
Description-Content-Type: text/markdown
Requires-Dist: acme_two[fast]==1.0.0
Requires-Dist: tomli>=2; python_version < "3.11"
Provides-Extra: all
Requires-Dist: acme-three==1.0.0; (os_name == "posix" or os_name == "nt") and extra == 'all'
Requires-Dist: idna ; extra == 'all'

# A readme
"""
INFO = "acme_one-1.0.0.dist-info"


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel(
    folder: Path,
    *,
    metadata: str = METADATA,
    files: Mapping[str, bytes] | None = None,
    record: str | None = None,
    name: str = "acme_one-1.0.0-py3-none-any.whl",
) -> Path:
    content = {"acme_one/__init__.py": b""} if files is None else dict(files)
    content[f"{INFO}/METADATA"] = metadata.encode()
    content[f"{INFO}/WHEEL"] = b"Wheel-Version: 1.0\n"
    lines = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{INFO}/RECORD"] = (f"{lines}{INFO}/RECORD,,\n" if record is None else record).encode()
    file = folder / name
    with zipfile.ZipFile(file, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return file


def tarball(file: Path, files: Mapping[str, bytes | tuple[bytes, str]]) -> Path:
    """Bytes are files; `(kind, target)` are links."""
    with tarfile.open(file, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                entry.type, entry.linkname = content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return file


def sdist(folder: Path, more: Mapping[str, bytes | tuple[bytes, str]] | None = None) -> Path:
    files: dict[str, bytes | tuple[bytes, str]] = {"acme_one-1.0.0/PKG-INFO": METADATA.encode()}
    return tarball(folder / "acme_one-1.0.0.tar.gz", files | dict(more or {}))


def look(files: Iterable[Path], folder: Path, *, max_bytes: int = 10**8) -> tuple[Finding, ...]:
    return python.inspect(
        InspectRequest(
            package=PYTHON,
            files=tuple(files),
            folder=folder,
            manifest=MANIFEST.encode(),
            max_bytes=max_bytes,
        )
    )


def only(findings: Iterable[Finding]) -> Finding:
    [finding] = findings
    assert finding.hint
    return finding


def test_a_good_release_has_no_findings(tmp_path: Path) -> None:
    assert look([sdist(tmp_path), wheel(tmp_path)], tmp_path) == ()


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    finding = only(look([wheel(tmp_path)], tmp_path))
    assert finding.check is Check.FILES
    assert "no sdist" in finding.message


@pytest.mark.parametrize(
    ("old", "new", "check", "words"),
    [
        ("Name: acme-one", "Name: acme-won", Check.NAME, "acme-won"),
        ("Version: 1.0.0", "Version: 1.0.1", Check.VERSION, "1.0.1"),
        ("Requires-Dist: idna ; extra == 'all'\n", "", Check.REQUIREMENTS, "idna"),
        ("acme_two[fast]==", "acme_two==", Check.REQUIREMENTS, "acme-two[fast]"),
        ("acme_two[fast]==1.0.0", "acme_two[fast]", Check.REQUIREMENTS, "acme-two[fast]==1.0.0"),
        ('; python_version < "3.11"', "", Check.REQUIREMENTS, "tomli"),
        ("Provides-Extra", "Requires-Dist: evil\nProvides-Extra", Check.REQUIREMENTS, "`evil`"),
    ],
)
def test_metadata_that_differs_from_the_plan_is_found(
    tmp_path: Path, old: str, new: str, check: Check, words: str
) -> None:
    metadata = METADATA.replace(old, new, 1)
    found = look([sdist(tmp_path), wheel(tmp_path, metadata=metadata)], tmp_path)
    assert {finding.check for finding in found} == {check}
    assert words in " ".join(finding.message for finding in found)


def test_requirements_that_a_build_decides_are_not_compared() -> None:
    assert python.expected_requirements(b"[project]\nname='x'\ndynamic=['dependencies']\n") is None
    assert python.expected_requirements(b"[tool.x]\n") is None


def test_a_wheel_of_another_version_by_name_is_found(tmp_path: Path) -> None:
    found = look([sdist(tmp_path), wheel(tmp_path, name="acme_one-2.0-py3-none-any.whl")], tmp_path)
    assert only(found).check is Check.VERSION


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (f"{INFO}/RECORD,,\n", "is not in its RECORD"),
        (None, "is not what its RECORD says"),
    ],
)
def test_a_wrong_record_is_found(tmp_path: Path, record: str | None, words: str) -> None:
    file = wheel(tmp_path, record=record)
    if record is None:
        with zipfile.ZipFile(file) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        content["acme_one/__init__.py"] = b"evil = True\n"
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    found = look([sdist(tmp_path), file], tmp_path)
    assert {finding.check for finding in found} == {Check.RECORD}
    assert words in found[0].message


def test_a_record_of_what_is_not_there_is_found(tmp_path: Path) -> None:
    record = f"acme_one/gone.py,sha256=x,1\n{INFO}/RECORD,,\n"
    found = look([sdist(tmp_path), wheel(tmp_path, record=record)], tmp_path)
    assert any("gone.py" in finding.message for finding in found)


def test_a_wheel_without_the_module_that_its_folder_has_is_found(tmp_path: Path) -> None:
    empty = [sdist(tmp_path), wheel(tmp_path, files={})]
    assert look(empty, tmp_path) == ()  # nobody expects a module of a package without one
    (tmp_path / "src/acme_one").mkdir(parents=True)
    (tmp_path / "src/acme_one/__init__.py").touch()
    assert only(look(empty, tmp_path)).check is Check.MODULES


def test_a_readme_that_does_not_render_is_found_and_none_is_a_warning(tmp_path: Path) -> None:
    broken = METADATA.replace("text/markdown", "text/x-rst").replace(
        "# A readme", ".. no-such-directive:: x\n\n`unfinished <"
    )
    finding = only(look([sdist(tmp_path), wheel(tmp_path, metadata=broken)], tmp_path))
    assert (finding.check, finding.severity) == (Check.README, Severity.ERROR)
    none = METADATA.replace("# A readme\n", "")
    finding = only(look([sdist(tmp_path), wheel(tmp_path, metadata=none)], tmp_path))
    assert (finding.check, finding.severity) == (Check.README, Severity.WARNING)


KEY = b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (".env", b"", True),
        (".env.production", b"", True),
        (".env.example", b"", False),
        (".npmrc", b"", True),
        (".pypirc", b"", True),
        ("id_ed25519", b"", True),
        ("server.pem", KEY, True),
        ("server.key", KEY, True),
        ("cacert.pem", b"-----BEGIN CERTIFICATE-----\n", False),
        ("environment.py", b"", False),
    ],
)
def test_files_with_secrets_are_found(
    tmp_path: Path, name: str, content: bytes, found: bool
) -> None:
    files = [sdist(tmp_path, {f"acme_one-1.0.0/{name}": content}), wheel(tmp_path)]
    checks = [finding.check for finding in look(files, tmp_path)]
    assert checks == ([Check.SECRETS] if found else [])


@pytest.mark.parametrize(
    "more",
    [
        {"../evil.py": b""},
        {"/etc/evil": b""},
        {"acme_one-1.0.0/../../evil": b""},
        {"acme_one-1.0.0/link": (tarfile.SYMTYPE, "/etc/passwd")},
        {"acme_one-1.0.0/link": (tarfile.SYMTYPE, "../../outside")},
        {"acme_one-1.0.0/link": (tarfile.LNKTYPE, "/etc/passwd")},
        {"acme_one-1.0.0/pipe": (tarfile.FIFOTYPE, "")},
    ],
)
def test_paths_that_lead_out_of_an_archive_are_found(
    tmp_path: Path, more: dict[str, bytes | tuple[bytes, str]]
) -> None:
    assert only(look([sdist(tmp_path, more), wheel(tmp_path)], tmp_path)).check is Check.PATHS


def test_a_link_inside_of_an_archive_is_fine(tmp_path: Path) -> None:
    more = {"acme_one-1.0.0/a/link": (tarfile.SYMTYPE, "../b")}
    assert look([sdist(tmp_path, more), wheel(tmp_path)], tmp_path) == ()
    assert escapes("C:\\evil")
    assert not escapes("a/../b")


def test_a_file_above_the_limit_is_found(tmp_path: Path) -> None:
    files = [sdist(tmp_path), wheel(tmp_path, files={"acme_one/data": bytes(5000)})]
    assert only(look(files, tmp_path, max_bytes=3000)).check is Check.SIZE


def test_what_is_no_archive_is_found(tmp_path: Path) -> None:
    good = wheel(tmp_path)
    broken = tmp_path / "acme_one-1.0.0.tar.gz"
    broken.write_bytes(b"not an archive")
    assert only(look([broken, good], tmp_path)).check is Check.FILES
    stray = tmp_path / "notes.txt"
    stray.touch()
    assert only(look([sdist(tmp_path), good, stray], tmp_path)).check is Check.FILES


# Node


def pack(folder: Path, manifest: dict[str, Any], *more: str) -> Path:
    files: dict[str, bytes | tuple[bytes, str]] = {
        f"package/{name}": b"" for name in ("README.md", *more)
    }
    files["package/package.json"] = json.dumps(manifest).encode()
    return tarball(folder / "x-1.0.0.tgz", files)


def look_into(
    file: Path, *, pinned: dict[str, Any] | None = None, manifest: dict[str, Any] | None = None
) -> tuple[Finding, ...]:
    body = pinned if pinned is not None else manifest or {}
    return node.inspect(
        InspectRequest(
            package=NODE,
            files=(file,),
            folder=file.parent,
            manifest=json.dumps(body).encode(),
            max_bytes=10**8,
        )
    )


GOOD = {"name": "x", "version": "1.0.0", "dependencies": {"y": "^1.0.0"}}


def test_a_good_tarball_has_no_findings(tmp_path: Path) -> None:
    assert look_into(pack(tmp_path, GOOD), pinned=GOOD) == ()


@pytest.mark.parametrize("table", ["dependencies", "peerDependencies", "devDependencies"])
@pytest.mark.parametrize("wanted", ["workspace:*", "catalog:", "file:../y", "link:../y"])
def test_a_protocol_of_the_workspace_is_found(tmp_path: Path, table: str, wanted: str) -> None:
    manifest = {"name": "x", "version": "1.0.0", table: {"y": wanted}}
    finding = only(look_into(pack(tmp_path, manifest), pinned=manifest))
    assert finding.check is Check.PROTOCOLS
    assert f"`{table}.y` still says `{wanted}`" in finding.message


@pytest.mark.parametrize(
    "built", [{}, {"y": "^2.0.0"}, {"y": "^1.0.0", "z": "1"}], ids=["lost", "changed", "added"]
)
def test_dependencies_that_differ_from_the_pinned_ones_are_found(
    tmp_path: Path, built: dict[str, str]
) -> None:
    file = pack(tmp_path, {**GOOD, "dependencies": built})
    assert only(look_into(file, pinned=GOOD)).check is Check.REQUIREMENTS


def test_another_name_or_version_than_planned_is_found(tmp_path: Path) -> None:
    manifest = {"name": "z", "version": "1.0.1"}
    checks = [finding.check for finding in look_into(pack(tmp_path, manifest), pinned={})]
    assert checks == [Check.NAME, Check.VERSION]


@pytest.mark.parametrize(
    ("fields", "files", "fine"),
    [
        ({"main": "lib"}, ("lib/index.js",), True),
        ({"main": "./lib/main"}, ("lib/main.js",), True),
        ({"main": "dist/index.js"}, (), False),
        ({"bin": {"x": "cli.js"}}, (), False),
        ({"bin": "cli.js"}, ("cli.js",), True),
        ({"exports": {".": {"import": "./a.mjs", "types": "./a.d.ts"}}}, ("a.mjs",), False),
        ({"exports": {"./*": "./src/*.js"}}, (), True),
        ({"types": "index.d.ts"}, ("index.d.ts",), True),
    ],
)
def test_files_that_a_manifest_promises_must_be_there(
    tmp_path: Path, fields: dict[str, Any], files: tuple[str, ...], fine: bool
) -> None:
    manifest = {**GOOD, **fields}
    checks = [f.check for f in look_into(pack(tmp_path, manifest, *files), pinned=manifest)]
    assert checks == ([] if fine else [Check.MODULES])


def test_a_tarball_without_a_readme_is_a_warning(tmp_path: Path) -> None:
    file = tarball(tmp_path / "x-1.0.0.tgz", {"package/package.json": json.dumps(GOOD).encode()})
    assert only(look_into(file, pinned=GOOD)).severity is Severity.WARNING


def test_secrets_and_escapes_in_tarballs_are_found(tmp_path: Path) -> None:
    files: dict[str, bytes | tuple[bytes, str]] = {
        "package/package.json": json.dumps(GOOD).encode(),
        "package/README.md": b"",
        "package/.npmrc": b"",
        "package/../../evil": b"",
    }
    checks = {f.check for f in look_into(tarball(tmp_path / "x-1.0.0.tgz", files), pinned=GOOD)}
    assert checks == {Check.SECRETS, Check.PATHS}


def test_a_broken_tarball_is_found(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.0.tgz").write_bytes(b"not a tarball")
    assert only(look_into(tmp_path / "x-1.0.0.tgz", pinned=GOOD)).check is Check.FILES
    request = InspectRequest(
        package=NODE, files=(), folder=tmp_path, manifest=b"{}", max_bytes=10**8
    )
    assert only(node.inspect(request)).check is Check.FILES


def test_our_own_journal_never_leaves_in_an_artifact(tmp_path: Path) -> None:
    entry = archives.Entry(name="x-1.0/.releasekit/holder.json", size=1, link=None, read=bytes)
    [finding] = archives.find_everywhere(tmp_path / "x-1.0.tar.gz", entry)
    assert "releasekit's own" in finding.message
