"""What a CI needs to release a repository: a workflow to start from, for `releasekit init --ci`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class CI(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"


FILES = {CI.GITHUB: ".github/workflows/release.yml", CI.GITLAB: ".gitlab-ci.yml"}

# Started by hand: a push of versions that are on their registries already would publish nothing.
_GITHUB = """\
# .github/workflows/release.yml
name: release
on: workflow_dispatch
permissions:
  contents: read
  id-token: write # trusted publishing: the registries take this workflow's word for a token
concurrency: release
jobs:
  release:
    runs-on: ubuntu-latest
    environment: release
    steps:
      - uses: actions/checkout@v5
        with:
          fetch-depth: 0 # versions that come from git need all of it
      - uses: actions/setup-python@v6
        with:
          python-version: "3.13"
{node}      - run: pip install releasekit
      - uses: actions/download-artifact@v4 # what an earlier attempt of this job has sent
        with:
          name: release-state
          path: ${{{{ runner.temp }}}}/release-state
        continue-on-error: true # the first attempt has none
      - run: exec releasekit publish --yes --state "$RUNNER_TEMP/release-state"
      - uses: actions/upload-artifact@v4
        if: always() # above all when it failed: "Re-run failed jobs" continues from it
        with:
          name: release-state
          path: ${{{{ runner.temp }}}}/release-state
          overwrite: true
"""

_GITHUB_NODE = """\
      - uses: actions/setup-node@v6
        with:
          node-version: "24"
      # - run: npm ci && npm run build # whatever your packages need before they are packed
"""

_GITLAB = """\
# .gitlab-ci.yml
release:
  image: {image}
  rules:
    - when: manual
  resource_group: release
  id_tokens:
{tokens}  cache: # a retried job continues from what an earlier one has sent
    key: release-state
    paths: [.release-state/] # name it in .gitignore
    when: always
  artifacts:
    paths: [.release-state/]
    when: always
  script:
{setup}    - pip install --break-system-packages releasekit
    - exec releasekit publish --yes --state .release-state
"""

_GITLAB_TOKENS = {
    "python": "    PYPI_ID_TOKEN: { aud: pypi }\n",
    "node": '    NPM_ID_TOKEN: { aud: "npm:HOST" } # the host in `npm config get registry`\n',
}


def workflow(ci: CI, ecosystems: AbstractSet[str]) -> str:
    node = "node" in ecosystems
    if ci is CI.GITHUB:
        return _GITHUB.format(node=_GITHUB_NODE if node else "")
    return _GITLAB.format(
        image="node:24" if node else "python:3.13",
        tokens="".join(text for world, text in _GITLAB_TOKENS.items() if world in ecosystems),
        setup="    - apt-get update && apt-get install --yes python3-pip\n" if node else "",
    )
