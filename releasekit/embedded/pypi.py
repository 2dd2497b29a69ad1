"""A child process: pypiserver under waitress, on a port of its own, until stdin closes."""

from __future__ import annotations

import os
import socket
import sys
import threading

from releasekit.embedded import USER_VARIABLE


def main() -> None:
    import pypiserver
    import waitress

    user, _, password = os.environ.pop(USER_VARIABLE, "").partition(":")
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
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    # wsgiref, pypiserver's own choice, drops some of twenty concurrent uploads.
    waitress.serve(app, sockets=[listener], threads=8, _quiet=True)


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
