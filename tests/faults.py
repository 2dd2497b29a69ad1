"""A registry on loopback that misbehaves where a real one would not do so on demand.

It stands before a real one and passes everything on, but for the faults asked for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from releasekit.config import RegistrySettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How one upload is answered."""

    status: int = 0
    """0: the connection is dropped without an answer."""
    words: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    stored: bool = False
    """The registry behind got the file all the same."""


@contextlib.contextmanager
def faulty_registry(
    behind: RegistrySettings,
    *,
    uploads: dict[str, list[Fault]] | None = None,
    refuse: str | None = None,
    corrupt: str | None = None,
    drop_answer: str | None = None,
    delay: float = 0.0,
    permits: threading.Semaphore | None = None,
) -> Iterator[RegistrySettings]:
    """`uploads` maps a package's name to the faults of its first uploads, in turn.

    `refuse`, `drop_answer`: all uploads of a package; `corrupt` its hashes; `delay` every upload;
    where there are `permits`, each upload waits for one.
    """
    faults = {name: list(listed) for name, listed in (uploads or {}).items()}
    if refuse:
        faults[refuse] = [Fault(status=403, words="Forbidden")] * 99
    if drop_answer:
        faults[drop_answer] = [Fault(stored=True)] * 99
    lock = threading.Lock()

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
            if permits is not None:
                permits.acquire(timeout=60)
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            fault = self._next_fault(sent)
            if fault is None or fault.stored:
                answer = self._pass_on(sent)
            if fault is None:
                self._answer(answer.status_code, answer.content, "application/json")
            elif fault.status:
                self._answer(fault.status, b"{}", "application/json", fault.words, fault.headers)
            else:
                self.close_connection = True

        do_PUT = do_POST  # noqa: N815

        def _next_fault(self, sent: bytes) -> Fault | None:
            with lock:
                for name, listed in faults.items():
                    form = f'name="name"\r\n\r\n{name}\r\n'.encode()
                    mine = form in sent or self.path.endswith(name.replace("/", "%2F"))
                    if listed and mine:
                        return listed.pop(0)
            return None

        def _pass_on(self, body: bytes) -> httpx.Response:
            origin = urlsplit(behind.upload_url or behind.url or "")
            kept = {"content-type", "accept", "authorization"}
            headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
            url = f"{origin.scheme}://{origin.netloc}{self.path}"
            return httpx.request(self.command, url, content=body, headers=headers, trust_env=False)

        def _answer(
            self,
            status: int,
            body: bytes,
            kind: str,
            words: str | None = None,
            headers: Mapping[str, str] | None = None,
        ) -> None:
            self.send_response(status, words)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that does not wait for its answer is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        if behind.url:
            yield RegistrySettings(url=address)
        else:
            yield RegistrySettings(upload_url=address, index_url=f"{address}simple/")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
