"""Instructions are taken out of compiled kernels, and nvdisasm reads the result: the same
instructions in the same order, and every branch leads where it led."""

from __future__ import annotations

import random
import re
import shutil
import struct
from collections.abc import Sequence
from functools import cache

import pytest

from ncubble.errors import MeasurementError
from ncubble.kernels.build import build, disassemble, find_tool
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.sass.patching import Code
from ncubble.sass.shortening import LONGEST, SIZE, ImmovableError, shortened

LINE = re.compile(r"^\s*(?:([.$]\w[\w$]*):|/\*([0-9a-f]{4,})\*/\s+(\S.*?)\s*;)", re.MULTILINE)
LABEL = re.compile(r"`\(([.$][\w$]+)\)")
WORDS = struct.Struct("<QQ")
NOP, BRANCH, EXIT = 0x918 | 7 << 12, 0x947 | 7 << 12, 0x94D | 7 << 12
KERNELS: dict[str, dict[str, int]] = {"gemm_tma": {"stages": 2}, "attention_fwd": {}, "cluster_dsmem": {}}


@cache
def compiled(name: str) -> Code:
    for tool in ("nvcc", "nvdisasm"):
        try:
            find_tool(tool)
        except MeasurementError as error:
            pytest.skip(str(error))
    if shutil.which("g++") is None:
        pytest.skip("nvcc needs g++, which is missing")
    cubin = build(make_case(find_spec(name), KERNELS[name]), "sm_90a").cubin
    text = disassemble(cubin)
    (function,) = set(re.findall(r"\.text\.(\w+)", text))
    return Code.of(cubin, function, [int(pc, 16) for _, pc, _ in LINE.findall(text) if pc])


def meaning(cubin: bytes) -> list[str]:
    """The text of each instruction but NOPs, labels being the number of the instruction that they
    stand before; constants of MOV left out, of which some are return addresses."""
    places: dict[str, int] = {}
    sass: list[str] = []
    for label, _, text in LINE.findall(disassemble(cubin)):
        if label:
            places[label] = len(sass)
        elif not re.search(r"\bNOP$", text):
            sass.append(re.sub(r"(MOV \w+, )0x.*", r"\1", re.sub(r"\s+", " ", text)))
    return [LABEL.sub(lambda match: f"instruction {places[match[1]]}", text) for text in sass]


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("name", KERNELS)
def test_shorter_code_means_the_same_as_code_with_nops(name: str, share: float) -> None:
    code = compiled(name)
    sass = [text for _, pc, text in LINE.findall(disassemble(code.cubin)) if pc]
    movable = [row for row, text in enumerate(sass) if not re.search(r"`\(|EXIT|CALL|RET|MOV|SYNCS", text)]
    gone = sorted(random.Random(7).sample(movable, int(share * len(movable))))  # noqa: S311
    changes = code.without(gone, sass)
    short = code.shortened(changes, sass)
    assert len(short) == len(code.cubin)
    assert meaning(short) == meaning(code.patched(changes))
    assert short[: code.offset] == code.cubin[: code.offset], "nothing before the function changes"
    assert short[code.offset + code.size :] == code.cubin[code.offset + code.size :]


@pytest.mark.parametrize("name", KERNELS)
def test_without_a_gap_nothing_changes(name: str) -> None:
    code = compiled(name)
    assert code.shortened({}, [""] * len(code.pcs)) == code.cubin


def function(*instructions: tuple[int, int]) -> bytes:
    return b"".join(WORDS.pack(low, high) for low, high in instructions)


def stalling(stall: int, yields: int = 0, waits: int = 0) -> int:
    return stall << 41 | yields << 45 | waits << 52


def branch(distance: int, stall: int = 5) -> tuple[int, int]:
    """To so many instructions behind its end."""
    units = distance * 4
    upper = units >> 8 & (1 << 48) - 1
    return BRANCH | (units & 0xFF) << 16 | (upper & (1 << 30) - 1) << 34, upper >> 30 | stalling(stall)


def read(code: bytes) -> list[tuple[int, int]]:
    return list(WORDS.iter_unpack(code))


def stalls(code: bytes, count: int) -> list[int]:
    return [high >> 41 & 15 for _, high in read(code)[:count]]


ADD = 0x210 | 7 << 12


