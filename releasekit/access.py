"""Who we are to a registry: a credential that was found, or one minted from the CI's word.

Minting is trusted publishing, the half that all registries share. A token is minted when it is
first needed, held until two thirds of its life are over, and minted anew when it is refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx

from releasekit import secrets
from releasekit.errors import RegistryUnreachable, TrustedPublishingFailed, TrustedPublishingRefused
from releasekit.net import request_with_retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

DEFAULT_LIFETIME = 900.0
"""Where the registry does not say: what PyPI's tokens live."""
NO_CREDENTIAL = "no credential was found"
TRUSTED = "trusted publishing"
_OK = range(200, 300)
_REQUEST_URL = "ACTIONS_ID_TOKEN_REQUEST_URL"
_REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - a variable's name


_NOT_AUTHORISED = frozenset({401, 403})


@dataclass(slots=True, kw_only=True)
class Access:
    """How one registry is told who we are."""

    found: secrets.Credential | None = None
    search: Callable[[], Awaitable[secrets.Credential | None]] | None = None
    """Where else to look, once, when a request is about to need it."""
    minter: Minter | None = None
    reading: secrets.Credential | None = None
    """For reads alone, where those have one of their own."""
    reads_as_it_writes: bool = False
    """The same origin serves both; a credential goes to no other."""
    _searched: bool = field(default=False, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def read_headers(self) -> dict[str, str]:
        credential = self.reading
        if credential is None and self.reads_as_it_writes:
            credential = await self._given()
        return credential.headers if credential else {}

    async def source(self) -> str | None:
        """Where an upload's credential comes from; None: there is none. Nothing is minted."""
        credential = await self._given()
        if credential is not None:
            return credential.source
        return TRUSTED if self.minter else None

    async def send(
        self,
        client: httpx.AsyncClient,
        request: Callable[[Mapping[str, str]], Awaitable[httpx.Response]],
    ) -> tuple[httpx.Response, str]:
        """The answer and the credential's source; a refused token is minted anew, once."""
        credential = await self._given()
        if credential is not None or self.minter is None:
            answer = await request(credential.headers if credential else {})
            return answer, credential.source if credential else NO_CREDENTIAL
        credential = await self.minter.credential(client)
        if credential is None:
            return await request({}), f"{NO_CREDENTIAL}, and {self.minter.absent}"
        answer = await request(credential.headers)
        if answer.status_code not in _NOT_AUTHORISED:
            return answer, credential.source
        try:
            fresh = await self.minter.credential(client, refused=credential)
        except (TrustedPublishingFailed, TrustedPublishingRefused) as error:
            return answer, f"{credential.source}; {error.message}"
        return await request(fresh.headers if fresh else {}), credential.source

    async def _given(self) -> secrets.Credential | None:
        async with self._lock:
            if self.found is None and self.search is not None and not self._searched:
                self._searched = True
                self.found = await self.search()
        return self.found


def is_offered(environ: Mapping[str, str], *, audience: str, variable: str) -> bool:
    """Whether this CI can say who we are: GitLab by a variable, GitHub Actions by a request."""
    if given := environ.get(variable):
        return audience in _audiences(given)
    return bool(environ.get(_REQUEST_URL) and environ.get(_REQUEST_TOKEN))


async def identity(
    client: httpx.AsyncClient, environ: Mapping[str, str], *, audience: str, variable: str
) -> str:
    """The CI's signed word for this audience. A registry takes each only once."""
    if given := environ.get(variable):
        secrets.hide(given)
        if audience not in _audiences(given):
            raise TrustedPublishingRefused(
                step=f"reading `{variable}`",
                problem=f"it is not an identity for `{audience}`",
                hint=f'declare `{variable}` with `aud: "{audience}"` under `id_tokens`',
            )
        return given
    step = f"asking GitHub Actions for an identity for `{audience}`"
    url, token = environ.get(_REQUEST_URL), environ.get(_REQUEST_TOKEN)
    if not url or not token:
        raise TrustedPublishingRefused(
            step=step,
            problem=f"neither `{_REQUEST_URL}` nor `{variable}` is set",
            hint="on GitHub give the job `permissions: id-token: write`; "
            f"on GitLab declare `{variable}` under `id_tokens`",
        )
    asker = secrets.Credential(source=_REQUEST_TOKEN, secret=token)
    address = str(httpx.URL(url).copy_merge_params({"audience": audience}))
    try:
        answer = await request_with_retry(client, address, headers=asker.headers)
    except RegistryUnreachable as error:
        raise TrustedPublishingFailed(step=step, problem=error.message) from error
    value = read(answer, step=step).get("value")
    if not isinstance(value, str) or not value:
        raise TrustedPublishingFailed(step=step, problem="the answer holds no `value`")
    secrets.hide(value)
    return value


def claims_of(identity: str) -> dict[str, Any]:
    """What a signed identity says; nobody here can tell whether the signature is right."""
    try:
        payload = identity.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _audiences(identity: str) -> tuple[str, ...]:
    """For whom it is; whoever else got it could use it there."""
    audience = claims_of(identity).get("aud", ())
    if isinstance(audience, str):
        return (audience,)
    return tuple(map(str, audience)) if isinstance(audience, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    credential: secrets.Credential
    renew_at: float


@dataclass(slots=True, kw_only=True)
class Minter:
    """One token at a time, however many uploads want it."""

    mint: Callable[[httpx.AsyncClient], Awaitable[Minted | None]]
    """None: this registry does not take part in trusted publishing."""
    absent: str = "no trusted publishing there"
    """What is said then."""
    now: Callable[[], float] = time.time
    _held: Minted | None = field(default=None, init=False, repr=False)
    _refusal: TrustedPublishingRefused | None = field(default=None, init=False, repr=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def credential(
        self, client: httpx.AsyncClient, *, refused: secrets.Credential | None = None
    ) -> secrets.Credential | None:
        """The held token, or a new one where it is old or is the one that was just refused.

        A registry that has said no says so to every package: it is asked once.
        """
        async with self._lock:
            held = self._held
            if held is None or held.credential == refused or self.now() >= held.renew_at:
                if self._refusal is not None:
                    raise self._refusal
                try:
                    self._held = held = await self.mint(client)
                except TrustedPublishingRefused as error:
                    self._refusal = error
                    raise
            return held.credential if held else None


def minted(
    body: Mapping[str, Any], *, step: str, username: str | None, source: str, now: float
) -> Minted:
    """The token in a registry's answer, with the time to ask for the next."""
    token = body.get("token")
    if not isinstance(token, str) or not token:
        raise TrustedPublishingFailed(step=step, problem="the answer holds no `token`")
    lifetime = _expiry(body.get("expires"), now) - now
    if lifetime <= 0:  # a new token lives: one of the two clocks is wrong
        lifetime = DEFAULT_LIFETIME
    credential = secrets.Credential(source=source, secret=token, username=username)
    return Minted(credential=credential, renew_at=now + lifetime * 2 / 3)


async def post(
    client: httpx.AsyncClient,
    url: str,
    *,
    step: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Sent once: an identity is spent by it, whatever becomes of the answer."""
    try:
        return await client.post(url, json=body, headers=headers)
    except httpx.HTTPError as error:
        problem = f"{type(error).__name__}: {error}"
        raise TrustedPublishingFailed(step=step, problem=problem) from error


def read(
    answer: httpx.Response,
    *,
    step: str,
    hint: str | Callable[[frozenset[str]], str | None] | None = None,
) -> dict[str, Any]:
    """The answer's JSON; a refusal is told in the server's own words.

    The hint may depend on the codes that the server gives its reasons.
    """
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status_code not in _OK:
        problem = f"{answer.status_code}: {secrets.redact(_reasons(answer, body))}"
        if answer.is_server_error:
            raise TrustedPublishingFailed(step=step, problem=problem)
        told = hint(_codes(body)) if callable(hint) else hint
        raise TrustedPublishingRefused(step=step, problem=problem, hint=told)
    if not isinstance(body, dict):
        raise TrustedPublishingFailed(step=step, problem="the answer is no JSON object")
    return body


def _reasons(answer: httpx.Response, body: object) -> str:
    if isinstance(body, dict):
        errors = body.get("errors")
        if isinstance(errors, list) and errors:
            return "; ".join(_reason(one) for one in errors)
        for key in ("message", "error"):
            if body.get(key):
                return str(body[key])
    return answer.text[:300].strip() or answer.reason_phrase


def _codes(body: object) -> frozenset[str]:
    errors = body.get("errors") if isinstance(body, dict) else None
    listed = errors if isinstance(errors, list) else []
    return frozenset(str(one.get("code")) for one in listed if isinstance(one, dict))


def _reason(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    return f"`{error.get('code', 'unknown')}` {error.get('description', '')}".strip()


def _expiry(value: object, now: float) -> float:
    """PyPI gives seconds since the epoch, npm a date."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            pass
    return now + DEFAULT_LIFETIME
