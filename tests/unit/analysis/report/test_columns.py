"""Raw tables on their way from a worker to the cache: what comes out is what went in, and what is
no draft is refused."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ncubble.analysis.report import cache as store
from ncubble.analysis.report.tables import ALIGNED_B, TABLES, add_row, new_table, read_draft, write_draft
from ncubble.errors import MeasurementError
from ncubble.recordings import H100

KINDS = {"launch": "i", "name": "word", "value": "d", "time": "Q", "offset": "q", "text": "string", "gain": "double"}
ROWS = [
    (0, "ä", 1.5, 2**64 - 1, -(2**63), "line\nof \0 text", None),
    (1, "", math.inf, 0, 0, "", 12.5),
    (2**31 - 1, "ä", -0.0, 7, 1, "🛰", math.nan),
]


def written(file, rows):
    table = new_table(KINDS)
    for row in rows:
        add_row(table, *row)
    write_draft(table, file)
    return file


@pytest.fixture
def draft(tmp_path):
    return written(tmp_path / "one.draft", ROWS)


def test_a_table_is_what_was_written(draft):
    table = read_draft(draft)
    draft.unlink()
    assert table.column_names == list(KINDS)
    assert [repr(row) for row in zip(*table.to_pydict().values(), strict=True)] == [repr(row) for row in ROWS]
    assert all(chunk.buffers()[1].address % ALIGNED_B == 0 for chunk in table["value"].chunks)
    assert table.schema.field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert [str(table.schema.field(name).type) for name in ("launch", "value", "time", "offset", "text", "gain")] == [
        "int32",
        "double",
        "uint64",
        "int64",
        "string",
        "double",
    ]


def test_a_table_without_rows_keeps_its_columns(tmp_path):
    table = read_draft(written(tmp_path / "none.draft", []))
    assert (table.num_rows, table.column_names) == (0, list(KINDS))
    assert table.schema == read_draft(written(tmp_path / "some.draft", ROWS)).schema


@pytest.mark.parametrize("column", [1, 5])
def test_text_that_is_none_is_refused_by_who_writes_it(tmp_path, column):
    row = list(ROWS[0])
    row[column] = "x\udcff"
    with pytest.raises(UnicodeError):
        written(tmp_path / "odd.draft", [row])


REFUSED = (ValueError, LookupError, TypeError)
"""What ``read_draft`` raises for what is no draft. Arrow's errors and those of JSON are among
them."""


def test_a_draft_that_ends_early_is_refused(draft):
    data = draft.read_bytes()
    for size in range(1, len(data)):
        draft.write_bytes(data[:size])
        with pytest.raises(REFUSED):
            read_draft(draft)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [([-8], "a part of -8 bytes"), ([1 << 60], "a part of"), ([7], "7 bytes of numbers of 8"), ([8, 8], "unpack")],
)
def test_parts_of_impossible_sizes_are_refused(tmp_path, sizes, why):
    header = json.dumps([["value", "d", sizes]]).encode()
    (tmp_path / "odd.draft").write_bytes(len(header).to_bytes(8, "little") + header + bytes(200))
    with pytest.raises(ValueError, match=why):
        read_draft(tmp_path / "odd.draft")


def test_a_code_without_its_word_is_refused(draft):
    data = bytearray(draft.read_bytes())
    codes = data.index(b"\0\0\0\0\1\0\0\0\0\0\0\0", ALIGNED_B * 4)  # of "ä", "", "ä"
    for wrong in (2, -1):
        data[codes : codes + 4] = wrong.to_bytes(4, "little", signed=True)
        draft.write_bytes(data)
        with pytest.raises(REFUSED):
            read_draft(draft)


def test_flipped_bits_never_do_worse_than_other_values(draft):
    data, chance = draft.read_bytes(), random.Random(7)  # noqa: S311
    for _ in range(2000):
        odd = bytearray(data)
        odd[chance.randrange(len(odd))] ^= 1 << chance.randrange(8)
        draft.write_bytes(odd)
        try:
            table = read_draft(draft)
        except REFUSED:
            continue
        table.validate(full=True)


def test_drafts_that_do_not_fit_together_are_an_error_of_the_reading(tmp_path):
    folder = tmp_path / "0"
    folder.mkdir()
    for name in TABLES["scalars"]:
        (folder / f"{name}.draft").write_bytes(b"no draft")
    with pytest.raises(MeasurementError, match="are inconsistent"):
        store.build([folder], tmp_path / "scalars")


_IMPORTED = """
import json, sys
from ncubble.analysis.report import native
request = json.loads(sys.argv[1])
assert native._serve(request) == {"ok": True}, native._serve(request)
print(json.dumps(sorted(sys.modules)))
"""


def test_a_worker_imports_little(tmp_path):
    report = H100 / "softmax_online" / "default" / "report.ncu-repz"
    request = {"path": str(report), "parts": list(store.PARTS), "announced": 1, "first": 0, "last": 1, "series": "pm"}
    request |= {"out": str(tmp_path / "out"), "listings": str(tmp_path / "listings")}
    argv = [sys.executable, "-P", "-c", _IMPORTED, json.dumps(request)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert "ncu_report" in modules
    assert modules & {"pandas", "pyarrow", "numpy", "tomllib", "msgspec"} == set()
    assert {file.name for file in Path(tmp_path, "out", "scalars").iterdir()} == {
        f"{name}.draft" for name in TABLES["scalars"]
    }
