"""Text from outside, made safe for a terminal."""

from __future__ import annotations

import unicodedata

# Control, format (bidi and zero-width among them), surrogate, private, unassigned; and the
# separators of lines and paragraphs, at which some readers end a line.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, *, lines: bool = False) -> str:
    """Without control and bidirectional characters; newlines stay where `lines` says so."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if (lines and character == "\n") or unicodedata.category(character) not in _UNSAFE
        else "�"
        for character in text
    )


_ASCII = str.maketrans({"→": "->", "·": "|", "…": "...", "✓": "+", "✗": "x"})


def in_ascii(text: str) -> str:
    """For terminals that show nothing else."""
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode()


def bytes_in_words(size: int) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000  # type: ignore[assignment]
    return f"{size:.1f} GB"
