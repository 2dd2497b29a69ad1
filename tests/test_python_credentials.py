"""Which credential a Python index gets: by pure resolution, and against a real guarded index."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from releasekit import embedded
from releasekit.config import RegistrySettings, TrustedPublishing
from releasekit.ecosystems.python import credentials
from releasekit.ecosystems.python.registry import SimpleIndex
from releasekit.errors import UnreadableCredentials
from releasekit.model import Package
from releasekit.secrets import Credential
from tests.sample import write_sample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import ReleaseKit, Result

UPLOAD = "https://index.example/legacy/"
PACKAGE = Package(
    id="pypi:acme-text",
    name="acme-text",
    ecosystem="python",
    version="1.0.0",
    path=".",
    manifest="pyproject.toml",
    publishable=True,
)


def found(
    environ: Mapping[str, str], *, name: str = "pypi", address: str = UPLOAD
) -> tuple[str | None, str, str] | None:
    credential = credentials.resolve(name=name, address=address, environ=environ, pypirc=None)
    return (credential.username, credential.secret, credential.source) if credential else None


def test_uvs_token_is_for_the_default_registry_alone() -> None:
    environ = {"UV_PUBLISH_TOKEN": "tokentoken\n"}
    assert found(environ) == ("__token__", "tokentoken", "UV_PUBLISH_TOKEN")
    assert found(environ, name="internal") is None


def test_a_user_and_a_password_of_uv_come_before_those_of_twine() -> None:
    environ = {"TWINE_USERNAME": "t", "TWINE_PASSWORD": "twine"}
    assert found(environ) == ("t", "twine", "TWINE_PASSWORD")
    environ |= {"UV_PUBLISH_USERNAME": "u", "UV_PUBLISH_PASSWORD": "publish"}
    assert found(environ) == ("u", "publish", "UV_PUBLISH_PASSWORD")
    assert found({"TWINE_PASSWORD": "twine"}) == ("__token__", "twine", "TWINE_PASSWORD")


@pytest.mark.parametrize(
    ("tool", "named", "addressed"),
    [
        ("UV_PUBLISH_PASSWORD", "UV_PUBLISH_INDEX", "UV_PUBLISH_URL"),
        ("TWINE_PASSWORD", "TWINE_REPOSITORY", "TWINE_REPOSITORY_URL"),
    ],
)
def test_a_tools_credential_goes_only_where_the_tool_would_send_it(
    tool: str, named: str, addressed: str
) -> None:
    by_name = {tool: "password", named: "internal"}
    assert found(by_name) is None
    assert found(by_name, name="internal") is not None
    by_address = {tool: "password", addressed: UPLOAD.rstrip("/")}
    assert found(by_address, name="internal") is not None
    assert found(by_address) is not None
    for other in (
        "https://index.example.evil/legacy/",
        "http://index.example/legacy/",
        "https://index.example:8443/legacy/",
        "https://index.example/other/",
    ):
        assert found(by_address, address=other) is None, other


def test_variables_that_name_the_registry_win() -> None:
    environ = {
        "UV_PUBLISH_TOKEN": "general",
        "UV_INDEX_MY_INDEX_USERNAME": "me",
        "UV_INDEX_MY_INDEX_PASSWORD": "password",
    }
    assert found(environ, name="my-index") == ("me", "password", "UV_INDEX_MY_INDEX_PASSWORD")
    environ["RELEASEKIT_MY_INDEX_TOKEN"] = "own-token"
    assert found(environ, name="my.index") == (
        "__token__", "own-token", "RELEASEKIT_MY_INDEX_TOKEN",
    )  # fmt: skip
    assert found({"RELEASEKIT_PYPI_TOKEN": "own", "UV_PUBLISH_TOKEN": "general"}) == (
        "__token__", "own", "RELEASEKIT_PYPI_TOKEN",
    )  # fmt: skip


PYPIRC = """\
[distutils]
index-servers =
    pypi
    internal
    nameless
