"""Registries: what is read from them, what an upload can end in, signing, rehearsing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from releasekit.errors.base import DoNotRetry, ReleaseKitError, UsageError
from releasekit.errors.scheduling import RetryAt

if TYPE_CHECKING:
    from pathlib import Path


class RegistryUnreachable(ReleaseKitError):
    def __init__(self, *, url: str, problem: str) -> None:
        super().__init__(
            f"`{url}` cannot be read: {problem}",
            hint="check the address in the config or `--registry`, then run the command again",
        )


class OddAnswer(ReleaseKitError):
    def __init__(self, *, url: str, status: int, words: str) -> None:
        super().__init__(
            f"`{url}` answered {status}: {words[:300]}",
            hint="check the address and the credential, then run the command again",
        )


class IndexUnknown(UsageError):
    def __init__(self, *, registry: str) -> None:
        super().__init__(
            f"registry `{registry}` has an upload address but no index to read files back from",
            hint=f"set `index-url` beside `upload-url` in `[registries.{registry}]`",
        )


class UnreadableArtifact(ReleaseKitError):
    def __init__(self, *, file: Path, problem: str) -> None:
        super().__init__(f"`{file}` cannot be read: {problem}", hint="build it again")


class TrustedPublishingFailed(ReleaseKitError):
    def __init__(self, *, step: str, problem: str) -> None:
        super().__init__(
            f"trusted publishing failed while {step}: {problem}",
            hint="run the same command again; what was published stays so",
        )
        self.told = f"{step}: {problem}"


class TrustedPublishingRefused(DoNotRetry):
    def __init__(self, *, step: str, problem: str, hint: str | None = None) -> None:
        super().__init__(
            f"trusted publishing was refused while {step}: {problem}",
            hint=hint
            or "compare the publisher registered there with this repository, workflow "
            "and environment",
        )
        self.told = f"{step}: {problem}"


class CannotAttest(DoNotRetry):
    """`required`: the configuration says that nothing goes out unsigned."""

    def __init__(self, message: str, *, hint: str, required: bool) -> None:
        super().__init__(message, hint=hint)
        self.required = required


class SignerMissing(CannotAttest):
    def __init__(self, *, registry: str, required: bool) -> None:
        super().__init__(
            f"the files for `{registry}` cannot be signed: the libraries for it are not installed",
            hint="install `releasekit[attestations]`, for example with "
            "`uv tool install 'releasekit[attestations]'`",
            required=required,
        )


class SigningRefused(CannotAttest):
    def __init__(self, *, what: str, problem: str, hint: str | None, required: bool) -> None:
        super().__init__(
            f"{what} cannot be signed: {problem}",
            hint=hint or 'mend that, or set `attestations = "never"`',
            required=required,
        )


class SigningFailed(ReleaseKitError):
    def __init__(self, *, what: str, problem: str) -> None:
        super().__init__(
            f"signing {what} failed: {problem}",
            hint="run the same command again; nothing is uploaded before all is signed",
        )


class WrongAttestation(DoNotRetry):
    def __init__(self, *, file: Path, problem: str) -> None:
        super().__init__(
            f"`{file}` does not attest to the file beside it: {problem}",
            hint="look for the build step that made it; without it the file is signed anew",
        )


class UploadRefused(DoNotRetry):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"the registry refused `{file}`: {words}",
            hint=f"mend what it says about {package}, then run `releasekit publish` again",
        )


class OtherBytes(DoNotRetry):
    def __init__(self, *, package: str, file: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"the registry serves other bytes as `{file}`: {theirs}, ours are {ours}",
            hint=f"this version of {package} is taken; release a new one",
        )


class NeverVisible(DoNotRetry):
    def __init__(self, *, package: str, file: str, seconds: float) -> None:
        super().__init__(
            f"`{file}` was accepted, but the registry did not show it within {seconds:g} s",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class TransientRefusal(ReleaseKitError):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"the registry could not take `{file}`: {words}",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class LostUpload(ReleaseKitError):
    def __init__(self, *, package: str, file: str, words: str) -> None:
        super().__init__(
            f"`{file}` was sent, but {words}, and the registry does not show it",
            hint=f"run `releasekit publish` again: it asks the registry for {package} first",
        )


class RateLimited(RetryAt):
    DEFAULT_SECONDS = 10.0

    def __init__(self, *, file: str, words: str, seconds: float | None, now: float) -> None:
        wait = self.DEFAULT_SECONDS if seconds is None else seconds
        super().__init__(
            f"the registry asks to wait {wait:g} s before `{file}`: {words}",
            not_before=now + wait,
            closes_lane=True,
            hint="run `releasekit publish` again later to continue",
        )


class QuotaReached(DoNotRetry):
    def __init__(self, *, package: str, words: str, seconds: float | None) -> None:
        when = "tomorrow"
        if seconds is not None:
            when = time.strftime("at %Y-%m-%d %H:%M", time.localtime(time.time() + seconds))
        super().__init__(
            f"the registry takes no more new projects for now: {words}",
            hint=f"run `releasekit publish` again {when}; it continues with {package}",
        )


class NotAuthorised(DoNotRetry):
    def __init__(self, *, package: str, file: str, words: str, credential: str = "") -> None:
        which = f" ({credential})" if credential else ""
        hint = f"check the credential for {package}{which}"
        if credential == "trusted publishing":
            # The token is good; it is not for this project.
            hint = f"register this repository and workflow as a trusted publisher of {package}, too"
        super().__init__(
            f"the registry does not let us publish `{file}`: {words}",
            hint=f"{hint}, then run `releasekit publish` again",
        )


class CredentialRefused(ReleaseKitError):
    def __init__(
        self, *, registry: str, credential: str, words: str, anonymous: bool = False
    ) -> None:
        super().__init__(
            f"`{registry}` does not know the credential from {credential}: {words}",
            hint=f"make a new token for `{registry}` and put it where the old one was",
        )
        self.anonymous = anonymous
        """It was not refused: the registry only knows nobody by it."""


class ReadsLimited(RetryAt):
    def __init__(self, *, url: str, seconds: float, now: float) -> None:
        super().__init__(
            f"the registry asks to wait {seconds:g} s before `{url}` is read again",
            not_before=now + seconds,
            closes_lane=True,
            hint="run `releasekit publish` again later to continue",
        )


class NotEmbedded(ReleaseKitError):
    def __init__(self, *, package: str, address: str) -> None:
        super().__init__(
            f"a rehearsal would have sent {package} to {address}",
            hint="nothing was sent; please report this: a rehearsal knows no registry but its own",
        )


class NpmRegistryNotInstalled(ReleaseKitError):
    def __init__(self, *, reason: str) -> None:
        super().__init__(
            f"the npm registry for this machine could not be installed: {reason}",
            hint="npm needs its own registry for this once; without Node.js on the PATH the npm"
            " packages are left out",
        )


class FolderTaken(UsageError):
    def __init__(self, *, folder: Path) -> None:
        super().__init__(f"`{folder}` is not empty", hint="name a folder that does not exist yet")
