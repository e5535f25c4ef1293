"""What `ncubble program` costs and covers, on a GPU: four programs, each run plainly and under the
command.

    python -m benchmarks.program.cost --out runs/programs             # runs all, prints the table
    python -m benchmarks.program.cost --out runs/programs --only train
    python -m benchmarks.program.cost --table runs/programs           # the table of an earlier run
    python -m benchmarks.program.cost --ship                          # records the small training step that ships

Aims: the whole command takes at most two plain runs and 0.8 s for each profiled kernel, and kernels
that were profiled have 95 % of the time of all. PyTorch is needed for three of the programs, nvcc
for the fourth.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.command import NCUBBLE, REPOSITORY

EXAMPLES = REPOSITORY / "examples"
PLAIN_RUNS = 3
RUNS_ALLOWED, KERNEL_ALLOWED_S = 2.0, 0.8
"""The aim: so many plain runs, and so many seconds for each kernel."""
COVERED_PCT = 95.0
RESULTS = "cost.json"
KEPT = REPOSITORY / "docs" / "validation" / "program"
SHIPPED = REPOSITORY / "recordings" / "h100-program" / "train"
TORCH = str(EXAMPLES / "torch_programs.py")


@dataclass(frozen=True)
class Program:
    """A program by name: its command line, and the options of the command."""

    name: str
    argv: tuple[str, ...]
    options: tuple[str, ...] = ("--nvtx", "step")


PROGRAMS = (
    Program("train", (sys.executable, TORCH, "train")),
    Program("train-compiled", (sys.executable, TORCH, "train", "--compile")),
    Program("infer", (sys.executable, TORCH, "infer"), ("--nvtx", "request")),
    Program("layers", ("{binary}", "20")),
)
SHIP = (*NCUBBLE, "program", "--force", "--nvtx", "step", "--out", str(SHIPPED), "--")
SHIP_PROGRAM = (sys.executable, TORCH, "train", "--small", "--steps", "6")


@dataclass(frozen=True)
class Cost:
    """One program: seconds of a plain run and of the command with both of its runs, and what came
    of it. ``selected`` and ``profiled``: kernels; they differ where ncu counts launches otherwise
    than is assumed. ``ranges``: NVTX paths that were recorded."""

    name: str
    device: str
    plain_s: float
    command_s: float
    recorded_s: float | None
    profiled_s: float | None
    selected: int
    profiled: int
    covered_pct: float
    ranges: int
    span: str
    kinds: dict[str, float]
    notes: tuple[str, ...] = ()

    @property
    def allowed_s(self) -> float:
        """What the command may take."""
        return RUNS_ALLOWED * self.plain_s + KERNEL_ALLOWED_S * self.selected

    @property
    def within(self) -> bool:
        """Whether both aims are met."""
        return self.command_s <= self.allowed_s and self.covered_pct >= COVERED_PCT


def cost_of(name: str, device: str, plain_s: Sequence[float], command_s: float, told: dict[str, Any]) -> Cost:
    """The cost of a program from times and from what ``ncubble program --json`` printed; that of
    the first device where there are several."""
    account = told["devices"][0]
    return Cost(
        name=name,
        device=device,
        plain_s=statistics.median(plain_s),
        command_s=command_s,
        recorded_s=told["recorded_s"],
        profiled_s=told["profiled_s"],
        selected=told["selected"]["kernels"],
        profiled=sum(kernel["launch"] is not None for kernel in account["kernels"]),
        covered_pct=account["profiled_pct"],
        ranges=sum(bool(one["range"]) for one in account["ranges"]),
        span=account["rule"],
        kinds=account["kinds"],
        notes=tuple(told["notes"]),
    )


def table(costs: Iterable[Cost]) -> str:
    """The costs as Markdown."""
    head = ("program", "GPU", "plain s", "command s", "allowed s", "kernels", "profiled", "% of GPU time", "ranges")
    kinds = ("tensor", "work", "inside", "between", "unprofiled")
    lines = [f"| {' | '.join((*head, *kinds))} |", f"| -- | -- |{' -: |' * (len(head) + len(kinds) - 2)}"]
    for cost in costs:
        figures = (cost.plain_s, cost.command_s, cost.allowed_s)
        cells = [cost.name, cost.device, *(f"{value:.1f}" for value in figures), str(cost.selected), str(cost.profiled)]
        cells += [f"{cost.covered_pct:.1f}", str(cost.ranges), *(f"{cost.kinds.get(kind, 0.0):.1f}" for kind in kinds)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(program: Program, out: Path) -> Cost:
    """Runs one program; raises CalledProcessError where a plain run fails, RuntimeError where the
    command printed no account."""
    argv = [text.replace("{binary}", str(out / "program_layers")) for text in program.argv]
    if "{binary}" in program.argv:
        _build(out / "program_layers")
    plain = [_seconds(argv) for _ in range(PLAIN_RUNS)]
    command = [
        *NCUBBLE,
        "program",
        "--json",
        "--force",
        "--out",
        str(out / program.name),
        *program.options,
        "--",
        *argv,
    ]
    begun = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    taken = time.monotonic() - begun
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{program.name}: ncubble program ended with {done.returncode} and printed no account")
    device = json.loads((out / program.name / "run.json").read_text(encoding="utf-8"))["device"].get("name", "")
    return cost_of(program.name, device, plain, taken, json.loads(done.stdout))


def _seconds(argv: Sequence[str]) -> float:
    begun = time.monotonic()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def _build(target: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise RuntimeError("no nvcc on PATH")
    source = str(EXAMPLES / "program_layers.cu")
    subprocess.run([nvcc, "-O3", "-arch=native", "-lineinfo", source, "-o", str(target)], check=True)


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/programs"))
    parser.add_argument("--only", action="append", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--table", type=Path, metavar="DIR")
    parser.add_argument("--ship", action="store_true")
    given = parser.parse_args()
    if given.ship:
        done = subprocess.run([*SHIP, *SHIP_PROGRAM], check=False).returncode
        if not done:
            from benchmarks.program.cut import cut

            cut(SHIPPED)
        sys.exit(done)
    if given.table:
        sys.stdout.write(table(read(given.table)) + "\n")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    costs: list[Cost] = []
    for program in PROGRAMS:
        if not given.only or program.name in given.only:
            costs.append(measured(program, given.out))
            text = json.dumps([asdict(cost) for cost in costs], indent=1)
            (given.out / RESULTS).write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(table(costs) + "\n")
    sys.exit(0 if all(cost.within for cost in costs) else 1)


def read(folder: Path) -> list[Cost]:
    """What an earlier run wrote."""
    return [Cost(**raw) for raw in json.loads((folder / RESULTS).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    main()
