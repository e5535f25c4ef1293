"""Which launches a view lists: search, filters, order; and what a hostile address can do to it
(nothing)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.table import REMEMBERED, LaunchTable, remembered, select

ROWS: list[dict[str, Any]] = [
    {
        "id": "a" * 16 + "/0",
        "name": "wmma_gemm",
        "label": "stages=3",
        "duration_ns": 100.0,
        "tensor": 40.0,
        "gpu": "H200",
    },
    {"id": "b" * 16 + "/0", "name": "copy_kernel", "label": "grid 1", "duration_ns": None, "tensor": None, "gpu": None},
    {
        "id": "c" * 16 + "/0",
        "name": "wmma_deep",
        "label": "stages=4",
        "duration_ns": 300.0,
        "tensor": 90.0,
        "gpu": "A100",
    },
    {"id": "d" * 16 + "/0", "name": "Softmax", "label": "rows=8", "duration_ns": 200.0, "tensor": 0.0, "gpu": "H200"},
]
for _row, _stages in zip(ROWS, (3, None, 4, None), strict=True):
    _row["parameters"], _row["dims"] = ({"stages": _stages} if _stages else {}), {}
TABLE = LaunchTable.of(ROWS)


def names(query: str) -> list[str]:
    return [row["name"] for row in select(TABLE, OverviewAddress.parse(query)).rows(TABLE)]


def said(query: str) -> str:
    return " ".join(select(TABLE, OverviewAddress.parse(query)).notes)


def filters(**models: Any) -> str:
    return "?filters=" + quote(json.dumps({name.replace("__", "."): model for name, model in models.items()}))


def number(how: str, value: Any = None, to: Any = None) -> dict[str, Any]:
    return {"filterType": "number", "type": how, "filter": value, "filterTo": to}


def text(how: str, value: Any = None) -> dict[str, Any]:
    return {"filterType": "text", "type": how, "filter": value}


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", ["wmma_gemm", "copy_kernel", "wmma_deep", "Softmax"]),
        ("WMMA", ["wmma_gemm", "wmma_deep"]),
        ("wmma stages=4", ["wmma_deep"]),
        ("^soft", ["Softmax"]),
        ("gemm$", ["wmma_gemm"]),
        ("stages=[34]", ["wmma_gemm", "wmma_deep"]),
        ("gemm.*stages", []),  # a match never reaches from one field into the next
        ("nothing", []),
    ],
)
def test_every_word_is_a_regular_expression_over_the_fields(search: str, found: list[str]) -> None:
    assert names(f"?q={quote(search)}") == found


def test_what_is_no_regular_expression_is_looked_for_as_text_and_said() -> None:
    assert names("?q=(unclosed") == []
    assert "“(unclosed” is not a regular expression" in said("?q=(unclosed")
    assert said("?q=fine") == ""


def test_no_pattern_holds_the_server() -> None:
    rows = [{**ROWS[0], "id": f"{index:016x}/0", "name": "a" * 300} for index in range(2000)]
    table = LaunchTable.of(rows)
    # An engine that backtracks would not come back.
    for pattern in ("(a+)+$x", "(a|a)*b", "(.*)*(.*)*c", "a{1000}{1000}", "((a{1,99}){1,99}){1,99}"):
        select(table, OverviewAddress(search=pattern))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?sort=-tensor", ["wmma_deep", "wmma_gemm", "Softmax", "copy_kernel"]),
        ("?sort=tensor", ["Softmax", "wmma_gemm", "wmma_deep", "copy_kernel"]),
        ("?sort=name", ["copy_kernel", "Softmax", "wmma_deep", "wmma_gemm"]),
        ("?sort=gpu,-duration_ns", ["wmma_deep", "Softmax", "wmma_gemm", "copy_kernel"]),
        ("?sort=-gpu,duration_ns", ["wmma_gemm", "Softmax", "wmma_deep", "copy_kernel"]),
        ("?sort=-parameters.stages", ["wmma_deep", "wmma_gemm", "copy_kernel", "Softmax"]),
    ],
)
def test_missing_values_come_last_in_both_directions(query: str, found: list[str]) -> None:
    assert names(query) == found


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ({"tensor": number("greaterThan", 40)}, ["wmma_deep"]),
        ({"tensor": number("greaterThanOrEqual", 40)}, ["wmma_gemm", "wmma_deep"]),
        ({"tensor": number("notEqual", 40)}, ["wmma_deep", "Softmax"]),
        ({"tensor": number("inRange", 0, 40)}, ["wmma_gemm", "Softmax"]),
        ({"tensor": number("blank")}, ["copy_kernel"]),
        ({"tensor": number("notBlank")}, ["wmma_gemm", "wmma_deep", "Softmax"]),
        ({"gpu": text("blank")}, ["copy_kernel"]),
        ({"gpu": text("notEqual", "h200")}, ["copy_kernel", "wmma_deep"]),
        ({"name": text("startsWith", "WMMA"), "tensor": number("lessThan", 50)}, ["wmma_gemm"]),
        ({"name": text("notContains", "m")}, ["copy_kernel"]),
        ({"parameters__stages": number("equals", 4)}, ["wmma_deep"]),
    ],
)
def test_filters_pass_what_they_name(model: dict[str, Any], found: list[str]) -> None:
    assert names(filters(**model)) == found


def test_conditions_of_one_column_are_joined_by_their_operator() -> None:
    low, high = number("lessThan", 10), number("greaterThan", 80)
    joined = {"filterType": "number", "operator": "OR", "conditions": [low, high]}
    assert names(filters(tensor=joined)) == ["wmma_deep", "Softmax"]
    assert names(filters(tensor={**joined, "operator": "AND"})) == []


@pytest.mark.parametrize(
    "bad",
    [
        "[]",
        "{",
        '{"tensor": 3}',
        '{"tensor": {"filterType": "number", "type": "greaterThan", "filter": "1"}}',
        '{"tensor": {"filterType": "number", "type": "greaterThan", "filter": true}}',
        '{"tensor": {"filterType": "number", "type": "greaterThan", "filter": 1e999}}',
        '{"tensor": {"filterType": "number", "type": "__class__", "filter": 1}}',
        '{"tensor": {"filterType": "text", "type": "contains", "filter": "1"}}',
        '{"account": {"filterType": "text", "type": "contains", "filter": "1"}}',
        '{"nowhere": {"filterType": "text", "type": "contains", "filter": "1"}}',
        '{"__proto__": {"filterType": "text", "type": "contains", "filter": "1"}}',
        '{"tensor": {"operator": "XOR", "conditions": []}}',
        "[" * 5000,
    ],
)
def test_a_filter_that_cannot_be_read_is_ignored_and_said(bad: str) -> None:
    assert len(names(f"?filters={quote(bad)}")) == 4
    assert "1 filter" in said(f"?filters={quote(bad)}")


def test_the_sound_parts_of_a_filter_model_hold() -> None:
    model = {"tensor": number("greaterThan", 40), "nowhere": text("contains", "x"), "gpu": 5}
    assert names(filters(**model)) == ["wmma_deep"]
    assert "1 filter" in said(filters(**model))


def test_an_order_by_what_no_launch_has_is_ignored_and_said() -> None:
    assert names("?sort=nowhere,-tensor")[0] == "wmma_deep"
    assert "1 sort order" in said("?sort=nowhere,-tensor")
    assert "1 sort order" in said("?sort=<b>")


def test_results_are_remembered_and_not_without_end() -> None:
    table = LaunchTable.of(ROWS)
    assert remembered(table, OverviewAddress.parse("?q=wmma&time=ms")) is remembered(
        table, OverviewAddress.parse("?q=wmma&figure=roofline")
    )
    for index in range(3 * REMEMBERED):
        remembered(table, OverviewAddress(search=str(index)))
    assert len(table.answers) <= REMEMBERED
