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
    LONGEST_SEARCH,
    MOST_FIXED,
    MOST_SIDES,
    Address,
    ChecksAddress,
    CompareAddress,
    KernelAddress,
    OverviewAddress,
    ProgramAddress,
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


@pytest.mark.parametrize(
    ("search", "wanted"),
    [
        ("?figure=x&time=hours&pin=../etc&columns=<b>,,a-b&%00=%ff", OverviewAddress()),
        ("?launch=../../etc/passwd&axis=absolute", CompareAddress(dropped=("launch",))),
        (f"?launch={LAUNCH.replace('/', '%2F')}&launch={LAUNCH}&axis=relative", CompareAddress((LAUNCH,), True)),
        ("?y=area&from=../etc&fix=&fix==2&kernel=" + "x" * 600, SweepAddress()),
        ("?kernel=../../etc/passwd&gpu=%3Cb%3E&metric=a%20b&axis=up", ChecksAddress()),
        ("?kernel=a&kernel=b&metric=__class__&q=" + "x" * 300, ChecksAddress("b", search="x" * LONGEST_SEARCH)),
        ("?kernel=" + "a" * 200, ChecksAddress()),
        ("?run=../../etc&from=20&to=10", TimelinesAddress("../../etc", start=20, end=10)),
        ("?run=0123456789ABCDEF&from=-1&to=1e9", TimelinesAddress("0123456789ABCDEF")),
        ("?run=0123456789abcdef&device=1&by=range", ProgramAddress("0123456789abcdef", 1, "range")),
        ("?run=../etc&device=-1&by=<b>", ProgramAddress("../etc")),
        ("?range=1.5,20&show=everything&metric=" + "x" * 900, KernelAddress((1.5, 20.0), find="x" * LONGEST_SEARCH)),
        *((f"?range={odd}", KernelAddress()) for odd in ("20,1.5", "nan,inf", "1e9,2e9", "<b>,1")),
        ("?pc=-1&line=x&by=<script>&only=yes&op=" + "a" * 65, SourceAddress()),
        *((f"?pc={odd}&file={'a' * 3000}", SourceAddress()) for odd in ("1e3", "9" * 17)),
    ],
)
def test_what_an_address_does_not_take_is_left_out(search: str, wanted: Address) -> None:
    assert type(wanted).parse(search) == wanted


def test_addresses_of_launches_end_with_their_ids() -> None:
    assert SourceAddress(pc=0).of_launch(LAUNCH) == f"/source/{LAUNCH}?pc=0"


def test_lists_take_each_value_once_and_not_too_many() -> None:
    many = [f"0123456789abcdef/{i}" for i in range(MOST_SIDES + 3)]
    found = CompareAddress.parse(CompareAddress((*many, many[0])).query())
    assert found.launches == tuple(many[:MOST_SIDES]) and found.dropped == ("launch",) * 3
    assert len(SweepAddress.parse("&".join(f"fix=n{i}=1" for i in range(10_000))).fixed) == MOST_FIXED


def test_one_coordinate_of_a_sweep_is_fixed_anew_or_freed() -> None:
    one = SweepAddress("gemm", "stages", fixed=(("tile", "128=x"), ("k", "1")))
    assert SweepAddress.parse(one.fixing("k", None).partition("?")[2]).fixed == (("tile", "128=x"),)
    assert SweepAddress.parse(one.fixing("k", "2").partition("?")[2]).fixed == (("tile", "128=x"), ("k", "2"))


@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=8))
def test_what_a_browser_sends_is_read_or_left_out_for_good(pairs: list[tuple[str, str]]) -> None:
    for page in PAGES:
        address = page.address.parse(urlencode(pairs, errors="replace"))
        written = address.query()
        again = page.address.parse(written)
        assert again.query() == written and len(again.query()) <= 4 * page.address.LONGEST


def test_no_more_is_read_than_the_limit() -> None:
    assert SourceAddress.parse("find=" + "&" * SourceAddress.LONGEST + "&op=mma") == SourceAddress()
