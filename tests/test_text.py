from __future__ import annotations

import pytest

from releasekit.ui.text import bytes_in_words, clean, in_ascii


@pytest.mark.parametrize(
    "unsafe",
    ["\x1b[2J", "\x9b2J", "\x07", "\r", "\n", "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff",
     "\u2028", "\u2029", "\ue000", "\U000e0041"],
    ids=ascii,
)  # fmt: skip
def test_nothing_that_moves_a_cursor_or_turns_a_line_gets_through(unsafe: str) -> None:
    assert clean(f"a{unsafe}b") == f"a�{unsafe[1:]}b"


@pytest.mark.parametrize("text", ["acme-text 1.0", "größe", "名前", "e\u0301", "🚀", "[bold]x[/]"])
def test_what_is_only_text_stays(text: str) -> None:
    assert clean(text) == text


def test_lines_stay_where_they_are_wanted() -> None:
    assert clean("a\nb\rc", lines=True) == "a\nb�c"


def test_ascii_keeps_the_meaning_of_our_own_signs() -> None:
    assert in_ascii("a → b · c… ✓ ✗ ü") == "a -> b | c... + x ?"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2_500_000, "2.5 MB"),
        (3 * 10**12, "3000.0 GB"),
    ],
)
def test_sizes(size: int, words: str) -> None:
    assert bytes_in_words(size) == words
