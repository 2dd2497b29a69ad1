"""Edit N files as one transaction that no crash can break.

Everything a crash could need is on disk, synced, before the first file changes: a copy of every
original and of every pinned text, and a slot per file that holds the pinned text with the file's
mode. Writing the intent is the commit point. Pinning swaps slot and file, restoring swaps them
back, so the original inode returns with its mode, its times and its hard links.
"""

from releasekit.pins.apply import Edit
from releasekit.pins.guard import Applied, applied
from releasekit.pins.originals import Originals
from releasekit.pins.restore import (
    Decision,
    Recovery,
    State,
    pending,
    recover,
    recover_if_needed,
)

__all__ = [
    "Applied",
    "Decision",
    "Edit",
    "Originals",
    "Recovery",
    "State",
    "applied",
    "pending",
    "recover",
    "recover_if_needed",
]
