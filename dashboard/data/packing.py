"""Packed rows as bytes: a description of their columns for JSON, and their numbers and codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ncubble.analysis.launches.cells import Cells, CodedCells, NumberCells
from ncubble.analysis.launches.packed import SHAPE, PackedRows


def to_bytes(rows: PackedRows) -> tuple[dict[str, Any], bytes]:
    """Of rows that are ``whole``: a description of their columns for JSON, and their numbers and
    codes."""
    described: dict[str, Any] = {}
    blocks: list[bytes] = []
    end = 0
    for name, cells in rows.columns.items():
        array = cells.numbers if isinstance(cells, NumberCells) else cells.codes
        block = array.tobytes()
        described[name] = {"type": array.dtype.str, "at": end}
        if isinstance(cells, CodedCells):
            described[name]["values"] = [[value.decode()] if type(value) is bytes else value for value in cells.values]
        blocks += [block, bytes(-len(block) % 8)]
        end += len(block) + -len(block) % 8
    return {"rows": len(rows), "columns": described}, b"".join(blocks)


def from_bytes(described: Mapping[str, Any], blocks: bytes) -> PackedRows:
    """What ``to_bytes`` was given. Raises ValueError or LookupError for anything else."""
    count = int(described["rows"])
    columns: dict[str, Cells] = {}
    for name, column in described["columns"].items():
        array = np.frombuffer(blocks, np.dtype(column["type"]), count, column["at"])
        if "values" in column:
            if array.dtype.kind not in "iu":
                raise ValueError(f"{name}: codes of type {array.dtype}")
            values = [value[0].encode() if type(value) is list else value for value in column["values"]]
            if count and not 0 <= int(array.min()) <= int(array.max()) < len(values):
                raise ValueError(f"{name}: a code without a value")
            columns[name] = CodedCells(array, values)
        else:
            columns[name] = NumberCells(array)
    if SHAPE not in columns:
        raise ValueError("rows without their fields")
    return PackedRows(columns, np.arange(count))