[pypi]
username = __token__
password = for-the-public-one
[internal]
repository = https://index.example/legacy
username = me
password = per%cent
[nameless]
password = by-name
"""


def test_pypirc_is_read_by_address_then_by_name(tmp_path: Path) -> None:
    file = tmp_path / ".pypirc"
    file.write_text(PYPIRC)
    by_address = credentials.from_pypirc("whatever", UPLOAD, file)
    assert by_address == Credential(source="~/.pypirc [internal]", username="me", secret="per%cent")
    by_name = credentials.from_pypirc("nameless", "https://other.example/", file)
    assert by_name is not None
    assert by_name.source == "~/.pypirc [nameless]"


def test_a_section_of_pypirc_is_not_sent_to_another_host_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / ".pypirc"
    file.write_text(PYPIRC)
    assert credentials.from_pypirc("pypi", UPLOAD.replace("index", "evil"), file) is None
    assert credentials.from_pypirc("internal", "https://evil.example/legacy/", file) is None


def test_a_malformed_pypirc_is_an_error_that_shows_nothing_of_it(tmp_path: Path) -> None:
    file = tmp_path / ".pypirc"
    file.write_text("password = top-secret\n")
    with pytest.raises(UnreadableCredentials) as caught:
        credentials.from_pypirc("pypi", UPLOAD, file)
    assert str(file) in caught.value.message
    assert "top-secret" not in caught.value.message
    assert credentials.from_pypirc("pypi", UPLOAD, tmp_path / "missing") is None


RING = """\
import getpass, json, os, time
import keyring.backend

class Ring(keyring.backend.KeyringBackend):
    priority = 1

    def get_password(self, service, username):
        print("unlocking")
        match os.environ["RING_DOES"]:
            case "wait":
                time.sleep(60)
            case "ask":
                return getpass.getpass("Password for the keyring: ")
            case "break":
                raise OSError("secret of the keyring")
        return json.loads(os.environ["RING_HOLDS"]).get(f"{service} {username}")

    def set_password(self, service, username, password): ...
"""


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A keyring whose backend does what `RING_DOES` says."""
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend/ring_of_the_tests.py").write_text(RING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "backend"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "ring_of_the_tests.Ring")
    monkeypatch.setenv("RING_DOES", "hold")
    held = {f"{UPLOAD} me": "mine", f"{UPLOAD} __token__": "tokentoken"}
    monkeypatch.setenv("RING_HOLDS", json.dumps(held))
    return monkeypatch


@pytest.mark.anyio
@pytest.mark.usefixtures("ring")
async def test_the_keyring_is_asked_for_the_user_of_pypirc_or_a_token() -> None:
    credential = await credentials.from_keyring(UPLOAD, "me")
    assert credential == Credential(source="keyring", username="me", secret="mine")
    credential = await credentials.from_keyring(UPLOAD, None)
    assert credential == Credential(source="keyring", username="__token__", secret="tokentoken")
    assert await credentials.from_keyring("https://other.example/", None) is None


@pytest.mark.anyio
async def test_a_keyring_that_waits_for_a_person_is_not_waited_for(
    ring: pytest.MonkeyPatch,
) -> None:
    ring.setenv("RING_DOES", "wait")
    began = time.monotonic()
    assert await credentials.from_keyring(UPLOAD, "me", seconds=0.5) is None
    assert time.monotonic() - began < 30


@pytest.mark.anyio
async def test_a_keyring_that_breaks_is_no_error(ring: pytest.MonkeyPatch) -> None:
    ring.setenv("RING_DOES", "break")
    assert await credentials.from_keyring(UPLOAD, "me") is None


ASK = """
import asyncio
from releasekit.ecosystems.python import credentials
print("found", asyncio.run(credentials.from_keyring("https://index.example/legacy/", "me")))
"""


def test_a_keyring_cannot_ask_anybody_even_where_there_is_a_terminal(
    ring: pytest.MonkeyPatch,
) -> None:
    ring.setenv("RING_DOES", "ask")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASK])  # noqa: S606 - within a terminal
    said = b""
    with contextlib.suppress(OSError):  # how a terminal says that the last process has left it
        while chunk := os.read(terminal, 4096):
            said += chunk
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0
    assert b"found None" in said
    assert b"Password" not in said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("index", "sent"),
    [
        ("https://index.example/simple/", True),
        ("https://files.index.example/simple/", False),
        ("http://index.example/simple/", False),
        ("https://index.example:8443/simple/", False),
    ],
)
async def test_a_read_sends_the_credential_to_the_same_origin_alone(index: str, sent: bool) -> None:
    registry = SimpleIndex.of(
        "pypi",
        RegistrySettings(upload_url=UPLOAD, index_url=index),
        {"RELEASEKIT_OTHER_TOKEN": "other", "UV_PUBLISH_TOKEN": "tokentoken"},
    )
    assert ("Authorization" in await registry.access.read_headers()) is sent


