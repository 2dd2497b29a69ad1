from __future__ import annotations

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasekit import journal, secrets
from releasekit.errors import UnsendableCredential
from releasekit.secrets import Credential, origin, redact, split_url
from tests.sample import write_sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import ReleaseKit, Result

TOKEN = "s3cr3t/t0ken+with=odd&signs"


def forms(token: str) -> list[str]:
    """Every form of a token that a server could put into its words."""
    raw = token.encode()
    return [
        token,
        quote(token),
        quote(token, safe=""),
        quote(token, safe="").lower(),
        json.dumps(token)[1:-1],
        raw.hex(),
        *(base64.b64encode(before + raw + b"!").decode() for before in (b"", b"u:", b"user:")),
        base64.urlsafe_b64encode(b"__token__:" + raw).decode(),
    ]


@pytest.mark.parametrize("form", forms(TOKEN))
def test_a_credential_is_struck_out_in_every_form(form: str) -> None:
    Credential(source="HERE", secret=TOKEN, username="user")
    told = redact(f"403 you sent {form}, go away")
    assert secrets.STRUCK_OUT in told
    assert TOKEN not in told
    # Of a base64 text, the edges that also depend on the neighbours may stay.
    longest = max(len(part) for part in told.replace(secrets.STRUCK_OUT, " ").split())
    assert longest < 20


def test_words_without_a_secret_stay_as_they_are() -> None:
    assert redact("403 Forbidden") == "403 Forbidden"
    Credential(source="HERE", secret=TOKEN)
    assert redact("403 Forbidden") == "403 Forbidden"


@given(secret=st.text(min_size=4, max_size=40), before=st.binary(max_size=9))
def test_any_secret_is_found_within_any_base64(secret: str, before: bytes) -> None:
    secrets.hide(secret)
    assert secret not in redact(f"<{secret}>").replace(secrets.STRUCK_OUT, "")
    if len(secret.encode()) >= 8:
        text = base64.b64encode(before + secret.encode() + b"tail").decode()
        assert secrets.STRUCK_OUT in redact(text)


def test_a_credential_never_shows_its_secret() -> None:
    for credential in (
        Credential(source="A", secret=TOKEN),
        Credential(source="B", secret=TOKEN, username="user"),
        Credential(source="C", secret=base64.b64encode(b"user:hunter22").decode(), encoded=True),
    ):
        assert credential.secret not in repr(credential)
        assert credential.secret not in str(credential)
        assert f"source='{credential.source}'" in repr(credential)


def test_the_password_within_an_encoded_credential_is_hidden_too() -> None:
    Credential(source="C", secret=base64.b64encode(b"user:hunter22").decode(), encoded=True)
    assert redact("your password hunter22 is bad") == "your password [secret] is bad"


def test_basic_with_a_user_and_bearer_without() -> None:
    assert Credential(source="", secret="word", username="me").headers == {
        "Authorization": "Basic " + base64.b64encode(b"me:word").decode()
    }
    assert Credential(source="", secret="word").authorization == "Bearer word"
    assert Credential(source="", secret="bWU6d29yZA==", encoded=True).authorization == (
        "Basic bWU6d29yZA=="
    )


@pytest.mark.parametrize("secret", ["two\nlines", "with\0zero", "nicht-ascii-ü"])
def test_what_no_header_can_carry_is_refused_without_showing_it(secret: str) -> None:
    with pytest.raises(UnsendableCredential) as caught:
        Credential(source="NPM_TOKEN", secret=secret)
    assert "NPM_TOKEN" in caught.value.message
    assert secret not in caught.value.message


def test_an_address_loses_its_user() -> None:
    shown, credential = split_url("https://me:p%40ss@host.example:8443/up/?a=b", source="config")
    assert shown == "https://host.example:8443/up/?a=b"
    assert credential == Credential(source="config", username="me", secret="p@ss")
    assert split_url("https://host.example/", source="") == ("https://host.example/", None)
    assert split_url("https://me@host.example/", source="") == ("https://host.example/", None)


