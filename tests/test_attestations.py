"""Signed uploads, with Sigstore's own clients and verifiers and a Sigstore on loopback."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
import re
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from pypi_attestations import Attestation
from sigstore.models import ClientTrustConfig
from sigstore.verify import Verifier, policy

from releasekit import attestations, config
from releasekit.access import Access
from releasekit.attestations import Signer, Signing
from releasekit.config import Attestations, RegistrySettings
from releasekit.ecosystems.python import attestation, trusted
from releasekit.ecosystems.python.registry import SimpleIndex
from releasekit.errors import CannotAttest, SigningFailed, SigningRefused, WrongAttestation
from releasekit.events import Attested, Event, Stage, StageStarted, UploadSent
from releasekit.model import Package
from releasekit.net import http_client
from releasekit.publish import PublishRequest, run
from releasekit.publish.control import RunControl
from tests.sample import write_sample
from tests.trusting_registry import REQUEST_TOKEN, TrustingRegistry, signed, trusting_registry
from tests.trusting_sigstore import TrustingSigstore, trusting_sigstore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sigstore.sign import Signer as SigstoreSigner

    from tests.conftest import ReleaseKit, Result

FROM_US = policy.OIDCSourceRepositoryURI("https://github.com/acme/mono")


@pytest.fixture
def server() -> Iterator[TrustingRegistry]:
    with trusting_registry(clock=time.time()) as registry:
        yield registry


@pytest.fixture
def sigstore() -> Iterator[TrustingSigstore]:
    with trusting_sigstore() as place:
        yield place


@pytest.fixture
def root(tmp_path: Path, server: TrustingRegistry, sigstore: TrustingSigstore) -> Path:
    """A Python workspace whose registry takes attestations."""
    folder = tmp_path / "repo"
    write_sample(folder, node={}, python={"acme-text": (), "acme-app": ("acme-text",)})
    sigstore.trust_config(folder)
    configure(folder, server)
    return folder


def configure(
    folder: Path, server: TrustingRegistry, *, wish: str = "always", extra: str = ""
) -> None:
    (folder / "releasekit.toml").write_text(
        f'[registries.pypi]\nupload-url = "{server.address}legacy/"\n'
        f'index-url = "{server.address}simple/"\ntrusted-publishing = "always"\n'
        f'attestations = "{wish}"\ntrust-config = "sigstore.json"\n{extra}'
    )


def publish(releasekit: ReleaseKit, folder: Path, env: dict[str, str], *options: str) -> Result:
    return releasekit("-C", folder, "publish", "--yes", "--output", "json", *options, env=env)


def field_of(body: bytes, name: str) -> str | None:
    found = re.search(rb'name="%s"\r\n\r\n(.*?)\r\n--' % name.encode(), body, re.DOTALL)
    return found[1].decode() if found else None


def uploaded(server: TrustingRegistry) -> dict[str, tuple[str, str | None]]:
    """By file name: the sha256 of the bytes that arrived, and what was sent as `attestations`."""
    found = {}
    for body in server.bodies:
        _, _, after = body.partition(b'filename="')
        name, _, rest = after.partition(b'"')
        content = rest.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
        digest = hashlib.sha256(content).hexdigest()
        found[name.decode()] = (digest, field_of(body, "attestations"))
    return found


def verified(place: TrustingSigstore, raw: object, folder: Path) -> dict[str, Any]:
    """What an index does with it: certificate, log, signature; then the statement."""
    trust = ClientTrustConfig.from_json(place.trust_config(folder).read_text())
    one = Attestation.model_validate(raw)
    verifier = Verifier(trusted_root=trust.trusted_root)
    kind, payload = verifier.verify_dsse(one.to_bundle(), FROM_US)
    assert kind == "application/vnd.in-toto+json"
    statement: dict[str, Any] = json.loads(payload)
    return statement


def test_every_file_arrives_with_an_attestation_that_verifies(
    releasekit: ReleaseKit, root: Path, tmp_path: Path, server: TrustingRegistry,
    sigstore: TrustingSigstore,
) -> None:  # fmt: skip
    result = publish(releasekit, root, server.environ, "--debug")
    assert result.code == 0, result.err + result.out
    files = uploaded(server)
    assert len(files) == 4
    for name, (digest, sent) in files.items():
        [raw] = json.loads(sent or "[]")
        statement = verified(sigstore, raw, tmp_path)
        assert statement["subject"] == [{"name": name, "digest": {"sha256": digest}}]
        assert statement["predicateType"].endswith("/attestations/publish/v1")
    # One certificate for all files, and an identity of its own audience for it.
    assert server.audiences.count("sigstore") == len(sigstore.identities) == 1
    events = [event["event"] for event in result.events()]
    assert events.index("upload-sent") > max(i for i, e in enumerate(events) if e == "attested")
    logged = {
        event["file"]: event["log_index"] for event in result.events() if "log_index" in event
    }
    assert set(logged) == set(files)
    assert sorted(logged.values()) == [1001, 1002, 1003, 1004]
    for secret in (REQUEST_TOKEN, *sigstore.identities, *server.spent):
        assert secret not in result.out + result.err
    for file in root.rglob("*"):
        if file.is_file():
            assert sigstore.identities[0].encode() not in file.read_bytes(), file


def test_nothing_is_signed_unless_the_configuration_asks(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore
) -> None:
    for wish in ("never", "auto"):  # auto: this index is not one that is known to take them
        configure(root, server, wish=wish)
        result = publish(releasekit, root, server.environ)
        assert result.code == 0, result.err
        assert not any(sent for _, sent in uploaded(server).values())
        assert len(server.bodies) == 4
        assert "sigstore" not in server.audiences
        assert sigstore.entries == []
        server.files.clear()
        server.bodies.clear()
        shutil.rmtree(root / ".releasekit")


@pytest.mark.parametrize("down", ["fulcio", "rekor"])
def test_nothing_is_uploaded_where_signing_fails(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore,
    down: str,
) -> None:  # fmt: skip
    sigstore.refuse = down
    result = publish(releasekit, root, server.environ)
    assert result.code == 1
    assert server.bodies == []
    assert "mint" not in server.steps
    ended = {e["package"]: e for e in result.events() if e["event"] == "release-ended"}
    assert {one["outcome"] for one in ended.values()} <= {"failed", "cancelled"}
    reasons = " ".join(str(one["reason"]) for one in ended.values())
    assert "signing `acme_" in reasons
    assert "503" in reasons, reasons


def test_a_resumed_run_sends_the_same_bytes_and_signs_only_what_it_sends(
    releasekit: ReleaseKit, root: Path, tmp_path: Path, server: TrustingRegistry,
    sigstore: TrustingSigstore, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store = server._store

    def no_wheels_of_text(path: str, authorization: str, body: bytes) -> tuple[int, object]:
        if b"acme_text-1.0.0-py3" in body:
            return 400, {}
        return store(path, authorization, body)

    monkeypatch.setattr(server, "_store", no_wheels_of_text)
    assert publish(releasekit, root, server.environ).code == 1
    assert set(server.files) < {"acme_text-1.0.0.tar.gz"} | set(server.files)
    before, [run_folder] = len(sigstore.entries), (root / ".releasekit/runs").iterdir()
    kept = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in run_folder.glob("artifacts/*/*")
        if file.suffix in {".whl", ".gz"}
    }
    held = set(server.files)
    monkeypatch.setattr(server, "_store", store)
    result = publish(releasekit, root, server.environ)
    assert result.code == 0, result.err + result.out
    assert (
        server.files["acme_text-1.0.0-py3-none-any.whl"] == kept["acme_text-1.0.0-py3-none-any.whl"]
    )
    attested = {e["file"] for e in result.events() if e["event"] == "attested"}
    assert "acme_text-1.0.0-py3-none-any.whl" in attested
    assert not attested & held
    assert len(sigstore.entries) == before + len(attested)
    digest, sent = uploaded(server)["acme_text-1.0.0-py3-none-any.whl"]
    statement = verified(sigstore, json.loads(sent or "")[0], tmp_path)
    assert statement["subject"][0]["digest"]["sha256"] == digest


BACKEND = """\
import base64, hashlib, json, pathlib
from uv_build import *
import uv_build

