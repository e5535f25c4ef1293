"""Record the runs that ship with the package, on this machine's GPU.

    python benchmarks/record.py OUT [--only REGEX] [--repeats 5]

Writes OUT/runs/KERNEL/VARIANT (default sets, one launch: what reports and dashboard show) and
OUT/repeats/KERNEL/VARIANT (sets tensor and dram, several launches: what baselines are made of). Existing run
directories are kept, so an interrupted recording goes on where it stopped. Ends with 1 where any failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@dataclass(frozen=True)
class Recording:
    """One variant of one kernel. ``program`` is set where it is not of the catalog."""

    kernel: str
    variant: str
    parameters: dict[str, object] = field(default_factory=dict)
    program: tuple[str, ...] = ()

    def argv(self, out: Path, launches: int, sets: tuple[str, ...]) -> list[str]:
        """The ``ncubble profile`` command that records it."""
        argv = ["ncubble", "profile", *(text for name in sets for text in ("--set", name)), "--out", str(out)]
        if self.program:
            return [*argv, "--kernel", self.kernel, "--skip", "1", "--count", "1", "--", *self.program]
        given = [text for key, value in self.parameters.items() for text in ("-p", f"{key}={value}")]
        return [*argv, self.kernel, *given, "--repeat", str(launches)]


def plan() -> Iterator[Recording]:
    """Every kernel of the catalog with its interesting parameters, and a Triton GEMM at five depths."""
    yield Recording("tiled_matmul", "default")
    for stages in range(2, 7):
        yield Recording("async_pipeline", f"stages{stages}", {"stages": stages})
    yield Recording("async_pipeline", "stages3-threads128", {"stages": 3, "threads": 128})
    for stages in range(1, 7):
        yield Recording("tensor_core_gemm", f"stages{stages}", {"stages": stages})
    yield Recording("tensor_core_gemm", "stages1-plain", {"stages": 1, "copy": "plain"})
    yield Recording("tensor_core_gemm", "stages3-vec4", {"stages": 3, "vec": 4})
    yield Recording("softmax_online", "default")
    yield Recording("numba_tiled_matmul", "default")
    yield Recording("numba_softmax_online", "default")
    for stages in range(1, 6):
        program = (sys.executable, str(EXAMPLES / "triton_gemm.py"), "--stages", str(stages))
        yield Recording("triton_gemm", f"stages{stages}", program=program)


def record(item: Recording, out: Path, launches: int, sets: tuple[str, ...]) -> bool:
    """Record one run unless it is there; says how it went."""
    if (out / "run.json").is_file():
        print(f"kept      {out}")
        return True
    done = subprocess.run(item.argv(out, launches, sets), capture_output=True, text=True, check=False)
    print(f"{'recorded' if done.returncode == 0 else 'FAILED  '}  {out}", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the runs that ship with the package")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="regular expression over KERNEL/VARIANT")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    chosen = [item for item in plan() if re.search(given.only, f"{item.kernel}/{item.variant}")]
    results = []
    for item in chosen:
        results.append(record(item, given.out / "runs" / item.kernel / item.variant, 1, ()))
        if not item.program:
            target = given.out / "repeats" / item.kernel / item.variant
            results.append(record(item, target, given.repeats, ("tensor", "dram")))
    print(f"{sum(results)} of {len(results)} recordings")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
