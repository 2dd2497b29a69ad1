"""What the caller decides before a run, checked."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from releasekit.errors import BadSetting

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping

    from releasekit.scheduler.words import Event, Outcome

    Publish = Callable[[str], Awaitable[object]]
    PublishWithUpstream = Callable[[str, Mapping[str, Outcome]], Awaitable[object]]
    Backpressure = Callable[[str], Awaitable[bool | None]]
    Observe = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    max_retries: int
    retry_base_delay: float
    task_timeout: float | None
    backpressure: Backpressure | None
    observe: Observe | None
    rng: random.Random

    def __post_init__(self) -> None:
        check("max_retries", self.max_retries, at_least=0)
        check("retry_base_delay", self.retry_base_delay, at_least=0)
        if self.task_timeout is not None:
            check("task_timeout", self.task_timeout, at_least=0.001)


def check(setting: str, value: float, *, at_least: float) -> None:
    if not at_least <= value < math.inf:
        raise BadSetting(setting=setting, value=value, rule=f"at least {at_least:g}, and finite")


def needs_upstream(publish_fn: Publish | PublishWithUpstream) -> bool:
    """A second parameter with a default belongs to the caller, unless it is named `upstream`."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(publish_fn).parameters.values()
    except ValueError:
        return False
    second = [parameter for parameter in parameters if parameter.kind in positional][1:2]
    return any(p.default is p.empty or p.name == "upstream" for p in second)
