"""The code of one launch as the Source page reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

FILE = "/home/someone/gemm.cu"


def code(**columns: Any) -> pd.DataFrame:
    """Six instructions of two files; 100 samples, of which 60 wait at row 2."""
    table = {
        "launch": 0,
        "pc": np.arange(6) * 16,
        "sass": ["LDG.E R1, [R2]", "LDGSTS [R1], [R2]", "BAR.SYNC 0x0", "HMMA R1, R2", "HMMA R1, R2", "EXIT"],
        "opcode": ["LDG.E", "LDGSTS", "BAR.SYNC", "HMMA", "HMMA", "EXIT"],
        "file": [FILE, FILE, FILE, "/inc/mma.hpp", "/inc/mma.hpp", ""],
        "line": [3, 4, 4, 90, 90, 0],
        "samples": [10.0, 20.0, 60.0, 6.0, 4.0, 0.0],
        "executed": [8.0, 8.0, 8.0, 64.0, 64.0, np.nan],
        "barrier": [0.0, 5.0, 60.0, 0.0, 0.0, 0.0],
        "selected": [10.0, 15.0, 0.0, 6.0, 4.0, 0.0],
    }
    return pd.DataFrame({**table, **columns})
