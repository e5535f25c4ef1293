"""Launches that fit what somebody types: found among all rows, the likely partners of a side first.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
MOST = 20
"""Suggestions that are shown at once."""
LONGEST = 200
"""Characters of a text that are looked for."""
_FIELDS = ("name", "kernel", "label", "shape", "gpu", "device", "cause", "path")


@dataclass(frozen=True)
class Searchable:
    """Rows with the text in which each is found, in lower case."""

    rows: tuple[tuple[str, Row], ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Searchable:
        """Of the rows of the overview, in their order."""
        return cls(tuple((_text_of(row), row) for row in rows))


@dataclass(frozen=True)
class Suggestions:
    """At most ``MOST`` launches, each for the repeats of it in its report, of which there are
    ``repeats``; and how many fit in all, without repeats."""

    rows: tuple[Row, ...]
    repeats: tuple[int, ...]
    total: int


def _text_of(row: Row) -> str:
    told = " ".join(str(row.get(name) or "") for name in _FIELDS)
    return f"{told} launch {row.get('launch')}".lower()


def suggest(among: Searchable, text: str, taken: Collection[str] = (), like: Row | None = None) -> Suggestions:
    """Launches in which every word of ``text`` occurs, without those whose id is ``taken``.

    First other configurations of the kernel of ``like``, then the rest of that kernel, then all
    others; the order of the rows decides among equals.
    """
    words = text.lower()[:LONGEST].split()
    fitting = (row for told, row in among.rows if all(word in told for word in words) and row["id"] not in taken)
    groups: dict[Hashable, list[Row]] = {}
    for row in fitting:
        groups.setdefault(_repeated(row), []).append(row)
    found = list(groups.values())
    if like is not None:
        kernel, label = like["kernel"], like["label"]
        found.sort(key=lambda group: (group[0]["kernel"] != kernel, group[0]["label"] == label))
    shown = found[:MOST]
    return Suggestions(tuple(group[0] for group in shown), tuple(len(group) for group in shown), len(found))


def _repeated(row: Row) -> Hashable:
    """Equal for launches of one report that a comparison takes for repeats of each other."""
    return str(row["id"]).partition("/")[0], row["demangled"], row["label"], row["shape"]
