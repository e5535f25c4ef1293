"""What mnemonics say of an instruction."""

from __future__ import annotations

import pytest

from ncubble.sass.opcodes import adds_in_any_order, is_asynchronous, is_wgmma, role
from ncubble.sass.slices import operands


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU desc[UR14][R86.64], R56", True),
        ("@P0 RED.E.ADD.F16x2.RN.STRONG.GPU desc[UR4][R2.64], R0", True),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU PT, R2, desc[UR4][R2.64], R4", True),
        ("ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R2.64], R4", False),  # integers: any order gives the same
        ("UTMAREDG.2D.ADD [UR4], [UR10]", True),
        ("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ", False),
        ("FADD R2, R3, R4", False),
        ("STG.E desc[UR4][R2.64], R0", False),
    ],
)
def test_floats_that_are_added_in_memory_come_in_any_order(sass: str, expected: bool) -> None:
    assert adds_in_any_order([sass, "EXIT"]) is expected


@pytest.mark.parametrize(
    ("opcode", "does", "asynchronous"),
    [
        ("UTCHMMA.2CTA", "mma", True),
        ("UTCQMMA", "mma", True),
        ("UTCOMMA.4X", "mma", True),
        ("UTCIMMA", "mma", True),
        ("QMMA.16832.F32.E4M3.E4M3", "mma", False),  # of 12.x
        ("UTCBAR.MULTICAST", "other", True),  # a commit: the wait is at the mbarrier
        ("LDTM.x32", "tensor_memory", False),
        ("STTM", "tensor_memory", False),
        ("ACQBULK", "barrier", False),
    ],
)
def test_blackwell_instructions_have_roles(opcode: str, does: str, asynchronous: bool) -> None:
    assert (role(opcode), is_asynchronous(opcode), is_wgmma(opcode)) == (does, asynchronous, False)


@pytest.mark.parametrize(
    ("sass", "registers"),
    [("LDTM.x8 R4, tmem[UR20]", 8), ("LDTM.16dp256bit.x4 R4, tmem[UR20]", 16), ("LDTM R4, tmem[UR5]", 1)],
)
def test_a_load_from_tensor_memory_writes_many_registers(sass: str, registers: int) -> None:
    assert operands(sass)[0] == {f"R{number}" for number in range(4, 4 + registers)}
