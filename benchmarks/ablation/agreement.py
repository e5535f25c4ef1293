"""Machine-code ablation against source-level ablation of the same kernels, in points of kernel time.

    python -m benchmarks.ablation.agreement OUT [--only REGEX]     # measures, on a GPU
    python -m benchmarks.ablation.agreement OUT --show             # what OUT holds

    python -m benchmarks.ablation.agreement OUT --show --cases-of OTHER   # only cases that OTHER has

The cases, and what vanishes with each set of parts when the source leaves it out, are those of
``python -m benchmarks.validation account`` (``recordings/validation/account/ablation.json``). Each case is ablated
anew with ``ncubble ablate`` into ``OUT/CASE``; runs that exist are kept. Compared are sets that both
routes removed. Two kinds of sets count apart, since the source-level variant is another kernel
there (``ANOTHER_KERNEL``). Ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness.command import NCUBBLE, REPOSITORY
from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.account.shares import ALL, REST, removed

TRUTH = REPOSITORY / "recordings" / "validation" / "account" / "ablation.json"
MEAN, WORST = 2.0, 5.0
SHARED = "without shared loads the compiler keeps operands in registers, and schedules the loop anew"
SLOWER = "a subset, or the whole kernel, gains more at source level alone: the compiler scheduled another loop"
ANOTHER_KERNEL = (SHARED, SLOWER)
NOISE = 2.0
"""Points by which a larger set may gain less than a lesser one."""


def argv(case: dict[str, Any], out: Path) -> list[str]:
    """The command that ablates one case."""
    parameters = [word for name, value in case["parameters"].items() for word in ("-p", f"{name}={value}")]
    shape = ",".join(f"{name}={value}" for name, value in case["shape"].items())
    return [*NCUBBLE, "ablate", case["kernel"], *parameters, "-p", shape, "--out", str(out)]


def source_level(case: dict[str, Any]) -> dict[str, float]:
    """What vanishes with each variant of the source, in percent of the whole kernel."""
    base = fmean(case["variants"]["none"]["cycles"])
    return {
        word: 100.0 * (1.0 - fmean(cell["cycles"]) / cell["work"] / base)
        for word, cell in case["variants"].items()
        if word not in ("none", "tail") and cell["cycles"]
    }


def compared(case: dict[str, Any], ablation: Ablation) -> list[dict[str, Any]]:
    """One row for each set of parts that both routes removed."""
    here = {variant.name: variant.gone_pct for variant in ablation.variants if variant.gone_pct is not None}
    source = source_level(case)
    return [
        {
            **{"case": case["case"], "word": word, "source": pct, "code": here[word], "error": here[word] - pct},
            "apart": why_apart(case["case"], word, source, here),
        }
        for word, pct in source.items()
        if word in here
    ]


def why_apart(case: str, word: str, source: Mapping[str, float], code: Mapping[str, float]) -> str:
    """Why the source-level variant is another kernel than the one without these parts; "" where it
    is not, by what vanishes at ``source`` level and in machine ``code``."""
    if "smem" in removed(word) and not (word == ALL and case.startswith(("gemm_tma", "gemm_ws"))):
        return SHARED
    return SLOWER if _loses(word, source) and not _loses(word, code) else ""


def _loses(word: str, gone: Mapping[str, float]) -> bool:
    """Whether less vanishes with a set than with one of its subsets, or with nothing."""
    lesser = [pct for other, pct in gone.items() if other != word and removed(other) < removed(word)]
    return gone[word] < max([0.0, *lesser]) - NOISE


def main() -> int:
    """Measure what is not there yet, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument("--cases-of", type=Path, metavar="OTHER", help="only cases that this folder has")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    measured: list[tuple[float, Ablation]] = []
    for case in json.loads(TRUTH.read_text(encoding="utf-8"))["cases"]:
        if not re.search(options.only, case["case"]):
            continue
        if options.cases_of and not (options.cases_of / case["case"].replace("/", "-")).exists():
            continue
        place = options.out / case["case"].replace("/", "-")
        if not options.show and not place.exists():
            done = subprocess.run(argv(case, place), capture_output=True, text=True, check=False, cwd=REPOSITORY)
            if done.returncode:
                sys.stdout.write(f"{case['case']}: {done.stderr.strip().splitlines()[-1:]}\n")
        if (ablation := Ablation.load(place)) is not None and ablation.cycles is not None:
            rows += compared(case, ablation)
            measured.append((fmean(case["variants"]["none"]["cycles"]), ablation))
            failed = [f"{variant.name}: {variant.status}" for variant in ablation.variants if variant.status != "ok"]
            sys.stdout.write(f"{case['case']}: {ablation.cycles:,.0f} cycles {ablation.seconds} {'; '.join(failed)}\n")
    compare_whole(measured)
    return report(rows)


