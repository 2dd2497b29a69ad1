"""Where the members of a JSON document stand in its text."""

from __future__ import annotations

import json
import re
from collections import defaultdict

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)

# Sections and their members: nothing deeper is ever edited.
_DEPTH = 2


def value_spans(text: str) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Start and end of the string values of a valid document's outer two levels.

    A key that stands twice has two spans.
    """
    found: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    keys: list[str | None] = []  # the open objects' current keys; None for an array
    awaits_value = False
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{":
                keys.append("")
                awaits_value = False
            case "[":
                keys.append(None)
            case "}" | "]":
                keys.pop()
                awaits_value = False
            case ",":
                awaits_value = False
            case ":":
                awaits_value = True
            case '"' if keys and keys[-1] is not None and not awaits_value:
                keys[-1] = str(json.loads(token[0]))
            case '"' if len(keys) <= _DEPTH:
                location = tuple(key for key in keys if key is not None)
                if len(location) == len(keys):
                    found[location].append(token.span())
    return dict(found)
