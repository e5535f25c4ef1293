"""Which sets of parts are measured, what each changes, and what lines cost."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ncubble.analysis.ablation.code import RemovableParts, Way, delayed, without, words
from ncubble.analysis.ablation.experiment import MOST_LINES, ranked_lines
from ncubble.analysis.ablation.result import MeasuredPart
from ncubble.sass.patching import Code
from tests.helpers.sass_frames import kernel

NOP, EXPECTS = 0x918, 0x300400
SASS = ["SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2", "UTMALDG.2D [UR4], [UR6]", "UIADD3 UR4, UR4, 0x1, URZ", "LDS R1, [R2]"]
SASS += ["BAR.SYNC 0x0", "STG.E [R2], R1", "MUFU.EX2 R1, R1", "DEPBAR.LE SB0, 0x0"]
PARTS = RemovableParts(
    {"wait": (7,), "copy": (1, 2), "sync": (4,), "smem": (3,), "epilogue": (5,), "special": (6,)},
    expecting=(0,),
    free_running=((3, 7), (0,)),
    bare=(1,),
    slack={"tensor": (3, 4), "copies": (1,)},
)


@pytest.fixture
def code() -> Code:
    """Eight instructions; that of row 1 stalls for 11 cycles."""
    content = b"".join(struct.pack("<QQ", 0x7ABC, (11 if row == 1 else 2) << 41) for row in range(len(SASS)))
    return Code(content, 0, len(content), tuple(range(0, len(content), 16)))


def changed(code: Code, word: str, way: Way = Way.PLAIN) -> tuple[set[int], set[int]]:
    """Rows that are gone, and rows that only announce bytes."""
    variant = without(code, SASS, PARTS, word, way)
    after = Code(variant.cubin, 0, code.size, code.pcs)
    rows = [row for row in range(len(SASS)) if after.words(row) != code.words(row)]
    assert variant.rows == len(rows) and variant.name == word and not variant.harmless
    gone = {row for row in rows if after.words(row)[0] & 0xFFF == NOP}
    assert all(after.words(row)[1] == code.words(row)[1] | EXPECTS for row in set(rows) - gone)
    return gone, set(rows) - gone


def test_every_set_of_the_loop_is_measured_once() -> None:
    two = RemovableParts({"wait": (0,), "copy": (1,), "sync": (2,)})
    assert words(two) == ["wait", "copy", "sync", "wait_sync", "copy_sync"], "copies stand for their waits"
    everything = words(PARTS)
    assert everything[-3:] == ["epilogue", "all", "special"] and len(everything) == len(set(everything)) == 11 + 3
    assert words(RemovableParts({"special": (0,)})) == ["special"] and words(RemovableParts({})) == []


def test_without_waits_arrivals_only_announce_bytes(code: Code) -> None:
    assert changed(code, "wait") == ({7}, {0})
    assert changed(code, "wait_sync") == ({4, 7}, {0})


def test_without_copies_nothing_waits_and_nothing_is_announced(code: Code) -> None:
    assert changed(code, "copy") == ({0, 1, 2, 7}, set())
    assert changed(code, "all") == ({0, 1, 2, 3, 4, 5, 7}, set()), "but special functions stay"


def test_other_parts_leave_copies_alone(code: Code) -> None:
    assert changed(code, "sync_smem") == ({3, 4}, set())
    assert changed(code, "special") == ({6}, set())


def test_other_ways_take_more_waits_or_less_arithmetic(code: Code) -> None:
    assert changed(code, "wait", Way.FREE_RUNNING) == ({3, 7}, {0})
    assert changed(code, "copy", Way.BARE) == ({0, 1, 7}, set())


def test_waits_for_copies_that_bring_nothing_stay(code: Code) -> None:
    variant = without(code, SASS, PARTS, "copy_sync", Way.ARRIVING)
    after = Code(variant.cubin, 0, code.size, code.pcs)
    assert {row for row in range(len(SASS)) if after.words(row)[0] & 0xFFF == NOP} == {1, 4}
    assert after.words(0) == (code.words(0)[0] | 0xFF << 32, code.words(0)[1]), "nothing is announced"
    assert all(after.words(row) == code.words(row) for row in (2, 3, 5, 6, 7))
    assert changed(code, "wait", Way.ARRIVING) == changed(code, "wait")


def test_only_classes_that_can_be_delayed_are(code: Code) -> None:
    (variant,) = delayed(code, PARTS)
    assert (variant.name, variant.rows, variant.harmless) == ("slack tensor", 2, True)


def test_the_cost_of_a_part_is_split_by_its_samples() -> None:
    lines: list[Any] = [("DEPBAR.LE SB0, 0x0", "long_scoreboard", 10), ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 30)]
    lines += [("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 10), "LDGSTS.E [R2], [R4.64]", "LDGDEPBAR"]
    frame = kernel(*lines, "HMMA.16816.F32 R8, R12, R6, R8")
    frame.loc[2, "file"] = ""
    parts = [MeasuredPart("sync_wait", None, 8.0, 0.1, None), MeasuredPart("copy_cost", None, -1.0, 0.1, None)]
    found = ranked_lines(frame, "tensor", parts)
    assert [(line.file, line.line, line.part, line.pct) for line in found] == [
        ("k.cu", 2, "sync_wait", pytest.approx(6.0)),
        (None, None, "sync_wait", pytest.approx(2.0)),
    ]
    assert found[1].sass == "BAR.SYNC.DEFER_BLOCKING 0x0"
    many = kernel(*[("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 1)] * 20, "HMMA.16816.F32 R8, R12, R6, R8")
    assert len(ranked_lines(many, "tensor", parts)) == MOST_LINES
