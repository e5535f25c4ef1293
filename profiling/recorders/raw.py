"""What a recorder of GPU activity writes while a program runs, and how it is read back. Standard
library only: the recorder runs in the program's own interpreter.

A folder with, per process, ``records-PID.bin`` (a head of 16 bytes, then records of 80 bytes,
little-endian), ``names-PID.txt`` (a name per line, records hold its number) and, where the recorder
came to its end, ``end-PID.json``. All times are in ns on the clock of CUPTI, the same for calls of
the host and work of the GPU.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO

HEAD: Final = struct.Struct("<8sII")
MAGIC: Final = b"NCBSTRM1"
RECORD: Final = struct.Struct("<4I4Q8I")
FIELDS: Final = (
    *("kind", "device", "context", "stream"),
    *("start", "end", "bytes", "extra"),
    *("correlation", "thread", "name", "flags", "source", "target", "channel", "graph"),
)
"""Fields of a record, in order: four of 4 bytes, four of 8, eight of 4; fields a kind does not use
are 0."""

KERNEL, COPY, SET, DRIVER, RUNTIME, SYNC, STREAM, CONTEXT, GRAPH, EVENT, OVERHEAD, POOL, MARK = range(1, 14)
"""``kind``. ``flags``: the direction of a copy, the type of a synchronization, the flag of a
stream, the null stream of a context, the returned status of a call, the operation of a pool.
``source`` and ``target``: kinds of memory of a copy or set; of events and waits for them,
``source`` is the event and ``extra`` tells which of its recordings; of copies between devices it
holds the two, from << 32 | to, and of streams the priority, a signed number of 32 bits. Of kernels
``flags`` is the block, ``source`` and ``target`` are the grid (``block_word``, ``grid_words``), and
``bytes`` is the dynamic shared memory; recordings from before 2026-11-25 have 0 there. Of marks
(NVTX) ``flags`` are CUPTI's, ``extra`` is the number that start and end of a range share, and
``thread`` is 0 for ranges of the process."""

REFUSED: Final = "refused.txt"
"""File in the folder: why a process could not be recorded."""
NAME_MOST: Final = 4096
"""Maximum length of a name."""


def block_word(x: int, y: int, z: int) -> int:
    """Threads of a CTA in 32 bits: 11 for x, 11 for y, the rest for z. Never 0, as each is 1 or
    more."""
    return x | y << 11 | z << 22


def grid_words(x: int, y: int, z: int) -> tuple[int, int]:
    """CTAs of a grid in two words of 32 bits: x; y and z with 16 bits each."""
    return x, y | z << 16


class RawWriter:
    """Writes the records of one process; what comes after ``most`` of them is counted, not kept."""

    def __init__(self, folder: Path, pid: int, most: int) -> None:
        self._folder, self._pid, self._most = folder, pid, most
        self._numbers: dict[str, int] = {}
        self.kept, self.over = 0, 0
        self._records: BinaryIO = (folder / f"records-{pid}.bin").open("wb")
        self._records.write(HEAD.pack(MAGIC, RECORD.size, pid))
        self._records.flush()
        self._names: TextIO = (folder / f"names-{pid}.txt").open("w", encoding="utf-8", errors="backslashreplace")

    def number(self, name: str) -> int:
        """The number that stands for ``name`` in records."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self._names.write(" ".join(name[:NAME_MOST].splitlines()) + "\n")
        return number

    def add(self, record: tuple[int, ...]) -> None:
        """Keeps one record, its members in the order of ``FIELDS``."""
        if self.kept >= self._most:
            self.over += 1
            return
        self.kept += 1
        self._records.write(RECORD.pack(*record))

    def flush(self) -> None:
        """Hands over to the system what was written: a kill then loses nothing of it."""
        self._names.flush()
        self._records.flush()

    def close(self, **facts: Any) -> None:
        """Ends the files; ``facts`` goes into ``end-PID.json`` beside what was counted here."""
        self._names.close()
        self._records.close()
        end = {"pid": self._pid, "kept": self.kept, "over": self.over, **facts}
        (self._folder / f"end-{self._pid}.json").write_text(json.dumps(end), encoding="utf-8")
