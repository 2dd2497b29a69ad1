from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from releasekit.ecosystems.python.pins import pinned
from releasekit.ecosystems.python.toml_text import string_spans
from releasekit.errors import (
    BoundExcludesSibling,
    DirectReference,
    DynamicField,
    DynamicVersion,
    SiblingVersionUnknown,
    UnpinnableManifest,
)
from releasekit.model import PinPolicy


def pin(
    text: str,
    *,
    policy: PinPolicy = PinPolicy.EXACT,
    siblings: dict[str, str | None] | None = None,
    snapshots: dict[str, str] | None = None,
    version: str | None = None,
) -> str:
    content = pinned(
        text.encode(),
        manifest="app/pyproject.toml",
        siblings={"core": "1.2.3"} if siblings is None else siblings,
        policy=policy,
        snapshots=snapshots,
        version=version,
    )
    return content.decode()


def project(*requirements: str) -> str:
    quoted = ", ".join(f'"{requirement}"' for requirement in requirements)
    return f'[project]\nname = "app"\nversion = "1.0"\ndependencies = [{quoted}]\n'


def pin_one(requirement: str, policy: PinPolicy, version: str = "1.2.3") -> str:
    text = pin(project(requirement), policy=policy, siblings={"core": version})
    found = tomllib.loads(text)["project"]["dependencies"][0]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("requirement", "policy", "expected"),
    [
        ("core", PinPolicy.EXACT, "core==1.2.3"),
        ("core", PinPolicy.COMPATIBLE, "core~=1.2.3"),
        ("core", PinPolicy.MINIMUM, "core>=1.2.3"),
        ("core", PinPolicy.KEEP, "core"),
        ("core>=1", PinPolicy.EXACT, "core==1.2.3"),
        ("core >= 1, < 2", PinPolicy.EXACT, "core ==1.2.3"),
        ("core>=1,<2", PinPolicy.MINIMUM, "core>=1.2.3,<2"),
        ("core>=1,<2,!=1.3", PinPolicy.COMPATIBLE, "core~=1.2.3,<2,!=1.3"),
        ("core~=1.0", PinPolicy.COMPATIBLE, "core~=1.2.3"),
        ("core~=1.0", PinPolicy.MINIMUM, "core>=1.2.3,~=1.0"),
        ("core==1.*", PinPolicy.MINIMUM, "core>=1.2.3,==1.*"),
        ("core[cli, web]", PinPolicy.EXACT, "core[cli, web]==1.2.3"),
        (
            "core [cli] (>=1) ; extra == 'x'",
            PinPolicy.EXACT,
            "core [cli] (==1.2.3) ; extra == 'x'",
        ),
        ("core ; os_name=='nt'", PinPolicy.EXACT, "core==1.2.3 ; os_name=='nt'"),
        ("Core", PinPolicy.EXACT, "Core==1.2.3"),
        ("core == 1.2.3", PinPolicy.EXACT, "core == 1.2.3"),
        ("core==1.2.3", PinPolicy.MINIMUM, "core==1.2.3"),
        ("core>=9", PinPolicy.KEEP, "core>=9"),
        ("core-extras>=1", PinPolicy.EXACT, "core-extras>=1"),
    ],
)
def test_a_requirement_on_a_sibling_gets_its_version_by_policy(
    requirement: str, policy: PinPolicy, expected: str
) -> None:
    assert pin_one(requirement, policy) == expected


@pytest.mark.parametrize(
    ("version", "policy", "expected"),
    [
        ("5", PinPolicy.COMPATIBLE, "core~=5.0"),
        ("1.0rc1", PinPolicy.EXACT, "core==1.0rc1"),
        ("1.0.0-rc1", PinPolicy.EXACT, "core==1.0.0rc1"),
        ("2!1.0", PinPolicy.COMPATIBLE, "core~=2!1.0"),
        ("1.0+local.1", PinPolicy.EXACT, "core==1.0+local.1"),
        ("1.0+local.1", PinPolicy.MINIMUM, "core>=1.0"),
        ("1.2", PinPolicy.COMPATIBLE, "core~=1.2"),
    ],
)
def test_unusual_versions_make_valid_bounds(version: str, policy: PinPolicy, expected: str) -> None:
    assert pin_one("core", policy, version) == expected
    Requirement(expected)


def test_a_shorter_compatible_bound_does_not_loosen_the_written_one() -> None:
    assert pin_one("core~=1.2.0", PinPolicy.COMPATIBLE, "1.2") == "core~=1.2,~=1.2.0"


MANIFEST = """\
\ufeff# top comment
[build-system]
requires = ["hatchling>=1.27", 'core']   # build

[project]
name   = "app"
version = '1.0' # ours
released = 1979-05-27 07:32:00
dynamic = []
dependencies = [
\t"core[cli]>=1",  # "core" in a comment
\t'core ; python_version < "3.12"',
\t"httpx>=0.28",
\t\"""core\""",
\t"core; os_name == \\"nt\\"",
]
optional-dependencies."a.b" = ["core", "app[x]"]
optional-dependencies.x = [
]

[[tool.thing]]
requires = ["core"]
[tool.uv.sources]
core = { workspace = true, note = "core" }
[dependency-groups]
dev = ["core"]
"""


