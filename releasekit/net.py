"""The only door to HTTP: one client for a run, and retries for reads alone.

An upload is never retried here: whether it may be sent again is for the run to decide, after it
has read back what the registry holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import random
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import structlog

from releasekit import __version__
from releasekit.errors import ReadsLimited, RegistryUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

log: structlog.stdlib.BoundLogger = structlog.get_logger()

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
RETRIED_ERRORS = (httpx.ConnectError, httpx.ReadTimeout, httpx.WriteTimeout, TimeoutError)
POOL_SIZE = 10
MAX_RETRIES = 3
BASE_DELAY = 0.5
MAX_DELAY = 60.0
LONGEST_WAIT = 5.0
"""Seconds that a read waits by itself when asked to; more closes the registry's lane."""
READ_WITHIN = 60.0
"""Seconds for one try of a read, all in all."""
UPLOAD_WITHIN = 120.0
SLOWEST_UPLOAD = 50_000
"""Bytes a second, on top of `UPLOAD_WITHIN`."""
_PIECE = 1 << 16
_READ_AT_ONCE = 1 << 20
_PRIVATE_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


class _Client(httpx.AsyncClient):
    """Requests wait for a place before the pool, which looks at all in it whenever one is done.

    And before their clocks start: the last of 700 reads has waited for all others.
    """

    def __init__(self, pool_size: int) -> None:
        super().__init__(
            headers={"User-Agent": f"releasekit/{__version__}"},
            limits=httpx.Limits(max_connections=pool_size, max_keepalive_connections=pool_size),
            timeout=httpx.Timeout(connect=10.0, read=60.0, write=60.0, pool=None),
            # One for the client and each proxy: reading all certificates takes 0.02 s.
            verify=httpx.create_ssl_context(),
        )
        self.places = asyncio.Semaphore(pool_size)


def _place(client: httpx.AsyncClient) -> contextlib.AbstractAsyncContextManager[None]:
    return client.places if isinstance(client, _Client) else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def http_client(pool_size: int = POOL_SIZE) -> AsyncIterator[httpx.AsyncClient]:
    async with _Client(pool_size) as client:
        yield client


async def send(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    pieces: Iterable[bytes],
    size: int,
    headers: Mapping[str, str],
    told: Callable[[float], None],
) -> httpx.Response:
    """Send a body of known size piece by piece, once; `told` is the share that has left."""
    request = client.build_request(
        method,
        url,
        headers={**headers, "Content-Length": str(size)},
        content=_counted(_gathered(pieces), size, told),
    )
    async with _place(client):
        return await client.send(request)


async def _counted(
    pieces: Iterator[bytes], size: int, told: Callable[[float], None]
) -> AsyncIterator[bytes]:
    """A big body is read in a thread: a slow disk holds up nobody else."""
    sent, in_thread = 0, size > _READ_AT_ONCE
    while True:
        piece = await asyncio.to_thread(next, pieces, None) if in_thread else next(pieces, None)
        if piece is None:
            return
        yield piece
        sent += len(piece)
        told(sent / size)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A form is dozens of short pieces, and each would be a write of its own."""
    held: list[bytes] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= _PIECE:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)


def upload_deadline(size: int) -> float:
    """Seconds for one upload, from the connection to the answer."""
    return UPLOAD_WITHIN + size / SLOWEST_UPLOAD


def is_private(url: str) -> bool:
    """Whether no public network, and so no CDN, stands between us and this address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)


def wait_of(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a registry asks us to wait: `Retry-After`, else `RateLimit`'s reset."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    if text:
        try:
            then = parsedate_to_datetime(text).timestamp()
        except ValueError:
            return None
        return max(0.0, then - (time.time() if now is None else now))
    # `limit=10, remaining=0, reset=20`, or the later `"default";r=0;t=20`.
    parts = headers.get("ratelimit", "").replace(";", ",").split(",")
    fields = dict(part.strip().partition("=")[::2] for part in parts)
    if fields.get("remaining", fields.get("r")) != "0":
        return None
    seconds = fields.get("reset", fields.get("t", ""))
    return float(seconds) if seconds.isascii() and seconds.isdigit() else None


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


async def require_answer(client: httpx.AsyncClient, url: str) -> None:
    """Raise where nobody answers; what an address for uploads says to this does not matter."""
    problem = ""
    for attempt in range(1 + MAX_RETRIES):
        if attempt:
            limit = BASE_DELAY * 2 ** (attempt - 1)
            await asyncio.sleep(random.uniform(0, limit))  # noqa: S311 - jitter, not a secret
        try:
            async with asyncio.timeout(READ_WITHIN):
                await client.head(url)
        except (httpx.HTTPError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            return
    raise RegistryUnreachable(url=url, problem=problem)


async def request_with_retry(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """GET with full jitter between tries; an answer below 500 other than 429 is final.

    A wait that the registry asks for is kept; a long one is for the whole run to keep.
    """
    problem, wait = "", None
    for attempt in range(1 + MAX_RETRIES):
        if attempt:
            limit = min(BASE_DELAY * 2 ** (attempt - 1), MAX_DELAY)
            jitter = random.uniform(0, limit)  # noqa: S311 - jitter, not a secret
            await asyncio.sleep(jitter if wait is None else wait)
        try:
            async with _place(client), asyncio.timeout(READ_WITHIN):
                answer = await client.get(url, headers=headers, follow_redirects=True)
        except RETRIED_ERRORS as error:
            problem, wait = f"{type(error).__name__}: {error}", None
            log.debug("request failed", url=url, attempt=attempt, problem=problem)
            continue
        except httpx.HTTPError as error:
            raise RegistryUnreachable(url=url, problem=f"{type(error).__name__}: {error}") from None
        if answer.status_code not in RETRIED_STATUSES:
            return answer
        wait = wait_of(answer.headers)
        if wait is not None and wait > LONGEST_WAIT:
            raise ReadsLimited(url=url, seconds=wait, now=asyncio.get_running_loop().time())
        problem = f"it answered {answer.status_code}"
        log.debug("request refused for now", url=url, attempt=attempt, status=answer.status_code)
    raise RegistryUnreachable(url=url, problem=problem)
