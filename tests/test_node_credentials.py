"""Which credential an npm registry gets: as npm itself decides, and against a real registry."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from releasekit import embedded, workspace
from releasekit.access import Access
from releasekit.config import RegistrySettings
from releasekit.ecosystems import Choice
from releasekit.ecosystems.node import credentials
from releasekit.ecosystems.node.credentials import Npmrc
from releasekit.ecosystems.node.registry import NpmRegistry, registries_for
from releasekit.errors import CredentialRefused, UnreadableCredentials
from releasekit.net import http_client
from releasekit.secrets import Credential
from tests.sample import write_sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conftest import ReleaseKit

BASIC = base64.b64encode(b"me:password").decode()
PASSWORD = base64.b64encode(b"password").decode()


def npmrc(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Npmrc:
    (tmp_path / ".npmrc").write_text(text)
    return Npmrc.read((tmp_path / ".npmrc",), environ or {})


def authorization(settings: Npmrc, url: str) -> str | None:
    credential = settings.credential(url)
    return credential.authorization if credential else None


FILES = {
    "token": "//npm.example/:_authToken=tokentoken\n",
    "auth": f"//npm.example/:_auth={BASIC}\n",
    "password": f"//npm.example/:username=me\n//npm.example/:_password={PASSWORD}\n",
    "user alone": "//npm.example/:username=me\n",
    "token before auth": f"//npm.example/:_auth={BASIC}\n//npm.example/:_authToken=tokentoken\n",
    "auth before password": f"//npm.example/:_auth={BASIC}\n//npm.example/:username=you\n"
    f"//npm.example/:_password={PASSWORD}\n",
    "no slash": "//npm.example:_authToken=tokentoken\n",
    "deeper": "//npm.example/:_authToken=root-token\n//npm.example/team/:_authToken=team-token\n",
    "deeper without slash": "//npm.example/team:_authToken=team-token\n",
    "port": "//npm.example:8443/:_authToken=port-token\n",
    "other host": "//example/:_authToken=other\n//npm.example.evil/:_authToken=evil\n",
    "quoted": '"//npm.example/:_authToken" = "token # token"\n',
    "comments": "; //npm.example/:_authToken=no\n# x\n//npm.example/:_authToken=yes-token ; said\n",
    "variable": "//npm.example/:_authToken=${SET}\n",
    "variable in a key": "//${HOST}/:_authToken=tokentoken\n",
    "optional variable": "//npm.example/:_authToken=${UNSET?}token${SET}\n",
    "twice": "//npm.example/:_authToken=first-token\n//npm.example/:_authToken=second-token\n",
}
URLS = (
    "https://npm.example/@acme%2fparser",
    "https://npm.example/team/@acme%2fparser",
    "https://npm.example/teams/parser",
    "https://npm.example:8443/parser",
    "https://other.example/parser",
)
ASK_NPM = """
const [modules, folder, ...urls] = process.argv.slice(1);
const ini = require(modules + "/ini");
const replace = require(modules + "/@npmcli/config/lib/env-replace.js");
const getAuth = require(modules + "/npm-registry-fetch/lib/auth.js");
const fs = require("fs");
const answers = {};
for (const name of fs.readdirSync(folder)) {
  const options = {};
  const read = ini.parse(fs.readFileSync(folder + "/" + name, "utf8"));
  for (const [key, value] of Object.entries(read))
    options[replace(key, process.env)] = replace(value, process.env);
  answers[name] = urls.map((url) => {
    const { token, auth } = getAuth(url, options);
    return token ? "Bearer " + token : auth ? "Basic " + auth : null;
  });
}
console.log(JSON.stringify(answers));
"""


def test_npmrc_is_read_as_npm_reads_it(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not on this machine")
    modules = Path(shutil.which("npm") or "").resolve().parent.parent / "node_modules"
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    environ = {"SET": "from-environment", "HOST": "npm.example"}
    child = subprocess.run(
        ["node", "-e", ASK_NPM, modules, tmp_path, *URLS],
        env=os.environ | environ,
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = json.loads(child.stdout)
    ours = {
        name: [authorization(Npmrc.read((tmp_path / name,), environ), url) for url in URLS]
        for name in FILES
    }
    assert ours == theirs
    assert sum(answer is not None for answers in ours.values() for answer in answers) > len(FILES)


def test_a_variable_that_is_not_set_is_no_password(tmp_path: Path) -> None:
    settings = npmrc(tmp_path, "//npm.example/:_authToken=${UNSET}\n")
    assert settings.credential("https://npm.example/parser") is None


def test_the_nearest_file_wins_and_the_environment_before_it(tmp_path: Path) -> None:
    for folder, token in (("package", "near-token"), (".", "far-token")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".npmrc").write_text(f"//npm.example/:_authToken={token}\n")
    environ: dict[str, str] = {}
    files = credentials.files_of(tmp_path, ("package",), environ)
    assert authorization(Npmrc.read(files, environ), "https://npm.example/x") == "Bearer near-token"
    environ = {"npm_config_//npm.example/:_authToken": "env-token"}
    assert authorization(Npmrc.read(files, environ), "https://npm.example/x") == "Bearer env-token"


@pytest.mark.parametrize("variable", ["NPM_CONFIG_USERCONFIG", "npm_config_userconfig"])
def test_the_users_file_is_in_the_home_or_where_npm_is_told(tmp_path: Path, variable: str) -> None:
    home = credentials.files_of(tmp_path / "repo", (), {"HOME": str(tmp_path)})
    assert home == (tmp_path / "repo/.npmrc", tmp_path / ".npmrc")
    told = credentials.files_of(tmp_path, (), {"HOME": "/nowhere", variable: "/etc/mine"})
    assert told[-1] == Path("/etc/mine")


def test_a_password_that_is_not_base64_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    settings = npmrc(tmp_path, "//npm.example/:username=me\n//npm.example/:_password=plain!word\n")
    with pytest.raises(UnreadableCredentials) as caught:
        settings.credential("https://npm.example/parser")
    assert ".npmrc" in caught.value.message
    assert "plain!word" not in caught.value.message


@pytest.mark.parametrize("variable", ["NODE_AUTH_TOKEN", "NPM_TOKEN"])
def test_the_environments_token_is_for_the_default_registry_alone(
    tmp_path: Path, variable: str
) -> None:
    environ = {variable: "tokentoken"}
    empty = npmrc(tmp_path, "")
    url = "https://npm.example/parser"
    found = credentials.resolve(name="npm", url=url, npmrc=empty, environ=environ)
    assert found is not None
    assert (found.secret, found.source) == ("tokentoken", variable)
    assert credentials.resolve(name="internal", url=url, npmrc=empty, environ=environ) is None
    environ["RELEASEKIT_INTERNAL_TOKEN"] = "own-token"
    own = credentials.resolve(name="internal", url=url, npmrc=empty, environ=environ)
    assert own is not None
    assert own.source == "RELEASEKIT_INTERNAL_TOKEN"


def chosen(
    root: Path, environ: Mapping[str, str], settings: RegistrySettings | None = None
) -> dict[str, NpmRegistry]:
    found = workspace.load(root)
    choices = [
        Choice(package=package, registry="npm", settings=settings)
        for package in found.packages
        if package.publishable
    ]
    return registries_for(choices, found, environ)


def test_a_scopes_registry_takes_its_packages_and_not_the_default_ones_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    write_sample(tmp_path, python={}, node={"@acme/parser": (), "plain": ()})
    (tmp_path / ".npmrc").write_text(
        "@acme:registry=http://npm.example/team\n//npm.example/team/:_authToken=team-token\n"
    )
    environ = {"NPM_TOKEN": "default-token", "HOME": str(tmp_path / "home")}
    registries = chosen(tmp_path, environ)
    scoped, plain = registries["npm:@acme/parser"], registries["npm:plain"]
    assert (scoped.name, scoped.address) == ("npm.example", "http://npm.example/team/")
    assert scoped.access.found is not None
    assert scoped.access.found.secret == "team-token"
    assert (plain.name, plain.address) == ("npm", "http://127.0.0.1:9/")
    assert plain.access.found is not None
    assert plain.access.found.secret == "default-token"
    for registry in registries.values():
        assert "token" not in repr(registry)


def test_a_manifest_cannot_lead_the_default_token_to_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    write_sample(tmp_path, python={}, node={"plain": ()})
    [manifest] = [file for file in tmp_path.rglob("package.json") if '"plain"' in file.read_text()]
    body = json.loads(manifest.read_text())
    body["publishConfig"] = {"registry": "http://evil.example/"}
    manifest.write_text(json.dumps(body))
    registry = chosen(tmp_path, {"NPM_TOKEN": "default-token"})["npm:plain"]
    assert registry.address == "http://evil.example/"
    assert registry.access.found is None
    configured = RegistrySettings(url="http://me:password@npm.example")
    registry = chosen(tmp_path, {}, configured)["npm:plain"]
    assert registry.address == "http://npm.example/"
    assert registry.access.found is not None
    assert registry.access.found.authorization == f"Basic {BASIC}"


def add_user(address: str) -> str:
    """`npm adduser`, as the client does it."""
    answer = httpx.put(
        f"{address}-/user/org.couchdb.user:somebody",
        json={"name": "somebody", "password": "a-long-password"},
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def test_a_private_registry_takes_its_token_from_the_environment_or_npmrc(
    releasekit: ReleaseKit, tmp_path: Path, npm_modules: Path
) -> None:
    root = tmp_path / "repo"
    write_sample(root, python={}, node={"@acme/parser": (), "@acme/cli": ("@acme/parser",)})
    (root / "releasekit.toml").write_text('[packages."npm:@acme/cli"]\nregistry = "npm"\n')
    with embedded.npm_registry(tmp_path / "npm", modules=npm_modules, private=True) as settings:
        address = str(settings.url)
        token = add_user(address)
        arguments = (
            "-C", root, "publish", "--yes", "--output", "json", "--registry", f"npm={address}",
        )  # fmt: skip
        none = releasekit(*arguments)
        assert none.code == 1
        assert "answered 401" in none.err
        by_environment = releasekit(*arguments, env={"NODE_AUTH_TOKEN": token})
        assert by_environment.code == 0, by_environment.err
        host = address.removeprefix("http:")
        (root / ".npmrc").write_text(f"{host}:_authToken=${{SOME_TOKEN}}\n")
        for manifest in root.rglob("package.json"):
            manifest.write_text(manifest.read_text().replace("1.0.0", "1.0.1"))
        by_file = releasekit(*arguments, env={"SOME_TOKEN": token})
        assert by_file.code == 0, by_file.err
        assert token not in by_file.out + by_file.err
        headers = {"Authorization": f"Bearer {token}"}
        versions = httpx.get(f"{address}@acme%2fcli", headers=headers).json()["versions"]
        assert set(versions) == {"1.0.0", "1.0.1"}


@pytest.mark.anyio
async def test_the_registry_tells_whose_token_it_is_and_refuses_a_wrong_one(
    tmp_path: Path, npm_modules: Path
) -> None:
    with embedded.npm_registry(tmp_path / "npm", modules=npm_modules, private=True) as settings:
        address = str(settings.url)
        mine = Credential(source="NPM_TOKEN", secret=add_user(address))
        wrong = Credential(source="NPM_TOKEN", secret="not-a-token-of-anybody")
        async with http_client() as client:
            known = NpmRegistry(name="npm", address=address, access=Access(found=mine))
            assert await known.whoami(client) == "somebody"
            assert await known.credential_source() == "NPM_TOKEN"
            nobody = NpmRegistry(name="npm", address=address)
            assert await nobody.whoami(client) is None
            assert await nobody.credential_source() is None
            refused = NpmRegistry(name="npm", address=address, access=Access(found=wrong))
            with pytest.raises(CredentialRefused, match="from NPM_TOKEN"):
                await refused.whoami(client)
