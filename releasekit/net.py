"""The only door to HTTP: one client for a run, and retries for reads alone.

An upload is never retried here: whether it may be sent again is for the run to decide, after it
has read back what the registry holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import httpx
import structlog

from releasekit import __version__
from releasekit.errors import RegistryUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

log: structlog.stdlib.BoundLogger = structlog.get_logger()

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
RETRIED_ERRORS = (httpx.ConnectError, httpx.ReadTimeout, httpx.WriteTimeout)
POOL_SIZE = 10
MAX_RETRIES = 3
BASE_DELAY = 0.5
MAX_DELAY = 60.0


@contextlib.asynccontextmanager
async def http_client(pool_size: int = POOL_SIZE) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        headers={"User-Agent": f"releasekit/{__version__}"},
        limits=httpx.Limits(max_connections=pool_size, max_keepalive_connections=pool_size),
        timeout=httpx.Timeout(connect=10.0, read=60.0, write=60.0, pool=None),
    ) as client:
        yield client


async def request_with_retry(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """GET with full jitter between tries; an answer below 500 other than 429 is final."""
    problem = ""
    for attempt in range(1 + MAX_RETRIES):
        if attempt:
            limit = min(BASE_DELAY * 2 ** (attempt - 1), MAX_DELAY)
            await asyncio.sleep(random.uniform(0, limit))  # noqa: S311 - jitter, not a secret
        try:
            answer = await client.get(url, headers=headers, follow_redirects=True)
        except RETRIED_ERRORS as error:
            problem = f"{type(error).__name__}: {error}"
            log.debug("request failed", url=url, attempt=attempt, problem=problem)
            continue
        except httpx.HTTPError as error:
            raise RegistryUnreachable(url=url, problem=f"{type(error).__name__}: {error}") from None
        if answer.status_code not in RETRIED_STATUSES:
            return answer
        problem = f"it answered {answer.status_code}"
        log.debug("request refused for now", url=url, attempt=attempt, status=answer.status_code)
    raise RegistryUnreachable(url=url, problem=problem)
