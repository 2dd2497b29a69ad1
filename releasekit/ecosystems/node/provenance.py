"""npm's provenance: where a tarball was built, as SLSA words it, signed and sent along with it.

The statements are those of npm's own `libnpmpublish`, and a test compares them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from releasekit.attestations import Signed
from releasekit.ecosystems.node.tarball import read_manifest, without_build
from releasekit.errors import SigningRefused, WrongAttestation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import sigstore.sign

SUFFIX = ".sigstore"
_IN_GITHUB = (
    "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_WORKFLOW_REF", "GITHUB_REF", "GITHUB_SHA",
    "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "RUNNER_ENVIRONMENT",
)  # fmt: skip
_IN_GITLAB = (
    "CI_PROJECT_URL", "CI_RUNNER_ID", "CI_COMMIT_SHA", "CI_JOB_NAME", "CI_JOB_URL",
)  # fmt: skip
_GITLAB_PARAMETERS = (
    "CI", "CI_API_GRAPHQL_URL", "CI_API_V4_URL", "CI_BUILD_BEFORE_SHA", "CI_BUILD_ID",
    "CI_BUILD_NAME", "CI_BUILD_REF", "CI_BUILD_REF_NAME", "CI_BUILD_REF_SLUG", "CI_BUILD_STAGE",
    "CI_COMMIT_BEFORE_SHA", "CI_COMMIT_BRANCH", "CI_COMMIT_REF_NAME", "CI_COMMIT_REF_PROTECTED",
    "CI_COMMIT_REF_SLUG", "CI_COMMIT_SHA", "CI_COMMIT_SHORT_SHA", "CI_COMMIT_TIMESTAMP",
    "CI_COMMIT_TITLE", "CI_CONFIG_PATH", "CI_DEFAULT_BRANCH",
    "CI_DEPENDENCY_PROXY_DIRECT_GROUP_IMAGE_PREFIX", "CI_DEPENDENCY_PROXY_GROUP_IMAGE_PREFIX",
    "CI_DEPENDENCY_PROXY_SERVER", "CI_DEPENDENCY_PROXY_USER", "CI_JOB_ID", "CI_JOB_NAME",
    "CI_JOB_NAME_SLUG", "CI_JOB_STAGE", "CI_JOB_STARTED_AT", "CI_JOB_URL", "CI_NODE_TOTAL",
    "CI_PAGES_DOMAIN", "CI_PAGES_URL", "CI_PIPELINE_CREATED_AT", "CI_PIPELINE_ID",
    "CI_PIPELINE_IID", "CI_PIPELINE_SOURCE", "CI_PIPELINE_URL", "CI_PROJECT_CLASSIFICATION_LABEL",
    "CI_PROJECT_DESCRIPTION", "CI_PROJECT_ID", "CI_PROJECT_NAME", "CI_PROJECT_NAMESPACE",
    "CI_PROJECT_NAMESPACE_ID", "CI_PROJECT_PATH", "CI_PROJECT_PATH_SLUG",
    "CI_PROJECT_REPOSITORY_LANGUAGES", "CI_PROJECT_ROOT_NAMESPACE", "CI_PROJECT_TITLE",
    "CI_PROJECT_URL", "CI_PROJECT_VISIBILITY", "CI_REGISTRY", "CI_REGISTRY_IMAGE",
    "CI_REGISTRY_USER", "CI_RUNNER_DESCRIPTION", "CI_RUNNER_ID", "CI_RUNNER_TAGS", "CI_SERVER_HOST",
    "CI_SERVER_NAME", "CI_SERVER_PORT", "CI_SERVER_PROTOCOL", "CI_SERVER_REVISION",
    "CI_SERVER_SHELL_SSH_HOST", "CI_SERVER_SHELL_SSH_PORT", "CI_SERVER_URL", "CI_SERVER_VERSION",
    "CI_SERVER_VERSION_MAJOR", "CI_SERVER_VERSION_MINOR", "CI_SERVER_VERSION_PATCH",
    "CI_TEMPLATE_REGISTRY_HOST", "GITLAB_CI", "GITLAB_FEATURES", "GITLAB_USER_ID",
    "GITLAB_USER_LOGIN", "RUNNER_GENERATE_ARTIFACTS_METADATA",
)  # fmt: skip


def require_source(
    package: str, repository: object, environ: Mapping[str, str], *, required: bool
) -> None:
    """npm's own rules, asked before anything is signed; the registry would answer 422 after."""
    refused = partial(SigningRefused, what=package, required=required)
    if environ.get("GITHUB_ACTIONS"):
        missing = [name for name in _IN_GITHUB if not environ.get(name)]
        source = f"{environ.get('GITHUB_SERVER_URL')}/{environ.get('GITHUB_REPOSITORY')}"
    elif environ.get("GITLAB_CI"):
        missing = [name for name in _IN_GITLAB if not environ.get(name)]
        source = environ.get("CI_PROJECT_URL", "")
    else:
        raise refused(
            problem="npm knows provenance from GitHub Actions and GitLab only",
            hint='publish from one of them, or set `attestations = "auto"`',
        )
    if missing:
        raise refused(problem=f"`{missing[0]}` is not set", hint="run it in a job of the CI itself")
    written = repository_url(repository) or ""
    if _plain(written) != source:
        raise refused(
            problem=f"its package.json names the repository `{written}`, and this is `{source}`",
            hint=f'write `"repository": {{ "type": "git", "url": "git+{source}.git" }}` there; '
            "capitals count",
        )


