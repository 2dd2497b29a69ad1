"""The signs of the live view, for terminals with Unicode and without."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    good: str
    bad: str
    blocked: str
    note: str
    spinner: str
    full: str
    empty: str
    dot: str
    ellipsis: str
    selected: str
    is_ascii: bool = False


UNICODE = Symbols(
    good="✓", bad="✗", blocked="⊘", note="!", spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", full="━", empty="─", dot=" · ",
    ellipsis="…", selected="▸",
)  # fmt: skip
ASCII = Symbols(
    good="+", bad="x", blocked="-", note="!", spinner="|/-\\", full="#", empty=".", dot=" | ",
    ellipsis="~", selected=">", is_ascii=True,
)  # fmt: skip
