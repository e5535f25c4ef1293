"""Traces: decoding of recordings right and wrong, and what follows from them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.traces.probe import (
    BEGIN,
    END,
    STEP,
    Recorded,
    Summary,
    decode,
    flights,
    parse_dumps,
    summarize,
)
from ncubble.errors import ReportError
from tests.helpers.probe_dumps import STEPS, decoded, dump, pipeline, warp


def test_regions_come_back_in_ns_with_their_warp():
    found = decoded(dump([warp(STEPS, 0, 1200, sm=3, cta=5, warp=2, role="loader")], ns_per_cycle=0.5))
    assert list(found.lanes["lane"].unique()) == ["SM 3 CTA 5 warp 2"]
    assert list(found.lanes["group"].unique()) == ["loader"]
    assert list(found.lanes["tag"]) == ["load", "wait_data", "compute"]
    np.testing.assert_allclose(found.lanes["start_ns"], [0, 50, 200], atol=1e-6)
    np.testing.assert_allclose(found.lanes["end_ns"], [50, 200, 500], atol=1e-6)
    assert found.clock.mhz == pytest.approx(2000)
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)


@pytest.mark.parametrize("before", [1, 50, 300, 999], ids=lambda cycles: f"{cycles} before the wrap")
def test_the_clock_may_wrap_within_a_warp(before):
    zero = 5 * 2**32 - before
    regions = [(zero + begin, zero + end, tag, index) for begin, end, tag, index in STEPS]
    found = decoded(dump([warp(regions, zero, zero + 1200)], clock_of_sm={0: zero}))
    np.testing.assert_allclose(found.lanes["start_ns"], [0, 50, 200], atol=1e-6)
    assert found.loss.damaged == 0


def test_sms_whose_clocks_differ_meet_on_one_axis():
    zeros = {0: 10**12, 1: 77}
    warps = [warp([(z + b, z + e, t, i) for b, e, t, i in STEPS], z, z + 1200, sm=sm) for sm, z in zeros.items()]
    found = decoded(dump(warps, clock_of_sm=zeros))
    starts = found.lanes.groupby("sm")["start_ns"].min()
    assert starts[0] == pytest.approx(starts[1], abs=1e-3)


@pytest.mark.parametrize(("marks", "lanes", "full"), [(20, 7, 1), (8, 8, 0)])
def test_what_did_not_fit_is_counted(marks, lanes, full):
    """When the last one that fits ended is not known, unless nothing came after it."""
    given = [(10 * i, STEP, "compute", i) for i in range(marks)]
    found = decoded(dump([warp([], 0, 1000, marks=given)], depth=9, started=3, ns_per_cycle=0.5))
    assert (len(found.lanes), found.loss.full, found.loss.warps) == (lanes, full, 2)
    assert found.loss.unseen_ns == pytest.approx((1000 - 70) * 0.5 * full)


def test_an_inner_region_interrupts_the_outer_one():
    marks = [
        (0, STEP, "load", 0),
        (100, BEGIN, "compute", 1),
        (200, BEGIN, "wait_mma", 1),
        (250, END, "", 0),
        (300, END, "", 0),
        (400, STEP, "store", 2),
    ]
    lanes = decoded(dump([warp([], 0, 500, marks=marks)], ns_per_cycle=1.0)).lanes
    assert list(lanes["tag"]) == ["load", "compute", "wait_mma", "compute", "load", "store"]
    assert list(lanes["index"]) == [0, 1, 1, 1, 0, 2]
    np.testing.assert_allclose(lanes["start_ns"], [0, 100, 200, 250, 300, 400], atol=1e-6)
    np.testing.assert_allclose(lanes["end_ns"], [100, 200, 250, 300, 400, 500], atol=1e-6)


def test_warps_that_never_ended_keep_regions_and_what_no_kernel_wrote_is_counted():
    outside = [(0, 100, "load", 0), (2_000_000, 2_000_100, "compute", 0)]
    found = decoded(dump([warp(STEPS, 0, 1200), warp(STEPS[:2], 0, 0, ended=False), warp(outside, 0, 1200)]))
    assert (found.loss.unended, found.loss.damaged, len(found.lanes)) == (1, 2, 6)


def test_several_recordings_and_launches_are_told_apart():
    later = [(5000 + begin, 5000 + end, tag, index) for begin, end, tag, index in STEPS]
    first = dump([warp(STEPS, 0, 1200, launch=4), warp(later, 5000, 6200, launch=9, warp=0)])
    found = decoded(first, first)
    assert found.lanes["launch"].nunique() == 4
    assert found.lanes["lane"].str.startswith("launch 3 SM 0").any()


def test_the_timers_step_is_told_only_of_enough_values():
    few = decoded(dump([warp(STEPS, 0, 1200), warp(STEPS, 0, 1200)], ns_per_cycle=1.0))
    assert few.clock.quantum_ns is None
    many = [warp([], 96 * place, 96 * place + 960, sm=place % 2) for place in range(20)]
    assert decoded(dump(many, ns_per_cycle=1.0)).clock.quantum_ns == 96


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"no recording",
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: data + b"bubbles1",
        lambda data: data.replace(b'"warps": 1', b'"warps": 9'),
        lambda data: data.replace(b'"warps": 1', b'"warps":-1'),
        lambda data: data.replace(b'"marks": 17', b'"marks": 1'),
        lambda data: data.replace(b'"load"', b"12.345"),
        lambda data: data[:8] + b"9" * 8 + data[16:],
        lambda data: data[:16] + b"[" * (len(data) - 16),
    ],
)
def test_a_file_that_is_no_recording_is_refused(spoil):
    with pytest.raises(ReportError, match="here"):
        parse_dumps(spoil(dump([warp(STEPS, 0, 1200)])), "here")


def test_any_bytes_decode_or_are_refused():
    rng = np.random.default_rng(1)
    whole = dump([warp(STEPS, 0, 1200, sm=sm) for sm in range(3)])
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 12):
            data[place] = rng.integers(256)
        try:
            found = decode(parse_dumps(bytes(data), "here"))
        except ReportError:
            continue
        assert (found.lanes["end_ns"] >= found.lanes["start_ns"]).all()
        assert np.isfinite(found.lanes[["start_ns", "end_ns"]].to_numpy()).all()
        summary_of(found)


def summary_of(found: Recorded) -> Summary:
    """The numbers of a recording."""
    return summarize(pd.concat([found.lanes, flights(found.lanes)]), found.warps)


def test_copies_are_in_flight_from_their_load_to_the_end_of_the_wait():
    flying = flights(pipeline().lanes)
    assert list(flying["tag"].unique()) == ["copy in flight"]
    np.testing.assert_allclose(flying["end_ns"] - flying["start_ns"], 20, atol=1e-6)


def test_copies_that_overlap_get_lanes_of_their_own():
    regions = [(0, 10, "load", 0), (20, 30, "load", 1), (40, 100, "wait_data", 0), (110, 120, "wait_data", 1)]
    flying = flights(decoded(dump([warp(regions, 0, 200)])).lanes)
    assert list(flying["lane"]) == ["SM 0 CTA 0 copies 1", "SM 0 CTA 0 copies 2"]


def test_the_summary_accounts_for_all_of_a_warps_time():
    summary = summary_of(pipeline())
    for role in ("loader", "math"):
        assert sum(share.pct for share in summary.shares if share.group == role) == pytest.approx(100)
    share = {(each.group, each.tag): each for each in summary.shares}
    assert share["math", "compute"].pct == pytest.approx(90, abs=0.1)
    assert share["math", "wait_data"].count == 4
    assert summary.busy_pct["compute"] == pytest.approx(90, abs=0.1)
