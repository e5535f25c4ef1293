"""The machine code of a report, and its text, which is asked of the native reader once.

The reader disassembles at each call: 0.05 ms an instruction, and 0.35 s before its first, which is
most of the time in which many kernels are read. The text of an instruction follows from its 128
bits without those for the scheduler; of one that names a place in its function, also from where it
stands. So equal instructions are asked for once, and the listing of a function is kept in the cache
by the hash of its module: where another report has the same, nothing is asked.
``benchmarks/reports/listings.py`` compares every text with the reader's.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncubble.analysis.report.messages import BYTES, fields_of, members
from ncubble.store import recall, remember

Template = str | None
"""Text in which a place of the function stands as its offset behind a NUL; None where it is not
known."""
INSTRUCTION_B = 16
PROBED = 8
"""Stride at which texts that are known are compared with the reader's."""
LOWEST_BASE = 1 << 32
"""No constant in an instruction is as large as the address of a function, or is taken for one."""
_DECODED = (1 << 105) - 1
"""The bits of an instruction that say what it does; those above are for the scheduler (``Dissecting
the NVIDIA Volta GPU Architecture via Microbenchmarking``, Jia et al., 2018)."""
_SOURCES, _PAYLOAD_SIZE = 1, 5
"""Field numbers of a block's header: modules behind it, and the bytes of all that follows."""
_ELF, _FUNCTIONS, _FUNCTION, _NAME, _BASE = 4, 9, 1, 1, 2
"""Field numbers: the file in a module, its functions, one of them, its name and address."""
_DAMAGE = (ValueError, IndexError, OverflowError, struct.error)
_NUMBER = re.compile(r"0x([0-9a-f]+)")
_PLACE = re.compile(r"\0([0-9a-f]+)")
_OF_PLACE = re.compile(r"[\0`(]|.@")
"""What the text has beyond its bits: a place of the function, or a symbol of the module."""


_WORDS: dict[tuple[int, int], str] = {}
"""Texts by ``Function.word``, of all reports that this process reads."""


@dataclass(frozen=True)
class Function:
    """A function of a module: ``base`` is its address, ``code`` its instructions, ``module`` a hash
    of its module, ``chip`` what the module is for."""

    name: str
    base: int
    code: bytes
    module: str
    chip: int

    def row(self, pc: int) -> int | None:
        """The number of the instruction at an address; None where it is not of this function."""
        row, within = divmod(pc - self.base, INSTRUCTION_B)
        return row if not within and 0 <= row < len(self.code) // INSTRUCTION_B else None

    def word(self, row: int) -> tuple[int, int]:
        """What the text of an instruction follows from, but for where it stands."""
        return self.chip, int.from_bytes(
            self.code[row * INSTRUCTION_B : (row + 1) * INSTRUCTION_B], "little"
        ) & _DECODED

    def template(self, text: str) -> Template:
        """``text`` without addresses of this function; None for one that names an address
        elsewhere, or is none."""
        end = self.base + len(self.code)
        found = _NUMBER.sub(lambda at: self._place(at, int(at[1], 16), end), text)
        far = any(int(number, 16) >= LOWEST_BASE for number in _NUMBER.findall(found))
        return None if far or not text or self.text(found) != text else found

    def _place(self, match: re.Match[str], value: int, end: int) -> str:
        return f"\0{value - self.base:x}" if self.base <= value <= end else match[0]

    def text(self, template: str) -> str:
        """The text of a template."""
        return _PLACE.sub(lambda at: f"{self.base + int(at[1], 16):#x}", template) if "\0" in template else template


