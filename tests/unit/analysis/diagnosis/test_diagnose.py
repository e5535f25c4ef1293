"""The verdict: which cause is named, and when there is nothing to remove."""

import math
import shutil

import pandas as pd
import pytest

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import CAUSES, PARTS
from ncubble.analysis.diagnosis.diagnose import _cause, diagnose, verdict_of
from ncubble.analysis.diagnosis.diseases import DISEASES, fix_of
from ncubble.analysis.report.frames import opcode
from ncubble.analysis.report.report import Report
from ncubble.chips import chip_of
from ncubble.recordings import ROOT
from tests.helpers.one_launch import OneLaunch

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
        "compulsory_B": 1e8,
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


def diagnosed(found, what):
    parts = [(part, pct) for part, pct in found.bubbles.items() if PARTS[part].fix]
    return [_cause(part, pct, found, what, pct) for part, pct in parts]


def verdict(found, what):
    causes = diagnosed(found, what)
    return verdict_of(found, what, causes), causes


def test_without_an_account_the_verdict_is_unknown_and_says_why():
    found = diagnose(OneLaunch({}), None)
    assert (found.cause, found.causes) == ("unknown", []) and "collected" in found.warnings[0]


@pytest.mark.parametrize(
    ("given", "unit", "parts", "expected"),
    [
        ({"duration_ns": 3e3}, "tensor", {"data_wait": 60.0}, "tiny_launch"),
        ({"dram_pct": 85.0}, "tensor", {"data_wait": 60.0}, "memory_bound"),
        ({}, "dram", {"data_wait": 30.0}, "memory_bound"),
        ({}, "dram", {"data_wait": 60.0}, "data_wait"),
        ({}, "fma", {"issue": 30.0}, "issue"),
        ({}, "tensor", {"data_wait": 5.0}, "none"),
        ({"chip": chip_of("9.0")}, "tensor", {"data_wait": 5.0}, "slow_path"),
        ({"chip": chip_of("9.0")}, "tensor", {"copy_cost": 12.0, "tail": 10.0}, "slow_path"),
        ({"chip": chip_of("9.0")}, "tensor", {"smem_wait": 25.0, "tail": 10.0}, "smem_wait"),
        ({}, "tensor", {"data_wait": 20.0, "issue": 30.0}, "issue"),
        ({}, "tensor", {"no_cta": 60.0, "idle": 10.0}, "tail"),
        ({}, "tensor", {"idle": 60.0}, "unknown"),
        ({"dram_pct": math.nan, "duration_ns": math.nan}, "tensor", {"data_wait": 60.0}, "data_wait"),
    ],
)
def test_the_verdict(given, unit, parts, expected):
    assert verdict(account(unit, **parts), facts(HMMA, **given))[0] == expected


@pytest.mark.parametrize(
    ("part", "sass", "given", "disease"),
    [
        ("data_wait", ("LDG.E.128 R4, [R2.64]", "STS.128 [R8], R4", HMMA), {}, "no_async"),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {"stages": 1}, "single_buffer"),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {"stages": 2}, "shallow_pipeline"),
        ("data_wait", ("LDGSTS.E.128 [R2], [R4.64]", HMMA), {}, None),
        ("copy_cost", ("LDGSTS.E [R2], [R4.64]", HMMA), {}, "narrow_copies"),
        ("copy_cost", ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", HMMA), {}, None),
        ("smem_wait", ("LDS R4, [R8]", HMMA), {"bank_conflict_share": 0.5}, "bank_conflicts"),
        ("smem_wait", ("LDS R4, [R8]", HMMA), {"bank_conflict_share": math.nan}, None),
        ("issue", ("STL [R1], R4",) * 4 + (HMMA,), {}, "spills"),
        ("copy_cost", ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", HMMA), {"fetched": 2.0}, "uncoalesced"),
        ("copy_cost", ("UTMALDG.2D [UR8], [UR4]", HMMA), {"box_B": 256.0}, "small_boxes"),
        ("data_wait", ("UTMALDG.2D [UR8], [UR4]", HMMA), {"box_B": 16384.0, "stages": 2}, "shallow_pipeline"),
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
        ("tail", (HMMA,), {"waves": math.nan, "grid": math.nan}, None),
    ],
)
def test_the_disease_behind_a_part(part, sass, given, disease):
    found = account(**{part: 40.0})
    _, causes = verdict(found, facts(*sass, **given))
    assert causes[0].disease == disease
    assert causes[0].fix.startswith(fix_of(causes[0].cause, disease, tiled=HMMA in sass))


