"""Counters of buffers, and arrays of mbarriers, in lines of recorded kernels."""

import pytest

from ncubble.analysis.report.frames import opcode
from ncubble.sass.buffers import awaited, barriers, counted, offset

WAIT = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ+0x30], R8"
PRODUCER = (  # of a GEMM with TMA, three stages
    "LOP3.LUT R8, R4, 0x1, RZ, 0x3c, !PT",
    "LEA R9, R6, R13, 0x3",
    WAIT,
    "IADD3 R6, R6, 0x1, RZ",
    "ISETP.NE.AND P0, PT, R6, 0x3, PT",
    "SEL R7, RZ, 0x1, P0",
    "SEL R6, R6, RZ, P0",
    "LOP3.LUT R4, R4, R7, RZ, 0x3c, !PT",
)
TRITON = (
    "UIADD3 UR21, UR21, 0x1, URZ",
    "UISETP.GT.AND UP0, UPT, UR21, 0x3, UPT",
    "USEL UR21, UR21, URZ, !UP0",
    "ULEA UR8, UR21, UR20, 0x3",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8+0x18000], R2",
)
LIBCU = (  # cuda::pipeline keeps the number in a byte
    "LOP3.LUT R2, R25, 0xff, RZ, 0xc0, !PT",
    "R2UR UR4, R2",
    "ULEA UR5, UR4, UR6, 0x4",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5+0x8], R9",
    "VIADD R25, R25, 0x1",
    "LOP3.LUT R2, R25, 0xff, RZ, 0xc0, !PT",
    "ISETP.NE.AND P0, PT, R2, 0x5, PT",
    "SEL R25, R25, RZ, P0",
)


@pytest.mark.parametrize(("code", "number"), [(PRODUCER, 3), (TRITON, 4), (LIBCU, 5)])
def test_a_counter_returns_to_zero_at_the_number_of_buffers(code, number):
    waits = [row for row, text in enumerate(code) if text.startswith("SYNCS")]
    assert counted(code, [64.0] * len(code), waits) == {number}


def test_a_guarded_zero_is_a_return_too():
    code = [text.replace("SEL R6, R6, RZ, P0", "@!P0 IMAD.MOV.U32 R6, RZ, RZ, RZ") for text in PRODUCER]
    assert counted(code, [64.0] * len(code), [2]) == {3}


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("LEA R9, R6, R13, 0x3", "LEA R9, R5, R13, 0x3"),  # the address comes from elsewhere
        ("SEL R6, R6, RZ, P0", "SEL R6, R6, R5, P0"),  # not to zero
        ("ISETP.NE.AND P0, PT, R6, 0x3, PT", "ISETP.NE.AND P0, PT, R5, 0x3, PT"),  # by another register
        ("ISETP.NE.AND P0, PT, R6, 0x3, PT", "ISETP.NE.AND P0, PT, R6, 0x400, PT"),  # by far too many
    ],
)
def test_other_choices_are_no_counters(line, instead):
    code = [instead if text == line else text for text in PRODUCER]
    assert counted(code, [64.0] * len(code), [2]) == set()


def test_a_counter_in_the_parity_alone_is_none():
    code = [text.replace("[R9+URZ+0x30], R8", "[R10+URZ+0x30], R9") for text in PRODUCER]
    assert counted(code, [64.0] * len(code), [2]) == set()


def test_offsets_follow_what_was_added_to_the_register():
    code = ["UIADD3 UR33, UR29, 0x18010, UR30", "SYNCS.ARRIVE.TRANS64 RZ, [UR33], R4", WAIT]
    assert [offset(code, row) for row in (1, 2)] == [0x18010, 0x30]
    assert offset(["SYNCS.ARRIVE.TRANS64 RZ, [UR8+-0x8], R4"], 0) == -8
    assert offset(["UIADD3 UR33, UR33, 0x8, URZ", "SYNCS.ARRIVE.TRANS64 RZ, [UR33], R4"], 1) == 0  # walks along


