from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit.ecosystems.node.pins import pinned
from releasekit.ecosystems.node.semver import parse, parse_range
from releasekit.errors import (
    BoundExcludesSibling,
    CatalogEntryMissing,
    DirectReference,
    LocalDependency,
    SiblingUnknown,
    SiblingVersionUnknown,
    UnpinnableManifest,
)
from releasekit.model import PinPolicy

SIBLINGS: dict[str, str | None] = {
    "foo": "1.5.0",
    "@s/bar": "0.4.2",
    "unknown": None,
    "app": "1.0.0",
}
CATALOGS = {
    "default": {"react": "^18.0.0", "foo": "^1.0.0", "loop": "file:../x"},
    "old": {"react": "^16.0.0", "foo": "workspace:^"},
}


def pin(
    text: str,
    *,
    policy: PinPolicy = PinPolicy.EXACT,
    snapshots: dict[str, str] | None = None,
    version: str | None = None,
) -> str:
    content = pinned(
        text.encode(),
        manifest="app/package.json",
        siblings=SIBLINGS,
        policy=policy,
        catalogs=CATALOGS,
        snapshots=snapshots,
        version=version,
    )
    return content.decode()


def pin_one(
    name: str, value: str, *, section: str = "dependencies", policy: PinPolicy = PinPolicy.EXACT
) -> str:
    text = pin(json.dumps({"name": "app", section: {name: value}}), policy=policy)
    found = json.loads(text)[section][name]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("policy", PinPolicy)
@pytest.mark.parametrize(
    "section", ["dependencies", "optionalDependencies", "peerDependencies", "devDependencies"]
)
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("foo", "workspace:*", "1.5.0"),
        ("foo", "workspace:", "1.5.0"),
        ("foo", "workspace:~", "~1.5.0"),
        ("foo", "workspace:^", "^1.5.0"),
        ("foo", "workspace:^1.2", "^1.2"),
        ("foo", "workspace:1.5.0", "1.5.0"),
        ("foo", "workspace:../foo", "1.5.0"),
        ("alias", "workspace:foo@*", "npm:foo@1.5.0"),
        ("alias", "workspace:@s/bar@^", "npm:@s/bar@^0.4.2"),
        ("@s/bar", "workspace:*", "0.4.2"),
        ("react", "catalog:", "^18.0.0"),
        ("react", "catalog:default", "^18.0.0"),
        ("react", "catalog:old", "^16.0.0"),
        ("foo", "catalog:", "^1.0.0"),
        ("foo", "catalog:old", "^1.5.0"),
    ],
)
def test_workspace_and_catalog_protocols_never_leak(
    name: str, value: str, expected: str, section: str, policy: PinPolicy
) -> None:
    assert pin_one(name, value, section=section, policy=policy) == expected


@pytest.mark.parametrize(
    ("value", "policy", "expected"),
    [
        ("^1.0.0", PinPolicy.EXACT, "1.5.0"),
        ("^1.0.0", PinPolicy.COMPATIBLE, "^1.5.0"),
        ("^1.0.0", PinPolicy.MINIMUM, ">=1.5.0 <2.0.0-0"),
        ("^1.0.0", PinPolicy.KEEP, "^1.0.0"),
        ("*", PinPolicy.MINIMUM, ">=1.5.0"),
        ("", PinPolicy.EXACT, "1.5.0"),
        ("latest", PinPolicy.COMPATIBLE, "^1.5.0"),
        ("~1.5.0", PinPolicy.COMPATIBLE, "^1.5.0 <1.6.0-0"),
        (">=1 <1.9", PinPolicy.MINIMUM, ">=1.5.0 <1.9.0-0"),
        ("1.0.0 - 1.8", PinPolicy.MINIMUM, ">=1.5.0 <1.9.0-0"),
        ("0.x || 1.x", PinPolicy.MINIMUM, ">=1.5.0 <2.0.0-0"),
        ("file:../foo", PinPolicy.EXACT, "1.5.0"),
        ("link:../foo", PinPolicy.KEEP, "1.5.0"),
        ("../foo", PinPolicy.COMPATIBLE, "^1.5.0"),
        ("npm:foo@^1.0.0", PinPolicy.EXACT, "npm:foo@1.5.0"),
        ("npm:foo", PinPolicy.EXACT, "npm:foo@1.5.0"),
        ("npm:foo@^0.9.0", PinPolicy.EXACT, "npm:foo@^0.9.0"),
        ("npm:other@^1.0.0", PinPolicy.EXACT, "npm:other@^1.0.0"),
        ("<1", PinPolicy.KEEP, "<1"),
    ],
)
def test_plain_internal_ranges_follow_the_policy(
    value: str, policy: PinPolicy, expected: str
) -> None:
    assert pin_one("foo", value, policy=policy) == expected
    assert pin_one("foo", expected, policy=policy) == expected


def test_plain_development_and_peer_ranges_stay() -> None:
    assert pin_one("foo", "^0.1.0", section="devDependencies") == "^0.1.0"
    assert pin_one("foo", "^1.0.0", section="peerDependencies") == "^1.0.0"


