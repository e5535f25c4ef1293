"""Answers of bounded size: lists are truncated until the answer fits, and the answer says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

LARGEST_B = 4096
"""Maximum bytes of an answer as JSON: at most 2,000 tokens in the questions of
``benchmarks.answers``."""
LONGEST_TEXT = 300
"""Maximum length of a string, if the answer is too large."""


def fitted(answer: dict[str, Any], more: str, largest: int = LARGEST_B) -> dict[str, Any]:
    """``answer`` truncated to at most ``largest`` bytes of JSON. ``more`` states how to get the
    rest. Modifies the lists of ``answer``."""
    if size(answer) <= largest:
        return answer
    answer["more"] = more
    while size(answer) > largest and (longest := max(_lists(answer), key=size, default=None)):
        longest.pop()
    if size(answer) > largest:
        answer = {key: _shortened(value) for key, value in answer.items()}
    for key in sorted(set(answer) - {"more"}, key=lambda key: -size(answer[key])):
        if size(answer) <= largest:
            break
        del answer[key]
    return answer


def size(value: Any) -> int:
    """Size of ``value`` in bytes, as sent to the client."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode(errors="replace"))


def _lists(value: Any) -> Iterator[list[Any]]:
    """All non-empty lists in it."""
    if isinstance(value, list) and value:
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return value[: LONGEST_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    return value
