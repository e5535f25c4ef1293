"""Are the steps of real programs found? Traces of PyTorch's profiler name them (``ProfilerStep#N``);
the steady state is looked for in their launches alone.

    python -m benchmarks.program.periods TRACE.json.gz…     # a Markdown table

A trace that holds a part of its kernels only (sampled) has no steps to be found.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.analysis.program.steady import Steady, steady_state

STEP = "ProfilerStep"


@dataclass(frozen=True)
class Found:
    """``steps`` that the profiler names, and launches in each; the steady state by kernels with
    their grids, or by names alone where that has none."""

    trace: str
    launches: int
    steps: int
    steady: Steady | None
    by_names: bool

    @property
    def right(self) -> bool:
        """Whether the repetitions are the steps."""
        return self.steady is not None and self.steady.repeats == self.steps


def found_in(name: str, events: Sequence[dict[str, Any]]) -> Found:
    """What is found among the events of a trace."""
    timed = [event for event in events if event.get("ph") == "X" and isinstance(event.get("args"), dict)]
    calls = {one["args"].get("correlation"): one["ts"] for one in timed if one.get("cat") == "cuda_runtime"}
    kernels = [
        one for one in timed if str(one.get("cat")).lower() == "kernel" and one["args"].get("correlation") in calls
    ]
    kernels.sort(key=lambda one: calls[one["args"]["correlation"]])
    names = [str(event.get("name")) for event in events]
    steps = len({text for text in names if text.startswith(STEP)})
    time = np.array([float(one["dur"]) for one in kernels])
    full = steady_state(_numbers((one["name"], str(one["args"].get("grid"))) for one in kernels), time)
    steady = full or steady_state(_numbers(one["name"] for one in kernels), time)
    return Found(name, len(kernels), steps, steady, full is None)


def _numbers(keys: Iterable[Any]) -> np.ndarray:
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)


def table(found: Iterable[Found]) -> str:
    """A row for each trace."""
    lines = ["| trace | launches | steps | found | by | % of GPU time |", "| -- | -: | -: | -: | -- | -: |"]
    for one in found:
        repeats = f"{one.steady.repeats} of {one.steady.period:,}" if one.steady else "none"
        share = f"{100 * one.steady.share:.0f}" if one.steady else ""
        how = "names" if one.by_names else "names and grids"
        lines.append(f"| {one.trace} | {one.launches:,} | {one.steps} | {repeats} | {how} | {share} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; status 1 where steps of a trace are not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    found = []
    for path in parser.parse_args().traces:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        raw = json.loads(text)
        found.append(found_in(path.name, raw["traceEvents"] if isinstance(raw, dict) else raw))
    sys.stdout.write(table(found) + "\n")
    sys.exit(0 if all(one.right for one in found) else 1)


if __name__ == "__main__":
    main()