FULL, FREE, DONE = 0x400, 0x420, 0x4B0
TCGEN05 = [  # of a block-scaled GEMM: producer, MMA warp, epilogue
    "UMOV UR4, 0x400",
    "ULEA UR7, UR6, UR4, 0x18",
    "ULEA UR5, UR23, UR7, 0x3",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5+0x20], R2",
    "ULEA UR41, UR24, UR7, 0x3",
    "@!P5  SYNCS.ARRIVE.TRANS64 RZ, [UR41], R3",
    "UTMALDG.3D.MULTICAST [UR40], [UR54], UR5, desc[UR28]",
    "EXIT",
    "ULEA UR8, UR17, UR7, 0x3",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2",
    "UIADD3 UR8, UPT, UPT, UR8, 0x20, URZ",
    "UTCOMMA.4X gdesc[UR32], gdesc[UR26], tmem[UR9], tmem[UR24], idesc[UR25], tmem[UR4], UP1",
    "UTCBAR.MULTICAST [UR8], URZ, UR11",
    "UIADD3 UR10, UPT, UPT, UR7, 0xb0, URZ",
    "UTCBAR [UR10], URZ",
    "EXIT",
    "LEA R64, R22, UR7, 0x3",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R64+URZ+0xb0], R0",
    "LDTM.x32 R4, tmem[UR4]",
    "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R64+URZ+0xc0], RZ",
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR7+0xc8], R0",
    "EXIT",
]


def test_an_mbarrier_is_known_by_its_place_in_shared_memory():
    code = [(row, text) for row, text in enumerate(TCGEN05) if text.startswith(("SYNCS.PH", "UTCBAR"))]
    places = {row: offset(TCGEN05, row) for row, _ in code}
    assert places == {3: FREE, 9: FULL, 12: FREE, 14: DONE, 17: DONE, 20: DONE + 0x18}


def test_a_check_waits_for_what_completes_its_mbarrier():
    opcodes = [opcode(text) for text in TCGEN05]
    assert awaited(TCGEN05, opcodes) == {3: "mma", 9: "copy", 17: "mma", 20: "warps"}
    assert awaited([*TCGEN05, "UGETNEXTWORKID.SELFCAST [UR6], [UR41]"], [*opcodes, "UGETNEXTWORKID"])[9] == "warps"
    without = [text for text in TCGEN05 if not text.startswith("UTCBAR")]
    assert awaited(without, [opcode(text) for text in without]) == {}


@pytest.mark.parametrize(
    ("writer", "at"),
    [
        ("IMAD R9, R12, 0x8, R13", 0x430),  # an index, times its size, from the base
        ("IMAD.SHL.U32 R9, R13, 0x8, RZ", 0x30),  # no address
        ("SEL R9, R13, R12, P0", 0x30),  # one of two
        ("PRMT R9, RZ, 0x654, R13", 0x430),  # the same place of another CTA of the cluster
    ],
)
def test_addresses_are_followed_only_through_what_keeps_the_base(writer, at):
    assert offset(["MOV R13, 0x400", writer, WAIT], 2) == at


@pytest.mark.parametrize(
    ("initialised", "first", "apart", "length"),
    [
        ((0x0, 0x20, 0x8, 0x28, 0x10, 0x30, 0x18, 0x38, 0x40, 0x48), 0x0, {0x20}, 4),
        ((0x0, 0x18, 0x30, 0x8, 0x20, 0x38, 0x10, 0x28, 0x40), 0x0, {0x30}, 3),  # three arrays
        ((0x8, 0x0, 0x18, 0x10, 0x28, 0x20), 0x0, {0x8}, 3),  # pairs
        ((0x0, 0x8), 0x0, {0x8}, 1),  # one buffer: full and empty
        ((0x0, 0x8), 0x0, set(), 2),
        ((0x18000,), 0x18000, set(), 1),
    ],
)
def test_arrays_of_mbarriers(initialised, first, apart, length):
    array = barriers(initialised, first, apart)
    assert (len(array), array[0]) == (length, first)


def test_barriers_that_are_not_initialised_in_sight_are_no_array():
    assert barriers((0x0, 0x38), 0x10, set()) is None
