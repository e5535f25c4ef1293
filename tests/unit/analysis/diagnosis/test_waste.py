"""Waste: what must be named as such, and what looks like it and must not."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.units import Busy, busy_of
from ncubble.analysis.diagnosis.diagnose import hottest, launch_verdict
from ncubble.analysis.diagnosis.waste import waste_of
from ncubble.analysis.report.frames import opcode
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT
from tests.helpers.one_launch import OneLaunch

CYCLES, SMS = 1e6, 100.0
FEW = {"fma": 20.0, "l2": 10.0, "dram": 5.0}


def facts(code, shares, **given):
    """Evidence of a launch of 1e6 cycles on 100 SMs; ``code``: instructions and executions."""
    sass = [text for text, _ in code]
    source = pd.DataFrame(
        {
            **{"sass": sass, "opcode": [opcode(text) for text in sass]},
            **{"executed": [float(count) for _, count in code], "file": "k.cu", "line": range(1, len(code) + 1)},
        }
    )
    quantities = {"sms": SMS, **given.pop("quantities", {})}
    usual = {"grid": 1000.0, "block": 8.0, "cycles": CYCLES, "duration_ns": 6e5, "dram_read_B": 1e6}
    unit = given.pop("unit", max(shares, key=shares.get))
    return Evidence(source=source, shares=shares, busy=Busy(unit, 0.0), quantities=quantities, **(usual | given))


def told(found, busy=None, unit=None, triton=False, signature="kernel(float *)"):
    unit = unit or found.unit
    busy = found.shares.get(unit, 0.0) if busy is None else busy
    work = {"tensor_busy": busy, "unit_busy": 0.0} if unit == "tensor" else {"tensor_busy": 0.0, "unit_busy": busy}
    return waste_of(found, BubbleAccount(0, unit, {**work, "issue": 100.0 - busy}), signature, triton)


def kinds(*given, **more):
    return [change.kind for change in told(*given, **more)]


def test_conflicts_in_a_full_lsu_gain_until_the_next_unit_is_full():
    code = [("LDS.128 R4, [R8]", 100), ("FFMA R1, R2, R3, R1", 800)]
    counts = {"lsu_data_pipe_pct": 80.0, "shared_excess": 0.4 * 0.8 * CYCLES * SMS}
    (change,) = told(facts(code, {**FEW, "lsu": 80.0}, quantities=counts))
    assert change.kind == "shared_layout" and change.part == "unit_busy"
    assert change.gain_pct == pytest.approx(40.0) and "k.cu:1 (LDS.128 R4, [R8])" in change.text
    (bounded,) = told(facts(code, {**FEW, "fma": 64.0, "lsu": 80.0}, quantities=counts))
    assert bounded.gain_pct == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("lsu", "conflicts"), [(80.0, 0.1), (80.0, math.nan), (40.0, 0.4)], ids=["few", "not collected", "idle LSU"]
)
def test_a_full_lsu_without_conflicts_and_conflicts_in_an_idle_one_are_no_waste(lsu, conflicts):
    counts = {"lsu_data_pipe_pct": lsu, "shared_excess": conflicts * lsu / 100 * CYCLES * SMS}
    assert kinds(facts([("LDS R4, [R8]", 100)], {**FEW, "lsu": lsu}, quantities=counts)) == []


def test_conflicts_do_not_explain_an_l1tex_that_is_full_of_something_else():
    counts = {"lsu_data_pipe_pct": 5.0, "shared_excess": 0.04 * CYCLES * SMS}
    assert kinds(facts([("LDS R4, [R8]", 100)], {**FEW, "l1tex": 93.0}, quantities=counts)) == []


@pytest.mark.parametrize(("tensor", "named"), [(4.0, True), (90.0, False)])
def test_conflicts_hold_tensor_cores_up_where_the_lsu_is_fuller_than_they_are(tensor, named):
    """As in an attention kernel of a public report: LSU 95 %, tensor pipe 4 %."""
    counts = {"lsu_data_pipe_pct": 80.0, "shared_excess": 0.7 * 0.8 * CYCLES * SMS}
    code = [("STS.64 [R3], R24", 100), ("HMMA.16816.F32 R24, R20, R32, R24", 100)]
    found = told(facts(code, {**FEW, "lsu": 80.0}, unit="tensor", quantities=counts), busy=tensor)
    assert [(change.kind, change.part) for change in found] == ([("shared_layout", "smem_wait")] if named else [])
    assert not named or found[0].gain_pct == pytest.approx(70.0)  # 24 % of the LSU are left, more than of the FMA pipe


LOCAL = [("LDL.128 R4, [R1]", 2000), ("STL [R1], R4", 1000), ("LDG.E R2, [R2.64]", 100), ("FFMA R1, R2, R3, R1", 9000)]


def local_sectors(looked, missed, l2):
    names = ("local_load_sectors", "local_store_sectors", "local_load_misses", "local_store_misses")
    values = (looked / 2, looked / 2, missed / 2, missed / 2)
    return {**dict(zip(names, values, strict=True)), "l2_sectors": l2}


def test_local_memory_that_fills_dram_is_named_with_its_bytes_and_its_line():
    found = facts(LOCAL, {**FEW, "dram": 80.0}, quantities=local_sectors(2e8, 1.8e8, 2e8))
    (change,) = told(found)
    assert change.kind == "local_memory"
    assert "5.8 GB of the 6.4 GB" in change.text and "k.cu:1 (LDL.128 R4, [R1])" in change.text
    assert change.gain_pct == pytest.approx(75.0)  # the FMA pipe is next


def test_local_accesses_that_hit_l1_are_none():
    assert kinds(facts(LOCAL, {**FEW, "dram": 80.0}, quantities=local_sectors(2e8, 1e5, 2e8))) == []


def test_without_counters_of_local_memory_what_l2_serves_beyond_global_accesses_is_local():
    executed = 128.0 * (4 * 2000 + 1000)  # bytes: the loads have four words
    more = {"l2_sectors": (executed + 128.0 * 100) / 32}
    assert kinds(facts(LOCAL, {**FEW, "l2": 70.0}, quantities=more)) == ["local_memory"]
    assert kinds(facts(LOCAL, {**FEW, "l2": 70.0}, quantities={"l2_sectors": 128.0 * 100 / 32})) == []


def test_spills_of_triton_are_left_to_warps_and_tiles():
    assert kinds(facts(LOCAL, {**FEW, "dram": 80.0}, quantities=local_sectors(2e8, 1.8e8, 2e8)), triton=True) == []


RED = "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R0"


@pytest.mark.parametrize("cycles", [1e6, 2.5e6])
def test_atomics_at_one_address_are_named_and_not_the_stores_that_are_not_there(cycles):
    found = facts([("LDG.E R0, [R4.64]", 32768), (RED, 32768)], {"l2": 6.0, "dram": 1.0}, cycles=cycles, grid=4096.0)
    (change,) = told(found)
    assert change.kind == "atomics" and change.gain_pct is None and "1,048,576 atomics" in change.text


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ([(RED, 32768)], {"cycles": 1e5}),
        ([(RED, 32768)], {"quantities": {"red_sectors": 1e6, "atomic_most_pct": 6.0, "atomic_mean_pct": 4.0}}),
        ([(RED, 4096)], {}),
        ([(RED, 32768), ("STG.E [R2.64], R0", 65536)], {}),
        ([(RED, 32768), ("SHFL.BFLY PT, R2, R3, 0x1, 0x1f", 5 * 32768)], {"cycles": 1e6}),
    ],
    ids=["too many for one address", "all slices add", "one of each CTA", "more stores", "one lane of each warp"],
)
def test_other_atomics_are_none(code, more):
    assert kinds(facts(code, {"l2": 6.0, "dram": 1.0}, **{"grid": 4096.0, **more})) == []


@pytest.mark.parametrize(
    ("fences", "waiting", "dram", "named"), [(65536, 50, 20.0, True), (1000, 50, 20.0, False), (65536, 5, 20.0, False),
                                             (65536, 50, 85.0, False)],
    ids=["fences", "few fences", "no waits", "full DRAM"],
)  # fmt: skip
def test_atomics_between_fences_that_warps_wait_at_are_told_to_be_relaxed(fences, waiting, dram, named):
    code = [("ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU PT, RZ, [R2.64], R0", 32768), ("MEMBAR.ALL.GPU", fences)]
    found = facts(code, {"l2": 99.0, "dram": dram}, grid=4096.0)
    found.__dict__["samples"] = pd.DataFrame({"reason": ["membar", "wait"], "samples": [waiting, 100 - waiting]})
    assert ["relaxed" in change.text for change in told(found) if change.kind == "atomics"] == ([True] if named else [])


def test_atomics_beside_a_full_dram_are_none():
    assert kinds(facts([(RED, 32768)], {"l2": 6.0, "dram": 80.0}, grid=4096.0)) == []


DOUBLE = [
    ("F2F.F64.F32 R2, R0", 100),
    ("DFMA R2, R2, R4, R6", 100),
    ("F2F.F32.F64 R0, R2", 100),
    ("IADD3 R1, R1, 1", 90),
]


def test_floats_that_become_doubles_and_floats_again_are_an_accident():
    found = facts(DOUBLE, {**FEW, "fp64": 75.0, "fma": 5.0})
    (change,) = told(found)
    assert change.kind == "precision" and "k.cu:2 (DFMA" in change.text and change.gain_pct > 80.0
    assert kinds(found, triton=True) == ["precision"]


def test_doubles_in_memory_and_sums_in_double_are_none():
    data = [("LDG.E.64 R2, [R4.64]", 100), ("DFMA R2, R2, R4, R6", 6400)]
    assert kinds(facts(data, {**FEW, "fp64": 90.0})) == []
    total = [DOUBLE[0], ("DADD R2, R2, R4", 100), ("F2F.F32.F64 R0, R2", 3), ("FFMA R1, R1, R2, R3", 100)]
    assert kinds(facts(total, {**FEW, "xu": 80.0, "fp64": 20.0})) == []


def test_without_code_a_full_fp64_pipe_is_an_accident_only_of_kernels_that_take_floats():
    found = facts([], {**FEW, "fp64": 41.0})
    assert kinds(found, signature="mix(Soil, unsigned int, float)") == ["precision"]
    assert kinds(found, signature="mix(const double *, float)") == kinds(found, signature="mix(Soil)") == []


UNTILED = [("LDG.E R2, [R4.64]", 1e6), ("LDG.E R3, [R6.64]", 1e6), ("FFMA R0, R2, R3, R0", 1e6)]


def test_loads_that_a_tile_saves_are_named():
    found = facts(UNTILED, {**FEW, "lsu": 83.0}, quantities={"load_sectors": 4e6}, dram_read_B=6.4e6)
    assert kinds(found) == ["reuse"] and kinds(found, triton=True) == []


@pytest.mark.parametrize(
    ("code", "read_B"),
    [
        (UNTILED, 6.4e7),
        (
            [
                ("LDG.E R2, [R4.64]", 1.2e5),
                ("STS [R2], R2", 1.2e5),
                ("LDS R2, [R8]", 2e5),
                ("FFMA R0, R2, R3, R0", 1e6),
            ],
            6.4e5,
        ),
        ([("LDG.E R2, [R4.64]", 1e6), ("IADD3 R0, R2, R3, R0", 1e6)], 6.4e6),
    ],
    ids=["a vector: read once", "tiles", "no products"],
)
def test_other_loads_are_none(code, read_B):  # noqa: N803
    counts = {"load_sectors": 4e5 if len(code) == 4 else 4e6}
    assert kinds(facts(code, {**FEW, "lsu": 83.0}, quantities=counts, dram_read_B=read_B)) == []


@pytest.mark.parametrize(
    ("reads", "factor", "lsu", "named"),
    [(1000, "R29", 81.0, True), (125, "R29", 81.0, False), (1000, "R29", 40.0, False), (1000, "R2", 81.0, False)],
    ids=["one result a thread", "eight", "LSU not full", "what is read is added"],
)
def test_products_whose_operands_come_from_shared_memory_each_time_want_more_results_a_thread(
    reads, factor, lsu, named
):
    """In public reports of one product on a RTX 4060 one result a thread takes 140 ms (LSU 81 %,
    FMA 15 %), four take 62, eight 46, and 8 x 8 take 23 ms."""
    code = [("LDS.64 R28, [R7]", reads), (f"FFMA R1, {factor}, R28, R29", 1000)]
    found = facts(code, {**FEW, "lsu": lsu})
    assert kinds(found) == (["reuse"] if named else [])


@pytest.mark.parametrize(
    ("sectors", "shares", "gain"),
    [
        (8.0e6, {"l2": 89.0, "dram": 28.0}, 68.5),
        (1.0e6, {"l2": 89.0, "dram": 28.0}, None),
        (8.0e6, {"l2": 29.0, "dram": 28.0}, None),
        (8.0e6, {"l2": 87.0, "dram": 93.0}, None),
    ],
    ids=["members of structures", "whole sectors", "L2 not busy", "DRAM full"],
)
def test_stores_apart_fill_l2_with_sectors_that_their_bytes_do_not(sectors, shares, gain):
    """Eleven floats of a structure: a public report of a RTX 4070 (L2 89 %, DRAM 28 %)."""
    counts = {"store_sectors": sectors, "l2_sectors": sectors}
    found = told(facts([("STG.E [R2.64], R5", 2.5e5)], {**FEW, **shares}, quantities=counts))
    assert [change.kind for change in found] == ([] if gain is None else ["copies"])
    assert gain is None or found[0].gain_pct == pytest.approx(gain, abs=0.1)


@pytest.mark.parametrize(
    ("written", "looked", "dram", "named"),
    [(2.4e9, 1.0, 89.0, True), (2.7e8, 1.0, 89.0, False), (2.4e9, 1.0, 40.0, False), (2.4e9, 8.0, 89.0, False)],
    ids=["parts of sectors", "whole sectors", "DRAM not full", "loads are apart"],
)
def test_dram_that_moves_more_than_is_asked_for_is_full_of_stores_apart(written, looked, dram, named):
    """One member of each structure at a time: DRAM reads what it writes back."""
    code = [("LDG.E R5, [R4.64]", 2.0e6), ("STG.E [R2.64], R5", 2.0e6)]
    counts = {"load_sectors": looked * 8.0e6, "l2_sectors": 1.7e8 if named else 1e6}
    found = facts(code, {**FEW, "dram": dram}, quantities=counts, dram_read_B=written, dram_written_B=written)
    assert kinds(found) == (["copies"] if named else [])


def test_mmas_straight_from_global_memory_want_a_tile_unless_operands_are_read_once():
    code = [("LDG.E R2, [R4.64]", 8e6), ("HMMA.16816.F32 R8, R12, R16, R8", 1e6)]
    known = {"unit": "tensor", "quantities": {"load_sectors": 4e6}}
    found = facts(code, {**FEW, "lsu": 50.0}, **known, dram_read_B=6.4e6)
    assert [change.kind for change in told(found, 6.0, "tensor")] == ["reuse"]
    once = facts(code, {**FEW, "lsu": 50.0}, **known, dram_read_B=3.2e7)
    assert told(once, 6.0, "tensor") == []


@pytest.mark.parametrize(
    ("step", "dram", "named"),
    [("NOP", 40.0, True), ("IADD3 R2, P0, R2, 0x4, RZ", 40.0, False), ("NOP", 85.0, False)],
    ids=["one address", "one for each", "DRAM full"],
)
def test_a_sum_that_is_stored_after_each_term_belongs_in_a_register(step, dram, named):
    code = ["LDG.E R6, [R8.64]", "FADD R5, R5, R6", "STG.E [R2.64], R5", step, "BRA 0x0"]
    found = facts([(text, 900) for text in code], {**FEW, "dram": dram})
    waiting = BubbleAccount(0, "dram", {"tensor_busy": 0.0, "unit_busy": dram, "data_wait": 100.0 - dram})
    assert [change.kind for change in waste_of(found, waiting, "", triton=False)] == (["reuse"] if named else [])
    assert kinds(found) == []


@pytest.mark.parametrize(
    ("made", "waiting", "named"),
    [(100, 30.0, True), (10, 30.0, False), (100, 10.0, False)],
    ids=["a tree in shared memory", "few barriers", "nobody waits"],
)
def test_trees_with_a_barrier_for_each_step_are_told_to_combine_within_a_warp(made, waiting, named):
    """Scans and reductions of public programs: 5 to 13 % of their instructions are barriers."""
    found = facts([("LDS R2, [R4]", 900), ("BAR.SYNC.DEFER_BLOCKING 0x0", made)], {**FEW, "lsu": 80.0})
    found.__dict__["samples"] = pd.DataFrame({"reason": ["barrier", "wait"], "samples": [waiting, 100.0 - waiting]})
    assert kinds(found) == (["barriers"] if named else [])


def test_a_debug_build_is_said_before_all_else():
    code = [("MOV R0, R0", 9), ("@P0 MOV R1, R1", 9), *LOCAL]
    found = facts(code, {**FEW, "dram": 80.0}, quantities=local_sectors(2e8, 1.8e8, 2e8))
    assert kinds(found) == ["build", "local_memory"]
    assert kinds(facts([("MOV R1, R0", 9)] * 9, FEW)) == []


WGMMA, WAIT = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR16].tnspB, R24, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0"


def test_a_wait_after_each_product_of_an_accumulator_is_serialized():
    found = facts([(WGMMA, 9), (WAIT, 9)] * 4, FEW, unit="tensor")
    assert [change.kind for change in told(found, 40.0, "tensor")] == ["build"]
    assert told(found, 40.0, "tensor", triton=True) == []


@pytest.mark.parametrize(
    "code",
    [
        [WGMMA, WGMMA, WGMMA, WGMMA, WAIT],
        [WGMMA.replace("R24", "R56"), WAIT, WGMMA, WAIT, WGMMA.replace("R24", "R88"), WAIT],
        [WGMMA.replace("gdesc[UR16].tnspB", "R88"), WAIT] * 4,
        [WGMMA, WAIT, "BAR.SYNC.DEFER_BLOCKING 0x0"] * 4,
    ],
    ids=["a wait for each step", "other accumulators", "operands in registers", "barriers between"],
)
def test_waits_that_the_source_asks_for_are_none(code):
    assert told(facts([(text, 9) for text in code], FEW, unit="tensor"), 40.0, "tensor") == []


def test_the_highest_roof_is_named_and_its_part_where_that_is_known():
    of = {"lts__throughput": 60.0, "sm__inst_executed_pipe_lsu": 5.0}
    metrics = {stem + ".avg.pct_of_peak_sustained_elapsed": share for stem, share in of.items()}
    metrics |= {"sm__cycles_active.avg": 94.0, "sm__cycles_elapsed.avg": 100.0}
    metrics["l1tex__throughput.avg.pct_of_peak_sustained_active"] = 93.0
    code = [("FFMA", 9.0, 3.0)]
    assert busy_of(OneLaunch(metrics, code)).unit == "l1tex"
    metrics["sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"] = 85.0
    assert busy_of(OneLaunch(metrics, code)).unit == "lsu"


def test_a_waiting_line_is_one_that_runs():
    source = facts([("FFMA R0, R1, R2, R3", 9), ("EXIT", 9), ("BRA 0x100", 0)], FEW).source
    first, second = hottest(source, pd.Series([1.0, 0.0, 9.0]).to_numpy(), 50.0)
    assert (first.sass, first.pct) == ("EXIT", 45.0) and second.sass.startswith("FFMA")


@pytest.mark.parametrize("run", ["gemm_ws/default", "gemm_mma_swizzled/default", "async_copy_tma/default"])
def test_well_tuned_kernels_waste_nothing(run):
    launch = Report.open(ROOT / run).launch(0)
    assert waste_of(evidence(launch), account(launch), launch.identity.demangled, triton=False) == []


@pytest.mark.parametrize(("capability", "said"), [("9.0", False), ("10.0", True), ("12.0", True)])
def test_an_account_of_a_chip_that_was_not_measured_says_so(capability, said):
    report = Report.open(ROOT / "tensor_core_gemm" / "stages2")
    report._rows[0] = replace(report.identity(0), compute_capability=capability)
    warnings = launch_verdict(report.launch(0)).warnings
    assert any("were measured on H100 and H200" in text for text in warnings) is said