def build_wheel(folder, settings=None, metadata=None):
    name = uv_build.build_wheel(folder, settings, metadata)
    file = pathlib.Path(folder) / name
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if {right} else "0" * 64
    statement = {{"subject": [{{"name": name, "digest": {{"sha256": digest}}}}]}}
    encoded = base64.b64encode(json.dumps(statement).encode()).decode()
    body = {{"envelope": {{"statement": encoded}}}}
    file.with_name(name + ".publish.attestation").write_text(json.dumps(body))
    return name
"""


@pytest.mark.parametrize("right", [True, False])
def test_an_attestation_that_comes_from_the_build_is_sent_if_it_is_about_the_file(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry, sigstore: TrustingSigstore,
    right: bool, build_backends: dict[str, str],
) -> None:  # fmt: skip
    shutil.rmtree(root / "python/acme-app")
    package = root / "python/acme-text"
    (package / "backend.py").write_text(BACKEND.format(right=right))
    text = (package / "pyproject.toml").read_text()
    text = text.replace('build-backend = "uv_build"', 'build-backend = "backend"')
    (package / "pyproject.toml").write_text(text + 'backend-path = ["."]\n')
    with (package / "pyproject.toml").open("a") as file:
        file.write('[tool.uv.build-backend]\nsource-include = ["backend.py"]\n')
    result = publish(releasekit, root, server.environ | build_backends)
    if right:
        assert result.code == 0, result.err + result.out
        assert len(sigstore.entries) == 1  # the sdist's
        [sent] = json.loads(uploaded(server)["acme_text-1.0.0-py3-none-any.whl"][1] or "[]")
        assert set(sent) == {"envelope"}
        built = next(e for e in result.events() if e["event"] == "build-finished")
        assert len(built["artifacts"]) == 2
    else:
        assert result.code == 1
        assert server.bodies == []
        assert "does not attest to the file beside it" in result.out
        assert sigstore.entries == []


def test_without_an_identity_nothing_is_even_built(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry
) -> None:
    result = publish(releasekit, root, {"PYPI_ID_TOKEN": signed("pypi")})
    assert result.code == 1
    assert "offers no identity for `sigstore`" in result.err
    assert "`permissions: id-token: write`" in result.err
    assert "build-started" not in result.out
    assert server.steps == []


def test_a_trust_config_that_is_not_there_is_told_before_the_build(
    releasekit: ReleaseKit, root: Path, server: TrustingRegistry
) -> None:
    (root / "sigstore.json").unlink()
    result = publish(releasekit, root, server.environ)
    assert result.code == 1
    assert "sigstore.json` is not a file" in result.err
    assert "build-started" not in result.out


def test_gitlabs_identity_is_a_variable(
    releasekit: ReleaseKit, root: Path, sigstore: TrustingSigstore
) -> None:
    identity = signed("sigstore")
    env = {"PYPI_ID_TOKEN": signed("pypi"), "SIGSTORE_ID_TOKEN": identity}
    result = publish(releasekit, root, env)
    assert result.code == 0, result.err + result.out
    assert sigstore.identities == [identity]
    assert identity not in result.out + result.err


def test_a_rehearsal_signs_nothing(root: Path) -> None:
    from releasekit import rehearse, workspace
    from releasekit.publish.selection import Selection

    settings = config.load(root)
    assert settings.registries["pypi"].attestations is Attestations.ALWAYS
    rehearsal = rehearse.select(workspace.load(root), settings, root, Selection())
    running = {
        "pypi": RegistrySettings(upload_url="http://127.0.0.1:9/", index_url="http://127.0.0.1:9/")
    }
    request = rehearse.request_for(rehearsal, running)
    chosen = request.settings_of("pypi", {})
    assert chosen is not None
    assert chosen.attestations is Attestations.NEVER


@pytest.mark.anyio
async def test_a_run_that_is_quit_before_it_signs_leaves_nothing_in_the_log(
    root: Path, server: TrustingRegistry, sigstore: TrustingSigstore
) -> None:
    control, seen = RunControl(), list[Event]()

    def observe(event: Event) -> None:
        seen.append(event)
        if isinstance(event, StageStarted) and event.stage is Stage.INSPECT:
            control.quit()

    async def approve(*_: object) -> bool:
        return True

    request = PublishRequest(
        root=root, config=config.load(root), environ=server.environ | {"HOME": ""}
    )
    state = await run(
        request, observe=observe, approve=approve, note_recovery=lambda _: None,
        control=control,
    )  # fmt: skip
    assert not state.ok
    assert sigstore.identities == []
    assert not any(isinstance(event, Attested | UploadSent) for event in seen)


PACKAGE = Package(
    id="pypi:acme-text", name="acme-text", ecosystem="python", version="1.0.0", path=".",
    manifest="", publishable=True,
)  # fmt: skip


async def attestor_of(index: SimpleIndex) -> attestations.Attestor | None:
    async with http_client() as client:
        return await index.attestor(client, PACKAGE)


@pytest.mark.anyio
async def test_auto_is_for_the_public_index_with_trusted_publishing(
    server: TrustingRegistry,
) -> None:
    settings = RegistrySettings(attestations=Attestations.AUTO)

    def index(environ: dict[str, str], **changes: Any) -> SimpleIndex:  # noqa: ANN401 - its fields
        return SimpleIndex.of("pypi", dataclasses.replace(settings, **changes), environ)

    assert await attestor_of(index(server.environ)) is not None
    assert await attestor_of(index({})) is None
    assert await attestor_of(index(server.environ | {"UV_PUBLISH_TOKEN": "tokentoken"})) is None
    private = index(server.environ, upload_url=server.address, index_url=server.address)
    assert await attestor_of(private) is None
    private.access.minter = trusted.minter(server.address, server.environ)
    assert await attestor_of(private) is None
    with_token = index(
        server.environ | {"UV_PUBLISH_TOKEN": "tokentoken"}, attestations=Attestations.ALWAYS
    )
    with pytest.raises(SigningRefused, match="with trusted publishing only") as caught:
        await attestor_of(with_token)
    assert caught.value.required


@pytest.mark.anyio
async def test_a_missing_library_is_named_with_what_installs_it(
    server: TrustingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for wish in (Attestations.AUTO, Attestations.ALWAYS):
        index = SimpleIndex(
            name="pypi",
            address=SimpleIndex.of("pypi", None, {}).address,
            index=server.address,
            access=Access(minter=trusted.minter(server.address, server.environ)),
            signing=Signing(wish=wish, environ=server.environ),
        )
        with pytest.raises(CannotAttest) as caught:
            await attestor_of(index)
        assert caught.value.required is (wish is Attestations.ALWAYS)
        assert "releasekit[attestations]" in (caught.value.hint or "")


def signing(server: TrustingRegistry, place: TrustingSigstore, folder: Path) -> Signing:
    return Signing(
        wish=Attestations.ALWAYS,
        trust_config=place.trust_config(folder),
        environ=server.environ,
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "acme_text-1.0.0-py3-none-any.whl"
    file.write_bytes(b"as good as any")
    return file


def sign_wheel(wheel: Path) -> Callable[[SigstoreSigner], attestations.Signed]:
    return lambda signer: attestation._sign(signer, wheel)


@pytest.mark.anyio
async def test_a_certificate_serves_until_it_is_old(
    server: TrustingRegistry, sigstore: TrustingSigstore, tmp_path: Path, wheel: Path
) -> None:
    clock = 0.0
    async with http_client() as client:
        signer = Signer(
            client=client, signing=signing(server, sigstore, tmp_path), now=lambda: clock
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(signer.sign("it", sign_wheel(wheel)))
        assert len(sigstore.identities) == 1
        assert await signer.source_is_public()
        clock = 481
        await signer.sign("it", sign_wheel(wheel))
    assert len(sigstore.identities) == len(set(sigstore.identities)) == 2


@pytest.mark.anyio
async def test_an_identity_of_another_time_or_for_another_audience_is_refused(
    server: TrustingRegistry, sigstore: TrustingSigstore, tmp_path: Path, wheel: Path
) -> None:
    base = signing(server, sigstore, tmp_path)
    old = signed("sigstore", iat=1, exp=2)
    for identity, words in ((old, "is not valid now"), (signed("pypi"), "not an identity for")):
        async with http_client() as client:
            own = Signing(
                wish=base.wish,
                trust_config=base.trust_config,
                environ={"SIGSTORE_ID_TOKEN": identity},
            )
            with pytest.raises(SigningRefused, match=words) as caught:
                await Signer(client=client, signing=own).sign("it", sign_wheel(wheel))
            assert identity not in str(caught.value)
    assert sigstore.identities == []


@pytest.mark.anyio
async def test_a_sigstore_that_never_answers_is_not_waited_for(
    server: TrustingRegistry, sigstore: TrustingSigstore, tmp_path: Path, wheel: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sigstore.address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        async with http_client() as client:
            signer = Signer(client=client, signing=signing(server, sigstore, tmp_path))
            with pytest.raises(SigningFailed, match="no answer came within"):
                await signer.sign("it", sign_wheel(wheel), within=0.5)


def test_an_attestation_about_something_else_is_told_apart(wheel: Path) -> None:
    ours = hashlib.sha256(wheel.read_bytes()).hexdigest()

    def about(name: str, digest: str) -> bytes:
        statement = {"subject": [{"name": name, "digest": {"sha256": digest}}]}
        encoded = base64.b64encode(json.dumps(statement).encode()).decode()
        return json.dumps({"envelope": {"statement": encoded}}).encode()

    attestation.check(wheel, about(wheel.name, ours))
    for content in (
        about("other-1.0.0.tar.gz", ours), about(wheel.name, "0" * 64), b"{}", b"[]", b"\xff", b"",
    ):  # fmt: skip
        with pytest.raises(WrongAttestation):
            attestation.check(wheel, content)
