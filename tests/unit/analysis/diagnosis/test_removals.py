"""What removes a part of the account: which evidence shows it, and what it gains."""

import math
import re

import pandas as pd
import pytest

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.account.parts import OUTCOMES, PARTS
from ncubble.analysis.changes.change import KINDS, Gain, gain_of
from ncubble.analysis.diagnosis.diagnose import where
from ncubble.analysis.diagnosis.removals import KIND_OF_PART, REMOVALS, removals_of
from ncubble.analysis.report.frames import opcode
from ncubble.chips import chip_of

HMMA = "HMMA.16816.F32 R8, R12, R16, R8"
FFMA = "FFMA R2, R3, R4, R5"


def facts(*sass, executed=100.0, samples=0.0, **given):
    opcodes = [opcode(text) for text in sass]
    source = pd.DataFrame({"sass": sass, "opcode": opcodes, "file": "", "line": 0, "pc": range(0, 16 * len(sass), 16)})
    source = source.assign(executed=executed, wait=samples)
    shares = {"dram": given.pop("dram_pct", 10.0)} | given.pop("shares", {})
    values = {
        "dram_read_B": given.pop("dram_B", 1e8),
        "dram_written_B": 0.0,
        "duration_ns": 5e5,
        "quantities": {"sms": 132.0},
        "grid": 1024.0,
        "waves": 3.9,
        "bank_conflict_share": 0.0,
        "limits": {"registers": 2.0, "shared_mem": 2.0},
    }
    known = {name: given.pop(name) for name in list(given) if name in Evidence.__dataclass_fields__}
    found = Evidence(source=source, shares=shares, **(values | known))
    vars(found).update({"stages": None, "fetched": 1.0, "sectors": math.nan, "dram_needed": math.nan} | given)
    return found


def account(unit="tensor", **parts):
    busy = "tensor_busy" if unit == "tensor" else "unit_busy"
    rest = 100.0 - sum(parts.values())
    return BubbleAccount(0, unit, {"tensor_busy": 0.0, "unit_busy": 0.0, **parts, busy: rest})


def told(found, what):
    return list(removals_of(what, found))


@pytest.mark.parametrize(
    ("part", "sass", "given", "rule"),
    [
        ("data_wait", ("LDG.E.128 R4, [R2.64]", "STS.128 [R8], R4", HMMA), {}, "no_async"),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {"stages": 1}, None),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {"stages": 2}, None),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {}, None),
        ("copy_cost", ("LDGSTS.E [R2], [R4.64]", HMMA), {}, "narrow_copies"),
        ("copy_cost", ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", HMMA), {}, None),
        ("smem_wait", ("LDS R4, [R8]", HMMA), {"bank_conflict_share": 0.5}, "bank_conflicts"),
        ("smem_wait", ("LDS R4, [R8]", HMMA), {"bank_conflict_share": math.nan}, None),
        ("issue", ("STL [R1], R4",) * 4 + (HMMA,), {}, "spills"),
        ("copy_cost", ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", HMMA), {"fetched": 2.0}, "uncoalesced"),
        ("copy_cost", ("UTMALDG.2D [UR8], [UR4]", HMMA), {"box_B": 256.0}, "small_boxes"),
        ("data_wait", ("UTMALDG.2D [UR8], [UR4]", HMMA), {"box_B": 16384.0, "stages": 2}, None),
        (
            "sync_wait",
            (HMMA, "FFMA R2, R3, R4, R5", HMMA),
            {"executed": [100.0, 12.0, 100.0], "samples": 9.0},
            "barrier_imbalance",
        ),
        ("sync_wait", (HMMA, "FFMA R2, R3, R4, R5", HMMA), {"samples": 9.0}, None),
        ("issue", ("I2F.U8 R4, R5", HMMA), {}, "dequant_issue"),
        ("issue", ("I2F.U8 R4, R5", HMMA), {"executed": [2.0, 100.0]}, None),
        ("issue", ("F2FP.F16.E4M3.UNPACK_B R4, R5", HMMA), {}, "dequant_issue"),
        ("issue", ("F2FP.BF16.F32.PACK_AB R4, R5, R6", HMMA), {}, None),
        ("issue", ("FADD R4, R5, R6",), {}, None),
        ("epilogue", (HMMA, "STG.E [R2.64], R4"), {"executed": [400.0, 100.0]}, "short_k"),
        ("epilogue", (HMMA, "STG.E [R2.64], R4"), {"executed": [6400.0, 100.0]}, None),
        ("wave_gap", (HMMA,), {"stages": 6, "limits": {"registers": 2.0, "shared_mem": 1.0}}, "occupancy_cliff"),
        ("wave_gap", (HMMA,), {"stages": 4, "limits": {"registers": 2.0, "shared_mem": 1.0}}, None),
        ("tail", (HMMA,), {"grid": 64.0}, "too_few_ctas"),
        ("tail", (HMMA,), {"waves": 1.1}, "partial_wave"),
        ("tail", (HMMA,), {"waves": 3.9}, None),
        ("tail", (HMMA,), {"waves": math.nan, "grid": math.nan}, None),
    ],
)
def test_the_evidence_behind_a_part(part, sass, given, rule):
    first = next(iter(told(account(**{part: 40.0}), facts(*sass, **given))), None)
    known = next((one for one in REMOVALS if one.applies.__name__ == rule), None)
    if known is None:
        assert first is None or first.gain_pct is None, "what usually helps has no gain"
        return
    assert (first.kind, first.part, first.text) == (known.kind, part, known.text)
    gain = gain_of(40.0, 40.0)
    assert (first.gain_pct, first.low, first.high) == (gain.expected, gain.low, gain.high)


