"""A registry on loopback that misbehaves where a real one would not do so on demand.

It stands before a real one and passes everything on, but for the fault asked for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from releasekit.config import RegistrySettings

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def faulty_registry(
    behind: RegistrySettings,
    *,
    refuse: str | None = None,
    corrupt: str | None = None,
    drop_answer: str | None = None,
    delay: float = 0.0,
) -> Iterator[RegistrySettings]:
    """Refuse a package's uploads, corrupt its hashes, drop the answers, or delay all uploads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = self._pass_on(b"")
            body = answer.content
            if corrupt and corrupt in self.path:
                body = body.replace(b"#sha256=", b"#sha256=0000")
            self._answer(answer.status_code, body, answer.headers.get("content-type", ""))

        def do_POST(self) -> None:
            time.sleep(delay)
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            if refuse and f'name="name"\r\n\r\n{refuse}\r\n'.encode() in sent:
                self._answer(403, b"not yours", "text/plain")
                return
            answer = self._pass_on(sent)
            if drop_answer and f'name="name"\r\n\r\n{drop_answer}\r\n'.encode() in sent:
                self.close_connection = True  # stored, but nobody says so
                return
            self._answer(answer.status_code, answer.content, "text/plain")

        def _pass_on(self, body: bytes) -> httpx.Response:
            origin = urlsplit(behind.upload_url or "")
            kept = {"content-type", "accept"}
            headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
            url = f"{origin.scheme}://{origin.netloc}{self.path}"
            return httpx.request(self.command, url, content=body, headers=headers, trust_env=False)

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield RegistrySettings(upload_url=address, index_url=f"{address}simple/")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