def test_everything_but_the_requirements_stays_byte_for_byte() -> None:
    text = MANIFEST.replace("\n", "\r\n")
    expected = (
        text.replace("'core'] ", "'core==1.2.3'] ")
        .replace('"core[cli]>=1",', '"core[cli]==1.2.3",')
        .replace("'core ; python", "'core==1.2.3 ; python")
        .replace('"""core"""', '"""core==1.2.3"""')
        .replace('"core; os_name', '"core==1.2.3; os_name')
        .replace('= ["core", "app[x]"]', '= ["core==1.2.3", "app[x]"]')
        .replace("version = '1.0' ", "version = '1.1.dev3' ")
    )
    assert pin(text, version="1.1.dev3") == expected
    assert pin(expected, version="1.1.dev3") == expected


def test_inline_tables_and_dotted_keys_are_found() -> None:
    text = (
        "build-system = { requires = ['core'] }\n"
        'project.name = "app"\n'
        'project.dependencies = ["core"]\n'
        "project.optional-dependencies = { a = [ 'core' , ], b = [] }\n"
    )
    assert pin(text).count("core==1.2.3") == 3


def test_requirements_outside_the_workspace_are_never_touched() -> None:
    text = project("httpx", "corelib", "rich @ https://example.test/rich.whl")
    assert pin(text) == text


def test_a_bound_that_excludes_the_sibling_names_both() -> None:
    with pytest.raises(BoundExcludesSibling) as caught:
        pin(project("core<1.2"))
    assert "core<1.2" in caught.value.message
    assert "1.2.3" in caught.value.message
    assert "app/pyproject.toml" in caught.value.message


def test_an_address_is_no_requirement_on_a_sibling() -> None:
    with pytest.raises(DirectReference, match="core @ file:"):
        pin(project("core @ file:///work/core"))
    kept = project("core @ file:///work/core")
    assert pin(kept, policy=PinPolicy.KEEP) == kept


@pytest.mark.parametrize("field", ["dependencies", "optional-dependencies"])
def test_dynamic_requirements_are_refused_unless_kept(field: str) -> None:
    text = f'[project]\nname = "app"\nversion = "1"\ndynamic = ["{field}"]\n'
    with pytest.raises(DynamicField, match=field):
        pin(text)
    assert pin(text, policy=PinPolicy.KEEP) == text
    assert pin(text, siblings={"app": "1"}) == text


def test_a_manifest_whose_requirements_live_elsewhere_is_refused() -> None:
    with pytest.raises(UnpinnableManifest, match=r"no `\[project\]` table"):
        pin('[tool.poetry.dependencies]\ncore = "*"\n')