def test_what_evidence_shows_comes_before_what_usually_helps_and_larger_parts_first():
    found = account(sync_wait=10.0, smem_wait=30.0, issue=12.0)
    changes = told(found, facts("LDS R4, [R8]", *("STL [R1], R4",) * 4, HMMA))
    assert [(change.part, change.gain_pct is None) for change in changes] == [
        ("issue", False),
        ("smem_wait", True),
        ("sync_wait", True),
    ]
    assert changes[1].text.startswith(PARTS["smem_wait"].fix)


def test_small_parts_and_idle_time_that_is_not_split_are_not_told():
    assert told(account(sync_wait=7.9, idle=40.0, other=20.0), facts(HMMA)) == []


def test_ramp_and_tail_together_are_told_as_the_tail():
    (change,) = told(account(no_cta=60.0), facts(HMMA))
    assert (change.kind, change.part) == ("ctas", "tail")


def test_balanced_ctas_save_no_more_than_the_busiest_sm_has_of_the_kernel():
    """12 CTAs on 108 SMs; 19 % of the launch pass before and after all CTAs (a public report)."""
    launched = facts(HMMA, grid=12.0, quantities={"sms": 108.0}, with_cta=0.09, imbalance_pct=72.0)
    assert launched.launching_pct == pytest.approx(19.0)
    first = told(account(tail=91.0), launched)[0]
    assert first.kind == "ctas" and 72.0 <= first.gain_pct <= first.high <= 81.0


def test_what_a_limit_cuts_may_be_less_than_the_limit():
    assert Gain(51.0, 26.0, 88.0).at_most(20.0) == Gain(20.0, 10.0, 20.0)
    assert Gain(15.0, 8.0, 30.0).at_most(20.0) == Gain(15.0, 8.0, 20.0)


@pytest.mark.parametrize(("imbalance", "gains"), [(math.nan, True), (60.0, True), (20.0, True), (2.0, False)])
def test_no_number_of_ctas_saves_the_latency_of_a_launch(imbalance, gains):
    changes = told(account(no_cta=60.0), facts(HMMA, grid=56.0, imbalance_pct=imbalance))
    assert [change.kind for change in changes] == ["ctas"] * gains
    if gains:
        assert changes[0].gain_pct <= gain_of(min(60.0, imbalance), 100.0).expected or math.isnan(imbalance)
        assert changes[0].gain_pct <= 100.0 * (1.0 - 56.0 / 132.0) + 1e-9, "the same work on all SMs"