class Listings:
    """Texts of the instructions of one report. ``kept`` is the folder of listings of all reports,
    ``reader`` says which release of the native reader asks."""

    def __init__(self, report: str, kept: Path, reader: str) -> None:
        self._report, self._kept, self._reader = report, kept, reader
        self._known: dict[Function, list[Template]] = {}
        self._fresh: set[Function] = set()
        self._places: defaultdict[str, dict[int, str]] = defaultdict(dict)

    @cached_property
    def _functions(self) -> dict[str, list[Function]]:
        found: defaultdict[str, list[Function]] = defaultdict(list)
        for function in functions(self._report):
            if function not in found[function.name]:
                found[function.name].append(function)
        return found

    def texts(self, name: str, addresses: Sequence[int], ask: Callable[[int], str]) -> list[str]:
        """The instructions at ``addresses`` of a launch of the function ``name``; ``ask`` returns
        what the reader says of one.

        Where no module, or more than one, has the function there, those of launches before are
        taken, if every ``PROBED``-th agrees: it may have been unloaded, and another loaded in its
        place.
        """
        found = [one for one in self._functions.get(name, ()) if one.row(addresses[0]) is not None]
        if len(found) == 1 and found[0].base >= LOWEST_BASE:
            return self._of(found[0], addresses, ask)
        known = self._places[name]
        if any(ask(pc) != known[pc] for pc in [pc for pc in addresses if pc in known][::PROBED]):
            known.clear()
        for pc in addresses:
            if pc not in known:
                known[pc] = ask(pc)
        return [known[pc] for pc in addresses]

    def _of(self, function: Function, addresses: Sequence[int], ask: Callable[[int], str]) -> list[str]:
        if function not in self._known:
            self._known[function] = self._recalled(function)
        listing, texts, taken = self._known[function], list[str](), 0
        for pc in addresses:
            row = function.row(pc)
            if row is None:
                texts.append(ask(pc))
                continue
            if listing[row] is None:
                word = function.word(row)
                listing[row] = known = _WORDS.get(word)
                taken += known is not None
                if known is None or not taken % PROBED:
                    asked = ask(pc)
                    if known is not None and known != asked:  # the module is not what ran
                        self._functions[function.name].remove(function)
                        self._fresh.discard(function)
                        _WORDS.clear()
                        return self.texts(function.name, addresses, ask)
                    listing[row] = template = function.template(asked)
                    if template is None:
                        texts.append(asked)
                        continue
                    if not _OF_PLACE.search(template):
                        _WORDS[word] = template
                self._fresh.add(function)
            texts.append(function.text(listing[row] or ""))
        return texts

    def _recalled(self, function: Function) -> list[Template]:
        rows = len(function.code) // INSTRUCTION_B
        known = recall(self._file(function))
        return known if isinstance(known, list) and len(known) == rows else [None] * rows

    def _file(self, function: Function) -> Path:
        key = f"{self._reader} {function.module} {function.name}"
        return self._kept / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def keep(self) -> None:
        """Keep what was asked for; what cannot be written is asked for again."""
        for function in self._fresh:
            remember(self._file(function), self._known[function])


def functions(report: str) -> Iterator[Function]:
    """Functions whose machine code the plain report file has; none of a module that cannot be
    read."""
    with suppress(OSError, *_DAMAGE), Path(report).open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for message in _modules(data):
            with suppress(*_DAMAGE):
                yield from _of_module(message)


def _modules(data: mmap.mmap) -> Iterator[bytes]:
    """The messages of modules in a report, whose frame was checked."""
    with suppress(*_DAMAGE):
        at = 8 + _u32(data, 4)
        while at < len(data):
            size = _u32(data, at)
            header, _ = members(data[at + 4 : at + 4 + size])
            at += 4 + size
            end, entry = at + header.get(_PAYLOAD_SIZE, 0), at
            for _ in range(header.get(_SOURCES, 0)):
                size = _u32(data, entry)
                yield data[entry + 4 : entry + 4 + size]
                entry += 4 + size
            at = end


def _of_module(message: bytes) -> Iterator[Function]:
    parts = list(fields_of(message))
    elf = next((value for field, wire, value in parts if field == _ELF and wire == BYTES), b"")
    if not elf:
        return
    module, (chip,), code = hashlib.sha256(elf).hexdigest(), struct.unpack_from("<I", elf, 0x30), dict(_sections(elf))
    for field, wire, table in parts:
        for number, kind, one in fields_of(table) if field == _FUNCTIONS and wire == BYTES else ():
            numbers, texts = members(one) if number == _FUNCTION and kind == BYTES else ({}, {})
            name, base = texts.get(_NAME, b"").decode(), numbers.get(_BASE, 0)
            if base and f".text.{name}" in code:
                yield Function(name, base, code[f".text.{name}"], module, chip)


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Sections of code by their names (ELF-64, little-endian)."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    (text,) = struct.unpack_from("<Q", elf, table + names * size + 0x18)
    for header in range(table, table + count * size, size):
        name, kind, _, _, at, length = struct.unpack_from("<IIQQQQ", elf, header)
        title = elf[text + name : elf.index(b"\0", text + name)]
        if kind == 1 and title.startswith(b".text."):
            yield title.decode(), elf[at : at + length]


def _u32(data: mmap.mmap, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
