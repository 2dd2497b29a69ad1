"""A child process: pypiserver under waitress, on a port of its own, until stdin closes."""

from __future__ import annotations

import io
import os
import re
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from releasekit.embedded import USER_VARIABLE, behaviour

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from releasekit.embedded.behaviour import Behaviour, Fault

_NAME_IN_FORM = re.compile(rb'name="name"\r\n\r\n([^\r\n]+)\r\n')
_PAGE = re.compile(r"/simple/([^/]+)/?")
_EMPTY_PAGE = b"<!DOCTYPE html><html><body></body></html>"


def main() -> None:
    import pypiserver
    import waitress
    from pypiserver.backend import BackendProxy

    from releasekit.embedded.known_files import KnownFiles

    user, _, password = os.environ.pop(USER_VARIABLE, "").partition(":")
    told = behaviour.Behaviour.from_json(os.environ.pop(behaviour.VARIABLE, ""))
    guarded = {
        "authenticate": ["update", "download", "list"],
        "auther": lambda *given: given == (user, password),
    }
    open_to_all = {"authenticate": [], "password_file": "."}

    # No fallback: a miss must be a miss, not a redirect to a public index.
    app = pypiserver.app(
        roots=[sys.argv[1]],
        disable_fallback=True,
        hash_algo="sha256",
        **(guarded if user else open_to_all),
    )
    config = app._pypiserver_config  # noqa: SLF001 - `app()` takes a backend's name only
    config.backend = BackendProxy(KnownFiles(config))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    # wsgiref, pypiserver's own choice, drops some of twenty concurrent uploads.
    served = Behaving(app, told) if told != behaviour.Behaviour() else app
    waitress.serve(served, sockets=[listener], threads=8, _quiet=True)


class Behaving:
    """The registry with its latency and its faults, and with names that it keeps to itself."""

    def __init__(self, app: WSGIApplication, told: Behaviour) -> None:
        self._app = app
        self._told = told
        self._own = frozenset(_normal(name) for name in told.own)
        self._faults = {_normal(name): list(listed) for name, listed in told.faults.items()}
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "POST":
            return self._upload(environ, start)
        page = _PAGE.fullmatch(environ.get("PATH_INFO", ""))
        if page and _normal(page[1]) in self._own:
            return self._page(environ, start)
        return self._app(environ, start)

    def _upload(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        time.sleep(self._told.latency)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        fault = self._next_fault(body)
        if fault is None:
            return self._app(environ, start)
        if fault.stored:
            for _ in self._app(environ, lambda *_: lambda _: None):
                pass
        headers = [("Content-Type", "text/plain")]
        if fault.retry_after is not None:
            headers.append(("Retry-After", str(fault.retry_after)))
        start(f"{fault.status} {fault.words}", headers)
        return [fault.words.encode()]

    def _next_fault(self, body: bytes) -> Fault | None:
        found = _NAME_IN_FORM.search(body)
        with self._lock:
            waiting = self._faults.get(_normal(found[1].decode(errors="replace")) if found else "")
            return waiting.pop(0) if waiting else None

    def _page(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """An index that knows a name answers for it: a client asks no other index then."""
        said: list[Any] = []

        def hold(*answer: Any) -> Any:  # noqa: ANN401 - WSGI's own
            said[:] = answer
            return lambda _: None

        body = list(self._app(environ, hold))
        if str(said[0]).startswith("404"):
            start("200 OK", [("Content-Type", "text/html")])
            return [_EMPTY_PAGE]
        start(*said)
        return body


def _normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
