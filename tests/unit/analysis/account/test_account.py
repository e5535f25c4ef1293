"""The account sums to 100, is honest about what it lacks, and the phases find planted ramps, gaps
and tails."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.account.account import BubbleAccount, account, build, steady_weights
from ncubble.analysis.account.evidence import Evidence, find_phases
from ncubble.analysis.account.parts import STEADY
from ncubble.analysis.account.phases import Phases, phases
from ncubble.analysis.account.stalls import CLASSES
from ncubble.analysis.account.units import Busy
from ncubble.analysis.report.frames import tidy
from ncubble.analysis.report.report import Report
from ncubble.recordings import H100
from tests.helpers.one_launch import OneLaunch
from tests.helpers.sass_frames import kernel

EMPTY = pd.DataFrame({"samples": pd.Series(dtype=float)})


def timeline(values, step=2000):
    return pd.Series(np.asarray(values, dtype=float), index=np.arange(len(values)) * step)


def test_an_account_that_does_not_sum_to_100_cannot_be_made():
    with pytest.raises(ValueError, match="not a bubble account"):
        BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "idle": 59.0})
    with pytest.raises(ValueError, match="not a bubble account"):
        BubbleAccount(0, "tensor", {"tensor_busy": 120.0, "idle": -20.0})
    with pytest.raises(ValueError, match="unknown parts"):
        BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "gremlins": 60.0})


def test_rounding_in_the_third_digit_is_no_reason_to_refuse_an_account():
    assert BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "idle": 60.004})
    with pytest.raises(ValueError, match=r"sums to 100\.006"):
        BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "idle": 60.006})


def test_bubbles_are_the_idle_parts_that_took_time_largest_first():
    parts = {"tensor_busy": 30.0, "unit_busy": 10.0, "ramp": 0.0, "tail": 20.0, "data_wait": 40.0}
    assert list(BubbleAccount(0, "tensor", parts).bubbles.items()) == [("data_wait", 40.0), ("tail", 20.0)]


def test_a_recorded_launch_has_one_account_and_one_without_counters_none():
    launch = Report.open(H100 / "softmax_online" / "default").launch(0)
    found = account(launch)
    assert found is not None and found.unit == "dram" and "idle" not in found.parts
    assert account(launch) is found  # it is asked for in many places, and costs a look at all samples
    assert account(OneLaunch({})) is None


def built(busy, with_cta, timed, source):
    """The account of what was read of a launch."""
    return build(Evidence(busy=busy, with_cta=with_cta, phases=timed, source=source))


def losing(ramp=0.0, tail=0.0, wave_gap=0.0):
    """Phases with these losses in percent."""
    return Phases(ramp, tail, wave_gap, 80.0, 0, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("with_cta", "tail"),
    [
        (0.95, 6.0),  # the timeline shows more loss than the counter
        (0.85, 11.0),  # SMs had no CTA for longer than the timeline shows: they had run out
        (math.nan, 6.0),
    ],
)
def test_ramp_and_tail_together_are_at_least_the_time_without_cta(with_cta, tail):
    found = built(Busy("tensor", 40.0, "tensor"), with_cta, losing(4.0, 6.0, 2.0), EMPTY)
    outer = {"ramp": 4.0, "tail": tail, "wave_gap": 2.0}
    assert dict(found.parts) == pytest.approx(
        {"tensor_busy": 40.0, "unit_busy": 0.0, **outer, "idle": 60.0 - sum(outer.values())}
    )
    assert found.merged == {"idle": STEADY}


@pytest.mark.parametrize("lost", [{"ramp": 12.0}, {"tail": 12.0}, {"wave_gap": 12.0}, {}])
def test_a_kernel_may_lose_time_in_one_phase_alone_or_in_none(lost):
    found = built(Busy("fma", 70.0, "fma"), math.nan, losing(**lost), EMPTY)
    outer = {"ramp": 0.0, "tail": 0.0, "wave_gap": 0.0} | lost
    assert dict(found.parts) == pytest.approx(
        {"tensor_busy": 0.0, "unit_busy": 70.0, **outer, "idle": 30.0 - sum(lost.values())}
    )


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        ({"ramp": 4.0, "tail": 6.0, "wave_gap": 2.0}, {"ramp": 2.0, "tail": 3.0, "wave_gap": 1.0}),
        ({"ramp": 12.0}, {"ramp": 6.0}),
        ({"tail": 12.0}, {"tail": 6.0}),
        ({"wave_gap": 12.0}, {"wave_gap": 6.0}),
    ],
)
def test_phases_that_lose_more_than_the_idle_time_share_it_in_proportion(lost, left):
    found = built(Busy("tensor", 94.0, "tensor"), math.nan, losing(**lost), EMPTY)
    none = {"ramp": 0.0, "tail": 0.0, "wave_gap": 0.0, "idle": 0.0}
    assert dict(found.parts) == pytest.approx({"tensor_busy": 94.0, "unit_busy": 0.0} | none | left)


MMA = "HMMA.16816.F32 R8, R12, R16, R8"


def sampled(data_wait, unit=0, smem_wait=0):
    """Code with so many samples in each class."""
    return kernel(
        ("LDS.128 R40, [R20]", "mio_throttle", smem_wait),
        "LDGSTS.E.BYPASS.128 [R2], [R4.64]",
        ("DEPBAR.LE SB0, 0x1", "long_scoreboard", data_wait),
        (MMA, "math_pipe_throttle", unit),
    )


def test_steady_idle_time_is_shared_out_by_samples():
    found = built(Busy("tensor", 40.0, "tensor"), 0.9, losing(4.0, 6.0), sampled(75, smem_wait=25))
    steady = dict.fromkeys(STEADY, 0.0) | {"data_wait": 37.5, "smem_wait": 12.5}
    outer = {"ramp": 4.0, "tail": 6.0, "wave_gap": 0.0}
    assert dict(found.parts) == pytest.approx({"tensor_busy": 40.0, "unit_busy": 0.0, **outer, **steady})
    assert found.merged == {}


@pytest.mark.parametrize(
    ("with_cta", "issue"),
    [
        (0.5, 0.0),  # 40 % of all cycles are 80 % of those with a CTA, as are the samples at the MMA
        (1.0, 2 / 3),
        (math.nan, 2 / 3),
    ],
)
def test_waits_on_the_mma_are_compared_with_the_pipe_in_the_time_with_a_cta(with_cta, issue):
    found = built(Busy("tensor", 40.0, "tensor"), with_cta, losing(), sampled(20, unit=80))
    steady = found.parts["issue"] + found.parts["data_wait"]
    assert steady == pytest.approx(10.0 if with_cta == 0.5 else 60.0)
    assert found.parts["issue"] / steady == pytest.approx(issue)


def test_idle_time_that_no_sample_explains_is_other():
    finished = kernel(MMA, ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 60), "EXIT")
    found = built(Busy("tensor", 90.0, "tensor"), math.nan, losing(), finished)
    assert {part: pct for part, pct in found.parts.items() if pct} == pytest.approx(
        {"tensor_busy": 90.0, "other": 10.0}
    )


@pytest.mark.parametrize(("samples", "splits"), [(49, False), (50, True)])
def test_few_samples_carry_no_split(samples, splits):
    found = built(Busy("tensor", 40.0, "tensor"), math.nan, None, sampled(samples))
    assert ("data_wait" in found.parts, "idle" in found.merged) == (splits, not splits)
    assert (found.weights is not None) == splits


@pytest.mark.parametrize(("unread", "busy", "splits"), [(5, 40.0, True), (6, 40.0, False), (6, 60.0, True)])
def test_samples_without_text_that_stand_for_three_percent_of_time_carry_no_split(unread, busy, splits):
    source = sampled(100 - unread, unit=unread)
    source.loc[3, ["sass", "opcode"]] = ""
    assert ("data_wait" in built(Busy("tensor", busy, "tensor"), math.nan, None, source).parts) == splits


def test_a_kernel_begins_where_its_sms_do_something():
    """As of a RTX 5090, whose series begin 60 us earlier, with traffic of others over PCIe."""
    values = {"pmsampling:pcie__throughput.avg.pct_of_peak_sustained_elapsed": [30.0] * 60}
    values["pmsampling:sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed"] = [0.0] * 20 + [
        70.0
    ] * 40
    rows = [(0, 7_000 + 3_000 * at, name, value, "%") for name, some in values.items() for at, value in enumerate(some)]
    timeline = tidy(pd.DataFrame(rows, columns=["launch", "t_ns", "metric", "value", "unit"]))
    assert timeline["t_ns"].min() == -60_000
    _, found = find_phases(timeline, Busy("tensor", 40.0, "tensor"))
    assert found is not None and (found.ramp, found.start_ns) == (0.0, 0)


def test_phases_are_read_off_the_units_own_series_or_else_off_issued_instructions():
    def launch(**series):
        rows = [(name, 2000 * i, value) for name, values in series.items() for i, value in enumerate(values)]
        return pd.DataFrame(rows, columns=["metric", "t_ns", "value"])

    late, early, short = [0.0] * 10 + [80.0] * 30, [80.0] * 40, [80.0] * 5
    name, found = find_phases(launch(tensor=late, issue=early), Busy("tensor", 40.0, "tensor"))
    assert name == "tensor" and found is not None and found.ramp > 10.0
    for series in ({"issue": early}, {"issue": early, "tensor": short}):
        name, found = find_phases(launch(**series), Busy("tensor", 40.0, "tensor"))
        assert name == "issue" and found is not None and found.ramp == 0.0
    assert find_phases(launch(issue=early), Busy("fma", 40.0))[0] == "issue"
    assert find_phases(launch(tensor=late), Busy("fma", 40.0)) == ("", None)


def test_without_timeline_and_samples_the_parts_are_merged_and_named():
    found = built(Busy("tensor", 40.0, "tensor"), 0.9, None, EMPTY)
    assert dict(found.parts) == pytest.approx({"tensor_busy": 40.0, "unit_busy": 0.0, "no_cta": 10.0, "idle": 50.0})
    assert found.merged == {"no_cta": ("ramp", "tail"), "idle": ("wave_gap", *STEADY)}


def test_without_any_cycle_counter_all_idle_time_is_one_part():
    found = built(Busy("tensor", 25.0, "tensor"), math.nan, None, EMPTY)
    assert dict(found.parts) == {"tensor_busy": 25.0, "unit_busy": 0.0, "idle": 75.0}
    assert found.merged == {"idle": ("ramp", "tail", "wave_gap", *STEADY)}


def test_waits_on_the_mma_are_no_bubble_while_the_pipe_is_busy_and_issue_beyond_that():
    samples = pd.Series(dict.fromkeys(CLASSES, 0.0) | {"unit": 60.0, "data_wait": 40.0})
    assert steady_weights(samples, 60.0, 100.0) == dict.fromkeys(STEADY, 0.0) | {"data_wait": 40.0}
    assert steady_weights(samples, 20.0, 100.0)["issue"] == pytest.approx(40.0)


@settings(max_examples=200, deadline=None)
@given(
    pct=st.floats(0, 100),
    with_cta=st.one_of(st.just(math.nan), st.floats(0, 1)),
    levels=st.lists(st.floats(0, 100), max_size=80),
)
def test_every_account_sums_to_100_with_no_negative_part(pct, with_cta, levels):
    series = timeline(levels)
    found = built(Busy("tensor", pct, "tensor"), with_cta, phases(series, timeline([])), EMPTY)
    assert math.fsum(found.parts.values()) == pytest.approx(100.0, abs=1e-9)
    assert min(found.parts.values()) >= 0.0


def test_phases_find_a_planted_ramp_gap_and_tail():
    steady = [80.0] * 30
    found = phases(timeline([0.0] * 5 + steady + [10.0] * 4 + steady + [0.0] * 10 + [5.0]), timeline([]))
    total = 5 + 30 + 4 + 30 + 10 + 1
    assert found is not None
    assert found.steady == pytest.approx(80.0)
    assert found.wave_gap == pytest.approx(100 * 4 * 0.7 / total, rel=0.05)
    assert found.ramp == pytest.approx(100 * 5 * 0.8 / total, rel=0.05)
    assert found.tail == pytest.approx(100 * (10 * 0.8 + 0.75) / total, rel=0.05)
    assert len(found.dips) == 1


def test_samples_after_the_kernel_are_no_tail():
    active = timeline([100.0] * 40 + [0.0] * 40)
    found = phases(timeline([70.0] * 40 + [0.0] * 40), active)
    assert found is not None and found.tail == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("values", [[], [50.0] * 10, [0.0] * 60])
def test_too_short_or_idle_timelines_tell_nothing(values):
    assert phases(timeline(values), timeline([])) is None


def test_a_partial_last_wave_is_tail_though_the_unit_still_works():
    active = timeline([100.0] * 60 + [70.0] * 20)
    found = phases(timeline([80.0] * 60 + [56.0] * 20), active)
    assert found is not None
    assert found.tail == pytest.approx(100 * 20 * 0.3 / 80, rel=0.08) and found.wave_gap == 0.0


def test_phases_of_a_kernel_that_is_short_beside_its_timeline_are_numbers():
    busy, active = timeline([0.0] * 600 + [70.0] * 25), timeline([0.0] * 600 + [90.0] * 25)
    found = phases(busy, active)
    assert found is not None and found.steady == pytest.approx(70.0) and found.ramp == found.tail == 0.0
