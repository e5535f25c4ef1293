"""Source frames of small hand-written kernels, for tests of the classification of warp samples."""

import numpy as np
import pandas as pd

from ncubble.analysis.report.frames import opcode

REASONS = (
    "long_scoreboard",
    "short_scoreboard",
    "barrier",
    "wait",
    "mio_throttle",
    "lg_throttle",
    "math_pipe_throttle",
)


def kernel(*lines, executed=None):
    """A source frame of SASS lines; ``(sass, reason, samples)`` puts samples on a line."""
    rows = []
    for number, line in enumerate(lines):
        sass, reason, samples = line if isinstance(line, tuple) else (line, None, 0)
        row = {"launch": 0, "pc": 16 * number, "sass": sass, "opcode": opcode(sass), "file": "k.cu", "line": number + 1}
        row |= dict.fromkeys(REASONS, 0.0) | {"samples": float(samples), "executed": 100.0}
        if reason:
            row[reason] = float(samples)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if executed is not None:
        frame["executed"] = np.array(executed, dtype=float)
    return frame
