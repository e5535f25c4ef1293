"""What loads lead to: addresses, factors, and waits."""

from __future__ import annotations

import pytest

from ncubble.sass.slices import chained, loaded_at_once, multiplied

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


def test_a_factor_is_multiplied_and_a_summand_is_not():
    code = ["LDS R2, [R4]", "LDS.128 R8, [R5]", "FFMA R0, R2, R9, R0", "FFMA R1, R6, R7, R2", "FMUL R3, R6, R11"]
    assert multiplied(code, [0, 1], [2, 3, 4], range(len(code))) == {2, 4}
