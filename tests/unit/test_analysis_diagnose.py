"""The verdict: which cause is named, and when there is nothing to remove."""

import math

import pandas as pd
import pytest

from ncubble.analysis.account import BubbleAccount
from ncubble.analysis.diagnose import REMOVABLE, Facts, _cause, _verdict, diagnose
from ncubble.analysis.fixes import FIXES
from tests.one_launch import OneLaunch

HMMA = "HMMA.16816.F32 R8, R12, R16, R8"


def facts(*sass, **given):
    opcodes = [text.split()[0] for text in sass]
    source = pd.DataFrame({"sass": sass, "opcode": opcodes, "file": "", "line": 0, "pc": range(0, 16 * len(sass), 16)})
    values = {
        "source": source,
        "dram_pct": 10.0,
        "duration_ns": 5e5,
        "hopper": True,
        "stages": None,
        "ctas": 1024.0,
        "sms": 132.0,
        "waves": 3.9,
        "bank_conflict_share": 0.0,
        "warnings": [],
    }
    return Facts(**(values | given))


def account(unit="tensor", **parts):
    busy = "tensor_busy" if unit == "tensor" else "unit_busy"
    rest = 100.0 - sum(parts.values())
    return BubbleAccount(0, unit, {"tensor_busy": 0.0, "unit_busy": 0.0, **parts, busy: rest})


def diagnosed(found, what):
    parts = [(part, pct) for part, pct in found.bubbles.items() if part in REMOVABLE]
    return [_cause(part, pct, found, what, first=not rank) for rank, (part, pct) in enumerate(parts)]


def verdict(found, what):
    causes = diagnosed(found, what)
    return _verdict(found, what, causes), causes


def test_without_an_account_the_verdict_is_unknown_and_says_why():
    found = diagnose(OneLaunch({}), 0, None)
    assert (found.cause, found.causes) == ("unknown", []) and "collected" in found.warnings[0]


@pytest.mark.parametrize(
    ("given", "unit", "parts", "expected"),
    [
        ({"duration_ns": 3e3}, "tensor", {"data_wait": 60.0}, "tiny_launch"),
        ({"dram_pct": 85.0}, "tensor", {"data_wait": 60.0}, "memory_bound"),
        ({}, "dram", {"data_wait": 30.0}, "memory_bound"),
        ({}, "dram", {"data_wait": 60.0}, "no_tensor_work"),
        ({}, "fma", {"issue": 30.0}, "no_tensor_work"),
        ({}, "tensor", {"data_wait": 5.0}, "none"),
        ({"warnings": ["slow MMA path: …"]}, "tensor", {"data_wait": 5.0}, "slow_path"),
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
        ("tail", (HMMA,), {"ctas": 64.0}, "too_few_ctas"),
        ("tail", (HMMA,), {"waves": 1.1}, "partial_wave"),
        ("tail", (HMMA,), {"waves": math.nan, "ctas": math.nan}, None),
    ],
)
def test_the_disease_behind_a_part(part, sass, given, disease):
    found = account(**{part: 40.0})
    _, causes = verdict(found, facts(*sass, **given))
    assert causes[0].disease == disease
    assert causes[0].fix.startswith(FIXES[disease or causes[0].cause])


def test_depth_is_advised_only_where_waiting_for_data_comes_first():
    copies = ("LDGSTS.E.128 [R2], [R4.64]", HMMA)
    found = diagnosed(account(data_wait=7.0, smem_wait=20.0), facts(*copies, stages=6))
    assert [(cause.cause, cause.disease) for cause in found] == [("smem_wait", None), ("data_wait", None)]


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
    assert [place["pct"] for place in causes[1].where] == pytest.approx([15.0, 5.0])
    assert causes[1].where[0]["sass"].startswith("LDGSTS") and causes[1].where[0]["line"] is None
