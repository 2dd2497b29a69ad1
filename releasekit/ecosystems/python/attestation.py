"""PEP 740: a signed statement that this file was published from where it was built."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING

from releasekit.attestations import Attestor, Signed, Signing
from releasekit.config import Attestations
from releasekit.errors import SigningRefused, WrongAttestation

if TYPE_CHECKING:
    from pathlib import Path

    import sigstore.sign

SUFFIX = ".publish.attestation"


def attestor(name: str, signing: Signing, *, public: bool, trusted: bool) -> Attestor | None:
    """For an index that is `public`, where uploads are `trusted`: by trusted publishing."""
    if signing.wish is Attestations.NEVER:
        return None
    if not signing.required and not (public and trusted and signing.is_offered):
        return None
    if public and not trusted:
        # It answers 400, and the signatures would stand in the log for nothing.
        raise SigningRefused(
            what=f"the files for `{name}`",
            problem="this index takes attestations with trusted publishing only",
            hint='set `trusted-publishing = "always"` there, or `attestations = "auto"`',
            required=True,
        )
    signing.require_signer(name)
    return Attestor(
        signing=signing,
        suffix=SUFFIX,
        needs_public_source=not signing.required,
        sign=_sign,
        check=check,
    )


def _sign(signer: sigstore.sign.Signer, file: Path) -> Signed:
    from pypi_attestations import Attestation, Distribution

    attestation = Attestation.sign(signer, Distribution.from_file(file))
    [entry] = attestation.verification_material.transparency_entries
    return Signed(content=attestation.model_dump_json().encode(), log_index=int(entry["logIndex"]))


def check(file: Path, attestation: bytes) -> None:
    """That it speaks of these bytes; who signed it is for the index to judge."""
    wrong = partial(WrongAttestation, file=file.with_name(file.name + SUFFIX))
    try:
        envelope = json.loads(attestation)["envelope"]
        [subject] = json.loads(base64.b64decode(envelope["statement"]))["subject"]
        named, digest = subject["name"], subject["digest"]["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise wrong(problem="it is no attestation with one subject") from error
    with file.open("rb") as content:
        ours = hashlib.file_digest(content, "sha256").hexdigest()
    if (named, digest) != (file.name, ours):
        raise wrong(problem=f"it is about `{named}` with sha256 {digest}, ours is {ours}")
