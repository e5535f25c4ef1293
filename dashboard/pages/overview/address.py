"""Addresses of the overview: search, sort order, filters, columns, figure, baseline and unit of time.

What a browser sends is checked here: unknown parts are dropped and counted, everything is limited in length. A field
that no launch has is dropped later, by what knows the launches (``query``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode

PATH = "/"
LONGEST = 16_384
LONGEST_TEXT = 200
MOST_SORTS, MOST_FILTERS, MOST_COLUMNS, MOST_CONDITIONS = 6, 20, 80, 4
FIGURES = ("utilization", "roofline")
TIMES = ("auto", "ns", "us", "ms")
TEXT_TYPES = ("contains", "notContains", "equals", "notEqual", "startsWith", "endsWith", "blank", "notBlank")
NUMBER_TYPES = (
    "equals",
    "notEqual",
    "greaterThan",
    "greaterThanOrEqual",
    "lessThan",
    "lessThanOrEqual",
    "inRange",
    "blank",
    "notBlank",
)
_FIELD = re.compile(r"[A-Za-z_]\w{0,39}(\.[A-Za-z_]\w{0,39})?")
_LAUNCH = re.compile(r"[0-9a-f]{8,64}/\d{1,9}")
Filter = dict[str, Any]


@dataclass(frozen=True)
class View:
    """What an address of the overview asks for. ``sort`` holds (field, largest first) in order of weight.

    ``filters`` is a filter model of AG Grid with parts that are known to be sound; ``columns`` is empty for the usual
    ones; ``said`` holds a sentence about what was dropped.
    """

    search: str = ""
    sort: tuple[tuple[str, bool], ...] = ()
    filters: Mapping[str, Filter] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    figure: str = FIGURES[0]
    pin: str = ""
    time: str = TIMES[0]
    said: tuple[str, ...] = ()

    def query(self) -> str:
        """The query of the address of this view, with its question mark; empty for the usual view."""
        pairs = (
            ("q", self.search),
            ("sort", ",".join(("-" if down else "") + name for name, down in self.sort)),
            ("filters", json.dumps(self.filters, separators=(",", ":")) if self.filters else ""),
            ("columns", ",".join(self.columns)),
            ("figure", "" if self.figure == FIGURES[0] else self.figure),
            ("pin", self.pin),
            ("time", "" if self.time == TIMES[0] else self.time),
        )
        kept = [(name, value) for name, value in pairs if value]
        return f"?{urlencode(kept, safe='/,:')}" if kept else ""

    def selecting(self) -> str:
        """What decides which launches are listed and in which order: a key for remembered results."""
        return replace(self, columns=(), figure=FIGURES[0], pin="", time=TIMES[0], said=()).query()


def view(search: str | None) -> View:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST], max_num_fields=None)
    one = {name: values[-1] for name, values in query.items()}
    filters, bad_filters = _filters(one.get("filters", ""))
    sort, bad_sort = _sort(one.get("sort", ""))
    dropped = [text for text, count in (("filter", bad_filters), ("sort order", bad_sort)) for _ in range(count)]
    columns = tuple(dict.fromkeys(name for name in one.get("columns", "").split(",") if _FIELD.fullmatch(name)))
    return View(
        one.get("q", "")[:LONGEST_TEXT],
        sort,
        filters,
        columns[:MOST_COLUMNS],
        one["figure"] if one.get("figure") in FIGURES else FIGURES[0],
        one["pin"] if _LAUNCH.fullmatch(one.get("pin", "")) else "",
        one["time"] if one.get("time") in TIMES else TIMES[0],
        said_of(dropped),
    )


def said_of(dropped: Sequence[str]) -> tuple[str, ...]:
    """One sentence for what was left out of a request; nothing where nothing was."""
    if not dropped:
        return ()
    words = [f"{dropped.count(what)} {what}{'s' if dropped.count(what) > 1 else ''}" for what in dict.fromkeys(dropped)]
    return (
        f"{' and '.join(words)} of this address cannot be read and {'is' if len(dropped) == 1 else 'are'} ignored.",
    )


def _sort(text: str) -> tuple[tuple[tuple[str, bool], ...], int]:
    given = [part for part in text.split(",") if part]
    found = {name: part.startswith("-") for part in given if _FIELD.fullmatch(name := part.removeprefix("-"))}
    return tuple(found.items())[:MOST_SORTS], sum(1 for part in given if not _FIELD.fullmatch(part.removeprefix("-")))


def _filters(text: str) -> tuple[dict[str, Filter], int]:
    """The sound parts of a filter model, and how many are not."""
    if not text:
        return {}, 0
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return {}, 1
    if not isinstance(given, dict):
        return {}, 1
    sound = {name: model for name, one in given.items() if _FIELD.fullmatch(name) and (model := _model(one))}
    kept = dict(list(sound.items())[:MOST_FILTERS])
    return kept, len(given) - len(kept)


def _model(given: Any) -> Filter | None:
    """The filter of one column: a condition, or several that are joined; None where it is not sound."""
    if not isinstance(given, dict):
        return None
    conditions = given.get("conditions")
    if conditions is None:
        return _condition(given)
    if not isinstance(conditions, list) or not 1 <= len(conditions) <= MOST_CONDITIONS:
        return None
    read = [_condition(one) if isinstance(one, dict) else None for one in conditions]
    if given.get("operator") not in ("AND", "OR") or any(one is None for one in read):
        return None
    kind = read[0]["filterType"] if read[0] else ""
    return {"filterType": kind, "operator": given["operator"], "conditions": read}


def _condition(given: Mapping[str, Any]) -> Filter | None:
    kind, how = given.get("filterType"), given.get("type")
    if kind == "text" and how in TEXT_TYPES:
        return _with_text(how, given.get("filter"))
    if kind == "number" and how in NUMBER_TYPES:
        return _with_numbers(how, given.get("filter"), given.get("filterTo"))
    return None


def _with_text(how: str, wanted: Any) -> Filter | None:
    if how in ("blank", "notBlank"):
        return {"filterType": "text", "type": how}
    if not isinstance(wanted, str) or not wanted:
        return None
    return {"filterType": "text", "type": how, "filter": wanted[:LONGEST_TEXT]}


def _with_numbers(how: str, wanted: Any, limit: Any) -> Filter | None:
    if how in ("blank", "notBlank"):
        return {"filterType": "number", "type": how}
    numbers = {"filter": wanted} | ({"filterTo": limit} if how == "inRange" else {})
    if not all(_is_number(value) for value in numbers.values()):
        return None
    return {"filterType": "number", "type": how, **numbers}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
