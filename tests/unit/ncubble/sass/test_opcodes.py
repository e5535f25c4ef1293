"""What mnemonics say of an instruction."""

from __future__ import annotations

import pytest

from ncubble.sass.opcodes import adds_in_any_order


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
