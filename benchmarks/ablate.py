"""What each cause of lost time costs, by experiment: kernels built without it, on this machine's GPU.

    python benchmarks/ablate.py OUT [--only REGEX] [--repeats 3]

Profiles every case of the plan whole and in each of its variants (the kernels' parameter ``ablate``), the variant
``tail`` on a shape whose grid is whole waves. Runs lie in OUT/runs/KERNEL/CASE/VARIANT and are kept, so an interrupted
measurement goes on where it stopped. Writes OUT/ablation.json and prints it as a table. Ends with 1 where a run failed
or a variant did other work than the whole kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ncubble.analysis.report import Report
from ncubble.errors import NcubbleError, UsageError
from ncubble.kernels.case import make_case
from ncubble.kernels.registry import find_spec

NONE, TAIL = "none", "tail"
CYCLES = "sm__cycles_elapsed.max"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
# The products of a launch, of which every variant must have as many: whichever of these is collected and not 0.
PRODUCTS = (
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
SETTING = ("--set", "tensor", "--metric", PRODUCTS[-1], "--timeout", "120")
CUBE = {"m": 4096, "n": 4096, "k": 4096}
# 33 rows of tiles: with 16 or 32 columns of them, whole waves of 132 SMs with one or two CTAs each.
WHOLE = {**CUBE, "m": 4224}


@dataclass(frozen=True)
class Subject:
    """A kernel with its parameters. ``waves``: its grid is a CTA per tile, so that ``WHOLE`` cuts its tail."""

    kernel: str
    parameters: dict[str, int | str] = field(default_factory=dict)
    waves: bool = True

    @property
    def name(self) -> str:
        """``KERNEL/CASE``, under which its runs lie."""
        return f"{self.kernel}/{'-'.join(f'{key}{value}' for key, value in self.parameters.items()) or 'default'}"

    def variants(self) -> Iterator[Variant]:
        """The whole kernel first, then all that its spec allows with these parameters, then the shape without a tail.

        Raises:
            UsageError: the whole kernel does not exist with these parameters.
        """
        spec = find_spec(self.kernel)
        make_case(spec, self.parameters, CUBE)
        for word in next(item for item in spec.parameters if item.name == "ablate").choices:
            variant = Variant(self, str(word))
            try:
                make_case(spec, variant.parameters, CUBE)
            except UsageError:  # there is nothing to leave out: a plain copy has no wait
                continue
            yield variant
        if self.waves:
            yield Variant(self, TAIL)


@dataclass(frozen=True)
class Variant:
    """A subject without what ``word`` names."""

    subject: Subject
    word: str

    @property
    def parameters(self) -> dict[str, int | str]:
        """All that is not default."""
        removed = {} if self.word in (NONE, TAIL) else {"ablate": self.word}
        return {**self.subject.parameters, **removed}

    @property
    def shape(self) -> dict[str, int]:
        """m, n, k."""
        return WHOLE if self.word == TAIL else CUBE

    @property
    def work(self) -> float:
        """Products of this launch, as a multiple of the whole kernel's."""
        return math.prod(self.shape.values()) / math.prod(CUBE.values())

    def argv(self, out: Path, repeats: int) -> list[str]:
        """The ``ncubble profile`` command that measures it."""
        given = [text for key, value in self.parameters.items() for text in ("-p", f"{key}={value}")]
        shape = ",".join(f"{key}={value}" for key, value in self.shape.items())
        program = [self.subject.kernel, *given, "--shape", shape, "--repeat", str(repeats)]
        return ["ncubble", "profile", *SETTING, "--out", str(out), *program]


@dataclass(frozen=True)
class Measured:
    """Medians over the launches of a run. ``spread_pct``: greatest less smallest cycles, of the median."""

    launches: int
    cycles: float
    spread_pct: float
    tensor_pct: float | None
    products: float | None


def plan() -> Iterator[Subject]:
    """The GEMMs of the ladder, from starved to busy."""
    yield Subject("tensor_core_gemm", {"stages": 1, "copy": "plain"})
    for stages in (1, 2, 3, 4):
        yield Subject("tensor_core_gemm", {"stages": stages})
    yield Subject("tensor_core_gemm", {"stages": 3, "vec": 4})
    for stages in (2, 3, 4):
        yield Subject("async_pipeline", {"stages": stages})
    yield Subject("async_pipeline", {"stages": 3, "threads": 128})
    for stages in (2, 3, 4):
        yield Subject("gemm_mma_swizzled", {"stages": stages})
    yield Subject("gemm_mma_swizzled", {"stages": 4, "tile_n": 128, "tile_k": 32})
    yield Subject("gemm_mma_swizzled", {"layout": "plain"})
    for stages in (1, 2, 3, 4, 6):
        yield Subject("gemm_tma", {"stages": stages})
    yield Subject("gemm_ws", waves=False)


