"""The benchmark tables of docs/kernels.md: every rung beside its library, or beside its own other
settings.

    python -m benchmarks.kernels.ladder OUT [--only REGEX]   # measure on this machine's GPU: OUT/ladder.json and tables
    python -m benchmarks.kernels.ladder --write              # write docs/kernels.md from docs/validation/ladder.json

Each row of the first table is one ``ncubble bench KERNEL … --library --json``: verified, then timed
in turns with the library's call. The settings of a group in the second table are verified and timed
in turns, too. Results are written after every row, so an interrupted run keeps what it has; with
--only, rows measured before stay.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness.blocks import fill
from benchmarks.harness.command import REPOSITORY
from benchmarks.kernels.plan import Entry, Group, against, pairs
from benchmarks.kernels.tables import blocks
from ncubble.errors import NcubbleError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import time_in_rounds
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs, fresh_seed, verify
from ncubble.kernels.spec.case import Case, make_case

DOCUMENT = REPOSITORY / "docs/kernels.md"
RESULTS = REPOSITORY / "docs/validation/ladder.json"
BUILDERS = 16  # compilers at a time


def case_of(entry: Entry) -> Case:
    return make_case(find_spec(entry.kernel), entry.parameters, entry.shape)


def build_all(entries: Iterable[Entry], arch: str) -> None:
    """Compiles what can be compiled ahead, so that no compiler runs beside a measurement; errors
    show later."""

    def attempt(entry: Entry) -> None:
        try:
            case = case_of(entry)
            if case.spec.language == "cuda":
                build(case, arch)
        except NcubbleError:
            pass

    with ThreadPoolExecutor(BUILDERS) as pool:
        list(pool.map(attempt, entries))


def measure_against(entry: Entry) -> dict[str, Any]:
    """What ``ncubble bench --library --json`` prints, or why it did not."""
    head = {"label": entry.label, "kernel": entry.kernel, "parameters": entry.parameters}
    try:
        outcome = execute(KernelRequest(entry.kernel, entry.parameters, entry.shape, against=True))
        if outcome.verification is not None:
            outcome.verification.require(outcome.case.label, outcome.seed)
        return {**head, "shape": dict(outcome.case.shape), "bench": outcome.to_json()}
    except NcubbleError as error:
        return {**head, "shape": entry.shape, "error": str(error)}


def measure_group(group: Group) -> dict[str, Any]:
    """The settings of a group, verified one by one, then timed in turns."""
    gpu = Gpu.open()
    try:
        ready = [verified(case_of(entry), gpu) for entry in group.entries]
        rounds = time_in_rounds(gpu, [one.run for one in ready])
        rows = [
            {
                "kernel": entry.kernel,
                "parameters": entry.parameters,
                "shape": dict(one.case.shape),
                "p50_us": times.timing.p50_us,
                "p90_us": times.timing.p90_us,
                "sm_mhz": times.timing.clocks.get("sm_mhz"),
                "registers": one.build.registers,
            }
            for entry, one, times in zip(group.entries, ready, rounds, strict=True)
        ]
        return {"about": group.about, "device": gpu.facts.name, "rows": rows}
    except NcubbleError as error:
        return {"about": group.about, "error": str(error)}
    finally:
        gpu.close()


def verified(case: Case, gpu: Gpu) -> Prepared:
    """The case on the GPU, its inputs in place, its result right."""
    seed = fresh_seed()
    prepared = prepare(case, gpu)
    case = prepared.case
    inputs = draw_inputs(case, seed)
    prepared.upload(inputs)
    prepared.poison()
    prepared.run()
    gpu.sync()
    outputs, overrun = prepared.outputs()
    verify(case, inputs, outputs, seed, overrun).require(case.label, seed)
    return prepared


def merged(old: list[dict[str, Any]], new: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """``old`` with ``new`` in the place of what has the same ``key``, or behind it."""
    same = [index for index, row in enumerate(old) if row[key] == new[key]]
    return [*old[: same[0]], new, *old[same[0] + 1 :]] if same else [*old, new]


def measure(out: Path, only: str) -> dict[str, Any]:
    """Measures what ``only`` matches, and keeps the rest of what is in OUT."""
    target = out / "ladder.json"
    found: dict[str, Any] = json.loads(target.read_text()) if target.is_file() else {"against": [], "pairs": []}
    entries = [entry for entry in against() if re.search(only, entry.label)]
    groups = [group for group in pairs() if re.search(only, f"{group.about} {group.entries[0].kernel}")]
    gpu = Gpu.open()
    build_all([*entries, *(entry for group in groups for entry in group.entries)], gpu.arch)
    gpu.close()
    found["commit"] = revision()
    for entry in entries:
        row = measure_against(entry)
        found["against"] = merged(found["against"], row, "label")
        print(f"{entry.label}: {row.get('error') or format(row['bench']['against']['ratio'], '.3f')}", flush=True)
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for group in groups:
        row = measure_group(group)
        found["pairs"] = merged(found["pairs"], row, "about")
        print(f"{group.about}: {row.get('error', 'measured')}", flush=True)
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def revision() -> str | None:
    """The commit that is measured, where there is a checkout."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def failed(found: dict[str, Any]) -> bool:
    return any("error" in row for row in (*found["against"], *found["pairs"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT")
    parser.add_argument("--only", default="", metavar="REGEX", help="over kernel, parameters and shape")
    parser.add_argument("--write", action="store_true", help=f"update {DOCUMENT.name} from the committed results")
    given = parser.parse_args()
    if given.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(fill(text, blocks(json.loads(RESULTS.read_text(encoding="utf-8")))), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("name a folder for the results, or --write")
    given.out.mkdir(parents=True, exist_ok=True)
    found = measure(given.out, given.only)
    for name, block in blocks(found).items():
        print(f"\n{name}\n\n{block}")
    return 1 if failed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
