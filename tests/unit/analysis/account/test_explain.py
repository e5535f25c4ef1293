"""Every part of an account can be computed again from what its explanation names, and its terms sum
to it."""

import json
import math
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.account.account import account
from ncubble.analysis.account.explain import MOST, explain
from ncubble.analysis.account.parts import LAUNCH_SHAPE
from ncubble.analysis.account.units import unit_counters
from ncubble.analysis.report.report import open_reports
from ncubble.api.reporting import report
from ncubble.recordings import H100, ROOT
from tests.helpers.one_launch import OneLaunch
from tests.unit.analysis.account.test_stalls import kernel

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active"
CYCLES = {"sm__cycles_active.avg": 900.0, "sm__cycles_elapsed.avg": 1000.0}
SASS = (
    "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24",
    "LDS R4, [R8]",
    "BAR.SYNC 0x0",
    "FADD R1, R2, R3",
    "STG.E [R2.64], R8",
)
REASONS = ("long_scoreboard", "short_scoreboard", "barrier", "wait", "mio_throttle")


class Synthetic(OneLaunch):
    """One launch with code and a timeline in full."""

    def __init__(self, metrics, code, levels=()):
        super().__init__(metrics)
        frames = [
            pd.DataFrame({"launch": 0, "t_ns": np.arange(len(levels)) * 1500, "metric": name, "value": values})
            for name, values in (("tensor", levels), ("sm_active", [100.0] * len(levels)))
        ]
        vars(self).update(source=code, timeline=pd.concat(frames, ignore_index=True))


@pytest.fixture(scope="module")
def reports():
    found, failed = open_reports([ROOT, H100])
    assert len(found) >= 50 and not failed
    return found


def computed(one):
    """A part of the steady state, or of busy time, by its formula: a counter, the sum of two, or a
    × b / c."""
    values = list(one.inputs.values())
    if len(values) < 3:
        return math.fsum(values)
    whole, part, everything = values[:3]
    return whole * part / everything


def test_explanations_of_all_recordings_give_their_accounts(reports):
    for launch in chain.from_iterable(reports):
        explained = explain(launch)
        assert {one.part: one.pct for one in explained.parts} == dict(account(launch).parts)
        for one in explained.parts:
            assert math.fsum(term.pct for term in one.terms) == pytest.approx(one.pct, abs=1e-6), (launch.label, one)
            if one.part not in LAUNCH_SHAPE:
                assert computed(one) == pytest.approx(one.pct, abs=0.01), (launch.label, one)


def test_the_terms_of_a_steady_part_are_its_instructions_with_reasons(reports):
    report = next(one for one in reports if one.path.match("tensor_core_gemm/stages1"))
    found = account(report.launch(0))
    part, issue = (
        next(p for p in explain(report.launch(0)).parts if p.part == name) for name in ("data_wait", "issue")
    )
    first, rest = part.terms[0], issue.terms[-1]
    assert first.sass.startswith("BAR.SYNC") and first.file.endswith("tensor_core_gemm.cu") and first.line == 126
    assert next(iter(first.reasons)) == "long_scoreboard" and sum(first.reasons.values()) == first.samples
    assert [term.pct for term in part.terms[:MOST]] == sorted((t.pct for t in part.terms[:MOST]), reverse=True)
    assert math.fsum(term.samples for term in part.terms) == found.weights["data_wait"].sum()
    assert rest.sass is None and "further instructions" in rest.what and rest.pct > 0


def test_the_timeline_behind_ramp_and_tail_is_named_with_its_borders(reports):
    report = next(one for one in reports if one.path.match("gemm_tma/stages3"))
    found = account(report.launch(0))
    explained = explain(report.launch(0))
    borders = explained.timeline
    assert borders.series == "tensor" and borders.with_ctas and borders.steady_pct == found.phases.steady
    assert borders.start_ns <= borders.ramp_end_ns < borders.tail_start_ns <= borders.end_ns
    ramp = next(one for one in explained.parts if one.part == "ramp")
    assert ramp.inputs == {"loss by the timeline of tensor": found.phases.ramp}


def test_json_has_the_member_only_where_it_is_asked_for(reports):
    some = [reports[0].path]
    assert "explain" not in report(some).to_json()["launches"][0]
    launch = report(some, explained=True).to_json()["launches"][0]
    assert set(launch["explain"]) == {"parts", "timeline", "samples", "missing", "load"}
    json.dumps(launch, allow_nan=False)


def test_a_launch_without_account_says_what_is_missing():
    launch = OneLaunch({"gpu__time_duration.sum": 1e5})
    explained = explain(launch)
    assert explained.parts == () and "collected" in explained.missing[0]


def test_a_report_without_timeline_and_samples_names_both():
    launch = Synthetic({TENSOR + ELAPSED: 40.0, **CYCLES}, kernel((SASS[0], "wait", 3)))
    explained = explain(launch)
    parts = {one.part: one for one in explained.parts}
    assert parts["no_cta"].inputs == CYCLES and parts["idle"].pct == pytest.approx(50.0)
    assert explained.timeline is None and explained.samples == {}
    assert [text.partition(":")[0] for text in explained.missing] == [
        "idle time is not split",
        "ramp, tail and wave gaps are not separated",
    ]


def test_shares_of_active_cycles_are_traced_to_three_counters():
    words, counters = unit_counters(OneLaunch({TENSOR + ACTIVE: 50.0, **CYCLES}), "tensor")
    assert counters == {TENSOR + ACTIVE: 50.0, **CYCLES} and "active cycles" in words


def test_the_busiest_of_single_operations_is_the_one_that_is_named():
    hmma, imma = ("sm__pipe_tensor_op_hmma_cycles_active", "sm__pipe_tensor_op_imma_cycles_active")
    _, counters = unit_counters(OneLaunch({hmma + ELAPSED: 10.0, imma + ELAPSED: 60.0}), "tensor")
    assert counters == {imma + ELAPSED: 60.0}


@settings(max_examples=60, deadline=None)
@given(
    pct=st.floats(0, 100),
    active=st.floats(1, 1000),
    lines=st.lists(st.tuples(st.sampled_from(SASS), st.sampled_from(REASONS), st.integers(0, 90)), max_size=20),
    levels=st.one_of(st.just([]), st.lists(st.floats(0, 100), min_size=25, max_size=40)),
)
def test_terms_sum_to_their_part_whatever_the_report_holds(pct, active, lines, levels):
    metrics = {TENSOR + ELAPSED: pct, "sm__cycles_active.avg": active, "sm__cycles_elapsed.avg": 1000.0}
    launch = Synthetic(metrics, kernel((SASS[0], "wait", 1), *lines), levels)
    for one in explain(launch).parts:
        assert math.fsum(term.pct for term in one.terms) == pytest.approx(one.pct, abs=1e-6)
        assert all(term.pct >= 0 for term in one.terms)


def test_a_launch_that_cannot_be_explained_is_an_error_and_hides_no_other(monkeypatch):
    def refuse(launch):
        if launch.report.path.name == "cp_async0":
            raise ValueError("nonsense")
        return explain(launch)

    monkeypatch.setattr("ncubble.analysis.account.explain.explain", refuse)
    found = report([H100 / "sdpa_fp8_stage_c_wmma"], explained=True)
    assert [launch in found.explanations for launch in found.launches] == [False, True]
    assert len(found.errors) == 1 and "contradicts itself" in found.errors[0].error
