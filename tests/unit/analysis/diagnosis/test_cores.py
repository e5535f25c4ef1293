"""Kernels without tensor work, as recorded on an H100: ``tests/data/cores/cores.cu``, all launches
with the counters of the default sets."""

from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import evidence
from ncubble.analysis.diagnosis import predicted
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.predicted import changes_of
from ncubble.analysis.diagnosis.removals import overfetch
from ncubble.analysis.diagnosis.words import sentence
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT, VALIDATION
from tests.unit.analysis.diagnosis.test_removals import FFMA, facts, told
from tests.unit.analysis.diagnosis.test_removals import account as account_of

COPY_COLS, COPY_ROWS, TAPS_COLS, TAPS_ROWS, SUM_FEW, SUM, CHAIN64 = range(7)
LDG = "LDG.E R4, [R2.64]"


@pytest.fixture(scope="module")
def recorded() -> Report:
    return Report.open(Path(__file__).parents[3] / "data" / "cores" / "report.ncu-repz")


@pytest.mark.parametrize(
    ("number", "unit", "cause", "kind"),
    [
        (COPY_COLS, "l2", "unit_busy", "copies"),
        (COPY_ROWS, "dram", "data_wait", "vectors"),
        (TAPS_COLS, "lsu", "unit_busy", "copies"),
        (SUM_FEW, "dram", "tail", "ctas"),
        (CHAIN64, "fp64", "unknown", "unknown"),
    ],
)
def test_what_bounds_a_kernel_without_tensor_work(recorded, number, unit, cause, kind):
    told = launch_verdict(recorded.launch(number))
    assert (told.unit, told.cause, told.change) == (unit, cause, kind)
    assert told.integrity == "ok"


@pytest.mark.parametrize(("slow", "fast"), [(COPY_COLS, COPY_ROWS), (TAPS_COLS, TAPS_ROWS)])
def test_the_gain_of_coalesced_accesses_is_what_the_twin_measured(recorded, slow, fast):
    launch = recorded.launch(slow)
    measured = 100.0 * (1.0 - recorded.launch(fast).identity.cycles / launch.identity.cycles)
    verdict = launch_verdict(launch)
    change = verdict.first
    assert change.part == "unit_busy" and change.low < measured
    assert change.gain_pct == pytest.approx(measured, abs=10.0)
    assert verdict.places, "copies and what waits for them, as the account has little of either"


@pytest.mark.parametrize(("run", "told"), [("tiled_matmul/default", "path"), ("stream_pipeline/default", "none")])
def test_only_products_of_what_was_loaded_are_told_of_tensor_cores(run, told):
    """Both are multiply-adds for the most part; ``stream_pipeline`` multiplies by constants."""
    assert launch_verdict(Report.open(ROOT / run).launch(0)).change == told


def test_a_launch_that_is_over_at_once_is_told_so_before_its_waste():
    report = Report.open(VALIDATION / "waste/whole/planted_atomics")
    assert launch_verdict(report.launch(0)).change == "atomics"
    report = Report.open(report.path)
    report._rows[0] = replace(report.identity(0), duration_ns=3e3)
    assert [change.kind for change in launch_verdict(report.launch(0)).changes[:2]] == ["none", "atomics"]


@pytest.mark.parametrize(("with_cta", "told"), [(0.4, ["none"]), (0.9, [])])
def test_launch_latency_is_told_where_it_takes_half_of_the_time(recorded, monkeypatch, with_cta, told):
    found = replace(evidence(recorded.launch(COPY_ROWS)), with_cta=with_cta, imbalance_pct=0.0)
    monkeypatch.setattr(predicted, "evidence", lambda launch: found)
    bubbles = BubbleAccount(0, "dram", {"tensor_busy": 0.0, "unit_busy": 30.0, "idle": 70.0})
    assert [change.kind for change in changes_of(recorded.launch(COPY_ROWS), bubbles)] == told


def test_the_next_roof_bounds_the_gain():
    found = account_of("l2", data_wait=10.0)
    for dram, gain in ((10.0, 1.0 - 1 / 8), (45.0, 0.5), (79.0, 1.0 - 79 / 90)):
        what = facts(LDG, fetched=8.0, dram_pct=dram, shares={"l2": 90.0, "dram": dram})
        assert overfetch(what, found).gain.expected == pytest.approx(100.0 * gain)
    assert overfetch(facts(LDG, fetched=8.0, shares={"l2": 90.0, "dram": 81.0}), found) is None


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
    change = told(account_of("dram", data_wait=10.0), strided)[0]
    assert change.part == "unit_busy" and change.gain_pct is not None


def test_only_products_are_told_of_tensor_cores():
    assert facts(LDG, FFMA, FFMA, FFMA).core_products
    for other in (
        facts("DFMA R2, R4, R6, R8", FFMA),
        facts(FFMA, "MUFU.EX2 R4, R5"),
        facts(FFMA, *("IADD3 R1, R2, R3",) * 9),
    ):
        assert not other.core_products


def test_advice_speaks_of_tiles_and_stages_only_where_tiles_are_multiplied(recorded):
    for number in (COPY_ROWS, TAPS_ROWS, SUM_FEW, SUM, CHAIN64):
        said = [change.text for change in launch_verdict(recorded.launch(number)).changes]
        assert bool(said) == (number not in (TAPS_ROWS, CHAIN64))
        assert not [text for text in said if "stage" in text or "ldmatrix" in text or "MMA" in text]


@pytest.mark.parametrize(("busy", "kinds"), [(74.0, []), (76.0, ["none", "registers"])])
def test_none_is_said_only_where_a_unit_is_nearly_full(recorded, busy, kinds):
    made = BubbleAccount(CHAIN64, "fp64", {"tensor_busy": 0.0, "unit_busy": busy, "issue": 100.0 - busy})
    assert [change.kind for change in changes_of(recorded.launch(CHAIN64), made)] == kinds


def test_scalar_loads_of_a_copy_are_told_to_be_vectors(recorded):
    first = launch_verdict(recorded.launch(COPY_ROWS)).first
    assert "16 bytes per thread" in first.text and "asks for 4 bytes" in first.text and first.gain_pct is None


def test_a_full_lsu_says_what_to_ask_it_for_less(recorded):
    full = {"tensor_busy": 0.0, "unit_busy": 97.0, "issue": 3.0}
    (change,) = changes_of(recorded.launch(CHAIN64), BubbleAccount(CHAIN64, "lsu", full))
    assert change.kind == "none" and "keep reused values in registers" in change.text


def test_a_full_lsu_is_not_called_as_good_as_it_gets_where_the_report_counts_no_code(recorded, monkeypatch):
    launch = recorded.launch(CHAIN64)
    bare = replace(evidence(launch), source=launch.source.assign(executed=0.0))
    monkeypatch.setattr(predicted, "evidence", lambda launch: bare)
    full = {"tensor_busy": 0.0, "unit_busy": 97.0, "issue": 3.0}
    assert changes_of(launch, BubbleAccount(CHAIN64, "lsu", full)) == []


def test_the_sentence_names_the_server_and_the_cause(recorded):
    said = sentence(launch_verdict(recorded.launch(COPY_COLS)))
    assert "L2 is busy 94.0 %" in said and "let neighbouring threads read neighbouring bytes" in said
