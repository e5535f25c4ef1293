"""Kernels without tensor work, as recorded on an H100: ``tests/data/cores/cores.cu``, all launches
with the counters of the default sets."""

from pathlib import Path

import pytest

from ncubble.analysis.account.account import account
from ncubble.analysis.account.evidence import evidence
from ncubble.analysis.diagnosis.brief import fixes
from ncubble.analysis.diagnosis.diagnose import diagnose, launch_verdict, overfetch
from ncubble.analysis.diagnosis.diseases import disease_of, fix_of
from ncubble.analysis.diagnosis.words import sentence
from ncubble.analysis.report.report import Report
from tests.unit.analysis.diagnosis.test_diagnose import FFMA, HMMA, facts, verdict
from tests.unit.analysis.diagnosis.test_diagnose import account as account_of

COPY_COLS, COPY_ROWS, TAPS_COLS, TAPS_ROWS, SUM_FEW, SUM, CHAIN64 = range(7)
LDG = "LDG.E R4, [R2.64]"


@pytest.fixture(scope="module")
def recorded() -> Report:
    return Report.open(Path(__file__).parents[3] / "data" / "cores" / "report.ncu-repz")


@pytest.mark.parametrize(
    ("number", "unit", "cause", "disease"),
    [
        (COPY_COLS, "l2", "copy_cost", "uncoalesced"),
        (COPY_ROWS, "dram", "memory_bound", None),
        (TAPS_COLS, "lsu", "copy_cost", "uncoalesced"),
        (SUM_FEW, "dram", "tail", "too_few_ctas"),
        (SUM, "dram", "data_wait", None),
        (CHAIN64, "fp64", "issue", None),
    ],
)
def test_what_bounds_a_kernel_without_tensor_work(recorded, number, unit, cause, disease):
    told = launch_verdict(recorded.launch(number))
    assert (told.unit, told.cause, told.disease) == (unit, cause, disease)
    assert told.integrity == "ok"


@pytest.mark.parametrize(("slow", "fast"), [(COPY_COLS, COPY_ROWS), (TAPS_COLS, TAPS_ROWS)])
def test_the_gain_of_coalesced_accesses_is_what_the_twin_measured(recorded, slow, fast):
    launch = recorded.launch(slow)
    measured = 100.0 * (1.0 - recorded.launch(fast).identity.cycles / launch.identity.cycles)
    found = account(launch)
    fix = fixes(diagnose(launch, found))[0]
    assert fix.cause == "copy_cost" and fix.low < measured
    assert fix.predicted_gain_pct == pytest.approx(measured, abs=10.0)


def test_the_next_roof_bounds_the_gain():
    found = account_of("l2", data_wait=10.0)
    for dram, gain in ((10.0, 1.0 - 1 / 8), (45.0, 0.5), (79.0, 1.0 - 79 / 90)):
        what = facts(LDG, fetched=8.0, dram_pct=dram, shares={"l2": 90.0, "dram": dram})
        assert overfetch(what, found).gain.expected == pytest.approx(100.0 * gain)
    assert overfetch(facts(LDG, fetched=8.0, shares={"l2": 90.0, "dram": 81.0}), found) is None
    assert (
        verdict(found, facts(LDG, fetched=8.0, dram_pct=81.0, shares={"l2": 90.0, "dram": 81.0}))[0] == "memory_bound"
    )


@pytest.mark.parametrize(
    ("unit", "given", "share"),
    [
        ("l2", {"fetched": 1.2}, None),
        ("l2", {"fetched": 1.0, "sectors": 8.0}, None),
        ("lsu", {"fetched": 0.1, "sectors": 4.0}, 0.75),
        ("dram", {"fetched": 8.0, "dram_needed": 0.25}, 0.75),
        ("dram", {"fetched": 8.0, "dram_needed": 1.0}, None),
        ("alu", {"fetched": 8.0}, None),
    ],
)
def test_a_server_wastes_what_nobody_asked_it_for(unit, given, share):
    wasted = overfetch(facts(LDG, shares={unit: 80.0}, **given), account_of(unit, issue=20.0))
    assert (wasted and wasted.pct) == (share and pytest.approx(80.0 * share))


def test_dram_that_reads_whole_sectors_for_one_element_each_is_no_memory_bound(recorded):
    assert evidence(recorded.launch(COPY_COLS)).dram_needed == pytest.approx(1.0, abs=0.01)
    strided = facts(LDG, fetched=8.0, dram_pct=90.0, dram_needed=0.25, shares={"dram": 90.0, "l2": 84.0})
    assert verdict(account_of("dram", data_wait=10.0), strided)[0] == "copy_cost"


def test_only_products_are_told_of_tensor_cores():
    product = facts(LDG, FFMA, FFMA, FFMA)
    assert product.core_products and verdict(account_of("fma", issue=30.0), product)[0] == "no_tensor_work"
    for other in (
        facts("DFMA R2, R4, R6, R8", FFMA),
        facts(FFMA, "MUFU.EX2 R4, R5"),
        facts(FFMA, *("IADD3 R1, R2, R3",) * 9),
    ):
        assert not other.core_products and verdict(account_of("fma", issue=30.0), other)[0] == "issue"


def test_advice_speaks_of_tiles_and_stages_only_where_tiles_are_multiplied(recorded):
    for number in (COPY_ROWS, TAPS_ROWS, SUM_FEW, SUM, CHAIN64):
        said = [cause.fix for cause in diagnose(recorded.launch(number), account(recorded.launch(number))).causes]
        assert said and not [fix for fix in said if "stage" in fix or "ldmatrix" in fix or "MMA" in fix]
    assert fix_of("data_wait", tiled=False) != fix_of("data_wait") and "loads per thread" in fix_of(
        "data_wait", tiled=False
    )
    assert "stages" in verdict(account_of(data_wait=30.0), facts(HMMA))[1][0].fix


def test_a_full_lsu_says_what_to_ask_it_for_less():
    full = facts(LDG, shares={"lsu": 97.0, "dram": 3.0})
    assert verdict(account_of("lsu", issue=3.0), full)[0] == "none"
    assert disease_of("none", full).name == "lsu_bound"
    assert disease_of("none", facts(HMMA, shares={"lsu": 97.0})) is None


def test_the_sentence_names_the_server_and_the_cause(recorded):
    said = sentence(launch_verdict(recorded.launch(COPY_COLS)))
    assert "L2 is busy 94.0 %" in said and "copy cost (uncoalesced)" in said
