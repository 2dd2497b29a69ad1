"""npm's trusted publishing: the audience is the registry's host; each package has its own token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from releasekit import access, secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

VARIABLE = "NPM_ID_TOKEN"
# What a registry without trusted publishing says to an address it does not know.
_NO_SUCH_THING = frozenset({404, 405, 501})
HINT = (
    "the package must exist and name this repository and workflow as its trusted publisher; "
    "publish its first version with a token"
)


def is_offered(address: str, environ: Mapping[str, str]) -> bool:
    return access.is_offered(environ, audience=_audience(address), variable=VARIABLE)


def _audience(address: str) -> str:
    return f"npm:{urlsplit(address).hostname}"


def minter(
    address: str,
    package: str,
    environ: Mapping[str, str],
    *,
    required: bool,
    now: Callable[[], float] = time.time,
) -> access.Minter:
    """Where it is not required, a registry that knows nothing of it is no error."""

    async def mint(client: httpx.AsyncClient) -> access.Minted | None:
        identity = await access.identity(
            client, environ, audience=_audience(address), variable=VARIABLE
        )
        step = f"trading the identity for a token for `{package}`"
        escaped = quote(package, safe="@")
        url = urljoin(address, f"/-/npm/v1/oidc/token/exchange/package/{escaped}")
        proof = secrets.Credential(source="the CI's identity", secret=identity)
        answer = await access.post(client, url, step=step, headers=proof.headers)
        if answer.status_code in _NO_SUCH_THING and not required:
            return None
        return access.minted(
            access.read(answer, step=step, hint=HINT),
            step=step,
            username=None,
            source=access.TRUSTED,
            now=now(),
        )

    return access.Minter(
        mint=mint,
        absent="no trusted publishing of it there: the package must exist, so publish its first "
        "version with a token",
        now=now,
    )
