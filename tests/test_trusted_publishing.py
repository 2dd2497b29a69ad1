"""Tokens from the CI's word: minted late, shared, renewed, and every refusal told with its step."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from releasekit import access
from releasekit.ecosystems.node import trusted as node_trusted
from releasekit.ecosystems.node.registry import NpmRegistry
from releasekit.ecosystems.python import trusted as python_trusted
from releasekit.ecosystems.python.registry import SimpleIndex
from releasekit.errors import TrustedPublishingFailed, TrustedPublishingRefused
from releasekit.model import Package
from releasekit.net import http_client
from releasekit.secrets import Credential
from tests.sample import write_sample
from tests.trusting_registry import REQUEST_TOKEN, TrustingRegistry, signed, trusting_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import httpx

    from tests.conftest import ReleaseKit

pytestmark = pytest.mark.anyio
MINTING = ["audience", "identity", "mint"]


@pytest.fixture
def server() -> Iterator[TrustingRegistry]:
    with trusting_registry() as registry:
        yield registry


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "acme_text-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        text = "Metadata-Version: 2.1\nName: acme-text\nVersion: 1.0.0\n"
        archive.writestr("acme_text-1.0.0.dist-info/METADATA", text)
        archive.writestr("acme_text-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return file


def index(server: TrustingRegistry, environ: Mapping[str, str] | None = None) -> SimpleIndex:
    minter = python_trusted.minter(
        server.address, server.environ if environ is None else environ, now=lambda: server.clock
    )
    return SimpleIndex(
        name="pypi",
        address=server.address,
        index=f"{server.address}simple/",
        access=access.Access(minter=minter),
    )


def package(name: str, ecosystem: str = "python") -> Package:
    return Package(
        id=f"x:{name}", name=name, ecosystem=ecosystem, version="1.0.0", path=".", manifest="",
        publishable=True,
    )  # fmt: skip


async def upload(registry: SimpleIndex, wheel: Path, *, times: int = 1) -> list[int]:
    async with http_client() as client, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(registry.upload(client, package("acme-text"), wheel))
            for _ in range(times)
        ]
    return [task.result().status for task in tasks]


async def test_a_token_is_minted_by_the_first_upload_and_shared(
    server: TrustingRegistry, wheel: Path
) -> None:
    registry = index(server)
    async with http_client() as client:
        await registry.presence(client, package("acme-text"))
    assert server.steps == []
    assert await upload(registry, wheel, times=8) == [200] * 8
    assert server.steps == MINTING
    assert set(server.used) == {"minted-token-1"}
    assert "minted-token" not in repr(registry) + repr(registry.access)


async def test_a_token_is_minted_anew_before_it_expires(
    server: TrustingRegistry, wheel: Path
) -> None:
    registry = index(server)
    await upload(registry, wheel)
    server.clock += 599
    await upload(registry, wheel)
    assert server.steps == MINTING
    server.clock += 2
    assert await upload(registry, wheel, times=4) == [200] * 4
    assert server.steps == MINTING * 2
    assert server.used[-1] == "minted-token-2"


async def test_a_registry_that_tells_no_expiry_is_taken_to_mean_15_minutes(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.lifetime = None
    registry = index(server)
    await upload(registry, wheel)
    server.clock += 601
    await upload(registry, wheel)
    assert server.steps == MINTING * 2


async def test_a_refused_token_is_minted_anew_once_for_all_who_held_it(
    server: TrustingRegistry, wheel: Path
) -> None:
    registry = index(server)
    await upload(registry, wheel)
    server.revoke_all()
    assert await upload(registry, wheel, times=4) == [200] * 4
    assert server.steps == MINTING * 2


async def test_a_registry_that_refuses_every_token_is_believed_the_second_time(
    server: TrustingRegistry, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_store", lambda *_: (403, {}))
    assert await upload(index(server), wheel) == [403]
    assert server.steps == MINTING * 2


async def test_a_refusal_to_mint_tells_the_step_and_the_servers_own_code(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.refuse_minting = {
        "message": "Token request failed",
        "errors": [{"code": "invalid-publisher", "description": "no publisher matches"}],
    }
    async with http_client() as client:
        with pytest.raises(TrustedPublishingRefused) as caught:
            await index(server).upload(client, package("acme-text"), wheel)
    assert "trading the identity for a token" in caught.value.message
    assert "422: `invalid-publisher` no publisher matches" in caught.value.message
    assert server.used == []


async def test_a_refusal_is_the_answer_for_every_package(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.refuse_minting = {"errors": [{"code": "invalid-publisher", "description": "none"}]}
    registry = index(server)
    async with http_client() as client:
        told = await asyncio.gather(
            *(registry.upload(client, package("acme-text"), wheel) for _ in range(5)),
            return_exceptions=True,
        )
    assert all(isinstance(one, TrustedPublishingRefused) for one in told)
    assert server.steps == MINTING


@pytest.mark.parametrize(
    ("code", "claims", "words"),
    [
        (
            "invalid-publisher",
            {
                "repository": "acme/mono",
                "workflow_ref": "acme/mono/.github/workflows/release.yml@refs/tags/v1",
                "environment": "pypi",
            },
            "repository `acme/mono`, workflow `release.yml`, environment `pypi`",
        ),
        (
            "invalid-pending-publisher",
            {
                "project_path": "acme/sub/mono",
                "ci_config_ref_uri": "gitlab.example/acme/sub/mono//ci/release.yml@refs/heads/x",
            },
            "repository `acme/sub/mono`, workflow `ci/release.yml`, environment `(none)`",
        ),
        ("invalid-reuse-token", {}, "in a new job"),
        ("not-enabled", {}, "publish with a token"),
        ("something-new", {}, "compare the publisher registered there"),
    ],
)
async def test_a_refusal_to_mint_names_what_to_change(
    server: TrustingRegistry, wheel: Path, code: str, claims: dict[str, object], words: str
) -> None:
    server.claims.update(claims)
    server.refuse_minting = {"errors": [{"code": code, "description": "no"}]}
    async with http_client() as client:
        with pytest.raises(TrustedPublishingRefused) as caught:
            await index(server).upload(client, package("acme-text"), wheel)
    assert f"`{code}` no" in caught.value.message
    assert words in (caught.value.hint or "")


async def test_a_clock_that_is_ahead_does_not_mint_for_every_upload(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.lifetime = -3600
    registry = index(server)
    for _ in range(3):
        await upload(registry, wheel)
    assert server.steps == MINTING


async def test_a_server_that_fails_to_mint_may_be_asked_again(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.refuse_minting, server.refuse_minting_with = {"message": "down"}, 503
    registry = index(server)
    async with http_client() as client:
        with pytest.raises(TrustedPublishingFailed) as caught:
            await registry.upload(client, package("acme-text"), wheel)
        assert "503: down" in caught.value.message
        server.refuse_minting = None
        assert (await registry.upload(client, package("acme-text"), wheel)).status == 200
    # The spent identity was not sent again.
    assert server.steps == MINTING * 2


async def test_a_wrong_request_token_and_a_missing_permission_are_told_apart(
    server: TrustingRegistry, wheel: Path
) -> None:
    wrong = server.environ | {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "wrong-token"}
    for environ, words in ((wrong, "401: who are you"), ({}, "nor `PYPI_ID_TOKEN` is set")):
        async with http_client() as client:
            with pytest.raises(TrustedPublishingRefused) as caught:
                await index(server, environ).upload(client, package("acme-text"), wheel)
        assert "asking GitHub Actions for an identity for `pypi`" in caught.value.message
        assert words in caught.value.message


async def test_an_index_without_trusted_publishing_says_so(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.supported = False
    async with http_client() as client:
        with pytest.raises(TrustedPublishingRefused) as caught:
            await index(server).upload(client, package("acme-text"), wheel)
    assert "for its audience: 404" in caught.value.message
    assert caught.value.hint is not None
    assert "no trusted publishing" in caught.value.hint


async def test_gitlab_gives_its_identity_once_and_a_second_minting_is_refused(
    server: TrustingRegistry, wheel: Path
) -> None:
    registry = index(server, {"PYPI_ID_TOKEN": signed("pypi")})
    assert await upload(registry, wheel) == [200]
    server.revoke_all()
    async with http_client() as client:
        answer = await registry.upload(client, package("acme-text"), wheel)
    # The registry's own refusal stands; why no new token came is said beside it.
    assert answer.status == 403
    assert "`invalid-reuse-token` used before" in answer.credential


async def test_the_audience_decides_which_of_gitlabs_variables_is_read(
    server: TrustingRegistry, wheel: Path
) -> None:
    server.audience = "testpypi"
    environ = {"PYPI_ID_TOKEN": signed("pypi"), "TESTPYPI_ID_TOKEN": signed("testpypi")}
    assert await upload(index(server, environ), wheel) == [200]


async def test_an_identity_for_another_audience_is_not_sent(
    server: TrustingRegistry, wheel: Path
) -> None:
    async with http_client() as client:
        with pytest.raises(TrustedPublishingRefused) as caught:
            await index(server, {"PYPI_ID_TOKEN": signed("else")}).upload(
                client, package("acme-text"), wheel
            )
    assert "not an identity for `pypi`" in caught.value.message
    assert "mint" not in server.steps


async def test_a_found_credential_is_used_instead(server: TrustingRegistry, wheel: Path) -> None:
    registry = index(server)
    registry.access.found = Credential(source="HERE", username="__token__", secret="found-token")
    assert await upload(registry, wheel) == [403]
    assert server.used == ["found-token"]
    assert server.steps == []


async def test_a_keyring_is_looked_into_before_a_token_is_minted(
    server: TrustingRegistry, wheel: Path
) -> None:
    looked = []

    async def search() -> Credential | None:
        looked.append(1)
        return None

    registry = index(server)
    registry.access.search = search
    await upload(registry, wheel, times=3)
    assert looked == [1]
    assert server.steps == MINTING


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    file = tmp_path / "acme-parser-1.0.0.tgz"
    content = json.dumps({"name": "@acme/parser", "version": "1.0.0"}).encode()
    with tarfile.open(file, "w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file


def npm(
    server: TrustingRegistry,
    environ: Mapping[str, str],
    *,
    name: str = "@acme/parser",
    required: bool = True,
) -> NpmRegistry:
    address = server.address
    minter = node_trusted.minter(
        address, name, environ, required=required, now=lambda: server.clock
    )
    return NpmRegistry(name="npm", address=address, access=access.Access(minter=minter))


async def put(registry: NpmRegistry, file: Path, client: httpx.AsyncClient) -> tuple[int, str]:
    answer = await registry.upload(client, package("@acme/parser", "node"), file)
    return answer.status, answer.credential


async def test_npm_trades_one_identity_per_package(server: TrustingRegistry, tarball: Path) -> None:
    async with http_client() as client:
        assert await put(npm(server, server.environ), tarball, client) == (
            200,
            "trusted publishing",
        )
        assert server.steps == ["identity", "mint @acme/parser"]
        # A token for another package is refused, minted anew once, and refused again.
        status, _ = await put(npm(server, server.environ, name="other"), tarball, client)
    assert status == 403
    assert server.steps[2:] == ["identity", "mint other"] * 2


async def test_npm_takes_the_identity_of_gitlab_for_its_own_host_alone(
    server: TrustingRegistry, tarball: Path
) -> None:
    own, other = ({"NPM_ID_TOKEN": signed(f"npm:{host}")} for host in ("127.0.0.1", "evil.example"))
    assert node_trusted.is_offered(server.address, own)
    assert not node_trusted.is_offered(server.address, other)
    async with http_client() as client:
        assert (await put(npm(server, own), tarball, client))[0] == 200
        with pytest.raises(TrustedPublishingRefused):
            await put(npm(server, other), tarball, client)
    assert server.steps == ["mint @acme/parser"]


async def test_npm_without_trusted_publishing_is_an_error_only_where_it_is_required(
    server: TrustingRegistry, tarball: Path
) -> None:
    server.supported = False
    async with http_client() as client:
        status, told = await put(npm(server, server.environ, required=False), tarball, client)
        assert (status, server.used) == (403, [""])
        assert "publish its first version with a token" in told
        with pytest.raises(TrustedPublishingRefused) as caught:
            await put(npm(server, server.environ), tarball, client)
    assert caught.value.hint is not None
    assert "first version with a token" in caught.value.hint


async def test_npms_expiry_is_a_date() -> None:
    body = {"token": "tokentoken", "expires": "1970-01-01T00:15:00Z"}
    made = access.minted(body, step="", username=None, source="", now=0.0)
    assert made.renew_at == 600.0


def test_a_whole_publish_with_nothing_but_the_cis_word(
    releasekit: ReleaseKit, tmp_path: Path, server: TrustingRegistry
) -> None:
    server.clock = time.time()
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": (), "acme-app": ("acme-text",)})
    (root / "releasekit.toml").write_text(
        f'[registries.pypi]\nupload-url = "{server.address}legacy/"\n'
        f'index-url = "{server.address}simple/"\ntrusted-publishing = "always"\n'
    )
    result = releasekit(
        "-v", "-C", root, "publish", "--yes", "--output", "json", env=server.environ
    )
    assert result.code == 0, result.err + result.out
    assert server.steps == MINTING
    assert len(server.files) == 4
    for secret in (REQUEST_TOKEN, "minted-token-1", *server.spent):
        assert secret not in result.out + result.err


def test_two_registries_each_mint_a_token_of_their_own(
    releasekit: ReleaseKit, tmp_path: Path, server: TrustingRegistry
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": (), "acme-app": ("acme-text",)})
    with trusting_registry(clock=time.time()) as other:
        server.clock = other.clock
        tables = [
            f'[registries.{name}]\nupload-url = "{one.address}legacy/"\n'
            f'index-url = "{one.address}simple/"\ntrusted-publishing = "always"\n'
            for name, one in (("pypi", server), ("other", other))
        ]
        chosen = '[packages.acme-app]\nregistry = "other"\n'
        (root / "releasekit.toml").write_text("\n".join([*tables, chosen]))
        result = releasekit("-C", root, "publish", "--yes", env=server.environ)
        assert result.code == 0, result.err + result.out
        assert {name.partition("-")[0] for name in server.files} == {"acme_text"}
        assert {name.partition("-")[0] for name in other.files} == {"acme_app"}
        assert len(server.spent) == len(other.spent) == 1
        assert not server.spent & other.spent


def test_a_token_that_is_not_for_this_project_says_where_to_register_it(
    releasekit: ReleaseKit, tmp_path: Path, server: TrustingRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(server, "_store", lambda *_: (403, {"error": "not for this project"}))
    server.clock = time.time()
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    (root / "releasekit.toml").write_text(
        f'[registries.pypi]\nupload-url = "{server.address}legacy/"\n'
        f'index-url = "{server.address}simple/"\ntrusted-publishing = "always"\n'
    )
    result = releasekit("-C", root, "publish", "--yes", env=server.environ)
    assert result.code == 1
    assert "as a trusted publisher of pypi:acme-text, too" in result.out + result.err
