"""What a run would do: which packages it is about, and which of them can be carried out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit.config import Config, PinSettings
from releasekit.ecosystems import Presence
from releasekit.errors import NothingToPublish, UnknownGroup, UnknownPackage
from releasekit.graph import Graph
from releasekit.model import Edge, EdgeKind, Package, PinPolicy, Severity, Workspace
from releasekit.plan import make_plan
from releasekit.publish import preflight
from releasekit.publish.selection import Selection, select, unknown_versions

if TYPE_CHECKING:
    from releasekit.plan import Plan

NAMES = ("app", "models", "text", "tool")


def workspace(
    *edges: tuple[str, str] | tuple[str, str, EdgeKind],
    private: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
) -> Workspace:
    return Workspace(
        root=Path("/nowhere"),
        members=(),
        packages=tuple(
            Package(
                id=f"pypi:{name}",
                name=name,
                ecosystem="python",
                version=None if name in unknown else "1.0.0",
                path=f"python/{name}",
                manifest=f"python/{name}/pyproject.toml",
                publishable=name not in private,
                reason="private" if name in private else None,
            )
            for name in NAMES
        ),
        edges=tuple(
            Edge(
                source=f"pypi:{edge[0]}",
                target=f"pypi:{edge[1]}",
                kind=edge[2] if len(edge) > 2 else EdgeKind.RUNTIME,
            )
            for edge in edges
        ),
    )


def there(*files: str, missing: str = "", known: bool = True) -> Presence:
    return Presence(
        registry="pypi", files=dict.fromkeys(files, "sha256:0"), missing=missing, known=known
    )


NOT_THERE = there()
COMPLETE = there("a.whl", "a.tar.gz")
PARTLY = there("a.whl", missing="an sdist")
CHAIN = (("app", "models"), ("models", "text"))


def chosen(found: Workspace, **asked: tuple[str, ...]) -> list[str]:
    with_needs = bool(asked.pop("with_needs", ()))
    groups = {"core": ("text", "mod*"), "none": ("nobody*",)}
    selection = Selection(**asked)
    return [one.name for one in select(found, selection, groups, with_needs=with_needs)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["text", "models", "app", "tool"]),
        ({"packages": ("app",)}, ["app"]),
        ({"packages": ("pypi:app", "t*")}, ["text", "app", "tool"]),
        ({"packages": ("./python/m*",)}, ["models"]),
        ({"groups": ("core",)}, ["text", "models"]),
        ({"groups": ("core",), "packages": ("tool",)}, ["text", "models", "tool"]),
        ({"exclude": ("text",)}, ["models", "app", "tool"]),
        ({"groups": ("core",), "exclude": ("text",)}, ["models"]),
        ({"packages": ("app",), "with_needs": ("",)}, ["text", "models", "app"]),
        ({"packages": ("app",), "exclude": ("text",), "with_needs": ("",)}, ["models", "app"]),
    ],
)
def test_packages_are_chosen_in_the_order_of_a_release(
    asked: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    assert sorted(chosen(workspace(*CHAIN), **asked)) == sorted(expected)
    order = chosen(workspace(*CHAIN), **asked)
    assert [one for one in order if one != "tool"] == [one for one in expected if one != "tool"]


def test_a_name_that_is_nobodys_is_a_mistake() -> None:
    found = workspace()
    for asked in ({"packages": ("txt",)}, {"packages": ("x*",)}, {"exclude": ("txt",)},
                  {"groups": ("none",)}):  # fmt: skip
        with pytest.raises(UnknownPackage):
            chosen(found, **asked)
    with pytest.raises(UnknownGroup, match="`cor`"):
        chosen(found, groups=("cor",))
    with pytest.raises(NothingToPublish):
        chosen(workspace(private=NAMES))


def test_every_version_that_nobody_knows_is_told() -> None:
    found = select(workspace(unknown=("app", "tool")), Selection(), {})
    told = {one.package: one.message for one in unknown_versions(found)}
    assert set(told) == {"pypi:app", "pypi:tool"}
    assert "`python/app/pyproject.toml`" in told["pypi:app"]


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([NOT_THERE, COMPLETE, PARTLY])))
def test_each_package_that_was_asked_about_is_in_one_part_of_the_plan_and_after_its_needs(
    answers: dict[str, Presence],
) -> None:
    found = workspace(*CHAIN, ("tool", "text", EdgeKind.EXTRA))
    present = {f"pypi:{name}": answer for name, answer in answers.items()}
    plan = make_plan(found, Graph.of(found), present)
    parts = [one.package for one in plan.all_releases]
    assert sorted(parts) == sorted(present)
    assert {one.package for one in plan.already_there} == {
        name for name, answer in present.items() if answer is COMPLETE
    }
    assert {one.package: missing for one, missing in plan.partly_there} == {
        name: "an sdist" for name, answer in present.items() if answer is PARTLY
    }
    order = [one.package for one in plan.releases]
    for release in plan.releases:
        for need in release.needs:
            assert need not in order or order.index(need) < order.index(release.package)


def test_what_an_earlier_run_has_begun_is_completed_and_what_is_new_is_marked() -> None:
    found = workspace()
    present = {"pypi:app": PARTLY, "pypi:text": PARTLY, "pypi:tool": there(known=False)}
    plan = make_plan(found, Graph.of(found), present, kept={("pypi:app", "1.0.0")})
    assert [one.package for one in plan.releases] == ["pypi:app", "pypi:tool"]
    assert plan.new == {"pypi:tool"}


# Pins that nobody could install


def siblings(
    found: Workspace, answers: dict[str, Presence], config: Config | None = None
) -> tuple[list[str], Plan]:
    present = {f"pypi:{name}": answer for name, answer in answers.items()}
    selected = {name: one for name, one in present.items() if one is not COMPLETE}
    plan = make_plan(found, Graph.of(found), selected)
    problems = preflight.pinned_siblings(found, plan, present, config or Config())
    return [f"{one.severity} {one.message}" for one in problems], plan


def test_a_sibling_that_is_neither_there_nor_released_is_an_error() -> None:
    found = workspace(*CHAIN)
    assert siblings(found, {"app": NOT_THERE, "models": COMPLETE})[0] == []
    assert siblings(found, {"app": NOT_THERE, "models": NOT_THERE, "text": NOT_THERE})[0] == []
    [told], _ = siblings(found, {"app": NOT_THERE})
    assert told == (
        "error pypi:app needs pypi:models 1.0.0, which is neither on its registry nor part of "
        "this run"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (EdgeKind.RUNTIME, "error"),
        (EdgeKind.BUILD, "error"),
        (EdgeKind.EXTRA, "warning"),
        (EdgeKind.DEV, None),
        (EdgeKind.GROUP, None),
    ],
)
def test_a_private_sibling_is_an_error_where_installing_would_need_it(
    kind: EdgeKind, expected: str | None
) -> None:
    found = workspace(("app", "tool", kind), private=("tool",))
    told, _ = siblings(found, {"app": NOT_THERE})
    assert [one.partition(" ")[0] for one in told] == ([expected] if expected else [])
    assert all("pypi:tool, which is not published: private" in one for one in told)
    kept = Config(pins=PinSettings(policy=PinPolicy.KEEP))
    assert siblings(found, {"app": NOT_THERE}, kept)[0] == []


def test_of_a_sibling_whose_registry_did_not_answer_nothing_is_said() -> None:
    found = workspace(*CHAIN)
    plan = make_plan(found, Graph.of(found), {"pypi:app": NOT_THERE})
    told = preflight.pinned_siblings(found, plan, {}, Config(), unanswered={"pypi:models"})
    assert list(told) == []


def test_packages_that_need_each_other_are_warned_of() -> None:
    found = workspace(("app", "models"), ("models", "app"))
    graph = Graph.of(found)
    plan = make_plan(found, graph, {"pypi:app": NOT_THERE, "pypi:models": NOT_THERE})
    [told] = preflight.cycles(graph, plan)
    assert told.severity is Severity.WARNING
    assert "pypi:app → pypi:models → pypi:app need each other" in told.message
