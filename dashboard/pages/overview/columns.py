"""The columns of the table of launches: what each is called, its unit, what it means, and where its
number comes from.

One list for the table, its filters, its search and its downloads. Parameters and dimensions of runs
get columns of their own (``of_parameters``), hidden until they are chosen.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal

import msgspec
import numpy as np

from ncubble.analysis.launches.table import LaunchRows
from ncubble.records import typed

PARAMETER = re.compile(r"(parameters|dims)\.([A-Za-z_]\w{0,39})")
"""Fields of parameters and dimensions: names that are no plain words get no column."""
MOST_PARAMETERS = 40


class TableColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column: a record of ``columns.toml``, or one of a parameter. ``kind``: ``time`` is ns in
    rows, ``account`` parts of elapsed time.

    ``metric`` is ncu's own name of what is shown, where there is one; ``shown`` whether the table
    shows it unless asked otherwise; ``renderer`` a component of ``assets/grid.js``; ``hover`` the
    field that a tooltip shows.
    """

    field: str
    name: str
    kind: Literal["text", "number", "percent", "time", "bytes", "account"]
    tip: str
    unit: str = ""
    metric: str = ""
    shown: bool = False
    width: int = 0
    flex: int = 0
    renderer: str = ""
    hover: str = ""

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, sorted largest first."""
        return self.kind not in ("text", "account")

    @property
    def explained(self) -> str:
        """The text of the header's tooltip: meaning, unit, and ncu's name."""
        unit = f" Unit: {self.unit}." if self.unit else ""
        return f"{self.tip}.{unit}{f' ncu: {self.metric}' if self.metric else ''}"


_TEXT = files("ncubble.dashboard.pages.overview").joinpath("columns.toml").read_text("utf-8")
COLUMNS = tuple(typed({"field": field, **column}, TableColumn) for field, column in tomllib.loads(_TEXT).items())
SEARCHED = [
    "name",
    "label",
    "gpu",
    "cause",
    "disease",
    "bubble",
    "unit",
    "shape",
    "report",
    "demangled",
    "device",
    "path",
]
"""Fields that the search looks through."""


def of_parameters(rows: Sequence[Mapping[str, Any]]) -> tuple[TableColumn, ...]:
    """A column for each parameter and dimension that a row names, at most ``MOST_PARAMETERS``, most
    common first.

    Numeric where every value is a number.
    """
    seen: dict[str, int] = {}
    words: set[str] = set()
    for group in ("parameters", "dims"):
        codes, values = LaunchRows.of(rows).coded(group)
        for known, count in zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True):
            for name, value in (known or {}).items() if count else ():
                field = f"{group}.{name}"
                seen[field] = seen.get(field, 0) + count
                if isinstance(value, bool) or not isinstance(value, int | float):
                    words.add(field)
    common = sorted((field for field in seen if PARAMETER.fullmatch(field)), key=lambda field: (-seen[field], field))
    return tuple(_parameter(field, field in words) for field in common[:MOST_PARAMETERS])


def _parameter(field: str, is_text: bool) -> TableColumn:
    group, name = field.split(".", 1)
    what = "Parameter of the run" if group == "parameters" else "Dimension of the problem"
    return TableColumn(field, name, "text" if is_text else "number", f"{what}: {name}", width=90)


def value_of(row: Mapping[str, Any], field: str) -> Any:
    """The value of a column in a row; None where the row lacks it."""
    group, _, name = field.partition(".")
    if name:
        return (row.get(group) or {}).get(name)
    return row.get(field)
