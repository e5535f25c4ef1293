"""Frames as the library gives them: with the unit of each column."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

UNITS: dict[str, dict[str, str]] = {
    "launches": {
        "registers": "registers per thread",
        "smem_static_B": "bytes per CTA",
        "smem_dynamic_B": "bytes per CTA",
        "duration_ns": "ns",
        "cycles": "elapsed SM cycles",
        "sm_clock_hz": "Hz",
        "tensor_elapsed_pct": "% of elapsed SM cycles",
        "dram_pct": "% of peak throughput",
        "bubble_pct": "% of elapsed SM cycles",
        "cause_pct": "% of kernel time",
        "gain_pct": "% of kernel time",
    },
    "timeline": {"t_ns": "ns since the launch began", "value": "as in column unit"},
    "metrics": {"value": "as in column unit"},
    "source": {
        "pc": "bytes from the first instruction",
        "samples": "warp samples",
        "executed": "warp instructions",
    },
    "rules": {"speedup_pct": "%"},
}
"""By frame and column. Further columns of ``source`` are stall reasons, in warp samples."""


def with_units(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """``frame`` with the units of its columns in ``attrs``."""
    frame.attrs["units"] = {**UNITS[name], **dict.fromkeys(reasons_of(frame, name), "warp samples")}
    return frame


def reasons_of(frame: pd.DataFrame, name: str) -> list[str]:
    """The columns of stall reasons, which only ``source`` has."""
    names = list(frame.columns)
    return names[names.index("executed") + 1 :] if name == "source" else []


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames concatenated by rows. Categories stay categories."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    categories = {
        column: pd.api.types.union_categoricals([part[column] for part in parts]).categories
        for column in parts[0].columns
        if all(isinstance(part.get(column, pd.Series()).dtype, pd.CategoricalDtype) for part in parts)
    }
    alike = [
        part.assign(**{column: part[column].cat.set_categories(names) for column, names in categories.items()})
        for part in parts
    ]
    return pd.concat(alike, ignore_index=True)
