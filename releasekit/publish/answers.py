"""What an upload's answer means when the registry does not serve the file: one table.

Asked only after the hash was looked for: a file that is served is done whatever the answer was, and
other bytes under our name are an error whatever the answer was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from releasekit.errors import (
    LostUpload,
    NotAuthorised,
    QuotaReached,
    RateLimited,
    ReleaseKitError,
    TransientRefusal,
    UploadRefused,
)
from releasekit.net import wait_of

if TYPE_CHECKING:
    from releasekit.ecosystems import Answer


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    TRANSIENT = "transient"
    RATE_LIMITED = "rate limited"
    QUOTA = "quota"
    NOT_AUTHORISED = "not authorised"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The answer was lost on the way."""


_TRANSIENT = frozenset({408, 409, 420, 425, 500, 502, 503, 504})
_NOT_AUTHORISED = frozenset({401, 403, 404})
"""npm answers 404 to a PUT that it does not allow."""
_TOO_MANY = 429
# A limit on new projects lasts for a day: waiting in the run is no help.
_QUOTA_WORDS = ("new project", "too many new")
# npm says 403 for a version that exists or existed; no credential will help.
_TAKEN_WORDS = ("cannot publish over", "already exists", "previously published")


def classify(answer: Answer | None) -> Verdict:
    if answer is None:
        return Verdict.UNKNOWN
    words = answer.words.lower()
    if 200 <= answer.status < 300:  # noqa: PLR2004
        return Verdict.ACCEPTED
    if any(taken in words for taken in _TAKEN_WORDS):
        return Verdict.REFUSED
    if answer.status == _TOO_MANY:
        return Verdict.QUOTA if any(q in words for q in _QUOTA_WORDS) else Verdict.RATE_LIMITED
    if answer.status in _TRANSIENT:
        return Verdict.RATE_LIMITED if wait_of(answer.headers) else Verdict.TRANSIENT
    return Verdict.NOT_AUTHORISED if answer.status in _NOT_AUTHORISED else Verdict.REFUSED


def error_for(
    verdict: Verdict, answer: Answer | None, *, package: str, file: str, words: str, now: float
) -> ReleaseKitError:
    """What the scheduler gets for a file that is not served; `now` is the loop's clock."""
    match verdict:
        case Verdict.UNKNOWN:
            return LostUpload(package=package, file=file, words=words)
        case Verdict.RATE_LIMITED:
            wait = wait_of(answer.headers) if answer else None
            return RateLimited(file=file, words=words, seconds=wait, now=now)
        case Verdict.QUOTA:
            wait = wait_of(answer.headers) if answer else None
            return QuotaReached(package=package, words=words, seconds=wait)
        case Verdict.NOT_AUTHORISED:
            credential = answer.credential if answer else ""
            return NotAuthorised(package=package, file=file, words=words, credential=credential)
        case Verdict.TRANSIENT:
            return TransientRefusal(package=package, file=file, words=words)
        case _:
            return UploadRefused(package=package, file=file, words=words)