def test_an_origin_is_scheme_host_and_port() -> None:
    assert origin("https://Host.example/a") == origin("https://host.example:443/b")
    assert origin("https://host.example/") != origin("http://host.example/")
    assert origin("https://host.example/") != origin("https://host.example:8443/")
    assert origin("https://host.example/") != origin("https://host.example.evil/")


@contextlib.contextmanager
def echoing_registry(*, reads: int) -> Iterator[str]:
    """Refuses every upload, and says in every way it can what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(reads)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(403)

        do_PUT = do_POST  # noqa: N815 - the server finds its methods by these names

        def _answer(self, status: int) -> None:
            sent = self.headers.get("Authorization", "nothing")
            kind, _, value = sent.partition(" ")
            token = base64.b64decode(value).decode() if kind == "Basic" else value
            words = " ".join((sent, token, *forms(token), quote(sent)))
            body = json.dumps({"error": words}).encode() if status != 404 else b"{}"
            self.send_response(status, words)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def everything_told(result: Result, root: Path) -> str:
    kept = [
        file.read_text(errors="replace")
        for file in (root / ".releasekit").rglob("*")
        if file.is_file() and "artifacts" not in file.parts
    ]
    return "\n".join((result.out, result.err, *kept))


def assert_no_form_of(token: str, told: str) -> None:
    raw = token.encode()
    assert token not in told
    assert quote(token, safe="") not in told
    assert raw.hex() not in told
    for before in range(3):
        inner = base64.b64encode(bytes(before) + raw).decode()[4:-4]
        assert inner not in told, before


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("reads", [404, 403])
@pytest.mark.parametrize("where", ["environment", "address"])
def test_a_registry_that_echoes_the_python_token_cannot_make_us_tell_it(
    releasekit: ReleaseKit, tmp_path: Path, output: str, reads: int, where: str
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    token = f"pypi-{TOKEN}"
    with echoing_registry(reads=reads) as address:
        upload, env = address, {"RELEASEKIT_PYPI_TOKEN": token}
        if where == "address":
            upload, env = address.replace("//", f"//me:{quote(token, safe='')}@"), {}
        result = releasekit(
            "-v", "--debug", "publish", "--yes", "--output", output,
            "--registry", f"pypi={upload},{address}simple/",
            cwd=tmp_path / "repo", env=env,
        )  # fmt: skip
    assert result.code == 1
    told = everything_told(result, tmp_path / "repo")
    assert secrets.STRUCK_OUT in told
    if reads == 404:
        assert "403" in result.out
        [run] = (tmp_path / "repo/.releasekit/runs").iterdir()
        assert secrets.STRUCK_OUT in (run / journal.FILE_NAME).read_text()
    assert_no_form_of(token, told)


def test_a_registry_that_echoes_the_npm_token_cannot_make_us_tell_it(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo", python={}, node={"@acme/parser": ()})
    with echoing_registry(reads=404) as address:
        result = releasekit(
            "-v", "--debug", "publish", "--yes", "--output", "json",
            "--registry", f"npm={address}",
            cwd=tmp_path / "repo", env={"NPM_TOKEN": TOKEN},
        )  # fmt: skip
    assert result.code == 1
    told = everything_told(result, tmp_path / "repo")
    assert secrets.STRUCK_OUT in told
    assert "check the credential for npm:@acme/parser (NPM_TOKEN)" in result.out
    assert_no_form_of(TOKEN, told)


def test_the_log_strikes_secrets_out(releasekit: ReleaseKit, tmp_path: Path) -> None:
    """A registry that is down is logged with its problem; the log knows the secret's forms."""
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    address = f"http://127.0.0.1:9/{TOKEN}/"
    result = releasekit(
        "-v", "publish", "--yes", "--registry", f"pypi={address},{address}simple/",
        cwd=tmp_path / "repo", env={"RELEASEKIT_PYPI_TOKEN": TOKEN},
    )  # fmt: skip
    assert "request failed" in result.err
    assert_no_form_of(TOKEN, result.out + result.err)
