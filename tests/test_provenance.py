"""npm's provenance: what npm's own client would send, and npm's own verifier on what we send."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from releasekit.access import Access
from releasekit.attestations import Signer, Signing
from releasekit.config import Attestations
from releasekit.ecosystems.node import provenance
from releasekit.ecosystems.node import trusted as node_trusted
from releasekit.ecosystems.node.registry import NpmRegistry
from releasekit.errors import SigningRefused, WrongAttestation
from releasekit.model import Package
from releasekit.net import http_client
from tests.sample import write_sample
from tests.trusting_registry import TrustingRegistry, signed, trusting_registry
from tests.trusting_sigstore import TrustingSigstore, trusting_sigstore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "acme/mono",
    "GITHUB_REPOSITORY_ID": "1",
    "GITHUB_REPOSITORY_OWNER_ID": "2",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_WORKFLOW_REF": "acme/mono/.github/workflows/release@v2.yml@refs/tags/v1.0.0",
    "GITHUB_REF": "refs/tags/v1.0.0",
    "GITHUB_SHA": "a" * 40,
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "RUNNER_ENVIRONMENT": "github-hosted",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI": "true",
    "CI_PROJECT_URL": "https://gitlab.com/acme/mono",
    "CI_PROJECT_PATH": "acme/mono",
    "CI_RUNNER_ID": "12",
    "CI_RUNNER_EXECUTABLE_ARCH": "linux/amd64",
    "CI_COMMIT_SHA": "b" * 40,
    "CI_COMMIT_TITLE": "Größer — „besser“",
    "CI_JOB_NAME": "release",
    "CI_JOB_ID": "5",
    "CI_JOB_URL": "https://gitlab.com/acme/mono/-/jobs/5",
    "CI_SERVER_URL": "https://gitlab.com",
}
REPOSITORY = {"type": "git", "url": "git+https://github.com/acme/mono.git"}
MANIFEST = {
    "name": "@acme/parser",
    "version": "1.0.0-rc.1+build",
    "repository": "acme/mono",
    "description": "A parser.",
    "bin": "./cli.js",
    "author": "Ada <ada@acme.example> (https://acme.example)",
    "contributors": ["Bob", {"name": "Carl"}],
    "bugs": "https://acme.example/bugs",
    "funding": "https://acme.example/fund",
    "homepage": "https://acme.example",
    "_secret": "of the tool that packed it",
    "dependencies": {"left": "^1.0.0"},
    "publishConfig": {"access": "public", "tag": "next"},
}
PACKAGE = Package(
    id="npm:@acme/parser", name="@acme/parser", ecosystem="node", version="1.0.0", path=".",
    manifest="package.json", publishable=True,
)  # fmt: skip


@pytest.fixture
def server() -> Iterator[TrustingRegistry]:
    with trusting_registry(clock=time.time()) as registry:
        yield registry


@pytest.fixture
def sigstore() -> Iterator[TrustingSigstore]:
    with trusting_sigstore() as place:
        yield place


@pytest.fixture(scope="session")
def npms_modules() -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on this machine")
    modules = Path(npm).resolve().parent.parent / "node_modules"
    if not (modules / "@sigstore/verify").is_dir():
        pytest.skip("this npm is too old to know provenance")
    return modules


def packed(folder: Path, manifest: object = MANIFEST) -> Path:
    file = folder / "acme-parser.tgz"
    contents = {
        "package.json": json.dumps(manifest).encode(),
        "cli.js": b"#!/usr/bin/env node\n",
        "README": b"another one",
        "Readme.md": "# Größer\n".encode(),
        "docs/README.md": b"of a folder",
    }
    with tarfile.open(file, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return file


def of_ci(name: str) -> dict[str, str]:
    return GITHUB if name == "github" else GITLAB


def node(script: str, *arguments: object, env: dict[str, str]) -> str:
    child = subprocess.run(
        ["node", "-e", script, "--", *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "CI"} | env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


PUBLISH_AS_NPM_DOES = """
const [modules, tarball, registry, sigstore, token, identity] = process.argv.slice(1);
const { publish } = require(modules + "/libnpmpublish");
const pacote = require(modules + "/pacote");
const fs = require("fs");
pacote.manifest(tarball, { fullMetadata: true, fullReadJson: true }).then((manifest) =>
  publish(manifest, fs.readFileSync(tarball), {
    registry, access: "public", defaultTag: "next", provenance: true, npmVersion: undefined,
    fulcioURL: sigstore, rekorURL: sigstore, identityToken: identity,
    [registry.replace("http:", "") + ":_authToken"]: token,
  })
).catch((error) => { console.error(error); process.exit(1); });
"""
VERIFY_AS_NPM_DOES = """
const [modules, file] = process.argv.slice(1);
const { bundleFromJSON } = require(modules + "/@sigstore/bundle");
const { TrustedRoot } = require(modules + "/@sigstore/protobuf-specs");
const { toSignedEntity, toTrustMaterial, Verifier } = require(modules + "/@sigstore/verify");
const { bundle, root, source } = JSON.parse(require("fs").readFileSync(file));
const verifier = new Verifier(toTrustMaterial(TrustedRoot.fromJSON(root)));
const entity = toSignedEntity(bundleFromJSON(bundle));
const signer = verifier.verify(entity, { subjectAlternativeName: source });
console.log(signer.identity.subjectAlternativeName);
"""


async def sent_by_us(
    server: TrustingRegistry, sigstore: TrustingSigstore, folder: Path, ci: dict[str, str]
) -> dict[str, Any]:
    """The document that reached the registry."""
    file = packed(folder)
    environ = {**ci, **server.environ}
    signing = Signing(
        wish=Attestations.ALWAYS, trust_config=sigstore.trust_config(folder), environ=environ
    )
    minter = node_trusted.minter(
        server.address, "@acme/parser", environ, required=True, now=lambda: server.clock
    )
    registry = NpmRegistry(
        name="npm", address=server.address, tag="next", package_access="public",
        access=Access(minter=minter), signing=signing,
        repository={"url": f"git+{provenance_source(ci)}.git"},
    )  # fmt: skip
    async with http_client() as client:
        attestor = await registry.attestor(client, PACKAGE)
        assert attestor is not None
        signer = Signer(client=client, signing=signing)
        done = await signer.sign("it", lambda held: attestor.sign(held, file))
        attestor.check(file, done.content)
        attestor.beside(file).write_bytes(done.content)
        answer = await registry.upload(client, PACKAGE, file)
    assert answer.status == 200
    document: dict[str, Any] = json.loads(server.bodies[-1])
    return document


def provenance_source(ci: dict[str, str]) -> str:
    return ci.get("CI_PROJECT_URL") or f"{ci['GITHUB_SERVER_URL']}/{ci['GITHUB_REPOSITORY']}"


@pytest.mark.anyio
@pytest.mark.parametrize("ci", ["github", "gitlab"])
async def test_the_document_is_the_one_that_npm_would_send(
    server: TrustingRegistry, sigstore: TrustingSigstore, tmp_path: Path, npms_modules: Path,
    ci: str,
) -> None:  # fmt: skip
    ours = await sent_by_us(server, sigstore, tmp_path, of_ci(ci))
    server.tokens["token-for-npm"] = ""
    identity = signed("sigstore")
    extra = {"ACTIONS_ID_TOKEN_REQUEST_URL": "set", "SIGSTORE_ID_TOKEN": identity}
    node(
        PUBLISH_AS_NPM_DOES, npms_modules, tmp_path / "acme-parser.tgz", server.address,
        sigstore.address.rstrip("/"), "token-for-npm", identity, env=of_ci(ci) | extra,
    )  # fmt: skip
    theirs = json.loads(server.bodies[-1])
    assert theirs is not ours
    bundles = []
    for document in (ours, theirs):
        name = "@acme/parser-1.0.0-rc.1"
        assert list(document["_attachments"]) == [f"{name}.tgz", f"{name}.sigstore"]
        attached = document["_attachments"].pop(f"{name}.sigstore")
        assert attached["length"] == len(attached["data"])
        bundles.append((attached["content_type"], json.loads(attached["data"])))
        for version in document["versions"].values():
            # Of the tool, not of the package.
            for key in [key for key in version if key.startswith("_")]:
                del version[key]
            version["dist"].pop("tarball")
            version.pop("gitHead", None)
    assert ours["versions"]["1.0.0-rc.1"] == theirs["versions"]["1.0.0-rc.1"]
    assert ours == theirs
    (kind, mine), (other, npms) = bundles
    assert kind == other == mine["mediaType"] == npms["mediaType"]
    statements = [
        json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"])) for bundle in (mine, npms)
    ]
    assert statements[0] == statements[1] == sigstore.entries[0] == sigstore.entries[1]
    assert mine["dsseEnvelope"]["payloadType"] == npms["dsseEnvelope"]["payloadType"]
    digest = hashlib.sha512((tmp_path / "acme-parser.tgz").read_bytes()).hexdigest()
    assert statements[0]["subject"] == [
        {"name": "pkg:npm/%40acme/parser@1.0.0-rc.1", "digest": {"sha512": digest}}
    ]


@pytest.mark.anyio
async def test_npms_verifier_takes_our_bundle_and_no_altered_one(
    server: TrustingRegistry, sigstore: TrustingSigstore, tmp_path: Path, npms_modules: Path
) -> None:
    document = await sent_by_us(server, sigstore, tmp_path, GITHUB)
    name = "@acme/parser-1.0.0-rc.1.sigstore"
    bundle = json.loads(document["_attachments"][name]["data"])
    file, source = tmp_path / "given.json", "https://ci.example/acme/mono/release.yml"
    given = {"bundle": bundle, "root": sigstore.trusted_root(), "source": source}
    file.write_text(json.dumps(given))
    assert node(VERIFY_AS_NPM_DOES, npms_modules, file, env={}).strip() == source
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"mono", b"evil")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    file.write_text(json.dumps(given))
    with pytest.raises(AssertionError, match="VerificationError"):
        node(VERIFY_AS_NPM_DOES, npms_modules, file, env={})


@pytest.mark.parametrize(
    "repository",
    [
        REPOSITORY,
        "acme/mono",
        "github:acme/mono",
        "https://github.com/acme/mono",
        "git@github.com:acme/mono.git",
        {"type": "git", "url": "git+ssh://git@github.com/acme/mono.git#main"},
        {"type": "git", "url": "git://github.com/acme/mono.git", "directory": "node/parser"},
    ],
)
def test_a_repository_may_be_written_in_npms_ways(repository: object) -> None:
    provenance.require_source("npm:x", repository, GITHUB, required=True)


@pytest.mark.parametrize(
    "repository",
    [None, "", {}, {"url": None}, "other/mono", "Acme/mono", "https://evil.example/acme/mono",
     "gitlab:acme/mono", "https://github.com/acme/mono/tree", "https://github.com/acme/mono2"],
)  # fmt: skip
def test_another_repository_is_refused_before_anything_is_signed(repository: object) -> None:
    with pytest.raises(SigningRefused) as caught:
        provenance.require_source("npm:x", repository, GITHUB, required=True)
    assert "this is `https://github.com/acme/mono`" in caught.value.message
    assert '"url": "git+https://github.com/acme/mono.git"' in (caught.value.hint or "")


def test_npm_knows_two_cis() -> None:
    for environ, words in (
        ({}, "from GitHub Actions and GitLab only"),
        ({**GITHUB, "GITHUB_SHA": ""}, "`GITHUB_SHA` is not set"),
    ):
        with pytest.raises(SigningRefused, match=words):
            provenance.require_source("npm:x", REPOSITORY, environ, required=True)


def test_a_bundle_about_another_tarball_is_told_apart(tmp_path: Path) -> None:
    file = packed(tmp_path)
    digest = hashlib.sha512(file.read_bytes()).hexdigest()

    def about(name: str, digest: str) -> bytes:
        statement = {"subject": [{"name": name, "digest": {"sha512": digest}}]}
        payload = base64.b64encode(json.dumps(statement).encode()).decode()
        return json.dumps({"dsseEnvelope": {"payload": payload}}).encode()

    right = "pkg:npm/%40acme/parser@1.0.0-rc.1"
    provenance.check(file, about(right, digest))
    for content in (about(right, "00"), about("pkg:npm/else@1.0.0", digest), b"{}", b"\xff"):
        with pytest.raises(WrongAttestation):
            provenance.check(file, content)


@pytest.fixture
def root(tmp_path: Path, sigstore: TrustingSigstore) -> Path:
    folder = tmp_path / "repo"
    write_sample(folder, python={}, node={"@acme/parser": (), "@acme/cli": ("@acme/parser",)})
    for manifest in folder.glob("node/*/package.json"):
        body = json.loads(manifest.read_text()) | {"repository": REPOSITORY}
        manifest.write_text(json.dumps(body))
    sigstore.trust_config(folder)
    return folder


def publish(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, wish: str, *, trust: str = "auto"
) -> Result:
    (root / "releasekit.toml").write_text(
        f'[registries.npm]\nurl = "{server.address}"\ntrusted-publishing = "{trust}"\n'
        f'attestations = "{wish}"\ntrust-config = "sigstore.json"\n'
    )
    return releasekit(
        "-C", root, "publish", "--yes", "--output", "json", env={**GITHUB, **server.environ}
    )


def attached(server: TrustingRegistry) -> dict[str, list[str]]:
    documents = [json.loads(body) for body in server.bodies]
    return {one["name"]: sorted(one["_attachments"]) for one in documents}


WITH = {
    f"@acme/{name}": [f"@acme/{name}-1.0.0.sigstore", f"@acme/{name}-1.0.0.tgz"]
    for name in ("parser", "cli")
}
WITHOUT = {name: files[1:] for name, files in WITH.items()}


def test_a_whole_release_with_provenance(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore
) -> None:
    result = publish(releasekit, root, server, "auto")
    assert result.code == 0, result.err + result.out
    assert attached(server) == WITH
    assert server.steps.count("mint @acme/cli") == 1  # the token that was tried is the one used
    subjects = {entry["subject"][0]["name"] for entry in sigstore.entries}
    assert subjects == {"pkg:npm/%40acme/parser@1.0.0", "pkg:npm/%40acme/cli@1.0.0"}


def test_a_private_repository_goes_without_and_stops_where_it_must_not(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore
) -> None:
    server.claims["repository_visibility"] = "private"
    refused = publish(releasekit, root, server, "always")
    assert refused.code == 1
    assert server.bodies == []
    assert "repository is public" in refused.out
    result = publish(releasekit, root, server, "auto")
    assert result.code == 0, result.err + result.out
    assert attached(server) == WITHOUT
    notes = [event["message"] for event in result.events() if event["event"] == "noted"]
    assert any("repository is public" in note for note in notes), notes
    assert sigstore.identities == []


def test_one_package_that_is_refused_keeps_all_out_of_the_log(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    mint = server._mint

    def not_for_cli(identity: str, *, audience: str, package: str) -> tuple[int, object]:
        if package == "@acme/cli":
            return 403, {"message": "no such publisher"}
        return mint(identity, audience=audience, package=package)

    monkeypatch.setattr(server, "_mint", not_for_cli)
    result = publish(releasekit, root, server, "auto")
    assert result.code == 1
    assert "the package must exist and name this repository" in result.out
    assert sigstore.entries == []
    assert server.bodies == []


def test_a_registry_without_trusted_publishing_gets_no_provenance_by_itself(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore
) -> None:
    server.supported = False
    result = publish(releasekit, root, server, "auto")
    assert result.code == 1  # nobody gave it a credential
    assert attached(server) == {}
    assert "has no trusted publishing" in result.out
    assert sigstore.identities == []


def test_all_that_npm_would_refuse_is_told_at_once_before_the_build(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry
) -> None:
    parser, cli = (root / f"node/{name}/package.json" for name in ("parser", "cli"))
    parser.write_text(parser.read_text().replace("acme/mono", "elsewhere/mono"))
    cli.write_text(cli.read_text().replace('"access": "public"', '"tag": "latest"'))
    result = publish(releasekit, root, server, "always")
    assert result.code == 1
    assert "names the repository `git+https://github.com/elsewhere/mono.git`" in result.err
    assert "npm takes provenance of public packages alone" in result.err
    assert "build-started" not in result.out
    assert server.steps == []


def test_what_a_registry_without_provenance_refuses_goes_out_unsigned_with_the_same_bytes(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore,
    npm: RegistrySettings,
) -> None:  # fmt: skip
    """verdaccio 6 takes one attachment."""

    def attempt(wish: str) -> Result:
        (root / "releasekit.toml").write_text(
            f'[registries.npm]\nurl = "{npm.url}"\ntrusted-publishing = "never"\n'
            f'attestations = "{wish}"\ntrust-config = "sigstore.json"\n'
        )
        env = {**GITHUB, **server.environ}
        return releasekit("-C", root, "publish", "--yes", "--output", "json", env=env)

    refused = attempt("always")
    assert refused.code == 1
    assert "400 unsupported registry call" in refused.out
    result = attempt("never")
    assert result.code == 0, result.err + result.out
    document = httpx.get(f"{npm.url}@acme%2fparser").json()
    assert document["readme"] == "# @acme/parser\n"
    held = document["versions"]["1.0.0"]
    digest = hashlib.sha512(httpx.get(held["dist"]["tarball"]).content).hexdigest()
    [entry] = [one for one in sigstore.entries if "parser" in one["subject"][0]["name"]]
    assert entry["subject"][0]["digest"]["sha512"] == digest