DYNAMIC = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[ project ] # of which
name = "app"
dynamic = [{listed}]
"""


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ('"version"', []),
        ("'version',", []),
        ('"version", "readme"', ["readme"]),
        ('"readme", "version"', ["readme"]),
        ('"readme",\n  "version", # by the module\n', ["readme"]),
        ('\n  "readme",\n  "version"\n', ["readme"]),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_dynamic_version_becomes_a_static_one(listed: str, left: list[str], newline: str) -> None:
    text = DYNAMIC.replace("{listed}", listed).replace("\n", newline)
    project = tomllib.loads(found := pin(text, version="1.0.dev1"))["project"]
    assert project == {"name": "app", "dynamic": left, "version": "1.0.dev1"}
    assert found.count("\n") == found.count(newline) == text.count(newline) + 1


def test_a_dynamic_version_that_comes_from_git_is_left_to_its_variable() -> None:
    text = DYNAMIC.replace("{listed}", '"version"') + '[tool.hatch.version]\nsource = "vcs"\n'
    assert pin(text, version="1.0.dev1") == text


@pytest.mark.parametrize("more", ['backend-path = ["."]\n', ""])
def test_a_dynamic_version_of_an_unknown_kind_cannot_be_replaced(more: str) -> None:
    text = DYNAMIC.replace("{listed}", '"version"')
    text = text.replace("hatchling.build", "hatchling.build" if more else "own.backend")
    text = text.replace("\n\n[ project ]", f"\n{more}\n[ project ]")
    with pytest.raises(DynamicVersion):
        pin(text, version="1.0.dev1")


def test_a_snapshot_is_required_exactly_where_the_bounds_admit_the_trees_version() -> None:
    snapshots = {"Core": "1.2.4.dev7"}
    for bounds in ("", ">=1.2.3", "==1.2.3", "~=1.2", "<2"):
        pinned = pin(project(f"core{bounds}"), policy=PinPolicy.MINIMUM, snapshots=snapshots)
        assert pinned == project("core==1.2.4.dev7")
    with pytest.raises(BoundExcludesSibling):
        pin(project("core<1"), snapshots=snapshots)
    assert pin(project("core<1"), policy=PinPolicy.KEEP, snapshots=snapshots) == project("core<1")


def test_a_sibling_whose_version_only_a_build_can_tell_is_refused() -> None:
    with pytest.raises(SiblingVersionUnknown, match="core"):
        pin(project("core"), siblings={"core": None})
    unconcerned = project("httpx")
    assert pin(unconcerned, siblings={"core": None}) == unconcerned


@pytest.mark.parametrize(
    "text",
    [
        "[project\n",
        '[project]\nname = "app"\ndependencies = "core"\n',
        '[project]\nname = "app"\ndependencies = [1]\n',
        '[project]\nname = "app"\ndependencies = ["core >"]\n',
        "project = 1\n",
    ],
)
def test_a_broken_manifest_is_refused(text: str) -> None:
    with pytest.raises(UnpinnableManifest, match=r"app/pyproject\.toml"):
        pin(text)


def test_a_version_with_a_newline_is_refused() -> None:
    with pytest.raises(UnpinnableManifest, match="invalid version"):
        pin(project("core"), siblings={"core": "1.0\n"})


def test_strings_are_found_where_tomllib_finds_them() -> None:
    text = MANIFEST.removeprefix("\ufeff")
    data = tomllib.loads(text)
    spans = string_spans(text)
    start, end = spans["project", "dependencies", 4]
    assert tomllib.loads(f"it = {text[start:end]}")["it"] == data["project"]["dependencies"][4]
    assert text[slice(*spans["tool", "uv", "sources", "core", "note"])] == '"core"'


# Generated manifests: the text is built from parts, so the expected output is known exactly.

SIBLINGS: dict[str, str | None] = {"core": "1.2.3", "Web.Kit": "0.4rc1", "app": "7"}
NAMES = st.sampled_from(["core", "CORE", "web-kit", "web_kit", "httpx", "core-lib"])
SPACE = st.sampled_from(["", " ", "  "])
MARKER = st.sampled_from(["", "; python_version<'3.13'", " ;os_name == 'nt'"])
EXTRAS = st.sampled_from(["", "[cli]", " [cli , web]"])
BOUNDS = st.sampled_from(["", ">=0.1", " >= 0.1,<3", "(>=0.1)"])
NOISE = st.sampled_from(["", "\n", "\r\n", " # core\n", "\n\t", '  \n# ünï "core\n'])
VERSIONS = {"core": "1.2.3", "web-kit": "0.4rc1"}


@st.composite
def requirement(draw: st.DrawFn) -> tuple[str, str]:
    """A requirement and what the exact policy makes of it."""
    name, extras, bounds, marker = draw(NAMES), draw(EXTRAS), draw(BOUNDS), draw(MARKER)
    version = VERSIONS.get(name.lower().replace("_", "-"))
    before = name + extras + bounds + marker
    if version is None:
        return before, before
    gap = " " if bounds.startswith(" ") else ""
    exact = f"(=={version})" if bounds.startswith("(") else f"=={version}"
    return before, name + extras + gap + exact + marker


@st.composite
def array(draw: st.DrawFn) -> tuple[str, str]:
    before = after = "["
    for old, new in draw(st.lists(requirement(), max_size=4)):
        quote = draw(st.sampled_from(['"', '"""', "'", "'''"]))
        if quote == "'" and "'" in old:
            quote = '"'
        lead, trail = draw(NOISE), draw(NOISE)
        before += f"{lead}{quote}{old}{quote}{trail},"
        after += f"{lead}{quote}{new}{quote}{trail},"
    tail = draw(NOISE) + "]"
    return before + tail, after + tail


@st.composite
def document(draw: st.DrawFn) -> tuple[str, str]:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    build, runtime, extra = draw(array()), draw(array()), draw(array())
    equals = draw(SPACE) + "=" + draw(SPACE)
    layout = draw(
        st.sampled_from(
            [
                (
                    "[build-system]{e}requires{q}{b}{e}[project]{e}name{q}'app'{e}dependencies{q}{r}{e}"
                    "[project.optional-dependencies]{e}'x y'{q}{o}{e}"
                ),
                (
                    "build-system.requires{q}{b}{e}project.name{q}'app'{e}project.dependencies{q}{r}{e}"
                    "project.optional-dependencies.z{q}{o}{e}"
                ),
                (
                    '[project]{e}name{q}"app"{e}optional-dependencies.a{q}{o}{e}dependencies{q}{r}'
                    "{e}[ build-system ]{e}requires{q}{b} # core"
                ),
            ]
        )
    )
    before, after = (
        bom + layout.format(e=end, q=equals, b=build[side], r=runtime[side], o=extra[side])
        for side in (0, 1)
    )
    return before, after


@given(document())
def test_generated_manifests_change_in_the_pins_alone(texts: tuple[str, str]) -> None:
    before, after = texts
    assert pin(before, siblings=SIBLINGS) == after


@given(document(), st.sampled_from(PinPolicy))
def test_pinning_twice_equals_pinning_once(texts: tuple[str, str], policy: PinPolicy) -> None:
    once = pin(texts[0], siblings=SIBLINGS, policy=policy)
    tomllib.loads(once.removeprefix("\ufeff"))
    assert pin(once, siblings=SIBLINGS, policy=policy) == once
    if policy is PinPolicy.KEEP:
        assert once == texts[0]
