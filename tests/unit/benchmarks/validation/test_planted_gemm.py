"""Planted diseases of the main loop stand in the machine code, alone; and what the kernels refuse
and compute."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from benchmarks.validation.planted.gemm import DISEASES, ORDER, PLANTED_DEQUANT, PLANTED_GEMM, SCALE, ZERO
from benchmarks.validation.planted.pairs import PAIRS
from ncubble.errors import UsageError
from ncubble.kernels.build import broken_promises, build, disassemble, opcodes
from ncubble.kernels.run.launch import kernel_facts
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case

ARCH = "sm_90a"
OWN = (PLANTED_GEMM.name, PLANTED_DEQUANT.name)
STEP_PRODUCTS, STEPS = 32, 4  # mma of a warp per step of k, and steps per tile of 64
BRANCH = re.compile(r"\bBRA(?:\.\w+)* .*`\((\.L_x_\d+)\)")


def planted(disease: str, stages: int = 4, tile_k: int = 64) -> Case:
    return make_case(PLANTED_GEMM, {"disease": disease, "stages": stages, "tile_k": tile_k})


def main_loop(case: Case) -> Counter[str]:
    """Instructions by family in the longest loop that multiplies."""
    lines = disassemble(build(case, ARCH).cubin).splitlines()
    place = {line.strip()[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\s*\.L_x_\d+:", line)}
    loops = []
    for i, line in enumerate(lines):
        branch = BRANCH.search(line)
        if branch and place[branch[1]] < i:
            found = opcodes("\n".join(lines[place[branch[1]] : i + 1]))
            families: Counter[str] = Counter()
            for opcode, count in found.items():
                families[opcode.split(".")[0]] += count
            loops.append(families)
    return max((loop for loop in loops if loop["HMMA"]), key=lambda loop: loop.total())


def only(loop: Counter[str], *families: str) -> dict[str, int]:
    return {family: loop[family] for family in families}


MOVES = ("LDG", "STS", "LDGSTS", "LDSM", "LDS", "BAR", "DEPBAR", "LDL", "STL", "FFMA")
HEALTHY = {"LDGSTS": 12, "LDSM": 32, "BAR": 1, "DEPBAR": 1}
LOOPS = [
    (("none",), {}),
    (("none", 1), {"BAR": 2}),
    (("no_async", 1), {"BAR": 2, "LDGSTS": 0, "DEPBAR": 0, "LDG": 12, "STS": 12}),
    (("narrow_copies",), {"LDGSTS": 4 * 12}),
    (("uncoalesced",), {}),
    (("address_arithmetic",), {}),
    (("bank_conflicts",), {}),
    (("smem_rereads",), {"LDSM": 16 + 4 * 16}),
    (("barrier_imbalance",), {"FFMA": 16}),
    (("excess_barriers",), {"BAR": 1 + 8 * STEPS}),
    (("dependent_mma",), {}),
]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("built", "differs"), LOOPS, ids=str)
def test_a_disease_changes_what_it_says_and_nothing_else_of_what_moves_data_or_waits(built, differs):
    case = planted(*built)
    assert broken_promises(case, ARCH, build(case, ARCH)) == [], "nothing is spilled, either"
    loop = main_loop(case)
    assert loop["HMMA"] == STEP_PRODUCTS * STEPS
    assert only(loop, *MOVES) == {**dict.fromkeys(MOVES, 0), **HEALTHY, **differs}


@pytest.mark.usefixtures("compiler")
def test_short_tiles_of_both_depths_have_the_same_loop():
    shallow, deep = (main_loop(planted("none", stages, 32)) for stages in (2, 6))
    assert only(shallow, *MOVES, "HMMA") == only(deep, *MOVES, "HMMA")
    assert shallow["LDGSTS"] == 6


@pytest.mark.usefixtures("compiler")
def test_a_register_cap_spills_in_the_main_loop_and_its_twin_does_not():
    sick, cured = planted("spills", stages=3), planted("none", stages=3)
    assert build(cured, ARCH).resources.spill_B == 0
    assert build(sick, ARCH).resources.registers == 184
    broken = broken_promises(sick, ARCH, build(sick, ARCH))
    assert len(broken) == 1 and "registers are spilled" in broken[0]
    loop = main_loop(sick)
    assert loop["HMMA"] == STEP_PRODUCTS * STEPS
    assert min(loop["LDL"], loop["STL"]) > 40


@pytest.mark.usefixtures("compiler")
def test_addresses_made_anew_are_most_of_the_loop():
    healthy, sick = main_loop(planted("none")), main_loop(planted("address_arithmetic"))
    assert sick.total() > 3 * healthy.total()
    assert sick["MUFU"] >= 12 > healthy["MUFU"] == 0, "reciprocals of the divisors"


@pytest.mark.usefixtures("compiler")
def test_each_dependent_product_takes_an_operand_made_of_the_one_before():
    lines = disassemble(build(planted("dependent_mma"), ARCH).cubin).splitlines()
    result = fresh = None
    chained = 0
    for line in lines:
        registers = re.findall(r"\bR\d+", line)
        if "LOP3" in line and result in registers[1:]:
            fresh = registers[0]
        if "HMMA" in line:
            chained += registers[2] == fresh
            result = registers[0]
    assert chained >= STEP_PRODUCTS * STEPS - 2


@pytest.mark.usefixtures("compiler")
def test_a_slow_conversion_takes_an_instruction_or_more_per_byte_and_operation():
    loops = [main_loop(make_case(PLANTED_DEQUANT, {"disease": disease})) for disease in ("none", "dequant_issue")]
    fast, slow = loops
    elements = 64 * 64 // 32  # of a warp's A per lane and tile
    assert fast["HMMA"] == slow["HMMA"] == STEP_PRODUCTS * STEPS
    assert only(fast, "PRMT", "HADD2", "I2F", "I2FP") == {
        "PRMT": elements // 2,
        "HADD2": elements // 2,
        "I2F": 0,
        "I2FP": 0,
    }
    assert slow["I2F"] + slow["I2FP"] == slow["FADD"] == slow["FMUL"] == 2 * elements
    assert only(fast, "LDGSTS", "LDSM", "BAR") == only(slow, "LDGSTS", "LDSM", "BAR")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"disease": "no_async"}, "disease=no_async copies into one buffer: it needs stages=1"),
        ({"disease": "spills", "stages": 1}, "disease=spills is planted into a prefetching ring"),
        ({"strength": 2}, "disease=none does not exist at strength=2, only at 0"),
        ({"disease": "spills", "strength": 64}, "only at 0, 160, 176, 192, 200"),
        ({"stages": 6}, "294912 bytes of shared memory per CTA"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, message):
    with pytest.raises(UsageError, match=message):
        make_case(PLANTED_GEMM, parameters)


def test_bytes_that_are_not_converted_slowly_are_not_converted_twice():
    with pytest.raises(UsageError, match="strength=4"):
        make_case(PLANTED_DEQUANT, {"strength": 4})
    make_case(PLANTED_DEQUANT, {"disease": "dequant_issue", "strength": 4})


def test_every_disease_stands_in_a_pair_and_tells_its_depth():
    assert {pair.sick.parameters.get("disease", "none") for pair in PAIRS if pair.sick.kernel in OWN} == {
        *DISEASES,
        "dequant_issue",
    }
    single = next(pair for pair in PAIRS if pair.name == "single_buffer")
    assert kernel_facts(make_case(PLANTED_GEMM, single.sick.parameters))["stages"] == 1


def test_the_usual_problem_gives_each_of_132_sms_one_tile():
    for spec in (PLANTED_GEMM, PLANTED_DEQUANT):
        assert make_case(spec).grid == (132, 1, 1)


def test_bytes_stand_for_steps_in_the_order_in_which_lanes_take_them():
    case = make_case(PLANTED_DEQUANT, shape={"m": 128, "n": 256, "k": 64})
    inputs = draw_inputs(case, 5)
    a = np.empty((128, 64))
    for block in range(0, 64, 16):
        for q in range(4):  # a lane's columns of an mma: two neighbours, and two eight further on
            for place, column in enumerate((2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9)):
                a[:, block + column] = (inputs["a"][:, block + 4 * q + place].astype(float) - ZERO) * SCALE
    rows = np.array([3, 77])
    assert np.allclose(case.reference(inputs, rows)["c"], a[rows] @ inputs["b"].astype(float))
    assert sorted(ORDER) == list(range(16))
    assert np.array_equal(a.astype(np.float16), a), "a scaled byte is exact in half"
    assert 0.9 < a.std() < 1.1


def test_a_byte_in_another_order_is_a_wrong_result():
    case = make_case(PLANTED_DEQUANT, shape={"m": 128, "n": 256, "k": 64})
    inputs = draw_inputs(case, 5)
    right = case.reference(inputs, np.arange(4))["c"]
    wrong = (inputs["a"][:4] - 128.0) * SCALE @ inputs["b"].astype(float)
    bound = case.spec.tolerance(case.shape).bound(right)
    assert np.mean(np.abs(wrong - right) > bound) > 0.9