@pytest.mark.parametrize(("capability", "words"), [("9.0", "wgmma .* two thirds"), ("10.0", "tcgen05 .* a quarter")])
def test_the_fast_path_is_that_of_the_chip(capability, words):
    (change,) = (one for one in told(account(), facts(HMMA, chip=chip_of(capability))) if one.kind == "path")
    assert re.search(words, change.text)


def test_no_gain_is_known_where_memory_is_full():
    spilling = facts(*("STL [R1], R4",) * 4, HMMA, dram_pct=85.0)
    (change,) = told(account(issue=60.0), spilling)
    assert (change.kind, change.gain_pct) == ("registers", None)


@pytest.mark.parametrize(("parts", "told_first"), [({"data_wait": 5.0}, True), ({"data_wait": 80.0}, False)])
def test_the_slow_path_is_told_by_the_work_that_it_saves(parts, told_first):
    changes = told(account(**parts), facts(HMMA, chip=chip_of("9.0")))
    assert any(change.kind == "path" for change in changes) is told_first
    if told_first:
        assert changes[0].low <= changes[0].gain_pct <= changes[0].high and changes[0].part == "slow_path"


@pytest.mark.parametrize(("load", "advised"), [("LDSM.16.M88.4 R4, [R8]", False), ("LDS.128 R4, [R8]", True)])
def test_ldmatrix_is_not_advised_to_a_kernel_that_uses_it(load, advised):
    (change,) = told(account(smem_wait=20.0), facts(load, HMMA))
    assert ("ldmatrix" in change.text) is advised


def test_places_share_out_their_part_and_small_parts_have_none():
    found = account(data_wait=20.0, issue=30.0, sync_wait=0.9)
    weights = pd.DataFrame({"data_wait": [3.0, 1.0], "issue": [0.0, 5.0], "sync_wait": [1.0, 0.0], "unit": [0.0, 2.0]})
    found = BubbleAccount(0, "tensor", found.parts, weights=weights)
    places = where(found, facts("LDGSTS.E.128 [R2], [R4.64]", HMMA))
    assert set(places) == {"data_wait", "issue", "tensor_busy"}
    assert [place.pct for place in places["data_wait"]] == pytest.approx([15.0, 5.0])
    assert places["data_wait"][0].sass.startswith("LDGSTS") and places["data_wait"][0].line is None
    assert where(account(issue=30.0), facts(HMMA)) == {}


PRODUCER = (
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2",
    "@!P0 BRA 0x100",
    "LDGSTS.E.BYPASS.128 [R2], [R4.64]",
    "EXIT",
    HMMA,
    "EXIT",
)


@pytest.mark.parametrize(("samples", "kinds"), [([1, 0, 90, 0, 50, 0], ["barriers"]), ([1, 60, 9, 0, 50, 0], [])])
def test_a_producer_that_never_waits_for_a_slot_is_what_the_others_wait_for(samples, kinds):
    assert [change.kind for change in told(account(data_wait=40.0), facts(*PRODUCER, samples=samples))] == kinds


@pytest.mark.parametrize("rule", REMOVALS, ids=lambda rule: rule.applies.__name__)
def test_a_removal_names_parts_and_a_kind_that_there_are_and_says_what_to_do(rule):
    assert rule.parts and set(rule.parts) <= set(PARTS)
    assert rule.kind in KINDS and rule.text


def test_every_part_that_can_be_removed_has_a_usual_change():
    assert set(KIND_OF_PART) | {"data_wait"} == {name for name, part in PARTS.items() if part.fix}
    assert all(OUTCOMES[name].fix for name in ("slow_path", "no_tensor_work", "unknown"))