@pytest.mark.anyio
async def test_a_redirect_to_another_origin_loses_the_credential() -> None:
    seen: dict[str, bool] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        seen[str(request.url.copy_with(path="/"))] = "authorization" in request.headers
        if request.url.host == "index.example":
            place = f"https://mirror.example{request.url.path}"
            return httpx.Response(302, headers={"Location": place})
        return httpx.Response(404)

    registry = SimpleIndex.of(
        "pypi",
        RegistrySettings(upload_url=UPLOAD, index_url="https://index.example/simple/"),
        {"UV_PUBLISH_TOKEN": "tokentoken"},
    )
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await registry.presence(client, PACKAGE)
    assert seen == {"https://index.example/": True, "https://mirror.example/": False}


@pytest.mark.anyio
async def test_an_index_may_have_a_user_of_its_own() -> None:
    settings = RegistrySettings(
        upload_url="https://up:uppass@index.example/legacy/",
        index_url="https://down:downpass@files.example/simple/",
    )
    registry = SimpleIndex.of("internal", settings, {})
    assert registry.address == "https://index.example/legacy/"
    assert registry.index == "https://files.example/simple/"
    for secret in ("uppass", "downpass"):
        assert secret not in repr(registry)
    reading, writing = registry.access.reading, registry.access.found
    assert reading is not None
    assert writing is not None
    assert (reading.username, reading.secret) == ("down", "downpass")
    assert (writing.username, writing.secret) == ("up", "uppass")


def test_the_ci_is_asked_only_by_the_public_index_or_where_config_says_so() -> None:
    """Another index could name the public one's audience and use what it gets there."""
    environ = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": "http://127.0.0.1:9/",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "tokentoken",
    }

    def minter(trust: TrustedPublishing, *, private: bool = True, **extra: str) -> object:
        settings = (
            RegistrySettings(upload_url=UPLOAD, index_url=UPLOAD, trusted_publishing=trust)
            if private
            else RegistrySettings(trusted_publishing=trust)
        )
        return SimpleIndex.of("pypi", settings, environ | extra).access.minter

    assert minter(TrustedPublishing.AUTO) is None
    assert minter(TrustedPublishing.AUTO, private=False) is not None
    assert minter(TrustedPublishing.NEVER, private=False) is None
    assert minter(TrustedPublishing.ALWAYS, UV_PUBLISH_TOKEN="tokentoken") is not None


def published(result: Result) -> set[str]:
    return {
        event["package"]
        for event in result.events()
        if event["event"] == "release-ended" and event["outcome"] == "published"
    }