def test_local_protocols_do_not_leak_from_development_dependencies() -> None:
    assert pin_one("foo", "file:../foo", section="devDependencies") == "1.5.0"
    with pytest.raises(LocalDependency, match="tool"):
        pin_one("tool", "link:../tool", section="devDependencies")


@pytest.mark.parametrize("section", ["dependencies", "peerDependencies", "optionalDependencies"])
@pytest.mark.parametrize("value", ["^2.0.0", "workspace:^2", "<1.5.0"])
def test_a_range_that_excludes_the_sibling_names_both(section: str, value: str) -> None:
    with pytest.raises(BoundExcludesSibling) as caught:
        pin_one("foo", value, section=section)
    assert "1.5.0" in caught.value.message
    assert value.removeprefix("workspace:") in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("foo", "git+ssh://git@example.test/foo.git", DirectReference),
        ("foo", "owner/foo", DirectReference),
        ("foo", "github:owner/foo", DirectReference),
        ("foo", "https://example.test/foo.tgz", DirectReference),
        ("left", "file:../left", LocalDependency),
        ("left", "patch:left@npm%3A1.0.0#x.patch", LocalDependency),
        ("loop", "catalog:", LocalDependency),
        ("left", "workspace:*", SiblingUnknown),
        ("unknown", "workspace:*", SiblingVersionUnknown),
        ("unknown", "^1.0.0", SiblingVersionUnknown),
        ("left", "catalog:", CatalogEntryMissing),
        ("left", "catalog:absent", CatalogEntryMissing),
    ],
)
def test_what_cannot_be_published_is_refused(name: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"app/package\.json"):
        pin_one(name, value)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"dependencies": []}', '{"dependencies": {"foo": 1}}', "\xff"]
)
def test_a_broken_manifest_is_refused(text: str) -> None:
    with pytest.raises(UnpinnableManifest, match=r"app/package\.json"):
        pinned(text.encode("latin-1"), manifest="app/package.json", siblings=SIBLINGS)


def test_everything_but_the_values_stays_byte_for_byte() -> None:
    text = (
        '\ufeff{\r\n\t"name" : "app",\r\n\t"version": "1.0.0",\r\n'
        '\t"dependencies": { "foo":"workspace:*" , "react": "^18", "f\\u006fo" : "^1.0.0" },\r\n'
        '\t"config": {"foo": "workspace:*", "deep": {"dependencies": {"foo": "workspace:^"}}},\r\n'
        '\t"files": ["foo", "workspace:*", {"version": "1.0.0"}],\r\n\t"esc": "\\u00e9\\/"\r\n}'
    )
    expected = (
        text.replace('"foo":"workspace:*" ,', '"foo":"1.5.0" ,')
        .replace('"f\\u006fo" : "^1.0.0"', '"f\\u006fo" : "1.5.0"')
        .replace('"version": "1.0.0",\r\n\t"dep', '"version": "2.0.0-snapshot.1",\r\n\t"dep')
    )
    assert pin(text, version="2.0.0-snapshot.1") == expected


def test_a_version_can_only_replace_a_version() -> None:
    with pytest.raises(UnpinnableManifest, match="no `version`"):
        pin('{"name": "app"}', version="1.0.0")


INDENT = st.sampled_from([None, 0, 2, "\t"])
VALUES = st.sampled_from(
    ["workspace:*", "workspace:^", "workspace:~", "^1.0.0", "*", "catalog:", "file:../foo"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)


@given(
    internal=st.dictionaries(
        st.sampled_from(["dependencies", "devDependencies", "optionalDependencies"]), VALUES
    ),
    others=st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=4),
    external=st.dictionaries(
        st.text(min_size=1, max_size=6).filter(lambda name: name not in SIBLINGS),
        st.sampled_from(["^1.0.0", "latest", "npm:x@1", "1 || 2"]),
    ),
    indent=INDENT,
    ascii_only=st.booleans(),
    final=st.sampled_from(["", "\n", "\r\n"]),
    policy=st.sampled_from(PinPolicy),
)
def test_generated_manifests_change_in_the_pins_alone(
    internal: dict[str, str],
    others: dict[str, object],
    external: dict[str, str],
    indent: str | int | None,
    ascii_only: bool,
    final: str,
    policy: PinPolicy,
) -> None:
    sections = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
    document: dict[str, object] = {key: others[key] for key in others if key not in sections}
    for section in sections[:3]:
        document[section] = {
            **external,
            **({"foo": internal[section]} if section in internal else {}),
        }

    def render() -> str:
        return json.dumps(document, indent=indent, ensure_ascii=ascii_only) + final

    before = render()
    once = pin(before, policy=policy)
    assert pin(once, policy=PinPolicy.KEEP) == once
    if not {"workspace:^", "workspace:~", "catalog:"} & set(internal.values()):
        # Those ask for a range whatever the policy; written out, it is a plain range.
        assert pin(once, policy=policy) == once
    for section in internal:
        parsed = json.loads(once)[section]
        assert not parsed["foo"].startswith(("workspace:", "catalog:", "file:"))
        members = document[section]
        assert isinstance(members, dict)
        members["foo"] = parsed["foo"]
    assert once == render()


