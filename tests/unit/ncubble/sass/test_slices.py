"""What loads lead to: addresses, factors, and waits."""

from __future__ import annotations

import pytest

from ncubble.sass.slices import chained, loaded_at_once, multiplied, rewritten

LIST = ["LDG.E R2, [R4.64]", "IMAD.WIDE R4, R2, 0x4, R6", "LDG.E R2, [R4.64]", "IMAD.WIDE R4, R2, 0x4, R6"]
GATHER = ["LDG.E R2, [R4.64]", "IMAD.WIDE R8, R2, 0x4, R6", "LDG.E R3, [R8.64]", "FADD R0, R3, R0"]
STREAM = ["LDG.E R2, [R4.64]", "FADD R0, R2, R0", "IADD3 R4, P0, R4, 0x80, RZ", "LDG.E R3, [R4.64]"]


@pytest.mark.parametrize(
    ("code", "found"), [(LIST, {0, 2}), (GATHER, {2}), (STREAM, set())], ids=["a list", "a gather", "a stream"]
)
def test_an_address_that_was_loaded_chains_two_loads(code, found):
    loads = [row for row, text in enumerate(code) if text.startswith("LDG")]
    assert chained(code, loads, range(len(code))) == found


def test_bytes_count_until_what_was_loaded_is_used():
    ahead = ["LDG.E R2, [R4.64]", "LDG.E R3, [R4.64+0x80]", "FADD R0, R2, R0", "LDG.E R5, [R4.64+0x100]"]
    assert loaded_at_once(ahead, {0: 4, 1: 4, 3: 4}) == 8
    assert loaded_at_once(STREAM, {0: 4, 3: 4}) == 4
    assert loaded_at_once(STREAM, {}) == 0


def test_two_factors_that_were_loaded_are_a_product_and_a_constant_one_is_not():
    code = ["LDG.E.U16 R2, [R4.64]", "LDS R3, [R5]", "IMAD.U32 R6, R2, 0x10000, RZ", "FFMA R0, R6, R3, R0"]
    alike = ["FFMA R1, R3, 0.75, R1", "FFMA R7, R3, R3, R7", "FADD R8, R3, R9", "FFMA R0, R8, R6, R2"]
    assert multiplied([*code, *alike], [0, 1], [3, 4, 5, 7], range(8)) == {3}


ADDED, NEXT = ["FADD R5, R5, R6", "STG.E [R2.64], R5", "LDG.E R6, [R8.64]"], "IADD3 R2, P0, R2, 0x4, RZ"


@pytest.mark.parametrize(
    ("code", "loop", "found"),
    [
        ([*ADDED, *ADDED, *ADDED, "@P0 BRA 0x0"], range(10), {1, 4, 7}),
        ([*ADDED, "@P0 BRA 0x0"], range(4), {1}),
        ([*ADDED, *ADDED, "EXIT"], range(0), {1}),
        ([*ADDED, NEXT, *ADDED, NEXT, "@P0 BRA 0x0"], range(9), set()),
        (["STG.E [R2.64], R5", "@P0 BRA 0x0"], range(2), set()),
        (["@P0 STG.E [R2.64], R5", "@!P0 STG.E [R2.64], R6", "EXIT"], range(0), set()),
        (["@P0 STG.E [R2.64], R5", "@P0 STG.E [R2.64], R6", "EXIT"], range(0), {0}),
        (["@P1 BRA 0x50", "STG.E [R2.64], R5", "BRA 0x60", "STG.E [R2.64], R6", "EXIT"], range(0), set()),
    ],
    ids=[
        "unrolled",
        "a loop",
        "in a row",
        "other addresses",
        "the same value",
        "either of two",
        "both",
        "one of two branches",
    ],
)
def test_another_value_to_the_same_address_overwrites_a_store(code, loop, found):
    stores = [row for row, text in enumerate(code) if "STG" in text]
    assert rewritten(code, stores, loop) == found