def test_a_guarded_index_takes_the_right_password_and_shows_its_files_to_it(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    with embedded.pypi_registry(tmp_path / "index", user=("me", "right-password")) as settings:
        arguments = (
            "-C", tmp_path / "repo", "publish", "--yes", "--output", "json",
            "--registry", f"pypi={settings.upload_url},{settings.index_url}",
        )  # fmt: skip
        env = {"TWINE_REPOSITORY_URL": "", "TWINE_USERNAME": "me"}
        none = releasekit(*arguments)
        assert none.code == 1
        assert "answered 401" in none.err
        wrong = releasekit(*arguments, env=env | {"TWINE_PASSWORD": "wrong-password"})
        assert wrong.code == 1
        assert "answered 403" in wrong.err
        assert "wrong-password" not in wrong.out + wrong.err
        right = releasekit(*arguments, env=env | {"TWINE_PASSWORD": "right-password"})
        assert right.code == 0, right.err
        assert published(right) == {"pypi:acme-text"}
        page = httpx.get(f"{settings.index_url}acme-text/", auth=("me", "right-password"))
        assert page.text.count("#sha256=") == 2


def test_pypirc_opens_a_guarded_index(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    (tmp_path / "home").mkdir()
    with embedded.pypi_registry(tmp_path / "index", user=("me", "right-password")) as settings:
        (tmp_path / "home/.pypirc").write_text(
            "[distutils]\nindex-servers = mine\n[mine]\n"
            f"repository = {settings.upload_url}\nusername = me\npassword = right-password\n"
        )
        result = releasekit(
            "-C", tmp_path / "repo", "publish", "--yes", "--output", "json",
            "--registry", f"pypi={settings.upload_url},{settings.index_url}",
            env={"HOME": str(tmp_path / "home")},
        )  # fmt: skip
    assert result.code == 0, result.err
    assert published(result) == {"pypi:acme-text"}


def test_two_registries_in_one_workspace_each_with_its_own_password(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    """One named by uv's index, one given on the command line; the third package goes elsewhere."""
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": (), "acme-app": ("acme-text",), "plain": ()})
    with (
        embedded.pypi_registry(tmp_path / "one", user=("me", "password-of-one")) as one,
        embedded.pypi_registry(tmp_path / "two", user=("me", "password-of-two")) as two,
    ):
        manifest = root / "pyproject.toml"
        manifest.write_text(
            manifest.read_text()
            + f'\n[[tool.uv.index]]\nname = "in-house"\nurl = "{one.index_url}"\n'
            + f'publish-url = "{one.upload_url}"\n'
        )
        (root / "releasekit.toml").write_text(
            '[packages."acme-*"]\nregistry = "in-house"\n[packages."*"]\nregistry = "second"\n'
        )
        result = releasekit(
            "-C", root, "publish", "--yes", "--output", "json",
            "--registry", f"second={two.upload_url},{two.index_url}",
            env={
                "UV_INDEX_IN_HOUSE_USERNAME": "me",
                "UV_INDEX_IN_HOUSE_PASSWORD": "password-of-one",
                "UV_INDEX_SECOND_USERNAME": "me",
                "UV_INDEX_SECOND_PASSWORD": "password-of-two",
            },
        )  # fmt: skip
    assert result.code == 0, result.err
    assert published(result) == {"pypi:acme-text", "pypi:acme-app", "pypi:plain"}
    held = {
        name: {file.name.partition("-")[0] for file in (tmp_path / name / "packages").iterdir()}
        for name in ("one", "two")
    }
    assert held == {"one": {"acme_text", "acme_app"}, "two": {"plain"}}


def test_an_unknown_registry_names_the_closest(releasekit: ReleaseKit, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    (root / "releasekit.toml").write_text(
        '[registries.internal]\nupload-url = "http://127.0.0.1:9/"\n\n'
        '[packages."acme-*"]\nregistry = "intrenal"\n'
    )
    result = releasekit("-C", root, "publish", "--yes")
    assert result.code == 2
    assert "releasekit.toml:5: there is no registry `intrenal`" in result.err
    assert "did you mean `internal`?" in result.err
    result = releasekit("-C", root, "publish", "--yes", "--registry", "pypy=http://127.0.0.1:9/")
    assert result.code == 2
    assert "did you mean `pypi`?" in result.err


@pytest.mark.parametrize("chosen", ["npm", "js"])
def test_a_registry_of_the_other_kind_is_refused(
    releasekit: ReleaseKit, tmp_path: Path, chosen: str
) -> None:
    root = tmp_path / "repo"
    write_sample(root, node={}, python={"acme-text": ()})
    (root / "releasekit.toml").write_text(
        '[registries.js]\nurl = "http://127.0.0.1:9/"\n'
        f'[packages.acme-text]\nregistry = "{chosen}"\n'
    )
    result = releasekit("-C", root, "publish", "--yes")
    assert result.code == 2
    assert f"registry `{chosen}` cannot take pypi:acme-text" in result.err


def test_an_address_of_the_other_kind_never_falls_back_to_the_public_registry(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    result = releasekit(
        "-C", tmp_path / "repo", "publish", "--yes", "--registry", "pypi=http://127.0.0.1:9/"
    )
    assert result.code == 2
    assert "`upload-url` and `index-url`" in result.err