def cut(code: bytes, gone: Sequence[int]) -> bytes:
    return shortened(code, [""] * (len(code) // SIZE), gone)


def test_the_instruction_before_a_gap_stalls_for_it_and_the_one_behind_waits_for_its_scoreboards() -> None:
    code = function((ADD, stalling(2)), (NOP, stalling(4, waits=0b100)), (ADD, stalling(1, waits=0b1)), (EXIT, 0))
    short = cut(code, [1])
    assert stalls(short, 2) == [6, 1]
    assert [high >> 52 & 63 for _, high in read(short)[:2]] == [0, 0b101]
    assert [low for low, _ in read(short)] == [ADD, ADD, EXIT, NOP], "a NOP fills the end"


@pytest.mark.parametrize(("yields", "expected"), [(0, [15, 1]), (1, [11, 4, 1])])
def test_a_long_gap_keeps_the_longest_latency(yields: int, expected: list[int]) -> None:
    gap = [(NOP, stalling(9))] * 3
    code = function((ADD, stalling(3, yields)), *gap, (ADD, stalling(1)), (EXIT, 0))
    short = cut(code, [1, 2, 3])
    assert stalls(short, len(expected)) == expected
    assert sum(expected[:-1]) == LONGEST


def test_a_nop_waits_for_an_instruction_that_cannot() -> None:
    depbar = (0x9C5 | 7 << 12, stalling(1))
    short = read(cut(function((ADD, stalling(2)), (NOP, stalling(4, waits=0b10)), depbar, (EXIT, 0)), [1]))
    assert [low & 0xFFF for low, _ in short] == [0x210, 0x918, 0x9C5, 0x94D]
    assert [high >> 52 & 63 for _, high in short] == [0, 0b10, 0, 0] and short[2] == depbar


def test_a_nop_that_a_branch_leads_to_stays() -> None:
    code = function(
        (ADD, stalling(1)), (NOP, stalling(2)), (NOP, stalling(2)), (ADD, stalling(1)), branch(-4), (EXIT, 0)
    )
    short = read(cut(code, [1, 2]))
    assert [low & 0xFFF for low, _ in short] == [0x210, 0x918, 0x210, 0x947, 0x94D, 0x918]
    assert short[3] == branch(-3)
    assert short[1][1] >> 41 & 15 == 4, "it stalls for the gap behind it"


def test_a_branch_over_a_gap_leads_to_the_same_instruction() -> None:
    code = function(branch(3), (NOP, 0), (ADD, 0), (NOP, 0), (EXIT, 0))
    assert read(cut(code, [1, 3]))[0][0] == branch(1)[0]


@pytest.mark.parametrize(
    ("opcode", "text", "name"),
    [
        (0x949, "BRX R4 -0x20", "BRX"),
        (0x94A, "", "opcode 0x94a"),  # an instruction that the listing lacks
        (0x344, "CALL.REL.NOINC R4 0x100", "CALL.REL.NOINC"),
        (0x34E, "LEPC R20, 0x7f00", "LEPC"),
        (0x123, "@P0 BRA.NEW 0x7f00", "BRA.NEW"),  # a branch by its text, which is not known
    ],
)
def test_code_that_computes_where_it_goes_is_not_moved(opcode: int, text: str, name: str) -> None:
    with pytest.raises(ImmovableError, match=re.escape(f"({name})")):
        shortened(function((opcode | 7 << 12, 0), (EXIT, 0)), [text, "EXIT"], [])


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_code_of_other_gpus_is_not_moved(arch: str) -> None:
    compiled("gemm_tma")  # skips where nothing can be compiled
    cubin = build(make_case(find_spec("async_pipeline"), {}), arch).cubin
    text = disassemble(cubin)
    (name,) = set(re.findall(r"\.text\.(\w+)", text))
    code = Code.of(cubin, name, [int(pc, 16) for _, pc, _ in LINE.findall(text) if pc])
    with pytest.raises(ImmovableError, match=f"branches of {arch} are not known"):
        code.shortened({}, [""] * len(code.pcs))


def test_a_uniform_branch_is_aimed_like_any_other() -> None:
    low, high = branch(3)
    uniform = (low & ~0xFFF | 0x547, high)
    short = read(cut(function(uniform, (NOP, 0), (ADD, 0), (NOP, 0), (EXIT, 0)), [1, 3]))
    assert short[0][0] == branch(1)[0] & ~0xFFF | 0x547


def test_a_gap_behind_a_branch_does_not_slow_the_branch() -> None:
    code = function((ADD, stalling(1)), branch(-2), (NOP, stalling(6, waits=0b10)), (ADD, stalling(1)), (EXIT, 0))
    short = read(cut(code, [2]))
    assert short[1] == branch(-2)
    assert short[2] == (NOP, 0x3F << 46 | stalling(6, waits=0b10)), "a NOP of the gap stalls and waits"


def test_a_gap_before_a_loop_does_not_make_each_turn_wait() -> None:
    code = function((ADD, stalling(2)), (NOP, stalling(4, waits=0b100)), (ADD, stalling(3)), branch(-2), (EXIT, 0))
    short = read(cut(code, [1]))
    assert short[0] == (ADD, stalling(2)) and short[2] == (ADD, stalling(3))
    assert short[1] == (NOP, 0x3F << 46 | stalling(4, waits=0b100))


def test_whoever_reads_an_mma_comes_24_cycles_after_it() -> None:
    code = function((0x23C | 7 << 12, stalling(1)), *[(NOP, stalling(8))] * 3, (ADD, stalling(1)), (EXIT, 0))
    texts = ["HMMA.16816.F32 R4, R8, R12, R4", "", "", "", "FADD R0, R4, R5", "EXIT"]
    assert sum(stalls(shortened(code, texts, [1, 2, 3]), 2)) == 24


def test_texts_that_name_other_places_are_not_believed() -> None:
    code = function(branch(1), (ADD, 0), branch(0), (EXIT, 0))
    texts = ["BRA 0x7f0000000020", "", "BRA 0x7f0000000030", "EXIT"]
    shortened(code, texts, [1])
    with pytest.raises(ImmovableError, match="branch targets do not match"):
        shortened(code, [texts[0], "", "BRA 0x7f0000000040", "EXIT"], [1])


def test_a_call_whose_return_address_is_not_found_is_not_moved() -> None:
    call = (0x944 | 7 << 12 | 4 << 16, 0)
    move = (0x802 | 7 << 12 | 4 * SIZE << 32, 0)
    code = function((NOP, 0), move, move, call, (ADD, 0), (EXIT, 0))
    assert [low >> 32 for low, _ in read(cut(code, [0]))[:2]] == [4 * SIZE, 3 * SIZE], "the last before the call"
    with pytest.raises(ImmovableError, match="return address"):
        cut(function((NOP, 0), (ADD, 0), call, (ADD, 0), (EXIT, 0)), [0])
