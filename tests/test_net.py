from __future__ import annotations

import httpx
import pytest

from releasekit import net
from releasekit.errors import RegistryUnreachable

pytestmark = pytest.mark.anyio
URL = "http://127.0.0.1/simple/x/"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("releasekit.net.asyncio.sleep", sleep)
    return waits


def client(*answers: int | Exception) -> tuple[httpx.AsyncClient, list[httpx.Request]]:
    """A client whose server gives these answers in turn, and what it was asked."""
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer, text="hello")

    return httpx.AsyncClient(transport=httpx.MockTransport(handle)), asked


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_passing_trouble_is_tried_again(status: int, no_waiting: list[float]) -> None:
    http, asked = client(status, status, 200)
    assert (await net.request_with_retry(http, URL)).status_code == 200
    assert len(asked) == 3
    assert len(no_waiting) == 2
    assert 0 <= no_waiting[0] <= 0.5
    assert 0 <= no_waiting[1] <= 1.0


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("x"), httpx.ReadTimeout("x"), httpx.WriteTimeout("x")]
)
async def test_a_lost_connection_is_tried_again(error: Exception) -> None:
    http, asked = client(error, 200)
    assert (await net.request_with_retry(http, URL)).status_code == 200
    assert len(asked) == 2


@pytest.mark.parametrize("status", [200, 304, 400, 401, 403, 404, 410, 501])
async def test_any_other_answer_is_final(status: int) -> None:
    http, asked = client(status)
    assert (await net.request_with_retry(http, URL)).status_code == status
    assert len(asked) == 1


async def test_after_three_retries_the_registry_counts_as_unreachable() -> None:
    http, asked = client(503, 503, 503, 503)
    with pytest.raises(RegistryUnreachable, match="it answered 503"):
        await net.request_with_retry(http, URL)
    assert len(asked) == 4


async def test_another_transport_error_is_loud_at_once() -> None:
    http, asked = client(httpx.RemoteProtocolError("garbage"))
    with pytest.raises(RegistryUnreachable, match="garbage"):
        await net.request_with_retry(http, URL)
    assert len(asked) == 1


async def test_the_shared_client_has_a_pool_of_ten_and_names_us() -> None:
    async with net.http_client() as http:
        assert http.headers["User-Agent"].startswith("releasekit/")
        pool = http._transport._pool  # type: ignore[attr-defined]
        assert pool._max_connections == 10