def repository_url(repository: object) -> str | None:
    """The address in a `repository`, also where that is `owner/name` or `gitlab:owner/name`."""
    url = repository.get("url") if isinstance(repository, dict) else repository
    if not isinstance(url, str):
        return None
    short = re.fullmatch(r"(?:(github|gitlab):)?([^/:@\s]+/[^/:@\s#]+)", url)
    if short is None:
        return url
    return f"git+https://{short[1] or 'github'}.com/{short[2].removesuffix('.git')}.git"


def _plain(url: str) -> str:
    """`git+ssh://git@host/owner/name.git#main` → `https://host/owner/name`."""
    url = url.partition("#")[0].removesuffix("/").removesuffix(".git").removeprefix("git+")
    url = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", url)
    return re.sub(r"^(?:git|ssh|http)://(?:[^/@]*@)?", "https://", url)


def sign(signer: sigstore.sign.Signer, file: Path, *, environ: Mapping[str, str]) -> Signed:
    from sigstore.dsse import Statement

    class Written(Statement):
        """What the CI's own form asks for, also where that is older than Sigstore's model."""

        def __init__(self, contents: bytes) -> None:
            self._contents = contents

    body = json.dumps(statement(file, environ), separators=(",", ":"), ensure_ascii=False)
    bundle = json.loads(signer.sign_dsse(Written(body.encode())).to_json())
    [entry] = bundle["verificationMaterial"]["tlogEntries"]
    return Signed(
        content=json.dumps(bundle, separators=(",", ":")).encode(), log_index=int(entry["logIndex"])
    )


def statement(file: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """What `libnpmpublish` would say of this tarball here."""
    name, digest = _subject(file)
    subject = [{"name": name, "digest": {"sha512": digest}}]
    return (
        _of_github(subject, environ)
        if environ.get("GITHUB_ACTIONS")
        else _of_gitlab(subject, environ)
    )


def _subject(file: Path) -> tuple[str, str]:
    manifest = read_manifest(file)
    name = re.sub("^@", "%40", manifest["name"])
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha512").hexdigest()
    return f"pkg:npm/{name}@{without_build(manifest['version'])}", digest


def _of_github(subject: list[dict[str, Any]], environ: Mapping[str, str]) -> dict[str, Any]:
    repository = environ["GITHUB_REPOSITORY"]
    source = f"{environ['GITHUB_SERVER_URL']}/{repository}"
    path, _, ref = environ["GITHUB_WORKFLOW_REF"].removeprefix(f"{repository}/").partition("@")
    about = {
        "event_name": environ.get("GITHUB_EVENT_NAME"),
        "repository_id": environ.get("GITHUB_REPOSITORY_ID"),
        "repository_owner_id": environ.get("GITHUB_REPOSITORY_OWNER_ID"),
    }
    run = f"{environ['GITHUB_RUN_ID']}/attempts/{environ['GITHUB_RUN_ATTEMPT']}"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://slsa-framework.github.io/github-actions-buildtypes/workflow/v1",
                "externalParameters": {
                    "workflow": {"ref": ref, "repository": source, "path": path}
                },
                "internalParameters": {"github": _known(about)},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{source}@{environ['GITHUB_REF']}",
                        "digest": {"gitCommit": environ["GITHUB_SHA"]},
                    }
                ],
            },
            "runDetails": {
                "builder": {
                    "id": f"https://github.com/actions/runner/{environ['RUNNER_ENVIRONMENT']}"
                },
                "metadata": {"invocationId": f"{source}/actions/runs/{run}"},
            },
        },
    }


def _of_gitlab(subject: list[dict[str, Any]], environ: Mapping[str, str]) -> dict[str, Any]:
    source, commit = f"git+{environ['CI_PROJECT_URL']}", {"sha1": environ["CI_COMMIT_SHA"]}
    place = {
        "name": environ.get("CI_RUNNER_DESCRIPTION"),
        "architecture": environ.get("CI_RUNNER_EXECUTABLE_ARCH"),
        "server": environ.get("CI_SERVER_URL"),
        "project": environ.get("CI_PROJECT_PATH"),
        "job": _known({"id": environ.get("CI_JOB_ID")}),
        "pipeline": _known(
            {"id": environ.get("CI_PIPELINE_ID"), "ref": environ.get("CI_CONFIG_PATH")}
        ),
    }
    return {
        "_type": "https://in-toto.io/Statement/v0.1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v0.2",
        "predicate": {
            "buildType": "https://github.com/npm/cli/gitlab/v0alpha1",
            "builder": {"id": f"{environ['CI_PROJECT_URL']}/-/runners/{environ['CI_RUNNER_ID']}"},
            "invocation": {
                "configSource": {
                    "uri": source,
                    "digest": commit,
                    "entryPoint": environ["CI_JOB_NAME"],
                },
                "parameters": _known({name: environ.get(name) for name in _GITLAB_PARAMETERS}),
                "environment": _known(place),
            },
            "metadata": {
                "buildInvocationId": environ["CI_JOB_URL"],
                "completeness": {"parameters": True, "environment": True, "materials": False},
                "reproducible": False,
            },
            "materials": [{"uri": source, "digest": commit}],
        },
    }


def _known(values: Mapping[str, object]) -> dict[str, object]:
    """JSON has no `undefined`: npm leaves such a member out."""
    return {name: value for name, value in values.items() if value is not None}


def check(file: Path, bundle: bytes) -> None:
    """That it speaks of this package and these bytes; who signed it, the registry judges."""
    wrong = partial(WrongAttestation, file=file.with_name(file.name + SUFFIX))
    try:
        payload = base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])
        [subject] = json.loads(payload)["subject"]
        found = subject["name"], subject["digest"]["sha512"]
    except (ValueError, KeyError, TypeError) as error:
        raise wrong(problem="it is no Sigstore bundle with one subject") from error
    ours = _subject(file)
    if found != ours:
        raise wrong(problem=f"it is about {found[0]} with sha512 {found[1]}")
