"""Classification of warp samples by reason and opcode context, on small hand-written kernels."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.account.code import main_loop
from ncubble.analysis.account.stalls import CLASSES, classify
from ncubble.sass.opcodes import role, width_bytes
from ncubble.sass.slices import operands, serving
from tests.helpers.sass_frames import REASONS, kernel

HMMA = "HMMA.16816.F32 R8, R12, R16, R8"
HGMMA = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24"
COPY = "LDGSTS.E.BYPASS.128 [R2], [R4.64]"
STORE = "STG.E.128 [R2.64], R8"
ADD_2, ADD_3 = ("FADD R8, R8, R9", "wait", 2), ("FADD R20, R20, R21", "wait", 3)
ADD_5 = ("IADD3 R1, R1, 0x1, RZ", "wait", 5)


def classes(frame):
    total = classify(frame).sum()
    return {name: value for name, value in total.items() if value}


CASES = {
    "a wait for cp.async shows behind its DEPBAR": (
        [COPY, "DEPBAR.LE SB0, 0x1", ("BAR.SYNC 0x0", "long_scoreboard", 9), HMMA], None, {"data_wait": 9},
    ),
    "a barrier behind a wait for wgmma is that wait": (
        [HGMMA, "WARPGROUP.DEPBAR.LE gsb0, 0x0", ("IADD3 R1, R1, 0x1, RZ", "barrier", 5)], None, {"unit": 5},
    ),
    "a barrier behind BAR.SYNC is one": (
        ["BAR.SYNC.DEFER_BLOCKING 0x0", "MOV R3, R4", ("LDS.128 R4, [R8]", "barrier", 5), HMMA], None, {"sync_wait": 5},
    ),
    "a plain load waits for data at its shared store": (
        ["LDG.E.128 R4, [R2.64]", ("STS.128 [R8], R4", "long_scoreboard", 7), "BAR.SYNC 0x0", "LDS R1, [R9]", HMMA],
        None, {"data_wait": 7},
    ),
    "stores and arithmetic behind the last MMA are epilogue": (
        [HMMA, ("FADD R8, R8, R9", "wait", 2), ("STG.E.128 [R2.64], R8", "lg_throttle", 4), "EXIT"],
        [100, 10, 10, 10], {"epilogue": 6},
    ),
    "the branch of the loop is no epilogue, and the last store ends it": (
        [HMMA, ("BRA 0x0", "wait", 2), ("STG.E.128 [R2.64], R8", "long_scoreboard", 4), ADD_5, "EXIT"],
        [100, 100, 10, 10, 10], {"issue": 7, "epilogue": 4},
    ),
    "stores of other warps behind the end of the computing ones are not their epilogue": (
        [HMMA, ADD_2, STORE, "EXIT", ADD_3, "STG.E.128 [R22.64], R20", "EXIT"], [100, *[10] * 6],
        {"epilogue": 2, "issue": 3},
    ),
    "without an end between them they are": (
        [HMMA, ADD_2, STORE, "NOP", ADD_3, "STG.E.128 [R22.64], R20", "EXIT"], [100, *[10] * 6], {"epilogue": 5},
    ),
    "an end without a store between loop and it does not end the epilogue": (
        [HMMA, "BRA 0x0", "EXIT", ADD_2, STORE, "EXIT"], [100, 100, 10, 10, 10, 10], {"epilogue": 2},
    ),
    "nor where the loop ends with a store": (
        [HMMA, "STG.E.128 [R6.64], R7", "EXIT", ADD_2, STORE, "EXIT"], [100, 100, 10, 10, 10, 10], {"epilogue": 2},
    ),
    "the epilogue begins behind the last MMA also where the last iterations are unrolled": (
        [HMMA, "BRA 0x0", HMMA, ADD_3, HMMA, ADD_2, STORE], [100, 100, *[10] * 5], {"issue": 3, "epilogue": 2},
    ),
    "what goes back to tensor memory is no epilogue yet": (
        [HMMA, "EXIT", "LDTM R8, tmem[UR4]", ADD_3, "STTM tmem[UR4], R8", ADD_2, STORE, "EXIT"], [100, *[10] * 7],
        {"issue": 3, "epilogue": 2},
    ),
    "what leaves nothing in global memory is no epilogue": (
        [HMMA, ADD_2, "STS.128 [R2], R8", "EXIT"], [100, 10, 10, 10], {"issue": 2},
    ),
    "a store before the MMAs makes no epilogue": (
        ["STG.E [R2.64], R3", ADD_3, HMMA, ADD_2], [10, 10, 100, 10], {"issue": 5},
    ),
    "address arithmetic that serves only copies is copy cost": (
        [
            ("IADD3 R4, P0, R4, 0x40, RZ", "wait", 5), ("IADD3 R20, R20, 0x1, RZ", "wait", 3), COPY,
            "ISETP.GE.AND P1, PT, R20, 0x80, PT", HMMA, "@!P1 BRA 0x0",
        ],
        None, {"copy_cost": 5, "issue": 3},
    ),
    "a short scoreboard without a producer is for shared memory where it is read": (
        ["LDS R40, [R21]", ("FADD R1, R2, R3", "short_scoreboard", 6), HMMA], None, {"smem_wait": 6},
    ),
    "and for an issue slot elsewhere": ([("FADD R1, R2, R3", "short_scoreboard", 6), HMMA], None, {"issue": 6}),
    "a short scoreboard is followed once around the loop": (
        [
            "LDS R40, [R21]", ("FMUL R13, R12, R2", "short_scoreboard", 6), "HMMA.16816.F32 R32, R40, R44, R32",
            "MUFU.EX2 R12, R30", "BRA 0x10", "LDS R12, [R3]",
        ],
        [1, 100, 100, 100, 100, 1], {"issue": 6},
    ),
    "a short scoreboard behind an mbarrier waits for data": (
        [
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ], R4", ("@!P0 BRA 0x0", "short_scoreboard", 6), HGMMA,
        ],
        None, {"data_wait": 6},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "executed", "parts"), CASES.values(), ids=CASES)
def test_samples_are_classed_by_reason_and_context(lines, executed, parts):
    assert classes(kernel(*lines, executed=executed)) == parts


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (("LDS.128 R4, [R8]", "mio_throttle", 3), "smem_wait"),
        (("LDGSTS.E.128 [R2], [R4.64]", "lg_throttle", 3), "copy_cost"),
        (("STS.128 [R2], R4", "mio_throttle", 3), "copy_cost"),
        (("HMMA.16816.F32 R8, R12, R16, R8", "math_pipe_throttle", 3), "unit"),
        (("FADD R1, R2, R3", "wait", 3), "issue"),
    ],
)
def test_throttles_belong_to_whoever_cannot_enter_the_queue(line, part):
    frame = kernel(
        "LDS R30, [R31]",
        "LDG.E.128 R4, [R50.64]",
        line,
        "LDGSTS.E.128 [R40], [R44.64]",
        "HMMA.16816.F32 R8, R12, R16, R8",
    )
    assert classes(frame) == {part: 3}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (("MEMBAR.SC.GPU", "membar", 3), "sync_wait"),
        (("EXIT", "drain", 3), "epilogue"),
        (("EXIT", "long_scoreboard", 3), "epilogue"),
        (("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", "gmma", 3), "unit"),
        (("WARPGROUP.ARRIVE", "warpgroup_arrive", 3), "unit"),
        (("WARPGROUP.DEPBAR.LE gsb0, 0x0", "wait", 3), "unit"),
        (("WARPGROUP.DEPBAR.LE gsb0, 0x0", "no_instructions", 3), "other"),
        (("FADD R1, R2, R3", "no_instructions", 3), "other"),
        (("LDGSTS.E.128 [R2], [R4.64]", "imc_miss", 3), "other"),
        (("DEPBAR.LE SB0, 0x1", "wait", 3), "data_wait"),
        (("LDGSTS.E.128 [R2], [R4.64]", "wait", 3), "copy_cost"),
        (("BAR.SYNC.DEFER_BLOCKING 0x0", "wait", 3), "sync_wait"),
        (("STG.E.128 [R2.64], R8", "wait", 3), "epilogue"),
        (("HMMA.16816.F32 R8, R12, R16, R8", "no_instructions", 3), "unit"),
    ],
)
def test_other_reasons_belong_to_the_instruction_that_waits(line, part):
    assert classes(kernel(line, "HMMA.16816.F32 R8, R12, R16, R8")) == {part: 3}


@pytest.mark.parametrize("reason", ["lg_throttle", "mio_throttle", "tex_throttle"])
@pytest.mark.parametrize(
    ("before", "line", "part"),
    [
        ("LDG.E.128 R4, [R50.64]", "IADD3 R1, R2, R3, RZ", "data_wait"),
        ("STS.128 [R2], R4", "IADD3 R1, R2, R3, RZ", "issue"),
        ("LDS R4, [R2]", "IADD3 R1, R2, R3, RZ", "smem_wait"),
        ("LDGSTS.E.128 [R2], [R4.64]", "IADD3 R1, R2, R3, RZ", "copy_cost"),
        ("STG.E.128 [R2.64], R8", "IADD3 R1, R2, R3, RZ", "epilogue"),
        ("IADD3 R1, R2, R3, RZ", "IADD3 R1, R2, R3, RZ", "issue"),
        ("LDS R4, [R2]", "STL [R1], R9", "issue"),
        ("LDS R4, [R2]", "DEPBAR.LE SB0, 0x1", "copy_cost"),
        ("LDS R4, [R2]", "LDG.E.128 R4, [R50.64]", "data_wait"),
        ("LDG.E.128 R4, [R50.64]", "HMMA.16816.F32 R8, R12, R16, R8", "unit"),
    ],
)
def test_a_full_queue_belongs_to_the_nearest_memory_instruction(before, line, part, reason):
    assert classes(kernel(before, (line, reason, 3), "HMMA.16816.F32 R8, R12, R16, R8")) == {part: 3}


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (("LDL R4, [R1]",), "issue"),
        (("LDL R4, [R1]", "LDG.E R5, [R6.64]"), "data_wait"),
        (("LDG.E R5, [R6.64]", "LDL R4, [R1]"), "data_wait"),
        (("LDL R4, [R1]", "DEPBAR.LE SB0, 0x1"), "data_wait"),
        (("LDG.E R5, [R6.64]",), "data_wait"),
    ],
)
def test_a_long_scoreboard_is_the_spills_only_where_no_data_is_loaded(lines, part):
    waiting = ("FADD R4, R4, R5", "long_scoreboard", 3)
    assert classes(kernel(*lines, waiting, "HMMA.16816.F32 R8, R12, R16, R8")) == {part: 3}


@pytest.mark.parametrize(("between", "part"), [(11, "unit"), (12, "sync_wait")])
def test_a_barrier_looks_back_for_the_wait_on_the_mma_over_twelve_instructions(between, part):
    lines = ["WARPGROUP.DEPBAR.LE gsb0, 0x0", *["IADD3 R1, R1, 0x1, RZ"] * between]
    assert classes(kernel(*lines, ("IADD3 R1, R1, 0x1, RZ", "barrier", 5))) == {part: 5}


@pytest.mark.parametrize(
    ("executed", "loop"),
    [
        ([1, 100, 100, 100, 1], range(1, 4)),
        ([1, 50, 100, 49, 1], range(1, 3)),  # half as often belongs to it, less does not
        ([1, 100, math.nan, 100, 1], range(1, 4)),
        ([math.nan] * 5, range(5)),
        ([0, 0, 0, 0, 0], range(5)),
    ],
)
def test_the_main_loop_is_what_runs_as_often_as_the_busiest_instruction(executed, loop):
    assert main_loop(["other"] * 5, np.array(executed, dtype=float), list(range(5))) == loop


def test_the_main_loop_follows_the_mmas_where_they_have_counts():
    roles = ["other", "mma", "other", "other", "other"]
    assert main_loop(roles, np.array([1.0, 100.0, 80.0, 900.0, 1.0]), list(range(5))) == range(1, 4)
    assert main_loop(roles, np.array([1.0, 1000.0, 80.0, 300.0, 1.0]), list(range(5))) == range(1, 2)
    assert main_loop(roles, np.array([1.0, math.nan, 80.0, 300.0, 1.0]), list(range(5))) == range(3, 4)
    assert main_loop([], np.array([]), []) == range(0)


def test_the_main_loop_holds_all_code_without_counts_and_no_repetition_of_a_wait(recwarn):
    assert main_loop(["mma", "other"], np.array([math.nan, math.nan]), [0, 1]) == range(2)
    assert main_loop(["other"] * 4, np.array([1.0, 100.0, 100.0, 100.0]), [0, 1, 2, 1]) == range(1, 3)
    assert not recwarn.list


def test_roles_widths_and_operands_are_read_off_the_text():
    expected = {
        "LDGSTS.E.BYPASS.128": "copy",
        "LDG.E.128": "load_global",
        "LDSM.16.M88.4": "load_shared",
        "UTMALDG.2D": "copy",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT": "copy_wait",
    }
    assert {opcode: role(opcode) for opcode in expected} == expected
    assert [width_bytes(op) for op in ("LDGSTS.E", "LDGSTS.E.BYPASS.128", "LDG.E.64", "LDG.E.U8")] == [4, 16, 8, 1]
    assert operands("IADD3 R2, P1, R2, R3, RZ") == ({"R2", "P1"}, {"R2", "R3"})
    assert operands("LDS.128 R4, [R8+0x10]")[0] == {"R4", "R5", "R6", "R7"}
    assert {"P0", "R2", "R3"} <= operands("@!P0 LDGSTS.E.128 [R1], desc[UR8][R2.64+0x40]")[1]


def test_no_sample_is_lost_or_made():
    frame = kernel(
        *((f"FADD R{i}, R2, R3", reason, i + 1) for i, reason in enumerate(REASONS)), "HMMA.16816.F32 R8, R12, R16, R8"
    )
    table = classify(frame)
    assert list(table.columns) == list(CLASSES)
    assert table.to_numpy().sum() == frame[list(REASONS)].to_numpy().sum()


def test_a_result_with_one_other_use_does_not_serve():
    sass = ["IADD3 R4, R4, 0x40, RZ", "LDGSTS.E [R2], [R4.64]", "FADD R9, R4, R9"]
    assert serving(sass, [False, True, False], [True, False, True], range(3)) == [False, False, False]
    assert serving(sass[:2], [False, True], [True, False], range(2)) == [True, False]


@pytest.mark.parametrize(
    ("producer", "waiting", "expected"),
    [
        ("LDSM.16.M88.4 R12, [R20]", "HMMA.16816.F32 R8, R14, R16, R8", "smem_wait"),
        ("STS.128 [R20], R12", "IMAD R13, R1, R2, R3", "smem_wait"),
        ("MUFU.EX2 R12, R30", "FMUL R13, R12, R2", "issue"),
        ("SHFL.BFLY PT, R12, R30, 0x1, 0x1f", "FADD R13, R12, R2", "issue"),
        ("S2R R12, SR_LANEID", "SHF.R.U32.HI R13, RZ, 0x3, R12", "issue"),
        ("LDC R12, c[0x0][0x22c]", "IMAD R13, R12, R2, R3", "issue"),
    ],
)
def test_a_short_scoreboard_belongs_to_what_produces_the_operand(producer, waiting, expected):
    frame = kernel(
        "LDS.128 R40, [R21]",
        producer,
        "LDS R44, [R22]",
        (waiting, "short_scoreboard", 6),
        "HMMA.16816.F32 R32, R40, R44, R32",
    )
    assert classes(frame) == {expected: 6}


def tcgen05(loop="[UR5]", behind="[UR5]", *, before_mma=0, in_epilogue=0):
    """A warp that waits at ``loop`` before it issues an MMA, and one that waits at ``behind`` for
    its turn. Bytes come to 0x0, MMAs arrive at 0x20, and warps at 0x40."""
    check, store = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, {}, R2", ["LDTM.x32 R4, tmem[UR4]", "STG.E [R2.64], R4", "EXIT"]
    code = [
        "SYNCS.ARRIVE.TRANS64 RZ, [UR5], R3", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR5+0x40], RZ", "EXIT",
        check.format(loop), ("@!P0 BRA 0x7f0000001000", "long_scoreboard", before_mma),
        "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR12], idesc[UR13], UP0", "UTCBAR [UR5+0x20], URZ", "EXIT",
        *["NOP"] * 60, check.format(behind), ("@!P0 BRA 0x7f0000002000", "long_scoreboard", in_epilogue), *store,
    ]  # fmt: skip
    return kernel(*code, executed=[1] * 3 + [100] * 4 + [1] * (len(code) - 7))


@pytest.mark.parametrize(
    ("awaited", "in_loop", "elsewhere"),
    [("[UR5]", "data_wait", "data_wait"), ("[UR5+0x20]", "unit", "aside"), ("[UR5+0x48]", "sync_wait", "aside")],
)
def test_a_wait_beside_tcgen05_is_for_what_completes_its_mbarrier(awaited, in_loop, elsewhere):
    assert classes(tcgen05(loop=awaited, before_mma=9)) == {in_loop: 9}
    assert classes(tcgen05(behind=awaited, in_epilogue=9)) == {elsewhere: 9}


@pytest.mark.parametrize("reason", ["long_scoreboard", "short_scoreboard"])
@pytest.mark.parametrize(("waiting", "part"), [(2, "smem_wait"), (3, "smem_wait"), (5, "data_wait")])
def test_a_wait_for_tensor_memory_is_one_for_memory_on_chip(waiting, part, reason):
    code = [HMMA, "LDTM.x32 R4, tmem[UR4]", "NOP", "FADD R8, R35, R9", "LDG.E R40, [R2.64]", "FADD R50, R40, R51"]
    code[waiting] = (code[waiting], reason, 5)
    assert classes(kernel(*code)) == {part if reason == "long_scoreboard" or part == "smem_wait" else "issue": 5}


def test_samples_of_a_function_without_code_are_put_aside():
    assert classes(kernel(HMMA, ("", "long_scoreboard", 2), ADD_5)) == {"issue": 5, "aside": 2}


def test_a_wait_for_the_bounding_xu_pipe_is_no_bubble():
    frame = kernel("LDS R3, [R4]", "MUFU.EX2 R12, R30", ("FMUL R13, R12, R2", "short_scoreboard", 6))
    total = classify(frame, "xu").sum()
    assert total["unit"] == 6


@pytest.mark.parametrize(("overwrite", "serves"), [("@P0 MOV R2, RZ", False), ("MOV R2, RZ", True)])
def test_a_guarded_overwrite_leaves_the_earlier_result_in_use(overwrite, serves):
    sass = ["IADD3 R2, R2, 0x1, RZ", "LDGSTS.E [R2], [R4]", overwrite, "FADD R3, R2, R4"]
    copies, candidates = [False, True, False, False], [True, False, False, False]
    assert serving(sass, copies, candidates, range(0))[0] is serves


def test_twenty_thousand_instructions_are_classified_in_seconds():
    body = [f"IADD3 R{i % 250}, R{i * 7 % 250}, 0x1, RZ" for i in range(9)]
    lines = [*body, "LDGSTS.E.BYPASS.128 [R8], [R4.64]", "MUFU.EX2 R251, R252", "HMMA.16816.F32 R8, R12, R16, R8"]
    frame = kernel(*((line, "short_scoreboard", 3) for line in lines))
    frame = pd.concat([frame] * (20_000 // len(lines)), ignore_index=True)
    started = time.process_time()
    assert classify(frame).to_numpy().sum() == pytest.approx(3 * len(frame))
    assert time.process_time() - started < 5
