"""Look into sdists and wheels before anyone can upload them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from releasekit import archives
from releasekit.ecosystems.python.filenames import name_and_version
from releasekit.ecosystems.python.markers import mean_the_same
from releasekit.errors import UnreadableArtifact
from releasekit.model import Check, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packaging.metadata import RawMetadata

    from releasekit.ecosystems import InspectRequest

_LONGEST_METADATA = 16 << 20


def inspect(request: InspectRequest) -> tuple[Finding, ...]:
    found = list(_missing(request))
    for file in request.files:
        try:
            found += _File(request=request, file=file).findings()
        except UnreadableArtifact as error:
            found.append(
                Finding(
                    check=Check.FILES,
                    file=file.name,
                    message=error.message,
                    hint="build it again",
                )
            )
    return tuple(found)


def _missing(request: InspectRequest) -> Iterator[Finding]:
    for kind, suffix in {"sdist": ".tar.gz", "wheel": ".whl"}.items():
        if not any(file.name.endswith(suffix) for file in request.files):
            yield Finding(
                check=Check.FILES,
                file="",
                message=f"the build left no {kind}",
                hint="a release has an sdist and at least one wheel",
            )


@dataclass(slots=True, kw_only=True)
class _File:
    request: InspectRequest
    file: Path
    entries: list[archives.Entry] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    metadata: bytes | None = None
    record: bytes | None = None

    def findings(self) -> Iterator[Finding]:
        named = name_and_version(self.file.name)
        if named is None:
            yield self._finding(
                Check.FILES, "it is neither an sdist nor a wheel", "build one of the two"
            )
            return
        yield from self._scan()
        yield from archives.find_size(self.file, self.entries, self.request.max_bytes)
        if self.metadata is None:
            yield self._finding(Check.FILES, "it holds no metadata", "use another build backend")
            return
        metadata, _ = parse_email(self.metadata)
        yield from self._identity(named, metadata)
        yield from self._requirements(metadata)
        if self.is_wheel:
            yield from self._record()
            yield from self._modules()
            yield from self._readme(metadata)

    @property
    def is_wheel(self) -> bool:
        return self.file.suffix == ".whl"

    def _finding(
        self, check: Check, message: str, hint: str, severity: Severity = Severity.ERROR
    ) -> Finding:
        return Finding(
            check=check, file=self.file.name, message=message, hint=hint, severity=severity
        )

    def _scan(self) -> Iterator[Finding]:
        for entry in archives.scan(self.file):
            self.entries.append(entry)
            yield from archives.find_everywhere(self.file, entry)
            parts = entry.name.split("/")
            small = entry.size <= _LONGEST_METADATA
            if self.is_wheel:
                sha256 = hashlib.sha256()
                for piece in entry.pieces():
                    sha256.update(piece)
                digest = base64.urlsafe_b64encode(sha256.digest())
                self.hashes[entry.name] = digest.rstrip(b"=").decode()
                if len(parts) == 2 and parts[0].endswith(".dist-info") and small:  # noqa: PLR2004
                    if parts[1] == "METADATA":
                        self.metadata = entry.read()
                    elif parts[1] == "RECORD":
                        self.record = entry.read()
            elif len(parts) == 2 and parts[1] == "PKG-INFO" and small:  # noqa: PLR2004
                self.metadata = entry.read()

    def _identity(self, named: tuple[str, Version], metadata: RawMetadata) -> Iterator[Finding]:
        package = self.request.package
        wanted = canonicalize_name(package.name)
        for where, name in (("name", named[0]), ("metadata", metadata.get("name", ""))):
            if canonicalize_name(name) != wanted:
                yield self._finding(
                    Check.NAME,
                    f"its {where} says `{name}`, the plan says `{package.name}`",
                    "`project.name` and the build backend must agree",
                )
        planned = Version(package.version) if package.version else None
        for where, version in (("name", str(named[1])), ("metadata", metadata.get("version", ""))):
            if planned is not None and _version(version) != planned:
                yield self._finding(
                    Check.VERSION,
                    f"its {where} says {version}, the plan says {planned}",
                    "write the version in the manifest, or have the backend read it from there",
                )

    def _requirements(self, metadata: RawMetadata) -> Iterator[Finding]:
        expected = expected_requirements(self.request.manifest)
        if expected is None or (not self.is_wheel and "requires_dist" not in metadata):
            # An sdist's PKG-INFO may leave them to the wheel (metadata before 2.2).
            return
        built = {_normal(text): text for text in metadata.get("requires_dist", [])}
        lost = {key: text for key, text in expected.items() if key not in built}
        added = {key: text for key, text in built.items() if key not in expected}
        for key in list(lost):
            same = next((other for other in added if _mean_the_same(key, other)), None)
            if same is not None:
                del lost[key], added[same]
        for text in lost.values():
            yield self._finding(
                Check.REQUIREMENTS,
                f"it does not require `{text}`, as its manifest does while it is built",
                "look for a build hook or a plugin that changes the dependencies",
            )
        for text in added.values():
            yield self._finding(
                Check.REQUIREMENTS,
                f"it requires `{text}`, which its manifest does not",
                "look for a build hook or a plugin that changes the dependencies",
            )

    def _record(self) -> Iterator[Finding]:
        if self.record is None:
            yield self._finding(Check.RECORD, "it has no RECORD", "use another build backend")
            return
        listed = {}
        for row in csv.reader(io.StringIO(self.record.decode("utf-8", "replace"))):
            if len(row) >= 2:  # noqa: PLR2004 - path, hash, size
                listed[row[0]] = row[1]
        for name, digest in self.hashes.items():
            base = name.rpartition("/")[2]
            if name not in listed and base not in {"RECORD.jws", "RECORD.p7s"}:
                yield self._record_finding(f"`{name}` is not in its RECORD")
            elif (
                base != "RECORD"
                and listed.get(name, "").startswith("sha256=")
                and listed[name] != f"sha256={digest}"
            ):
                yield self._record_finding(f"`{name}` is not what its RECORD says")
        for name in listed.keys() - self.hashes.keys():
            yield self._record_finding(f"its RECORD lists `{name}`, which is not there")

    def _record_finding(self, message: str) -> Finding:
        return self._finding(Check.RECORD, message, "do not change a wheel after it was built")

    def _modules(self) -> Iterator[Finding]:
        inside = [
            name
            for name in self.hashes
            if not name.partition("/")[0].endswith((".dist-info", ".data"))
            or ".data/purelib/" in name
            or ".data/platlib/" in name
        ]
        if not inside and _has_module(self.request.folder, self.request.package.name):
            yield self._finding(
                Check.MODULES,
                "it holds no module, although the package's folder does",
                "tell the build backend which packages to include",
            )

    def _readme(self, metadata: RawMetadata) -> Iterator[Finding]:
        text = metadata.get("description")
        kind = metadata.get("description_content_type")
        if not text or not text.strip():
            yield self._finding(
                Check.README,
                "it has no readme",
                'write one and name it: `readme = "README.md"`',
                Severity.WARNING,
            )
        elif (kind or "text/x-rst").partition(";")[0].strip().lower() == "text/x-rst":
            # Plain text and Markdown cannot fail; twine checks the same.
            problem = _render(text)
            if problem is not None:
                yield self._finding(
                    Check.README,
                    f"its readme does not render as reStructuredText: {problem}",
                    "mend it, or say in `readme` which content type it has",
                )


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _render(text: str) -> str | None:
    """Why a registry would show it as plain text; None where it renders."""
    import readme_renderer.rst

    warnings = io.StringIO()
    if readme_renderer.rst.render(text, stream=warnings) is not None:
        return None
    return " ".join(warnings.getvalue().split())[:300] or "no reason was given"


def _has_module(folder: Path, name: str) -> bool:
    module = canonicalize_name(name).replace("-", "_")
    return any(
        (folder / place / candidate).exists()
        for place in (".", "src")
        for candidate in (f"{module}/__init__.py", f"{module}.py")
    )


def _normal(text: str) -> str:
    """A requirement in a form that two writers of the same one agree on."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return text
    requirement.name = canonicalize_name(requirement.name)
    requirement.extras = {canonicalize_name(extra) for extra in requirement.extras}
    return str(requirement).replace("'", '"')


