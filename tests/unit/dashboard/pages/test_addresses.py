"""The codec of addresses: what is written is read back, and nothing that a browser sends raises or
gets through."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.dashboard.pages.addresses import (
    Address,
    ChecksAddress,
    CompareAddress,
    KernelAddress,
    OverviewAddress,
    SourceAddress,
    SweepAddress,
    TimelinesAddress,
)
from ncubble.dashboard.pages.registry import PAGES

LAUNCH = "0123456789abcdef/3"
NAMES = sorted({known.metadata["parameter"].name for page in PAGES for known in fields(page.address) if known.metadata})
VALUES = st.one_of(
    st.text(max_size=40),
    st.sampled_from([LAUNCH, "12", "12.5,80", "order", "1", "-tensor,name", "a=b", '{"name":1}', "x" * 3000]),
)


@pytest.mark.parametrize(
    "address",
    [
        OverviewAddress(
            "a b&c/d", (("tensor", True), ("name", False)), columns=("name",), figure="roofline", time="ms"
        ),
        OverviewAddress(filters={"tensor": {"filterType": "number", "type": "lessThan", "filter": 5}}, pin=LAUNCH),
        CompareAddress((LAUNCH, "0123456789abcdef/4"), True),
        SweepAddress("a<b>", "stages", "H200", (("tile", "1=2"), ("k", "")), "cycles", LAUNCH),
        TimelinesAddress("0123456789abcdef", 0, 12),
        ChecksAddress("gemm-1", "h200", "cycles", True, "a,b: c"),
        KernelAddress((-1.5, 20.25), True, "ten/sor"),
        SourceAddress("/a b/k.cu", 0, 64, "data_wait", "mma", True, True, "x&y"),
    ],
)
def test_an_address_is_read_as_it_was_written(address: Address) -> None:
    assert type(address).parse(address.query()) == address
    assert address.href() == f"{address.PATH}{address.query()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_an_address_of_defaults_has_no_query(page: Any) -> None:
    assert page.address().query() == ""
    assert page.address.parse(None) == page.address.parse("?") == page.address()


@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=8))
def test_what_a_browser_sends_is_read_or_left_out_for_good(pairs: list[tuple[str, str]]) -> None:
    for page in PAGES:
        address = page.address.parse(urlencode(pairs, errors="replace"))
        written = address.query()
        again = page.address.parse(written)
        assert again.query() == written and len(again.query()) <= 4 * page.address.LONGEST


def test_no_more_is_read_than_the_limit() -> None:
    assert SourceAddress.parse("find=" + "&" * SourceAddress.LONGEST + "&op=mma") == SourceAddress()
