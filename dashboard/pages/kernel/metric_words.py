"""What a metric of ncu means, put together from its name.

ncu names metrics ``UNIT__COUNTER.ROLLUP.SUBMETRIC``: a counter of a unit, its values over all
instances of that unit rolled up, put into relation. What the metric sets say about a metric comes
first, then ``metric_words.toml``, whose pieces are put together. A name with a piece that is not
known is not explained: no guess is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from ncubble.dashboard.ui.figures import REASONS
from ncubble.profiling.metrics.generations import series_prefix
from ncubble.profiling.metrics.metrics import load_sets

UNEXPLAINED = "no description known"
_STALLED = "stalled"


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """The tables of ``metric_words.toml``."""
    text = files("ncubble.dashboard.pages.kernel").joinpath("metric_words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _of_sets() -> dict[str, str]:
    """What the metric sets say, by name, those of single chips included."""
    metrics = [metric for metric_set in load_sets().values() for metric in metric_set.metrics]
    # The first set that names a metric wins: iterate in reverse so that it overwrites others.
    return {name: metric.about for metric in metrics[::-1] for name in (metric.name, *metric.chips.values())}


@lru_cache(maxsize=1 << 13)
def explain(metric: str) -> str:
    """One or two sentences on what ``metric`` counts; empty where nothing here explains it."""
    if metric in _of_sets():
        return _of_sets()[metric]
    known, lead, bare = words(), "", metric
    if prefix := series_prefix().match(metric):
        lead, bare = "Sampled over time. ", metric[prefix.end() :]
    stem, _, suffix = bare.partition(".")
    if stem in known["exact"]:
        return lead + known["exact"][stem]
    for family, text in known["families"].items():
        if stem.startswith(family):
            return lead + text.format(rest=stem.removeprefix(family).replace("_", " "))
    counted, rolled = _counted(stem, known), _rolled(suffix, known)
    return f"{lead}{counted}{rolled}." if counted and rolled is not None else ""


def _counted(stem: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """``SM: Warp instructions executed, of the FMA pipe``; empty where a piece is not known."""
    if stem.startswith("derived__") and "__" in stem.removeprefix("derived__"):
        stem, _, factor = stem.removeprefix("derived__").rpartition("_x")
        inner = _counted(stem, known) if factor.isdecimal() else ""
        return f"{inner}, times {factor}" if inner else ""
    unit, _, counter = stem.partition("__")
    base = _longest(counter, known["counters"])
    if unit not in known["units"] or not base:
        return ""
    pieces = _qualified(counter[len(base) + 1 :], known["qualifiers"], base.endswith(_STALLED))
    if pieces is None:
        return ""
    text = _lowered(known["counters"][base])
    first = f"{text} {pieces.pop(0)}" if text.endswith(":") and pieces else text
    return f"{known['units'][unit]}: {', '.join([first, *pieces])}"


def _lowered(text: str) -> str:
    """The first letter small, unless the word is an abbreviation such as ``CTAs``."""
    return f"{text[:1].lower()}{text[1:]}" if text[1:2].islower() else text


def _qualified(rest: str, qualifiers: Mapping[str, str], stalled: bool) -> list[str] | None:
    """The words of all qualifiers in ``rest``; None where one is not known."""
    phrases: list[str] = []
    while rest:
        reason = _longest(rest, REASONS) if stalled and not phrases else ""
        piece = reason or _longest(rest, qualifiers)
        if not piece:
            return None
        phrases += filter(None, [REASONS[piece].label if reason else qualifiers[piece]])
        rest = rest[len(piece) + 1 :]
    return phrases


def _longest(text: str, table: Mapping[str, Any]) -> str:
    """The longest key that ``text`` begins with, up to its end or an underscore; empty where there
    is none."""
    pieces = text.split("_")
    starts = ("_".join(pieces[:count]) for count in range(len(pieces), 0, -1))
    return next((start for start in starts if start and start in table), "")


def _rolled(suffix: str, known: Mapping[str, Mapping[str, str]]) -> str | None:
    """``; average of one, percent of the peak rate`` of ``avg.pct_of_peak_sustained_elapsed``; None
    if not known."""
    if not suffix:
        return ""
    rollup, *rest = suffix.split(".")
    phrases = [known["rollups"].get(rollup), *(known["submetrics"].get(submetric) for submetric in rest)]
    return None if None in phrases else "; " + ", ".join(map(str, phrases))
