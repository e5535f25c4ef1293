"""Instructions of compiled kernels are replaced, and nvdisasm reads the result: what was to change
has changed, and nothing else."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import cache

import pytest

from ncubble.errors import MeasurementError, ReportError
from ncubble.kernels.build import build, disassemble
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.sass.patching import SIZE, SLACK, Code

pytestmark = pytest.mark.usefixtures("compiler")
ROW = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(\S.*?)\s*;")
KERNELS = {"gemm_tma": {"stages": 2}, "gemm_ws": {}, "tensor_core_gemm": {"stages": 2}}


@dataclass(frozen=True)
class Compiled:
    """A kernel as its code and as its text."""

    code: Code
    sass: list[str]

    def rows(self, pattern: str) -> list[int]:
        """Instructions whose text matches."""
        return [row for row, text in enumerate(self.sass) if re.search(pattern, text)]


@dataclass(frozen=True)
class Control:
    """Scheduling of an instruction, as its high word has it."""

    stall: int
    yields: int
    write: int
    read: int
    wait: int
    reuse: int

    @classmethod
    def of(cls, high: int) -> Control:
        fields = ((41, 4), (45, 1), (46, 3), (49, 3), (52, 6), (58, 4))
        return cls(*(high >> at & (1 << width) - 1 for at, width in fields))


def listing(cubin: bytes) -> list[tuple[int, str]]:
    """Offset and text of each instruction."""
    return [(int(pc, 16), re.sub(r"\s+", " ", text)) for pc, text in ROW.findall(disassemble(cubin))]


@cache
def compiled(name: str) -> Compiled:
    cubin = build(make_case(find_spec(name), KERNELS[name]), "sm_90a").cubin
    (function,) = set(re.findall(r"\.text\.(\w+)", disassemble(cubin)))
    pcs, sass = zip(*listing(cubin), strict=True)
    return Compiled(Code.of(cubin, function, pcs), list(sass))


def patched(kernel: Compiled, changes: dict[int, tuple[int, int]]) -> list[str]:
    """The text of all instructions of the patched kernel; asserts that no other byte changed."""
    cubin = kernel.code.patched(changes)
    places = {kernel.code.offset + kernel.code.pcs[row] + byte for row in changes for byte in range(SIZE)}
    assert len(cubin) == len(kernel.code.cubin)
    assert {at for at, (old, new) in enumerate(zip(kernel.code.cubin, cubin, strict=True)) if old != new} <= places
    after = listing(cubin)
    assert [pc for pc, _ in after] == list(kernel.code.pcs)
    sass = [text for _, text in after]
    assert [row for row, text in enumerate(sass) if text != kernel.sass[row]] == sorted(
        row for row in changes if sass[row] != kernel.sass[row]
    )
    return sass


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("tensor_core_gemm", r"LDGSTS|LDSM|BAR\.SYNC|DEPBAR|STG"), ("gemm_tma", "UTMALDG|STG|BAR"), ("gemm_ws", "UTMA")],
)
def test_a_nop_is_scheduled_like_the_instruction_that_it_replaces(name: str, pattern: str) -> None:
    kernel = compiled(name)
    rows = kernel.rows(pattern)
    changes = kernel.code.without(rows, kernel.sass)
    sass = patched(kernel, changes)
    assert sorted(changes) == rows != []
    for row in rows:
        guard = re.match(r"@!?U?P\S+ ", kernel.sass[row])
        assert sass[row] in ("NOP", f"{guard[0] if guard else ''}NOP")
        before, after = Control.of(kernel.code.words(row)[1]), Control.of(changes[row][1])
        assert after == Control(before.stall, before.yields, 7, 7, before.wait, 0)


def test_a_nop_waits_for_every_scoreboard() -> None:
    kernel = compiled("tensor_core_gemm")
    (row, *_) = kernel.rows("LDGSTS")
    low, high = kernel.code.words(row)
    for bit in range(52, 58):
        cubin = kernel.code.patched({row: (low, high & ~(0x3F << 52) | 1 << bit)})
        code = Code(cubin, kernel.code.offset, kernel.code.size, kernel.code.pcs)
        assert Control.of(code.without([row], kernel.sass)[row][1]).wait == 1 << bit - 52


@pytest.mark.parametrize("name", ["gemm_tma", "gemm_ws"])
def test_a_check_of_an_mbarrier_passes_at_once(name: str) -> None:
    kernel = compiled(name)
    rows = kernel.rows(r"SYNCS\.PHASECHK")
    changes = kernel.code.without(rows, kernel.sass)
    sass = patched(kernel, changes)
    assert rows
    for row in rows:
        (predicate,) = re.findall(r"TRYWAIT (P\d)", kernel.sass[row])
        assert sass[row] == f"ISETP.EQ.U32.AND {predicate}, PT, RZ, RZ, PT"
        before, after = Control.of(kernel.code.words(row)[1]), Control.of(changes[row][1])
        assert after == Control(13, 0, 7, 7, before.wait, 0), "whoever reads the predicate waits for no scoreboard"


def test_the_predicate_and_the_guard_of_a_check_are_kept() -> None:
    kernel = compiled("gemm_tma")
    (row, *_) = kernel.rows(r"SYNCS\.PHASECHK")
    low, high = kernel.code.words(row)
    for number in range(7):
        # The guard @!P2, and another predicate to write.
        cubin = kernel.code.patched({row: (low & ~0xF000 | 0xA000, high & ~(7 << 17) | number << 17)})
        code = Code(cubin, kernel.code.offset, kernel.code.size, kernel.code.pcs)
        text = listing(cubin)[row][1]
        assert text.startswith(f"@!P2 SYNCS.PHASECHK.TRANS64.TRYWAIT P{number},")
        changes = code.without([row], {row: text})  # type: ignore[arg-type]
        assert listing(code.patched(changes))[row][1] == f"@!P2 ISETP.EQ.U32.AND P{number}, PT, RZ, RZ, PT"


def test_arrivals_that_announce_bytes_only_announce_them() -> None:
    for name in ("gemm_tma", "gemm_ws"):
        kernel = compiled(name)
        rows = kernel.rows(r"SYNCS\.ARRIVE\.TRANS64 ")
        changes = kernel.code.expecting(rows)
        sass = patched(kernel, changes)
        assert rows
        for row in rows:
            wanted = kernel.sass[row].replace("SYNCS.ARRIVE.TRANS64 ", "SYNCS.ARRIVE.TRANS64.RED.A0TR ")
            assert sass[row] == wanted
            assert Control.of(changes[row][1]) == Control.of(kernel.code.words(row)[1])


@pytest.mark.parametrize("name", ["gemm_tma", "gemm_ws"])
def test_an_arrival_can_announce_no_bytes(name: str) -> None:
    kernel = compiled(name)
    rows = kernel.rows(r"SYNCS\.ARRIVE\.TRANS64 ")
    sass = patched(kernel, kernel.code.announcing_nothing(rows))
    assert rows
    for row in rows:
        assert sass[row] == re.sub(r", R\d+$", ", RZ", kernel.sass[row]) != kernel.sass[row]


@pytest.mark.parametrize("name", KERNELS)
def test_delays_reach_eleven_cycles_and_change_no_instruction(name: str) -> None:
    kernel = compiled(name)
    rows = range(len(kernel.sass))
    changes = kernel.code.delayed(rows)
    assert patched(kernel, changes) == kernel.sass
    for row in rows:
        before = Control.of(kernel.code.words(row)[1])
        assert (row in changes) == (before.stall < SLACK == 11)
        if row in changes:
            assert changes[row][0] == kernel.code.words(row)[0]
            assert Control.of(changes[row][1]) == Control(
                11, before.yields, before.write, before.read, before.wait, before.reuse
            )


def test_nvdisasm_refuses_a_longer_delay_with_the_yield_bit() -> None:
    kernel = compiled("tensor_core_gemm")
    (row, *_) = (row for row in kernel.rows("") if Control.of(kernel.code.words(row)[1]).yields)
    with pytest.raises(MeasurementError, match="nvdisasm refused"):
        disassemble(kernel.code.patched(kernel.code.delayed([row], SLACK + 1)))


def test_text_that_belongs_to_other_code_is_refused() -> None:
    tma, ws = compiled("gemm_tma"), compiled("gemm_ws")
    tma.code.check(tma.sass)
    with pytest.raises(ReportError, match="not in the machine code"):
        tma.code.check(ws.sass[: len(tma.sass)])
    shifted = [*tma.sass[1:], "NOP"]
    with pytest.raises(ReportError, match=r"instruction \d+ \(.*\) is not in the machine code"):
        tma.code.check(shifted)
    for count in (len(tma.sass) - 1, len(tma.sass) + 1):
        with pytest.raises(ReportError, match=f"{count} instructions"):
            tma.code.check([*tma.sass, "NOP"][:count])
    with pytest.raises(ReportError, match="no instructions"):
        Code(tma.code.cubin, tma.code.offset, tma.code.size, ()).check([])
    beyond = Code(tma.code.cubin, tma.code.offset, tma.code.size, (tma.code.size,))
    with pytest.raises(ReportError, match="not in the machine code"):
        beyond.check(["FADD R1, R2, R3"])


def test_code_that_differs_in_one_known_instruction_is_refused() -> None:
    kernel = compiled("tensor_core_gemm")
    for opcode in ("EXIT", "NOP"):
        row = kernel.rows(rf"^(@\S+ )?{opcode}")[0]
        for old, new in ((row, "MOV R1, R2"), (kernel.rows("^IMAD")[0], kernel.sass[row])):
            sass = [*kernel.sass[:old], new, *kernel.sass[old + 1 :]]
            with pytest.raises(ReportError, match=f"instruction {old} "):
                kernel.code.check(sass)


def test_a_function_that_the_code_lacks_is_named() -> None:
    with pytest.raises(ReportError, match="no function gemm"):
        Code.of(compiled("gemm_tma").code.cubin, "gemm", [0])


@pytest.mark.parametrize(
    "content",
    [b"", b"text", b"\0" * 100, b"\xff" * 100, b"\x7fELF", b"\x7fELF" + b"\xff" * 200, b"\x7fELF" + b"\0" * 200],
    ids=["empty", "text", "zeros", "ones", "magic", "magic and ones", "magic and zeros"],
)
def test_what_is_no_cubin_is_refused(content: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        Code.of(content, "gemm", [0])
    assert caught.value.message == "the machine code is not a cubin, or is truncated"


def test_a_cubin_that_was_cut_off_is_refused() -> None:
    cubin = compiled("gemm_tma").code.cubin
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    for size in (0x30, 0x40, start, start + 100, len(cubin) // 2):
        with pytest.raises(ReportError):
            Code.of(cubin[:size], "gemm", [0])
