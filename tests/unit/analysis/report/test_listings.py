"""Machine code, and its text asked once."""

import itertools
import json
import os
import struct

import pytest

from benchmarks.reports.compose import plain_bytes
from ncubble.analysis.report import listings, native
from ncubble.analysis.report.listings import Function, Listings
from ncubble.recordings import ROOT

REPORT = ROOT / "gemm_tma" / "stages2" / "report.ncu-repz"
BASE = 0x7FA9_0000_0000


def instruction(what: int, scheduling: int = 0) -> bytes:
    return (what | scheduling << 105).to_bytes(16, "little")


def function(*instructions: bytes, base: int = BASE, module: str = "m", chip: int = 90) -> Function:
    return Function("kernel", base, b"".join(instructions), module, chip)


class Reader:
    """Disassembles as NVIDIA's reader does: ``answers`` by instruction."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = answers, list[int]()

    def at(self, base: int):
        def ask(pc: int) -> str:
            self.asked.append((pc - base) // 16)
            return self.answers[(pc - base) // 16].format(base=base)

        return ask


@pytest.fixture
def known(monkeypatch, tmp_path):
    """Listings of reports with the functions that are given."""

    def make(*functions: Function, reader: str = "1") -> Listings:
        listings._WORDS.clear()  # another process reads
        monkeypatch.setattr(listings, "functions", lambda report: iter(functions))
        return Listings("report", tmp_path / "listings", reader)

    return make


def addresses(count: int, base: int = BASE) -> list[int]:
    return [base + 16 * row for row in range(count)]


def test_equal_instructions_are_asked_for_once_whatever_the_scheduler_does(known):
    reader = Reader("MOV R1, R2", "EXIT", "MOV R1, R2")
    code = function(instruction(7, 1), instruction(9), instruction(7, 3))
    assert known(code).texts("kernel", addresses(3), reader.at(BASE)) == list(reader.answers)
    assert reader.asked == [0, 1]


def test_a_branch_is_asked_for_at_each_place(known):
    reader = Reader("BRA 0x7fa900000020", "BRA 0x7fa900000030", "NOP", "EXIT")
    code = function(instruction(5), instruction(5), instruction(6), instruction(8))
    assert known(code).texts("kernel", addresses(4), reader.at(BASE)) == list(reader.answers)
    assert reader.asked == [0, 1, 2, 3]


def test_another_report_with_the_same_module_asks_nothing_wherever_it_was_loaded(known):
    reader = Reader("BRA {base:#x}", "LDC R1, c[0x0][0x28]", "FFMA R1, R2, 0x3f800000, R3", "BRA `(.L_x_0) {base:#x}")
    code = [instruction(number) for number in range(4)]
    first = known(function(*code))
    first.texts("kernel", addresses(4), reader.at(BASE))
    first.keep()
    reader.asked.clear()
    moved = BASE + 0x5500
    again = known(function(*code, base=moved)).texts("kernel", addresses(4, moved), reader.at(moved))
    assert again == [answer.format(base=moved) for answer in reader.answers]
    assert reader.asked == []


@pytest.mark.parametrize(
    "other", [{"module": "n"}, {"reader": "2"}, {"text": "BRA 0x7fff12340000"}, {"text": ""}], ids=str
)
def test_what_may_read_differently_elsewhere_is_asked_for_again(known, other):
    reader = Reader(other.get("text", "NOP"))
    first = known(function(instruction(1)))
    first.texts("kernel", [BASE], reader.at(BASE))
    first.keep()
    reader.asked.clear()
    code = function(instruction(1), module=other.get("module", "m"))
    assert known(code, reader=other.get("reader", "1")).texts("kernel", [BASE], reader.at(BASE)) == [*reader.answers]
    assert reader.asked == [0]


def test_a_damaged_listing_is_asked_for_again(known, tmp_path):
    reader = Reader("NOP")
    first = known(function(instruction(1)))
    first.texts("kernel", [BASE], reader.at(BASE))
    first.keep()
    (file,) = (tmp_path / "listings").iterdir()
    file.write_text(json.dumps(["EXIT"]))
    assert known(function(instruction(1))).texts("kernel", [BASE], reader.at(BASE)) == ["NOP"]


def test_a_module_that_is_not_what_ran_is_not_believed(known):
    answers = [f"MOV R{number}, RZ" for number in range(40)]
    reader = Reader(*answers)
    code = function(*(instruction(number % 2) for number in range(40)))
    found = known(code)
    assert found.texts("kernel", addresses(40), reader.at(BASE)) == answers
    found.keep()
    reader.asked.clear()
    assert known(code).texts("kernel", addresses(1), reader.at(BASE)) == answers[:1]
    assert reader.asked == [0]


@pytest.mark.parametrize("base", [0x700B00, BASE])
def test_a_function_that_two_modules_have_at_one_address_is_asked_for_unless_it_is_still_there(known, base):
    two = [function(instruction(1), instruction(1), base=base, module=module) for module in "mn"]
    found = known(*two)
    reader = Reader("NOP", "NOP")
    for _ in range(2):
        assert found.texts("kernel", addresses(2, base), reader.at(base)) == ["NOP", "NOP"]
    assert reader.asked == [0, 1, 0]
    other = Reader("EXIT", "BRA")
    assert found.texts("kernel", addresses(2, base), other.at(base)) == ["EXIT", "BRA"]


def test_addresses_below_all_constants_are_not_told_from_them(known):
    reader = Reader("MOV R1, 0x700b00", "MOV R1, 0x700b00")
    low = function(instruction(1), instruction(1), base=0x700B00)
    assert known(low).texts("kernel", addresses(2, 0x700B00), reader.at(0x700B00)) == list(reader.answers)
    assert reader.asked == [0, 1]


def test_functions_of_a_report_are_found_with_their_code(tmp_path):
    plain = tmp_path / "report.ncu-rep"
    plain.write_bytes(plain_bytes(REPORT))
    (found,) = listings.functions(str(plain))
    assert (found.name, found.base % 16, len(found.code) % 16) == ("gemm_tma", 0, 0)
    assert found.row(found.base + 32) == 2
    assert found.row(found.base + 8) is found.row(found.base + len(found.code)) is None


def test_no_damage_of_a_report_hinders_its_reading(tmp_path):
    whole = plain_bytes(REPORT)
    elf, plain = whole.index(b"\x7fELF"), tmp_path / "report.ncu-rep"
    places = [*range(elf + 0x28, elf + 0x40, 4), *range(4, 12), len(whole) - 20]
    for at, value in itertools.product(places, (0, 0xFFFF_FFFF, 0x7FFF_FFFF)):
        plain.write_bytes(whole[:at] + struct.pack("<I", value) + whole[at + 4 :])
        assert len(list(listings.functions(str(plain)))) <= 1
    plain.write_bytes(b"")
    assert list(listings.functions(str(plain))) == []


def test_threads_are_bound_to_a_processor_only_while_instructions_are_asked_for():
    free = os.sched_getaffinity(0)
    with native._on_one_cpu():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == free
