"""Which unit a launch is measured by, and what is said where the report cannot tell."""

import math

import pytest

from ncubble.analysis.account.units import (
    MEMORY,
    busy_of,
    cta_share,
    tensor_utilization,
    unit_counters,
    uses_tensor,
    utilization,
)
from tests.helpers.one_launch import OneLaunch

NAN = math.nan
ELAPSED, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active"
CTAS = {"sm__cycles_active.avg": 90.0, "sm__cycles_elapsed.avg": 100.0}


def launch_of(metrics, *code, **identity):
    """One launch of a report: scalar ``metrics``, and ``code`` as (opcode, executed, samples)."""
    return OneLaunch(metrics, code, **identity)


def test_executed_code_without_mma_decides_against_a_busy_tensor_pipe():
    launch = launch_of({TENSOR + ELAPSED: 30.0}, ("HFMA2.MMA", 9.0, 0.0), ("FFMA", 9.0, 4.0))
    assert uses_tensor(launch) is False


def test_samples_that_hit_no_mma_prove_nothing():
    busy = launch_of({TENSOR + ELAPSED: 30.0}, ("FFMA", NAN, 4.0))
    assert uses_tensor(busy) is True
    assert uses_tensor(launch_of({TENSOR + ELAPSED: 1.0}, ("FFMA", NAN, 4.0))) is False
    assert uses_tensor(launch_of({}, ("FFMA", NAN, 4.0))) is None
    assert uses_tensor(launch_of({}, ("FFMA", NAN, 4.0), ("HMMA.16816.F32", NAN, 1.0))) is True


def test_an_mma_that_never_ran_is_no_tensor_work():
    assert uses_tensor(launch_of({}, ("HMMA.16816.F32", 0.0, 0.0), ("FFMA", 7.0, 0.0))) is False


@pytest.mark.parametrize("opcode", ["???", ""])
def test_code_that_cannot_be_disassembled_decides_nothing(opcode):
    assert uses_tensor(launch_of({TENSOR + ELAPSED: 30.0}, (opcode, 7.0, 3.0))) is True


@pytest.mark.parametrize("kind", ["hmma", "imma", "dmma"])
def test_without_the_whole_pipe_its_busiest_operation_counts(kind):
    single = dict.fromkeys(
        (f"sm__pipe_tensor_op_{name}_cycles_active{ACTIVE}" for name in ("hmma", "imma", "dmma")), 0.0
    )
    launch = launch_of({**CTAS, **single, f"sm__pipe_tensor_op_{kind}_cycles_active{ACTIVE}": 40.0})
    assert tensor_utilization(launch) == pytest.approx(36.0)
    assert busy_of(launch).pct == pytest.approx(36.0)
    assert tensor_utilization(launch_of({**launch.scalars, TENSOR + ELAPSED: 50.0})) == 50.0


def test_dram_is_the_sum_of_both_directions_where_nothing_else_tells_it():
    read, write = (f"dram__bytes_{way}.sum.pct_of_peak_sustained_elapsed" for way in ("read", "write"))
    both = {read: 30.0, write: 12.5}
    assert utilization(launch_of(both), MEMORY["dram"]) == 42.5
    assert busy_of(launch_of(both, ("FFMA", 9.0, 0.0))).unit == "dram"
    assert math.isnan(utilization(launch_of({read: 30.0}), MEMORY["dram"]))
    assert utilization(launch_of({**both, "dram__throughput" + ELAPSED: 50.0}), MEMORY["dram"]) == 50.0


def test_the_busiest_counter_of_a_unit_is_its_utilization():
    steps = {"sm__inst_executed_pipe_lsu": 12.0, "l1tex__data_pipe_lsu_wavefronts": 98.0, "lts__t_sectors": 36.0}
    launch = launch_of({TENSOR + ELAPSED: 0.0} | {name + ELAPSED: value for name, value in steps.items()})
    assert (busy_of(launch).unit, busy_of(launch).pct) == ("lsu", 98.0)
    assert unit_counters(launch, "lsu")[1] == {"l1tex__data_pipe_lsu_wavefronts" + ELAPSED: 98.0}


def test_gpc_cycles_stand_in_for_sm_cycles_where_those_were_not_collected():
    active, gpc = {"sm__cycles_active.avg": 90.0}, {"gpc__cycles_elapsed.max": 120.0}
    assert cta_share(launch_of(active | gpc)) == 0.75
    assert cta_share(launch_of(active | gpc | {"sm__cycles_elapsed.avg": 100.0})) == 0.9
    assert math.isnan(cta_share(launch_of(active)))


TC = "sm__pipe_tc_cycles_active"


def test_blackwell_counts_two_tensor_pipes_apart_and_the_busier_is_the_unit():
    both = {TENSOR + ELAPSED: 0.5, TC + ELAPSED: 70.0}
    b200 = launch_of(both, capability="10.0")
    assert (busy_of(b200).unit, busy_of(b200).pct, busy_of(b200).series) == ("tensor", 70.0, "tensor_tc")
    warp_level = busy_of(launch_of({TENSOR + ELAPSED: 12.5, TC + ELAPSED: 0.0}, capability="10.0"))
    assert (warp_level.pct, warp_level.series) == (12.5, "tensor")


@pytest.mark.parametrize(("capability", "used"), [("9.0", False), ("10.0", None), ("", False)])
def test_an_idle_tensor_pipe_proves_nothing_where_the_chip_has_another(capability, used):
    assert (
        uses_tensor(launch_of({TENSOR + ELAPSED: 0.0, "lts__throughput" + ELAPSED: 9.0}, capability=capability)) is used
    )


def test_units_that_the_chip_does_not_have_are_not_missed():
    fp16 = "sm__inst_executed_pipe_fp16" + ELAPSED
    metrics = {TENSOR + ELAPSED: 0.0, "lts__throughput" + ELAPSED: 9.0}
    assert fp16 in busy_of(launch_of(metrics, capability="8.0")).missing
    assert fp16 not in busy_of(launch_of(metrics, capability="9.0")).missing