def summary(launches: Sequence[Mapping[str, float]]) -> Measured:
    """One run from the metrics of its launches; what was not collected is NaN. Raises ValueError without cycles."""
    cycles = [one[CYCLES] for one in launches]
    if not cycles or not all(value > 0 for value in cycles):
        raise ValueError(f"{CYCLES} is missing")
    middle = statistics.median(cycles)
    busy = statistics.median(one[BUSY] for one in launches)
    counted = [[one[name] for one in launches] for name in PRODUCTS]
    products = next((statistics.median(values) for values in counted if all(value > 0 for value in values)), None)
    spread = 100 * (max(cycles) - min(cycles)) / middle
    return Measured(len(cycles), middle, spread, None if math.isnan(busy) else busy, products)


def read(run: Path) -> Measured:
    """The summary of a run directory; raises NcubbleError or ValueError where it cannot be had."""
    report = Report.open(run)
    names = (CYCLES, BUSY, *PRODUCTS)
    return summary([{name: report.value(launch, name) for name in names} for launch in report.launches["launch"]])


def compared(base: Measured, found: Measured, work: float = 1.0) -> dict[str, Any]:
    """A variant beside the whole kernel: ``vanished_pct`` of its cycles, for the same work.

    ``same_products``: as many products as the whole kernel, scaled by ``work``; None where they were not counted.
    """
    counted = base.products is not None and found.products is not None
    same = math.isclose(found.products or 0, (base.products or 0) * work, rel_tol=1e-6) if counted else None
    return {**asdict(found), "vanished_pct": 100 * (1 - found.cycles / work / base.cycles), "same_products": same}


def overlaps(vanished: Mapping[str, float]) -> dict[str, float]:
    """Per pair: what vanishes with both, less what vanishes with each, in points.

    Below 0 the same time vanishes with either; above 0 one hides what the other costs.
    """
    pairs = {word: word.split("_") for word in vanished if word.count("_") == 1}
    return {
        word: vanished[word] - sum(vanished[part] for part in parts)
        for word, parts in pairs.items()
        if all(part in vanished for part in parts)
    }


def row(subject: Subject, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """All of one subject, JSON-ready; ``measured`` by variant, the whole kernel among them."""
    base = measured[NONE]
    found = {
        variant.word: compared(base, measured[variant.word], variant.work)
        for variant in subject.variants()
        if variant.word != NONE and variant.word in measured
    }
    return {
        "case": subject.name,
        "kernel": subject.kernel,
        "parameters": subject.parameters,
        "shape": CUBE,
        "base": asdict(base),
        "variants": found,
        "overlap_pct": overlaps({word: one["vanished_pct"] for word, one in found.items()}),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows in lines: cycles and tensor utilization of the whole kernel, then percent of cycles that vanish."""
    words = list(dict.fromkeys(word for one in rows for word in one["variants"]))
    heads = [word.replace("_", "+")[:9] for word in words]
    lines = [f"{'case':44} {'cycles':>9} {'tensor':>6} " + " ".join(f"{head:>9}" for head in heads)]
    for one in rows:
        cells = [one["variants"].get(word) for word in words]
        texts = ("–" if cell is None else f"{cell['vanished_pct']:.1f}{_mark(cell)}" for cell in cells)
        busy = one["base"]["tensor_pct"]
        head = f"{one['case'][:44]:44} {one['base']['cycles']:9.0f} {'–' if busy is None else format(busy, '.1f'):>6}"
        lines.append(f"{head} " + " ".join(f"{text:>9}" for text in texts))
    return lines


def _mark(cell: Mapping[str, Any]) -> str:
    return "!" if cell["same_products"] is False else ""


def measure(variant: Variant, out: Path, repeats: int) -> Measured | None:
    """Profiles a variant unless its run is there; says on stderr what failed, and gives None then."""
    place = out / "runs" / variant.subject.name / variant.word
    failed = ""
    if not (place / "run.json").is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(variant.argv(place, repeats), capture_output=True, text=True, check=False)
        failed = done.stderr[-1000:] if done.returncode else ""
    try:
        if not failed:
            return read(place)
    except (NcubbleError, ValueError) as error:
        failed = str(error)
    print(f"FAILED  {place}\n{failed}", file=sys.stderr, flush=True)
    return None


def provenance(out: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Device, ncu and commit of the first run; empty without one."""
    for one in rows:
        manifest = json.loads((out / "runs" / one["case"] / NONE / "run.json").read_text(encoding="utf-8"))
        return {key: manifest.get(key) for key in ("device", "ncu_version", "git", "started")}
    return {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", metavar="REGEX", help="over KERNEL/CASE")
    parser.add_argument("--repeats", type=int, default=3, help="launches per variant")
    given = parser.parse_args()
    rows, complete = [], True
    for subject in (one for one in plan() if re.search(given.only, one.name)):
        found = {variant.word: measure(variant, given.out, given.repeats) for variant in subject.variants()}
        measured = {word: one for word, one in found.items() if one is not None}
        complete &= len(measured) == len(found)
        if NONE in measured:
            rows.append(row(subject, measured))
            print(subject.name, file=sys.stderr, flush=True)
    content = {"schema": 1, **provenance(given.out, rows), "cases": rows}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "ablation.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(rows)))
    other = [cell for one in rows for cell in one["variants"].values() if cell["same_products"] is False]
    if other:
        print(f"! {len(other)} variants did other work than the whole kernel: their figures mean nothing")
    return 0 if rows and complete and not other else 1


if __name__ == "__main__":
    sys.exit(main())
