"""Rules by which warp samples are split and weighed, on small kernels; shares of parts that
overlap."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.account.shares import orders, shapley
from ncubble.analysis.account.stalls import LEAST_IDLE, SmLoad, classified, classify
from tests.helpers.sass_frames import kernel

LOAD = SmLoad(resident=2.0, busy=0.4, copies=0.3, reads=0.3, data_pipe=0.5)
WMMA = (
    ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 10),
    ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", "mio_throttle", 20),
    "LDGDEPBAR",
    ("LDSM.16.M88.4 R8, [R20]", "mio_throttle", 20),
    ("HMMA.16816.F32 R12, R8, R16, R12", "short_scoreboard", 10),
    ("LDSM.16.M88.4 R8, [R20]", "mio_throttle", 20),
    ("HMMA.16816.F32 R12, R8, R16, R12", "wait", 20),
)


def weights(frame: pd.DataFrame, load: SmLoad | None) -> dict[str, float]:
    return {part: value for part, value in classify(frame, "tensor", load).sum().items() if value}


def test_an_address_that_a_queued_copy_still_reads_is_the_work_of_copying() -> None:
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R16.64]", "LDGDEPBAR", ("IADD3 R16, R3, R4, RZ", "long_scoreboard", 9)]
    assert weights(kernel("DEPBAR.LE SB0, 0x1", *lines, "HMMA.16816.F32 R8, R12, R6, R8"), None) == {"copy_cost": 9}


def test_behind_a_wait_for_copies_the_same_is_a_wait_for_data() -> None:
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R16.64]", "DEPBAR.LE SB0, 0x0"]
    frame = kernel(*lines, ("IADD3 R16, R3, R4, RZ", "long_scoreboard", 9), "HMMA.16816.F32 R8, R12, R6, R8")
    assert weights(frame, None) == {"data_wait": 9}


def test_the_loads_that_never_run_beside_cp_async_queue_up_as_copies() -> None:
    frame = kernel(("@!PT LDS RZ, [RZ]", "mio_throttle", 4), "LDGSTS.E.BYPASS.128 [R2], [R4.64]")
    assert weights(frame, None) == {"copy_cost": 4}


def test_without_a_load_every_sample_counts_the_same() -> None:
    assert weights(kernel(*WMMA), None) == {"unit": 20, "copy_cost": 20, "smem_wait": 50, "sync_wait": 10}


def test_waits_among_the_mmas_of_a_cta_in_phases_weigh_less_than_those_before_them() -> None:
    table = classified(kernel(*WMMA), "tensor", LOAD)
    idle = table.groupby("row")["idle"].mean()
    among = 1 - (1 - 0.6**0.5) / 0.4  # 40 of 100 samples are among the MMAs
    assert idle[1] == idle[3] == idle[4] == 1.0
    assert idle[5] == pytest.approx(among)
    assert idle[0] == pytest.approx((1 + among) / 2)
    assert idle[6] == 1.0  # the unit itself is not weighed


def test_a_barrier_among_the_mmas_makes_no_phases() -> None:
    lines = [WMMA[4], ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 10), *WMMA[5:]]
    assert set(classified(kernel(*lines), "tensor", LOAD)["idle"]) == {1.0}


def test_a_shared_load_behind_copies_waits_for_them_first() -> None:
    table = classified(kernel(*WMMA), "tensor", replace(LOAD, copies=0.6, reads=0.2))
    at = table.groupby(["row", "part"])["samples"].sum()
    assert at[3, "copy_cost"] == pytest.approx(15) and at[3, "smem_wait"] == pytest.approx(5)
    assert at[5, "smem_wait"] == 20  # no copies between the MMAs


def test_one_buffer_drains_before_latency_counts_unless_nobody_competes_with_the_copies() -> None:
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R4.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x0"]
    frame = kernel(*lines, ("BAR.SYNC.DEFER_BLOCKING 0x0", "long_scoreboard", 100), "HMMA.16816.F32 R8, R12, R6, R8")
    shares = classified(frame, "tensor", LOAD).groupby("part")["samples"].sum()
    assert shares["copy_cost"] == pytest.approx(100 * 0.3 / 2)
    assert set(classified(frame, "tensor", replace(LOAD, reads=0.0))["part"]) == {"data_wait"}


def test_a_full_data_stage_is_what_every_queue_waits_for() -> None:
    full = replace(LOAD, data_pipe=0.95, reads=0.95)
    found = classified(kernel(*WMMA), "tensor", full).groupby("part")["samples"].sum()
    assert "copy_cost" not in found
    assert found["smem_wait"] == pytest.approx(70)


@given(st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4), st.floats(1.0, 8.0))
def test_no_rule_loses_or_makes_samples(shares: list[float], resident: float) -> None:
    busy, copies, reads, pipe = shares
    table = classified(kernel(*WMMA), "tensor", SmLoad(resident, busy, copies, reads, pipe))
    assert table["samples"].sum() == pytest.approx(100)
    assert table["idle"].between(LEAST_IDLE, 1.0).all()


@pytest.mark.parametrize("name", ["resident", "busy", "copies", "reads", "data_pipe"])
def test_what_the_report_does_not_tell_changes_nothing_by_itself(name: str) -> None:
    for load in (LOAD, replace(LOAD, data_pipe=0.95)):
        table = classified(kernel(*WMMA), "tensor", replace(load, **{name: math.nan}))
        assert table["samples"].sum() == pytest.approx(100)
        assert table["idle"].notna().all()


def test_an_unknown_load_switches_its_rule_off() -> None:
    assert not replace(LOAD, reads=math.nan).contended > 0
    assert set(classified(kernel(*WMMA), "tensor", replace(LOAD, busy=math.nan))["idle"]) == {1.0}


def test_orders_keep_a_wait_before_its_copy() -> None:
    assert set(orders(("wait", "copy"), [("wait", "copy")])) == {("wait", "copy")}
    assert len(list(orders(("wait", "copy", "sync", "smem"), [("wait", "copy")]))) == 12


@given(st.lists(st.floats(-50, 50), min_size=7, max_size=7))
def test_shares_of_overlapping_parts_sum_to_what_vanishes_with_all(values: list[float]) -> None:
    sets = [{"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}]
    gone = {frozenset(one): value for one, value in zip(sets, values, strict=True)}
    shares = shapley(gone, ("a", "b", "c"))
    assert shares is not None
    assert math.fsum(shares.values()) == pytest.approx(gone[frozenset("abc")], abs=1e-9)


def test_common_time_is_shared_equally_and_a_missing_set_is_no_answer() -> None:
    gone = {frozenset("a"): 10.0, frozenset("b"): 10.0, frozenset("ab"): 10.0}
    assert shapley(gone, ("a", "b")) == {"a": 5.0, "b": 5.0}
    assert shapley({frozenset("a"): 10.0}, ("a", "b")) is None