def test_depth_is_not_advised_where_it_gives_nothing():
    found, what = account(data_wait=20.0), facts("LDGSTS.E.128 [R2], [R4.64]", HMMA, stages=6)
    assert _cause("data_wait", 20.0, found, what, 10.0).disease == "shallow_pipeline"
    assert _cause("data_wait", 20.0, found, what, 0.5).disease is None


@pytest.mark.parametrize(("load", "advised"), [("LDSM.16.M88.4 R4, [R8]", False), ("LDS.128 R4, [R8]", True)])
def test_ldmatrix_is_not_advised_to_a_kernel_that_uses_it(load, advised):
    (cause,) = diagnosed(account(smem_wait=20.0), facts(load, HMMA))
    assert ("ldmatrix" in cause.fix) is advised


def test_causes_are_ranked_and_their_places_share_out_the_part():
    found = account(data_wait=20.0, issue=30.0)
    weights = pd.DataFrame({"data_wait": [3.0, 1.0], "issue": [0.0, 5.0]})
    found = BubbleAccount(0, "tensor", found.parts, weights=weights)
    _, causes = verdict(found, facts("LDGSTS.E.128 [R2], [R4.64]", HMMA))
    assert [cause.cause for cause in causes] == ["issue", "data_wait"]
    assert [place.pct for place in causes[1].where] == pytest.approx([15.0, 5.0])
    assert causes[1].where[0].sass.startswith("LDGSTS") and causes[1].where[0].line is None


def test_memory_traffic_far_beyond_what_must_move_is_told_beside_the_roof():
    what = facts(HMMA, dram_pct=85.0, dram_B=3e8)
    assert DISEASES["l2_thrash"].applies(what)
    assert not DISEASES["l2_thrash"].applies(facts(HMMA, dram_pct=85.0))
    assert not DISEASES["l2_thrash"].applies(facts("FADD R2, R3, R4", dram_B=3e8))


PRODUCER = (
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2",
    "@!P0 BRA 0x100",
    "LDGSTS.E.BYPASS.128 [R2], [R4.64]",
    "EXIT",
    HMMA,
    "EXIT",
)


@pytest.mark.parametrize(
    ("samples", "disease"), [([1, 0, 90, 0, 50, 0], "role_imbalance"), ([1, 60, 9, 0, 50, 0], None)]
)
def test_a_producer_that_never_waits_for_a_slot_is_what_the_others_wait_for(samples, disease):
    (cause,) = diagnosed(account(data_wait=40.0), facts(*PRODUCER, samples=samples))
    assert cause.disease == disease


@pytest.mark.parametrize("disease", DISEASES.values(), ids=lambda disease: disease.name)
def test_a_disease_refines_causes_that_there_are_and_has_words_and_a_fix(disease):
    assert disease.causes and set(disease.causes) <= set(CAUSES)
    assert disease.words and fix_of(disease.causes[0], disease.name) == disease.fix != ""


def test_a_verdict_has_a_fix_unless_it_is_a_part_that_nothing_removes():
    assert {name for name in CAUSES if not fix_of(name)} == {"tensor_busy", "unit_busy", "other", "idle"}
    assert fix_of("no_cta") == fix_of("tail") and fix_of("new_part") == ""


@pytest.mark.parametrize(
    ("run", "stages", "disease", "cause"),
    [
        (ROOT / "gemm_tma" / "stages1", 1, "single_buffer", "data_wait"),
        (ROOT / "gemm_tma" / "stages2", 2, "shallow_pipeline", "data_wait"),
        (ROOT / "gemm_tma" / "stages6", 6, "occupancy_cliff", "wave_gap"),
        (ROOT / "gemm_ws" / "pingpong", 5, "shallow_pipeline", "data_wait"),
    ],
)
def test_diseases_of_depth_need_no_manifest(run, stages, disease, cause, tmp_path):
    file = tmp_path / "bare.ncu-repz"
    shutil.copy(run / "report.ncu-repz", file)
    launch = Report.open(file).launch(0)
    assert launch.declared.get("stages") is None
    what = evidence(launch)
    assert what.stages == stages
    assert DISEASES[disease].applies(what)
    assert cause in DISEASES[disease].causes
