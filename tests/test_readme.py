"""What the README shows is what the tool does."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sample import write_sample

if TYPE_CHECKING:
    from tests.conftest import ReleaseKit

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_workflow_in_the_readme_is_the_one_that_init_prints(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path)
    shown = releasekit("init", "--ci", "github", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert f"```yaml\n{shown.out}```\n" in README
    assert not (tmp_path / "releasekit.toml").exists()


@pytest.mark.parametrize(
    ("world", "wanted", "unwanted"),
    [("python", "PYPI_ID_TOKEN", "NPM_ID_TOKEN"), ("node", "NPM_ID_TOKEN", "PYPI_ID_TOKEN")],
)
def test_a_workflow_asks_for_no_more_than_the_repository_needs(
    releasekit: ReleaseKit, tmp_path: Path, world: str, wanted: str, unwanted: str
) -> None:
    if world == "python":
        write_sample(tmp_path, node={})
    else:
        write_sample(tmp_path, python={})
    told = releasekit("init", "--ci", "gitlab", "--output", "json", cwd=tmp_path).json()
    assert told["file"] == ".gitlab-ci.yml"
    assert told["written"] is False
    assert wanted in told["text"]
    assert unwanted not in told["text"]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_recording_is_small_and_names_no_host() -> None:
    text = (ROOT / "docs/demo.svg").read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    ET.fromstring(text)  # noqa: S314 - our own file
    assert set(re.findall(r"https?://[^\s\"<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "20 of 20 packages are fine" in text
