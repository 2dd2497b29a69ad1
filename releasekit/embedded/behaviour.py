"""How an embedded registry shall behave: told to the child in its environment, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "RELEASEKIT_EMBEDDED_BEHAVIOUR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How one upload is answered."""

    status: int
    words: str
    retry_after: int | None = None
    stored: bool = False
    """The file was kept all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    latency: float = 0.0
    """Seconds before each upload is looked at."""
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)
    """By the package's name: how its first uploads are answered, in turn."""
    own: tuple[str, ...] = ()
    """Names that this registry answers for, also while it holds nothing of them."""
    upstream: str | None = None
    """Where an npm registry looks for all other names; Python's clients look there themselves."""
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Upstreams by scope (`@acme`)."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Behaviour:
        body = json.loads(text or "{}")
        faults = {
            name: tuple(Fault(**fault) for fault in listed)
            for name, listed in body.pop("faults", {}).items()
        }
        return cls(**{**body, "faults": faults, "own": tuple(body.get("own", ()))})