def compare_whole(measured: list[tuple[float, Ablation]]) -> None:
    """Print how far replays are from the recorded whole kernels, and estimates from measured
    parts."""
    if not measured:
        return
    off = [100.0 * abs((ablation.cycles or 0.0) / cycles - 1.0) for cycles, ablation in measured]
    sys.stdout.write(f"whole kernels, replayed and recorded: mean {fmean(off):.2f} %, worst {max(off):.2f} %\n")
    known = [
        [part for part in ablation.parts if part.estimated is not None and part.part != REST]
        for _, ablation in measured
    ]
    same = sum(_first(parts, "measured") == _first(parts, "estimated") for parts in known if parts)
    sys.stdout.write(f"first part estimated is first measured: {same} of {sum(map(bool, known))}\n")
    for name in sorted({part.part for parts in known for part in parts}):
        errors = [(part.estimated or 0.0) - part.measured for parts in known for part in parts if part.part == name]
        mean, worst = fmean(map(abs, errors)), max(errors, key=abs)
        sys.stdout.write(f"estimated less measured, {name}: {len(errors)} cases, mean {mean:.1f}, worst {worst:+.1f}\n")


def _first(parts: list[MeasuredPart], side: str) -> str:
    return max(parts, key=lambda part: float(getattr(part, side))).part


def groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Sets by what they hold, those that count first."""
    counted = [row for row in rows if not row["apart"]]
    copying = [row for row in counted if set(row["word"].split("_")) & {"copy", ALL}]
    found = {
        "counted": counted,
        "counted, with copies": copying,
        "counted, without copies": [row for row in counted if row not in copying],
        **{f"apart: {why}": [row for row in rows if row["apart"] == why] for why in ANOTHER_KERNEL},
        "all": rows,
    }
    return {title: members for title, members in found.items() if members}


def report(rows: list[dict[str, Any]]) -> int:
    """Print mean and worst difference, every set that is off by more than the mean allowed, and the
    sets that count apart but for shared loads."""
    if not rows:
        sys.stdout.write("nothing was measured\n")
        return 1
    for row in sorted(rows, key=lambda row: -abs(row["error"])):
        if row["apart"] == SLOWER or (not row["apart"] and abs(row["error"]) > MEAN):
            mark = "apart" if row["apart"] else ""
            cells = f"{row['case']:48s} {row['word']:16s} {row['source']:6.1f} {row['code']:6.1f} {mark}"
            sys.stdout.write(f"{cells.rstrip()}\n")
    for title, members in groups(rows).items():
        off = [abs(row["error"]) for row in members]
        sys.stdout.write(f"{len(off):4d} sets: mean {fmean(off):5.2f}, worst {max(off):5.2f}  {title}\n")
    errors = [abs(row["error"]) for row in rows if not row["apart"]]
    mean, worst = fmean(errors), max(errors)
    sys.stdout.write(f"targets: mean {MEAN} {_met(mean <= MEAN)}, worst {WORST} {_met(worst <= WORST)}\n")
    return int(mean > MEAN or worst > WORST)


def _met(met: bool) -> str:
    return "met" if met else "missed"


if __name__ == "__main__":
    sys.exit(main())
