"""A CI and a registry on loopback that play the steps of trusted publishing, and their refusals.

Real registries trust only real CIs. This one is as strict: a signed identity is for one audience
and is taken once.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST_TOKEN = "request-token-of-the-ci"
EXCHANGE = "/-/npm/v1/oidc/token/exchange/package/"


def signed(audience: str, number: int = 0, **claims: object) -> str:
    """An identity as far as anybody here looks into it."""
    now = int(time.time())
    body = {
        "aud": audience,
        "jti": number,
        "iss": "https://token.example",
        "sub": "https://ci.example/acme/mono/release.yml",
        "iat": now - 1,
        "exp": now + 300,
        "repository_visibility": "public",
        **claims,
    }
    header = _base64({"alg": "RS256", "typ": "JWT"})
    return f"{header}.{_base64(body)}.{_base64(f'signature{number}')}"


def _base64(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def claims_of(identity: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(identity.split(".")[1] + "=="))
    return claims


@dataclass
class TrustingRegistry:
    address: str = ""
    audience: str = "pypi"
    lifetime: float | None = 900.0
    """What a token's `expires` says; None leaves it out."""
    clock: float = 1_000_000.0
    supported: bool = True
    refuse_minting: dict[str, Any] | None = None
    refuse_minting_with: int = 422
    claims: dict[str, object] = field(default_factory=dict)
    """What the CI says of itself, where that is not as usual."""
    steps: list[str] = field(default_factory=list)
    audiences: list[str] = field(default_factory=list)
    """For whom identities were asked."""
    bodies: list[bytes] = field(default_factory=list)
    """Of the uploads."""
    spent: set[str] = field(default_factory=set)
    tokens: dict[str, str] = field(default_factory=dict)
    """Token → the package it is for, or the empty string."""
    used: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    packages: dict[str, Any] = field(default_factory=dict)
    """npm's packuments."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environ(self) -> dict[str, str]:
        """As GitHub Actions would set it."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.address}ci?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    def revoke_all(self) -> None:
        self.tokens.clear()

    def answer(self, method: str, path: str, authorization: str, body: bytes) -> tuple[int, object]:
        parts = urlsplit(path)
        if parts.path == "/ci":
            return self._identify(parts.query, authorization)
        if parts.path.startswith("/_/oidc/") and not self.supported:
            return 404, {"message": "not found"}
        if parts.path == "/_/oidc/audience":
            self.steps.append("audience")
            return 200, {"audience": self.audience}
        if parts.path == "/_/oidc/mint-token":
            return self._mint(json.loads(body)["token"], audience=self.audience, package="")
        if parts.path.startswith(EXCHANGE):
            if not self.supported:
                return 404, {"error": "not found"}
            package = unquote(parts.path.removeprefix(EXCHANGE))
            identity = authorization.removeprefix("Bearer ")
            return self._mint(identity, audience="npm:127.0.0.1", package=package)
        if method == "GET":
            return self._read(parts.path)
        return self._store(parts.path, authorization, body)

    def _identify(self, query: str, authorization: str) -> tuple[int, object]:
        self.steps.append("identity")
        if authorization != f"Bearer {REQUEST_TOKEN}":
            return 401, {"message": "who are you"}
        asked = parse_qs(query)
        assert asked["api-version"] == ["2.0"]
        self.audiences.append(asked["audience"][0])
        identity = signed(asked["audience"][0], len(self.steps), **self.claims)
        return 200, {"value": identity}

    def _mint(self, identity: str, *, audience: str, package: str) -> tuple[int, object]:
        self.steps.append(f"mint {package}".strip())
        if self.refuse_minting is not None:
            return self.refuse_minting_with, self.refuse_minting
        claims = claims_of(identity)
        if claims["aud"] != audience:
            return 422, {"errors": [{"code": "invalid-audience", "description": claims["aud"]}]}
        if identity in self.spent:
            return 422, {"errors": [{"code": "invalid-reuse-token", "description": "used before"}]}
        self.spent.add(identity)
        token = f"minted-token-{len(self.spent)}"
        self.tokens[token] = package
        expires = {} if self.lifetime is None else {"expires": self.clock + self.lifetime}
        return 200, {"success": True, "token": token, **expires}

    def _read(self, path: str) -> tuple[int, object]:
        if path.startswith("/simple/"):
            files = [
                {"filename": name, "hashes": {"sha256": digest}, "url": name}
                for name, digest in self.files.items()
                if name.startswith(path.split("/")[2].replace("-", "_"))
            ]
            return 200, {"files": files}
        name = unquote(path[1:])
        return (200, self.packages[name]) if name in self.packages else (404, {})

    def _store(self, path: str, authorization: str, body: bytes) -> tuple[int, object]:
        kind, _, value = authorization.partition(" ")
        token = base64.b64decode(value).decode().partition(":")[2] if kind == "Basic" else value
        self.used.append(token)
        if token not in self.tokens or self.tokens[token] not in {"", unquote(path[1:])}:
            return 403, {"error": "invalid or expired token"}
        self.bodies.append(body)
        digest = re.search(rb'name="sha256_digest"\r\n\r\n([0-9a-f]{64})', body)
        name = re.search(rb'filename="([^"]+)"', body)
        if digest and name:
            self.files[name[1].decode()] = digest[1].decode()
        if body.startswith(b"{"):
            document = json.loads(body)
            self.packages[document["name"]] = document
        return 200, {}


@contextlib.contextmanager
def trusting_registry(**settings: Any) -> Iterator[TrustingRegistry]:  # noqa: ANN401 - its fields
    registry = TrustingRegistry(**settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            with registry.lock:
                status, content = registry.answer(
                    self.command,
                    self.path,
                    self.headers.get("Authorization", ""),
                    self.rfile.read(length),
                )
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the server finds its methods by these names
        do_PUT = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
