"""One question to a table of a dataset: which rows, which columns, in which order, how many. Read
as far as needed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ncubble.analysis.datasets.conditions import column_of, compared_texts, parse_all
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.errors import UsageError

COLUMNS = {
    "launches": ("report", "launch", "label", "duration_ns", "tensor_elapsed_pct", "dram_pct", "cause"),
    "reports": ("report", "path", "label", "rank", "launches", "ncu_version", "complete"),
    "metrics": ("report", "launch", "metric", "value", "unit"),
    "errors": ("report", "path", "error"),
}
"""Columns shown without ``--columns``; other tables show all."""
OWNER = ("report", "launch")
_MOST_VALUES = 12


@dataclass(frozen=True)
class Query:
    """``metrics`` adds a column for each metric of that name to rows of ``launches``; conditions
    may name them."""

    table: str = "launches"
    where: Sequence[str] = ()
    columns: Sequence[str] = ()
    metrics: Sequence[str] = ()
    sort: str = ""
    descending: bool = False
    limit: int | None = None


def run(dataset: Dataset, query: Query) -> pa.Table:
    """The rows that ``query`` asks for. Raises UsageError for columns that are not there and wrong
    conditions."""
    source = dataset.table(query.table)
    if query.metrics:
        if query.table != "launches":
            raise UsageError(f"--metric applies to the table launches, not to {query.table}", "omit one of them")
        source = ds.dataset(_with_metrics(dataset, query.metrics))
    schema = source.schema
    given = list(query.columns) or [*COLUMNS.get(query.table, schema.names), *query.metrics]
    shown = [column_of(name, schema).name for name in given]
    query = replace(query, sort=column_of(query.sort, schema).name if query.sort else "")
    scanner = source.scanner(
        columns=list(dict.fromkeys([*shown, *([query.sort] if query.sort else [])])),
        filter=parse_all(query.where, schema),
    )
    if not query.sort:
        return scanner.head(query.limit) if query.limit is not None else scanner.to_table()
    return _sorted(scanner.to_table(), query).select(shown)


def unknown_values(dataset: Dataset, query: Query) -> list[str]:
    """Why conditions match nothing: texts that no row has in the column that they are compared
    with, each with the values that there are, the frequent first; of many the nearest.
    Raises UsageError as ``run`` does."""
    source = dataset.table(query.table)
    conditions = [text for text in query.where if not any(name in text for name in query.metrics)]
    sentences = []
    for name, value in compared_texts(conditions, source.schema):
        counts = Counter(source.to_table(columns=[name])[name].drop_null().to_pylist())
        if value in counts:
            continue
        near = difflib.get_close_matches(value, counts, n=3, cutoff=0.4)
        if len(counts) > _MOST_VALUES:
            sentences.append(f"no {name} is {value!r}; {len(counts)} values exist; nearest: {'; '.join(near) or '–'}")
            continue
        listed = ", ".join(f"{known} ({count})" for known, count in counts.most_common())
        nearest = f"; nearest: {near[0]}" if near else ""
        sentences.append(f"no {name} is {value!r}; values: {listed or 'none'}{nearest}")
    return sentences


def unknown_metrics(dataset: Dataset, rows: pa.Table, query: Query) -> list[str]:
    """The metrics of ``query`` that no row has and no launch of the dataset, each with the nearest
    names."""
    empty = [name for name in query.metrics if rows.num_rows and rows[name].null_count == rows.num_rows]
    if not empty:
        return []
    known = pc.unique(dataset.table("metrics").to_table(columns=["metric"])["metric"]).to_pylist()
    near = {name: difflib.get_close_matches(name, known, n=3, cutoff=0.6) for name in empty if name not in known}
    return [f"no launch has the metric {name!r}; nearest: {', '.join(those) or '–'}" for name, those in near.items()]


def _sorted(rows: pa.Table, query: Query) -> pa.Table:
    key = rows[query.sort]
    if pa.types.is_nested(key.type):
        raise UsageError(f"--sort {query.sort}: cannot sort by a list", "sort by another column")
    order = pc.sort_indices(pa.table({"key": key}), [("key", "descending" if query.descending else "ascending")])
    return rows.take(order[: query.limit] if query.limit is not None else order)


def _with_metrics(dataset: Dataset, names: Sequence[str]) -> pa.Table:
    """All launches, with a column for each metric: null where a launch does not hold it."""
    rows = dataset.launches().to_table()
    values = dataset.metrics(names, ["metric", *OWNER, "value"]).to_table()
    row_of = {owner: row for row, owner in enumerate(zip(*(rows[name].to_pylist() for name in OWNER), strict=True))}
    for name in dict.fromkeys(names):
        if name in rows.schema.names:
            raise UsageError(
                f"--metric {name}: launches already have a column of that name", "select it with --columns"
            )
        column: list[float | None] = [None] * rows.num_rows
        chosen = values.filter(pc.equal(values["metric"], name))
        for owner, value in zip(
            zip(*(chosen[key].to_pylist() for key in OWNER), strict=True), chosen["value"].to_pylist(), strict=True
        ):
            if owner in row_of:
                column[row_of[owner]] = value
        rows = rows.append_column(name, pa.array(column, pa.float64()))
    return rows
