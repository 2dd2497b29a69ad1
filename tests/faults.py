"""A registry on loopback that misbehaves where a real one would not do so on demand.

It stands before a real one and passes everything on, but for the faults asked for.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from releasekit.config import RegistrySettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How one upload is answered."""

    status: int = 0
    """0: the connection is dropped without an answer."""
    words: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    stored: bool = False
    """The registry behind got the file all the same."""
    cut: bool = False
    """The connection ends in the middle of the body."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """How reads are answered instead."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/html"
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    """Bytes that were announced and do not come."""


@dataclass(kw_only=True)
class Watch:
    """What a registry saw, and who wants to know at once."""

    uploads: list[str] = field(default_factory=list)
    """The file of each upload, in the order in which they came in whole."""
    stored: list[str] = field(default_factory=list)
    """Those that the registry behind has accepted."""
    accepts: tuple[str, ...] = ()
    """The credentials that uploads are taken with, as sent; none: all are."""
    on_arrival: Callable[[str], None] = lambda _: None
    """Before a file is passed on."""
    on_stored: Callable[[str], None] = lambda _: None
    """After a file is stored, before it is answered."""


@contextlib.contextmanager
def faulty_registry(
    behind: RegistrySettings,
    *,
    uploads: dict[str, list[Fault]] | None = None,
    refuse: str | None = None,
    corrupt: str | None = None,
    drop_answer: str | None = None,
    delay: float = 0.0,
    gate: threading.Event | None = None,
    on_read: Callable[[], None] = lambda: None,
    permits: threading.Semaphore | None = None,
    watch: Watch | None = None,
    reads: Callable[[str], Page | None] = lambda _: None,
) -> Iterator[RegistrySettings]:
    """`uploads` maps a package's name to the faults of its first uploads, in turn.

    `refuse`, `drop_answer`: all uploads of a package; `corrupt` its hashes; `delay` every upload;
    where there are `permits`, each upload waits for one, and all wait until `gate` is set.
    `on_read` is called before each read is answered; `reads` maps the path of a read to what is
    answered instead.
    """
    seen = watch or Watch()
    faults = {name: list(listed) for name, listed in (uploads or {}).items()}
    if refuse:
        faults[refuse] = [Fault(status=403, words="Forbidden")] * 99
    if drop_answer:
        faults[drop_answer] = [Fault(stored=True)] * 99
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            on_read()
            page = reads(self.path)
            if page is not None:
                self._answer(
                    page.status, page.body, page.kind, headers=page.headers, missing=page.missing
                )
                return
            answer = self._pass_on(b"")
            body = answer.content
            if corrupt and corrupt in self.path:
                body = body.replace(b"#sha256=", b"#sha256=0000")
            self._answer(answer.status_code, body, answer.headers.get("content-type", ""))

        def do_POST(self) -> None:
            time.sleep(delay)
            if gate is not None:
                gate.wait(60)
            if permits is not None:
                permits.acquire(timeout=60)
            length = int(self.headers["Content-Length"])
            sent = self.rfile.read(length // 2)
            fault = self._next_fault(sent)
            if fault is not None and fault.cut:
                self.close_connection = True
                return
            sent += self.rfile.read(length - len(sent))
            file = _file_in(sent, self.path)
            with lock:
                seen.uploads.append(file)
            seen.on_arrival(file)
            if seen.accepts and self.headers.get("Authorization") not in seen.accepts:
                self._answer(401, b"{}", "application/json", "Token expired")
                return
            if fault is None or fault.stored:
                answer = self._pass_on(sent)
                if answer.is_success:
                    with lock:
                        seen.stored.append(file)
                    seen.on_stored(file)
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
            return client.request(self.command, url, content=body, headers=headers)

        def _answer(
            self,
            status: int,
            body: bytes,
            kind: str,
            words: str | None = None,
            headers: Mapping[str, str] | None = None,
            missing: int = 0,
        ) -> None:
            self.send_response(status, words)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = self.close_connection or bool(missing)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that does not wait for its answer is what some tests are about."""

    client = httpx.Client(trust_env=False, timeout=30)
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
        client.close()


def _file_in(body: bytes, path: str) -> str:
    """The name of an uploaded file: in the form, or as npm names its attachment."""
    form = re.search(rb'name="content"; filename="([^"]+)"', body)
    attached = re.search(rb'"_attachments":\{"([^"]+)"', body)
    found = form or attached
    return found[1].decode() if found else path
