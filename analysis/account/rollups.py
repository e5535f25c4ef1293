"""Whether minimum, average, maximum and sum of one counter agree: ncu stores each, so that a changed one shows."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

_ROLLUP = re.compile(r"(.+)\.(min|avg|max|sum)(\..+)?")
_TOLERANCE = 1e-6
_SHARE_TOLERANCE = 5.0
"""Points: each unit has cycles of its own, so that the average of a share may lie a little beyond its extremes."""
_NOT_ORDERED = ".pct_of_peak_sustained_active"
"""Active cycles differ far more: a share of them is not compared with its extremes."""


def disagreements(scalars: Mapping[str, float]) -> Iterator[str]:
    """Sentences about counters whose roll-ups cannot be true together, NaN aside."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name, value in scalars.items():
        if (match := _ROLLUP.fullmatch(name)) and not math.isnan(value):
            found[match[1], match[3] or ""][match[2]] = value
    for (counter, share), values in found.items():
        if wrong := _wrong(share, values):
            yield f"{counter}{share}: {wrong}"


def _wrong(share: str, values: Mapping[str, float]) -> str:
    low, mean, high, total = (values.get(name, math.nan) for name in ("min", "avg", "max", "sum"))
    exact = _TOLERANCE * max(abs(low), abs(high), abs(mean)) + 1e-9
    slack = _SHARE_TOLERANCE if share.startswith(".pct") else exact
    if share != _NOT_ORDERED and (low > mean + slack or mean > high + slack):
        return f"an average of {mean:.6g} between {low:.6g} and {high:.6g}"
    if share.startswith(".pct") and abs(total - mean) > exact:
        return f"{total:.6g} % in all, but {mean:.6g} % on average"
    if not share and mean > 0 and total >= mean and abs(total / mean - round(total / mean)) > 1e-3:
        return f"a sum of {total:.6g} and an average of {mean:.6g}: not a whole number of units"
    return ""
