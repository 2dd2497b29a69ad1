"""Run a graph of async jobs, each the moment its last dependency is done.

It knows nothing of building, uploading or screens, and imports nothing of releasekit but errors.
"""

from __future__ import annotations

from releasekit.errors import DoNotRetry, RetryAt
from releasekit.scheduler.control import Scheduler
from releasekit.scheduler.words import (
    Added,
    ConcurrencyChanged,
    Event,
    Finished,
    LaneClosed,
    LaneOpened,
    LaneStats,
    OnError,
    Outcome,
    Paused,
    Result,
    Resumed,
    RetryScheduled,
    Started,
    Stats,
    Status,
    Stopping,
    Unblocked,
)

__all__ = [
    "Added",
    "ConcurrencyChanged",
    "DoNotRetry",
    "Event",
    "Finished",
    "LaneClosed",
    "LaneOpened",
    "LaneStats",
    "OnError",
    "Outcome",
    "Paused",
    "Result",
    "Resumed",
    "RetryAt",
    "RetryScheduled",
    "Scheduler",
    "Started",
    "Stats",
    "Status",
    "Stopping",
    "Unblocked",
]
