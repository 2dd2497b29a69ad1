"""PyPI's trusted publishing: audience, identity, and one token for all projects of a publisher."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from releasekit import access
from releasekit.ecosystems.python.credentials import TOKEN_USER
from releasekit.errors import RegistryUnreachable, TrustedPublishingFailed
from releasekit.net import request_with_retry
from releasekit.secrets import variable_part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

_NOT_FOUND = 404


def is_offered(environ: Mapping[str, str]) -> bool:
    return any(
        access.is_offered(environ, audience=audience, variable=_variable(audience))
        for audience in ("pypi", "testpypi")
    )


def is_offered_at_all(environ: Mapping[str, str]) -> bool:
    """Also for an audience that only the index itself can name."""
    return is_offered(environ) or any(
        value for name, value in environ.items() if name.endswith("_ID_TOKEN")
    )


def _variable(audience: str) -> str:
    return f"{variable_part(audience)}_ID_TOKEN"


def minter(
    address: str, environ: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> access.Minter:
    """For the index that takes uploads at this address."""
    parts = urlsplit(address)
    origin = f"{parts.scheme}://{parts.netloc}"

    async def mint(client: httpx.AsyncClient) -> access.Minted:
        audience = await _audience(client, origin)
        identity = await access.identity(
            client,
            environ,
            audience=audience,
            variable=_variable(audience),
        )
        step = f"trading the identity for a token of `{origin}`"
        answer = await access.post(
            client, f"{origin}/_/oidc/mint-token", step=step, body={"token": identity}
        )
        return access.minted(
            access.read(answer, step=step, hint=lambda codes: _remedy(codes, identity, origin)),
            step=step,
            username=TOKEN_USER,
            source=access.TRUSTED,
            now=now(),
        )

    return access.Minter(mint=mint, now=now)


def _remedy(codes: frozenset[str], identity: str, origin: str) -> str | None:
    """What to change, by the code that the index gives its refusal."""
    if codes & {"invalid-publisher", "invalid-pending-publisher"}:
        who = _publisher(access.claims_of(identity))
        return (
            f"register exactly this publisher at `{origin}`, for each project or as a pending one "
            f"for a new project: {who}"
        )
    if "invalid-reuse-token" in codes:
        return "this CI signs once for each job: run the same command in a new job"
    if "not-enabled" in codes:
        return "the index has switched trusted publishing off for now; publish with a token"
    return None


def _publisher(claims: Mapping[str, object]) -> str:
    """The fields that the index compares, as it names them; the rest of the claims says no more."""
    workflow = str(claims.get("workflow_ref") or claims.get("ci_config_ref_uri") or "")
    file = workflow.partition("@")[0]
    file = file.partition("//")[2] if "project_path" in claims else file.rpartition("/")[2]
    told = {
        "repository": claims.get("repository") or claims.get("project_path"),
        "workflow": file,
        "environment": claims.get("environment") or "(none)",
    }
    return ", ".join(f"{name} `{value}`" for name, value in told.items() if value)


async def _audience(client: httpx.AsyncClient, origin: str) -> str:
    step = f"asking `{origin}` for its audience"
    try:
        answer = await request_with_retry(client, f"{origin}/_/oidc/audience")
    except RegistryUnreachable as error:
        raise TrustedPublishingFailed(step=step, problem=error.message) from error
    hint = (
        "this registry has no trusted publishing; give it a credential and set "
        '`trusted-publishing = "never"`'
        if answer.status_code == _NOT_FOUND
        else None
    )
    audience = access.read(answer, step=step, hint=hint).get("audience")
    if not isinstance(audience, str) or not audience:
        raise TrustedPublishingFailed(step=step, problem="the answer holds no `audience`")
    return audience
