"""Signed statements about the files we upload: PEP 740 for Python, SLSA provenance for npm.

The half that both share. The CI's word is traded for a certificate of a few minutes, and every
signature becomes an entry of a public log that nobody can take back: so nothing here runs before
everything is built and inspected.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from releasekit import access, secrets
from releasekit.config import Attestations
from releasekit.errors import (
    ReleaseKitError,
    SignerMissing,
    SigningFailed,
    SigningRefused,
    TrustedPublishingFailed,
    TrustedPublishingRefused,
)
from releasekit.workers import detached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Self

    import httpx
    import sigstore.sign

    from releasekit.config import RegistrySettings

_T = TypeVar("_T")

AUDIENCE = "sigstore"
VARIABLE = "SIGSTORE_ID_TOKEN"
"""As npm, cosign and GitLab's own examples call it."""
SIGN_WITHIN = 60.0
# Fulcio's certificates live for ten minutes; one serves all files until then.
_CERTIFICATE_SECONDS = 480.0
_LONGEST_WORDS = 300
_NEEDED = ("pypi_attestations", "sigstore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """What is configured for one registry, and where the CI's word comes from."""

    wish: Attestations = Attestations.NEVER
    trust_config: Path | None = None
    """A Sigstore of one's own; None: the public one."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, settings: RegistrySettings | None, environ: Mapping[str, str]) -> Self:
        if settings is None:
            return cls()
        place = Path(settings.trust_config) if settings.trust_config else None
        return cls(wish=settings.attestations, trust_config=place, environ=environ)

    @property
    def required(self) -> bool:
        return self.wish is Attestations.ALWAYS

    @property
    def is_offered(self) -> bool:
        return access.is_offered(self.environ, audience=AUDIENCE, variable=VARIABLE)

    def require_signer(self, registry: str) -> None:
        """What the registry cannot know: whether this machine can sign at all."""
        if any(importlib.util.find_spec(name) is None for name in _NEEDED):
            raise SignerMissing(registry=registry, required=self.required)
        if self.trust_config is not None and not self.trust_config.is_file():
            raise SigningRefused(
                what=f"the files for `{registry}`",
                problem=f"`{self.trust_config}` is not a file",
                hint="name the file in `trust-config`, from the root of the repository",
                required=self.required,
            )
        if not self.is_offered:
            raise SigningRefused(
                what=f"the files for `{registry}`",
                problem=f"this environment offers no identity for `{AUDIENCE}`",
                hint="on GitHub give the job `permissions: id-token: write`; on GitLab declare "
                f'`{VARIABLE}` with `aud: "{AUDIENCE}"` under `id_tokens`; elsewhere set '
                '`attestations = "auto"`',
                required=self.required,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    content: bytes
    log_index: int
    """Where the public log holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestor:
    """How the files of one package are signed, and what is asked before."""

    signing: Signing
    suffix: str
    needs_public_source: bool
    sign: Callable[[sigstore.sign.Signer, Path], Signed]
    """Blocks; sends the signature to the log."""
    check: Callable[[Path, bytes], None]
    """Whether a statement that lies beside a file is about that file; raises."""
    ready: Callable[[httpx.AsyncClient], Awaitable[None]] | None = None
    """Asked once everything is built; raises where the registry would not take a statement."""

    def beside(self, file: Path) -> Path:
        return file.with_name(file.name + self.suffix)


@dataclass(slots=True, kw_only=True)
class Signer:
    """Signs at one Sigstore. It says who we are when the first file is about to be signed."""

    client: httpx.AsyncClient
    signing: Signing
    now: Callable[[], float] = time.monotonic
    _public: bool | None = field(default=None, init=False)
    _identity: str | None = field(default=None, init=False, repr=False)
    _held: sigstore.sign.Signer | None = field(default=None, init=False, repr=False)
    _until: float = field(default=0.0, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def source_is_public(self) -> bool:
        """As the CI's signed word has it; what it does not say is not public."""
        async with self._lock:
            if self._public is None:
                self._identity = await self._ask()
            return bool(self._public)

    async def sign(
        self,
        what: str,
        make: Callable[[sigstore.sign.Signer], Signed],
        *,
        within: float = SIGN_WITHIN,
    ) -> Signed:
        async with self._lock:
            if self._held is None or self.now() >= self._until:
                identity, self._identity = self._identity or await self._ask(), None
                self._held = await self._guarded(what, lambda: self._open(identity), within)
                self._until = self.now() + _CERTIFICATE_SECONDS
            held = self._held
        return await self._guarded(what, lambda: make(held), within)

    async def _ask(self) -> str:
        try:
            identity = await access.identity(
                self.client, self.signing.environ, audience=AUDIENCE, variable=VARIABLE
            )
        except TrustedPublishingRefused as error:
            raise SigningRefused(
                what="the files", problem=error.told, hint=error.hint, required=True
            ) from error
        except TrustedPublishingFailed as error:
            raise SigningFailed(what="the files", problem=error.told) from error
        claims = access.claims_of(identity)
        told = claims.get("repository_visibility") or claims.get("project_visibility")
        self._public = told == "public"
        return identity

    def _open(self, identity: str) -> sigstore.sign.Signer:
        """Ask Fulcio for a certificate; its proof of publication is checked on the way."""
        from sigstore.models import ClientTrustConfig
        from sigstore.oidc import IdentityError, IdentityToken
        from sigstore.sign import Signer, SigningContext

        place = self.signing.trust_config
        trust = (
            ClientTrustConfig.from_json(place.read_text(encoding="utf-8"))
            if place
            else ClientTrustConfig.production()
        )
        # A PEP 740 attestation has no place for the timestamps that version 2 of the log needs,
        # and npm writes to version 1 as well.
        trust.force_tlog_version = 1
        context = SigningContext.from_trust_config(trust)
        try:
            token = IdentityToken(identity)
        except IdentityError as error:
            raise SigningRefused(
                what="the files",
                problem=f"the identity for `{AUDIENCE}` is not valid now: {error}",
                hint="a new job gets a new identity; run the same command there",
                required=True,
            ) from error
        return Signer(token, context)

    async def _guarded(self, what: str, call: Callable[[], _T], within: float) -> _T:
        """Sigstore's own client waits without end, and raises whatever its libraries raise."""
        try:
            return await detached(call, seconds=within, name="signing")
        except TimeoutError:
            problem = f"no answer came within {within:g} s"
            raise SigningFailed(what=what, problem=problem) from None
        except ReleaseKitError:
            raise
        except Exception as error:
            problem = secrets.redact(_words(error))
            raise SigningFailed(what=what, problem=problem) from error


def _words(error: BaseException) -> str:
    """With what lies below: some of Sigstore's errors say little or nothing themselves."""
    said = [type(error).__name__]
    below: BaseException | None = error
    while below is not None:
        if (text := str(below)) and text not in said:
            said.append(text[:_LONGEST_WORDS])
        below = below.__cause__
    return ": ".join(said)