RANGES = [
    "", "*", "1", "1.x", "1.2", "1.2.3", "=1.2.3", "v1.2.3", "^1", "^1.2", "^1.2.3", "^0.2.3",
    "^0.0.3", "^0.0", "^0", "^0.x", "~1", "~1.2", "~1.2.3", "~>1.2.3", "~0.2", ">1", ">1.2",
    ">1.2.3", ">=1", ">=1.2", "<1", "<1.2", "<=1", "<=1.2", "<=1.2.3", "1.2.3 - 2.3.4",
    "1.2 - 2.3", "1 - 2", ">=1.2.3 <2", ">= 1.2.3 < 2", "1.x || 3.x", "<1 || >2", "^1.2.3-rc.1",
    ">1.2.3-alpha.9", "^1.2.3+build", ">*", "<*",
]  # fmt: skip
VERSIONS = [
    "0.0.0", "0.0.3", "0.0.4", "0.1.0", "0.2.3", "0.2.9", "0.3.0", "1.0.0", "1.2.0", "1.2.3",
    "1.2.4", "1.3.0", "1.9.9", "2.0.0", "2.3.4", "2.3.5", "2.4.0", "3.0.0", "99.0.0",
    "1.2.3-rc.1", "1.2.3-rc.2", "1.2.3-alpha.10", "1.2.3-alpha.beta",
]  # fmt: skip


def test_ranges_mean_what_they_mean_to_npm() -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm, which carries node-semver, is not installed")
    root = subprocess.run([npm, "root", "-g"], check=True, capture_output=True, text=True)
    semver = Path(root.stdout.strip()) / "npm" / "node_modules" / "semver"
    script = (
        f"const s = require({json.dumps(str(semver))});"
        f"const r = {json.dumps(RANGES)}, v = {json.dumps(VERSIONS)};"
        "console.log(JSON.stringify(r.map(a => v.map(b => s.satisfies(b, a,"
        " {includePrerelease: b.includes('-')})))))"
    )
    answer = subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True)
    expected = json.loads(answer.stdout)
    wrong = []
    for row, text in zip(expected, RANGES, strict=True):
        for admitted, version in zip(row, VERSIONS, strict=True):
            alternatives, parsed = parse_range(text), parse(version)
            assert alternatives is not None, text
            assert parsed is not None, version
            # With includePrerelease, npm lets a hyphen range begin at the first prerelease.
            quirk = " - " in text and "-" in version
            if alternatives.admits_in_order(parsed) is not admitted and not quirk:
                wrong.append((text, version, admitted))
    assert wrong == []


@pytest.mark.parametrize("text", ["latest", "next", "1.2.3.4", "01.2.3", "https://x", "a || 1"])
def test_what_is_no_range_is_told_apart(text: str) -> None:
    assert parse_range(text) is None


@pytest.mark.parametrize("section", ["dependencies", "optionalDependencies", "peerDependencies"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("^1.0.0", "1.5.1-snapshot.7"),
        ("1.5.0", "1.5.1-snapshot.7"),
        ("*", "1.5.1-snapshot.7"),
        ("workspace:*", "1.5.1-snapshot.7"),
        ("workspace:^", "1.5.1-snapshot.7"),
        ("workspace:~1.5", "1.5.1-snapshot.7"),
        ("workspace:../foo", "1.5.1-snapshot.7"),
        ("file:../foo", "1.5.1-snapshot.7"),
        ("catalog:", "1.5.1-snapshot.7"),
        ("catalog:old", "1.5.1-snapshot.7"),
    ],
)
def test_a_snapshot_is_required_exactly_however_it_was_written(
    section: str, written: str, expected: str
) -> None:
    snapshots = {"foo": "1.5.1-snapshot.7"}
    manifest = json.dumps({"name": "app", "version": "1.0.0", section: {"foo": written}})
    found = json.loads(
        pin(manifest, policy=PinPolicy.MINIMUM, snapshots=snapshots, version="2.0.0")
    )
    assert found == {"name": "app", "version": "2.0.0", section: {"foo": expected}}


def test_an_alias_means_the_snapshot_and_an_older_sibling_stays_refused() -> None:
    snapshots = {"foo": "1.5.1-snapshot.7"}
    for written in ("workspace:foo@*", "npm:foo@^1.0.0"):
        manifest = json.dumps({"name": "app", "dependencies": {"other": written}})
        found = json.loads(pin(manifest, snapshots=snapshots))
        assert found["dependencies"] == {"other": "npm:foo@1.5.1-snapshot.7"}
    with pytest.raises(BoundExcludesSibling):
        pin(json.dumps({"name": "app", "dependencies": {"foo": "^2.0.0"}}), snapshots=snapshots)
