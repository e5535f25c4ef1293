"""The raw tables of a report, and how a worker hands them over.

While a report is read, a number takes eight bytes, a repeated word four, and no row an object. A
worker writes tables as *drafts*, of which ``read_draft`` makes Arrow tables: to import Arrow takes
longer than to read a launch, and who waits for the worker needs it anyway. A draft is eight bytes
with the length of its header (little-endian), the header (JSON: name, kind and the sizes of the
parts of each column) and the parts, each at the next multiple of ``ALIGNED_B``: numbers as they lie
in memory, texts as a JSON list.
"""

from __future__ import annotations

import json
import mmap
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

TABLES: dict[str, dict[str, dict[str, str]]] = {
    "scalars": {
        "actions": {
            "launch": "i",
            **dict.fromkeys(("kernel", "demangled", "mangled", "nvtx"), "string"),
            "workload": "i",
        },
        "metrics": {"launch": "i", "metric": "word", "value": "d", "unit": "word"},
        "texts": {"launch": "i", "metric": "word", "value": "string"},
    },
    "details": {
        "timeline": {"launch": "i", "t_ns": "Q", "metric": "word", "value": "d", "unit": "word"},
        "code": {"launch": "i", "pc": "q", "sass": "word", "file": "word", "line": "i"},
        "samples": {"launch": "i", "pc": "q", "metric": "word", "value": "d"},
        "rules": {
            **{"launch": "i", "section": "word", "rule": "word", "title": "string", "message": "string"},
            **{"kind": "word", "speedup_pct": "double", "speedup_kind": "word"},
        },
        "files": {"file": "string", "text": "string"},
    },
}
"""The raw tables by the part that is extracted together (one number per metric and launch is cheap,
per-instruction data are not), their columns, and the kind of each (``Column``)."""
ALIGNED_B = 64
"""As Arrow recommends."""
MEASURED = re.compile(r"launch__|device__|profiler__|.*\.")
"""Pattern of metrics that always have a value or series: counters with their roll-up, and facts of
launch and device. Derived values and links may have none."""


class Column:
    """Rows of one ``kind``: the type code of an ``array``, or ``string`` or ``double`` for few rows
    that may be None."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.values: Any = [] if kind in ("string", "double") else array(kind)

    def append(self, cell: Any) -> None:
        """One more row."""
        self.values.append(cell)

    def extend(self, cells: Iterable[Any]) -> None:
        """One more row for each of ``cells``."""
        self.values.extend(cells)

    def repeat(self, cell: Any, count: int) -> None:
        """``count`` more rows of the same."""
        self.values.extend(array(self.kind, (cell,)) * count)

    def parts(self) -> list[memoryview]:
        """All rows, as they stand in a draft. Raises UnicodeError for text that is none."""
        return [_listed(self.values) if isinstance(self.values, list) else _bytes(self.values)]


class WordColumn(Column):
    """Text that repeats itself: codes into a vocabulary."""

    def __init__(self) -> None:
        self.kind, self.values, self.vocabulary = "word", array("i"), dict[str, int]()

    def append(self, cell: str) -> None:
        """One more row."""
        self.values.append(self.vocabulary.setdefault(cell, len(self.vocabulary)))

    def repeat(self, cell: str, count: int) -> None:
        """``count`` more rows of the same."""
        self.values.extend(array("i", (self.vocabulary.setdefault(cell, len(self.vocabulary)),)) * count)

    def parts(self) -> list[memoryview]:
        """All rows, as they stand in a draft. Raises UnicodeError for text that is none."""
        return [_bytes(self.values), _listed(list(self.vocabulary))]


def new_table(columns: Mapping[str, str]) -> dict[str, Column]:
    """A table without rows; ``columns``: the kind of each, ``word`` for text that repeats
    itself."""
    return {name: WordColumn() if kind == "word" else Column(kind) for name, kind in columns.items()}


def add_row(table: dict[str, Column], *cells: Any) -> None:
    """One more row of ``table``, a cell for each column in its order."""
    for column, cell in zip(table.values(), cells, strict=True):
        column.append(cell)


def _bytes(values: array[Any]) -> memoryview:
    return memoryview(values).cast("B") if values else memoryview(b"")


def _listed(values: list[Any]) -> memoryview:
    return memoryview(json.dumps(values, ensure_ascii=False).encode())


def write_draft(table: Mapping[str, Column], file: Path) -> None:
    """Write the rows of a table, which takes no more then; raises OSError, and UnicodeError for
    text that is none."""
    columns = [(name, column.kind, column.parts()) for name, column in table.items()]
    header = json.dumps([(name, kind, [len(part) for part in parts]) for name, kind, parts in columns]).encode()
    with file.open("wb") as draft:
        draft.write(len(header).to_bytes(8, "little") + header)
        for part in (part for _, _, parts in columns for part in parts):
            draft.write(bytes(-draft.tell() % ALIGNED_B))
            draft.write(part)


def read_draft(file: Path) -> pa.Table:
    """The table that ``write_draft`` wrote; its numbers stay in the file, which may be removed.

    Raises OSError where it cannot be read, and ValueError, LookupError or TypeError where it is
    none.
    """
    import pyarrow as pa

    with file.open("rb") as draft:
        data = memoryview(mmap.mmap(draft.fileno(), 0, access=mmap.ACCESS_READ))
    end = 8 + int.from_bytes(data[:8], "little")
    columns = json.loads(bytes(data[8:end]))
    parts = _parts(data, end, [size for _, _, sizes in columns for size in sizes])
    return pa.table({name: _arrow(kind, [next(parts) for _ in sizes]) for name, kind, sizes in columns})


def _parts(data: memoryview, at: int, sizes: Sequence[int]) -> Iterator[memoryview]:
    """The parts of a draft behind its header, which ends ``at``."""
    for size in sizes:
        at += -at % ALIGNED_B
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"a part of {size} bytes at {at} of {len(data)}")
        yield data[at : at + size]
        at += size


def _arrow(kind: str, parts: Sequence[memoryview]) -> pa.Array:
    """The rows of a column; without a copy, where they are numbers."""
    import pyarrow as pa

    if kind == "word":
        codes, vocabulary = parts
        return pa.DictionaryArray.from_arrays(_arrow("i", [codes]), _arrow("string", [vocabulary]))
    (part,) = parts
    if kind in ("string", "double"):
        return pa.array(json.loads(bytes(part)), type=kind)
    numbers = {"d": pa.float64(), "i": pa.int32(), "q": pa.int64(), "Q": pa.uint64()}[kind]
    rows, rest = divmod(len(part), numbers.byte_width)
    if rest:
        raise ValueError(f"{len(part)} bytes of numbers of {numbers.byte_width}")
    return pa.Array.from_buffers(numbers, rows, [None, pa.py_buffer(part)])
