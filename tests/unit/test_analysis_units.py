"""Which unit a launch is measured by, and what is said where the report cannot tell."""

import math

import pandas as pd
import pytest

from ncubble.analysis.diagnose import diagnose
from ncubble.analysis.units import MEMORY, busy_of, tensor_utilization, uses_tensor, utilization

NAN = math.nan
ELAPSED, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active"
CTAS = {"sm__cycles_active.avg": 90.0, "sm__cycles_elapsed.avg": 100.0}


class Launch:
    """One launch of a report: scalar ``metrics``, and ``code`` as (opcode, executed, samples)."""

    def __init__(self, metrics, *code):
        self.metrics = metrics
        self.code = pd.DataFrame(code, columns=["opcode", "executed", "samples"])

    def value(self, launch, metric):
        return self.metrics.get(metric, NAN)

    def source_of(self, launch):
        return self.code


def test_executed_code_without_mma_decides_against_a_busy_tensor_pipe():
    launch = Launch({TENSOR + ELAPSED: 30.0}, ("HFMA2.MMA", 9.0, 0.0), ("FFMA", 9.0, 4.0))
    assert uses_tensor(launch, 0) is False


def test_samples_that_hit_no_mma_prove_nothing():
    busy = Launch({TENSOR + ELAPSED: 30.0}, ("FFMA", NAN, 4.0))
    assert uses_tensor(busy, 0) is True
    assert uses_tensor(Launch({TENSOR + ELAPSED: 1.0}, ("FFMA", NAN, 4.0)), 0) is False
    assert uses_tensor(Launch({}, ("FFMA", NAN, 4.0)), 0) is None
    assert uses_tensor(Launch({}, ("FFMA", NAN, 4.0), ("HMMA.16816.F32", NAN, 1.0)), 0) is True


def test_an_mma_that_never_ran_is_no_tensor_work():
    assert uses_tensor(Launch({}, ("HMMA.16816.F32", 0.0, 0.0), ("FFMA", 7.0, 0.0)), 0) is False


@pytest.mark.parametrize("opcode", ["???", ""])
def test_code_that_cannot_be_disassembled_decides_nothing(opcode):
    assert uses_tensor(Launch({TENSOR + ELAPSED: 30.0}, (opcode, 7.0, 3.0)), 0) is True


@pytest.mark.parametrize("kind", ["hmma", "imma", "dmma"])
def test_without_the_whole_pipe_its_busiest_operation_counts(kind):
    single = dict.fromkeys(
        (f"sm__pipe_tensor_op_{name}_cycles_active{ACTIVE}" for name in ("hmma", "imma", "dmma")), 0.0
    )
    launch = Launch({**CTAS, **single, f"sm__pipe_tensor_op_{kind}_cycles_active{ACTIVE}": 40.0})
    assert tensor_utilization(launch, 0) == pytest.approx(36.0)
    assert busy_of(launch, 0).pct == pytest.approx(36.0)
    assert tensor_utilization(Launch({**launch.metrics, TENSOR + ELAPSED: 50.0}), 0) == 50.0


def test_dram_is_the_sum_of_both_directions_where_nothing_else_tells_it():
    read, write = (f"dram__bytes_{way}.sum.pct_of_peak_sustained_elapsed" for way in ("read", "write"))
    both = {read: 30.0, write: 12.5}
    assert utilization(Launch(both), 0, MEMORY["dram"]) == 42.5
    assert busy_of(Launch(both, ("FFMA", 9.0, 0.0)), 0).unit == "dram"
    assert math.isnan(utilization(Launch({read: 30.0}), 0, MEMORY["dram"]))
    assert utilization(Launch({**both, "dram__throughput" + ELAPSED: 50.0}), 0, MEMORY["dram"]) == 50.0


def said(launch):
    return diagnose(launch, 0, None).warnings[0]


def test_what_lacks_is_said_as_it_is():
    assert "tensor pipe's utilization was not collected" in said(Launch({}, ("HMMA.16816.F32", 5.0, 0.0)))
    only_dram = said(Launch({"gpu__dram_throughput" + ELAPSED: 60.0}))
    assert "whether the kernel uses the tensor pipe is not known" in only_dram
    assert "that of dram was" in only_dram
    assert "no utilization of elapsed cycles" in said(Launch({"sm__inst_executed_pipe_alu" + ACTIVE: 62.0}))
