"""A program: a Python index in memory whose answers cost the same however much it holds.

pypiserver looks at all of its files for each request, so it cannot show whether *we* are linear.
Ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_FIELD = re.compile(rb'name="(name|sha256_digest)"\r\n\r\n([^\r\n]+)\r\n')
_FILE = re.compile(rb'name="content"; filename="([^"]+)"')
held: dict[str, dict[str, str]] = {}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b" ", 2)
            length = int(found[1]) if (found := _LENGTH.search(head)) else 0
            begun, left = b"", length
            while left:  # the file itself is not kept
                piece = await reader.read(min(left, 1 << 16))
                begun, left = (begun + piece)[: 1 << 16], left - len(piece)
            status, body = stored(begun) if method == b"POST" else page(path.decode())
            kind = "text/html" if method == b"GET" else "text/plain"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def stored(form: bytes) -> tuple[str, str]:
    fields = {name.decode(): value.decode() for name, value in _FIELD.findall(form)}
    file = _FILE.search(form)
    if file is None or len(fields) != 2:
        return "400 odd form", ""
    name = re.sub(r"[-_.]+", "-", fields["name"]).lower()
    held.setdefault(name, {})[file[1].decode()] = fields["sha256_digest"]
    return "200 OK", ""


def page(path: str) -> tuple[str, str]:
    files = held.get(path.rstrip("/").rpartition("/")[2])
    if files is None:
        return "404 Not Found", ""
    links = (f'<a href="/f/{name}#sha256={digest}">{name}</a>' for name, digest in files.items())
    return "200 OK", "\n".join(links)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


def end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_stdin, daemon=True).start()
    asyncio.run(main())