def _mean_the_same(one: str, other: str) -> bool:
    """Whether two requirements in their normal form differ only in how their markers are put."""
    try:
        left, right = Requirement(one), Requirement(other)
    except InvalidRequirement:
        return False
    markers = left.marker, right.marker
    left.marker = right.marker = None
    return str(left) == str(right) and mean_the_same(*markers)


def expected_requirements(manifest: bytes) -> dict[str, str] | None:
    """Normalised → as written; None where the manifest leaves them to the build."""
    document: dict[str, Any] = tomllib.loads(manifest.decode("utf-8-sig"))
    project = document.get("project")
    if not isinstance(project, dict) or {"dependencies", "optional-dependencies"} & set(
        project.get("dynamic", ())
    ):
        return None
    found = {_normal(text): text for text in project.get("dependencies", [])}
    for extra, texts in project.get("optional-dependencies", {}).items():
        for text in texts:
            found[_normal(_for_extra(text, canonicalize_name(extra)))] = f"{text} (extra {extra})"
    return found


def _for_extra(text: str, extra: str) -> str:
    """As backends write the requirement of an extra."""
    requirement = Requirement(text)
    marker = f'extra == "{extra}"'
    if requirement.marker is not None:
        own = str(requirement.marker)
        marker = f"({own}) and {marker}" if " or " in own else f"{own} and {marker}"
    requirement.marker = None
    separator = " ; " if requirement.url else "; "
    return f"{requirement}{separator}{marker}"
