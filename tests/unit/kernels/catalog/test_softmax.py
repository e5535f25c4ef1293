"""Rung 7 without a GPU: how a row is cut into pieces, what stays in shared memory, and what is
refused."""

from __future__ import annotations

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.softmax import SOFTMAX_ONLINE
from ncubble.kernels.spec.case import MAX_SMEM, make_case


def case_of(cols, **parameters):
    return make_case(SOFTMAX_ONLINE, parameters, {"rows": 3, "cols": cols})


@pytest.mark.parametrize(
    ("cols", "vector", "bytes_of_row"),
    [
        (4096, 4, 16384),
        (4100, 4, 20480),  # 1025 pieces: a fifth block
        (1002, 2, 4096),  # rows start at multiples of 8 bytes
        (1001, 1, 4096),  # of 4
        (1, 1, 1024),
        (57000, 4, 229376),
    ],
)
def test_a_row_stays_in_shared_memory_in_pieces_to_which_it_is_aligned(cols, vector, bytes_of_row):
    case = case_of(cols)
    assert {f"VECTOR={vector}", "KEPT=1"} <= set(case.defines)
    assert case.smem == bytes_of_row
    assert cols * 4 % (4 * vector) == 0


@pytest.mark.parametrize(("cols", "block"), [(58000, 4096), (400_001, 1024), (2**31 - 2**17, 4096)])
def test_a_row_that_no_shared_memory_holds_passes_through_a_ring(cols, block):
    case = case_of(cols, stages=3)
    assert "KEPT=0" in case.defines
    assert case.smem == 3 * block


def test_whether_a_row_is_kept_follows_what_its_blocks_take():
    for threads in (128, 256, 512, 1024):
        for items in (1, 2, 4):
            for cols in range(50_000, 60_000, 500):
                case = case_of(cols, threads=threads, items=items, stages=2)
                block = threads * items * 4 * int(next(word for word in case.defines if "VECTOR" in word)[-1])
                whole = -(-cols * 4 // block) * block
                assert ("KEPT=1" in case.defines) == (whole <= MAX_SMEM - 256), case.label
                assert case.smem <= MAX_SMEM


def test_a_ring_that_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="use fewer stages or a smaller tile"):
        case_of(100_000, threads=1024, items=4)


def test_the_comparison_holds_a_row_in_registers_and_takes_no_shared_memory():
    case = case_of(4096, path="registers")
    assert "HELD=4" in case.defines
    assert case.smem == 0
    assert "HELD=8" in case_of(4096, path="registers", threads=128).defines


@pytest.mark.parametrize("cols", [1001, 4098, 8196])
def test_rows_that_registers_do_not_hold_are_refused_with_the_limit(cols):
    with pytest.raises(UsageError, match="multiple of 4 and at most 8 x 4 x threads = 8192"):
        case_of(cols, path="registers")
    case_of(cols)
