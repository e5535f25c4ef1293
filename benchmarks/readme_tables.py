"""The figures in README.md and docs, computed from the shipped recordings and baselines.

    python -m benchmarks.readme_tables            # print every block
    python -m benchmarks.readme_tables --write    # put them between the markers of the files

A block stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``. All figures are
those that the product itself prints: ``ncubble report``, its JSON, and the manifests of the runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import tutorial_tables
from benchmarks.changes import plan
from benchmarks.harness.blocks import REPOSITORY, RUNS, fill, launches, printed, table, verdict_of
from benchmarks.probe.coarse import kept, shipped
from benchmarks.probe.coarse import table as coarse_table
from benchmarks.program.cost import KEPT
from benchmarks.program.cost import read as read_costs
from benchmarks.program.cost import table as cost_table
from benchmarks.streams.pipelines import levels_table, queueing_table, ring_table
from benchmarks.validation import changes
from benchmarks.validation.truth import LOG
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import VALIDATION

REPEATS = Path("recordings/h200-repeats")
EXCERPT = RUNS / "tensor_core_gemm" / "stages1"
SHOWN = ("data_wait", "copy_cost", "smem_wait", "sync_wait", "issue", "wave_gap")


def depth_table(kernel: str, name_of: Callable[[dict[str, Any]], str]) -> str:
    """One row per recorded launch: duration, busy share, the steady parts and wave gaps, and the
    verdict."""
    rows = []
    for launch in launches(kernel):
        account = launch["account"]
        shares = [f"{account[part]:.1f}" for part in ("tensor_busy", *SHOWN)]
        time = [f"{launch['duration_ns'] / 1e3:.0f}", f"{launch['sm_clock_hz'] / 1e9:.2f}"]
        rows.append([name_of(launch), *time, *shares, verdict_of(launch)])
    return table(["", "µs", "GHz", *(f"`{part}`" for part in ("tensor_busy", *SHOWN)), "cause"], rows)


def _options(launch: dict[str, Any], names: Sequence[str]) -> str:
    """Those of the launch's parameters that are named, as ``-p`` takes them."""
    return " ".join(word for word in str(launch["label"]).split()[1:] if word.partition("=")[0] in names)


def passes() -> str:
    """How many replay passes the recorded runs took, by metric sets, and how large their reports
    are."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for path in find_runs([REPOSITORY / RUNS, REPOSITORY / REPEATS]):
        manifest = Run.load(path).manifest
        found.setdefault(", ".join(f"`{name}`" for name in manifest.metric_set), []).append(manifest.report)
    rows = []
    for sets, reports in found.items():
        counts = sorted({launch["passes"] for report in reports for launch in report["launches"]})
        sizes = [report["bytes"] / len(report["launches"]) / 1000 for report in reports]
        per_launch = f"{statistics.median(sizes):.0f} ({min(sizes):.0f} to {max(sizes):.0f})"
        rows.append([sets, str(len(reports)), "/".join(map(str, counts)), per_launch])
    return table(["sets", "runs", "replay passes per launch", "stored kB per launch: median (range)"], rows)


def proof() -> str:
    """What the three validations found on what nobody had seen, and on what rules were fitted
    to."""
    account, diagnosis, prediction = (
        json.loads((REPOSITORY / "docs" / "validation" / f"{name}.json").read_text(encoding="utf-8"))["scores"]
        for name in ("account", "diagnosis", "prediction")
    )
    shares = [account[split]["overall"] for split in ("dev", "test", "second")]
    causes = [diagnosis[name] for name in ("planted", "foreign", "second")]
    gains = [one["gains"]["ours"]["median_abs"] for one in causes]
    depths = [prediction["splits"][split]["methods"]["predicted"] for split in ("dev", "test", "second")]
    rows = [
        ["account: mean error of a part, points of kernel time", *(f"{one['mean_abs']:.1f}" for one in shares), "≤ 5"],
        ["account: error over that of raw stall reasons", *(f"{one['ratio']:.2f}" for one in shares), "≤ 0.5"],
        [
            "part that the first change acts on is right, %",
            *(f"{one['top1_pct']:.0f}" for one in causes),
            "≥ 95 (known losses)",
        ],
        ["predicted gains: median error, points", *(f"{gain:.1f}" for gain in gains), "≤ 10"],
        ["depth: mean error, points of utilization", *(f"{one['mae']:.1f}" for one in depths), "≤ 5"],
        ["depth: utilization lost by the chosen depth, %", *(f"{one['regret_pct']:.1f}" for one in depths), "≤ 3"],
    ]
    return table(["", "fitted, or with a known loss", "first held-out set", "second held-out set", "target"], rows)


SCORINGS = Path("recordings/validation/truth/scorings.jsonl")


def last_scoring(split: str) -> dict[str, Any]:
    """The newest scoring of one side of the truth: ``frozen`` (held out) or ``fresh2`` (drawn by a
    seed)."""
    lines = (REPOSITORY / SCORINGS).read_text(encoding="utf-8").splitlines()
    scorings = [scoring for line in lines if (scoring := json.loads(line)).get("split") == split]
    return dict(scorings[-1])


def truth() -> str:
    """The newest scores on launches that no rule was tuned on."""
    sides = [last_scoring("frozen"), last_scoring("fresh2")]
    measures = [
        ("account: mean error of a part, points", "account_mean", ".1f"),
        ("account: worst error of a part, points", "account_worst", ".0f"),
        ("first cause gains as much as the best removal, within 3 points, %", "first_enough_pct", ".0f"),
        ("the same, if copies (which take their waits along) are always named, %", "first_copies_pct", ".0f"),
        ("predicted gains: median error, points", "gain_median", ".1f"),
        ("busy share at another depth: mean error, points", "depth_mean", ".1f"),
        ("cycles that the chosen depth costs over the best, %", "depth_regret_pct", ".1f"),
    ]
    rows = [[words, *(format(side[key], form) for side in sides)] for words, key, form in measures]
    head = [
        "",
        *(
            f"{name}: {side['launches']} launches"
            for name, side in zip(("held out", "drawn later"), sides, strict=True)
        ),
    ]
    return table(head, rows)


def constant_answers() -> dict[str, dict[str, Any]]:
    """Scores of doing nothing and of the deepest ring, on launches of public libraries: they need no report."""
    sides, measured = plan.split(), []
    for path in sorted((VALIDATION / "changes").glob(f"*/{changes.TABLE}")):
        for (family, name), rows in pd.read_parquet(path).groupby(["family", "base"]):
            made = {(row["kind"], int(row["after"])): row for row in rows.to_dict("records")}
            if sides[family] == changes.FROZEN:
                measured.append(changes.Base(path.parent.name, family, name, {}, None, made))
    return {
        name: changes.score(measured, changes.ANSWERS[f"always {name}"])
        for name in ("nothing", "the deepest that fits")
    }


def accuracy() -> str:
    """What README says of accuracy, from the newest scores."""
    nothing, deepest = constant_answers().values()
    held_out, fresh = last_scoring("frozen"), last_scoring("fresh2")
    scored = map(json.loads, (VALIDATION / "changes" / LOG).read_text(encoding="utf-8").splitlines())
    *_, changed = (scoring for scoring in scored if scoring["side"] == "library")
    return (
        f"The account is an estimate. On {held_out['launches']} held-out launches on two GPU models (catalog, Triton, "
        "cuBLAS, CUTLASS, cuDNN, PyTorch), compared with what vanished when parts were removed from the machine code, "
        f"a part is off by {held_out['account_mean']:.1f} points of kernel time on average, and by "
        f"{held_out['account_worst']:.0f} at worst; on {fresh['launches']} launches drawn later by "
        f"{fresh['account_mean']:.1f} and {fresh['account_worst']:.0f}. Known failures: loops of `wgmma` that "
        "bandwidth bounds (their waits are named, not their copies), kernels that convert operands through shared "
        "memory, attention with `mma.sync`. What to "
        f"change is a hint, to be tried: on {changed['bases']} launches of Triton kernels of public libraries, the "
        f"first change loses {changed['loss_mean']:.0f} points of time against the best single one on average, "
        f"{changed['loss_worst']:.0f} at worst (changing nothing: {nothing['loss_mean']:.0f} and "
        f"{nothing['loss_worst']:.0f}), is within 5 points of it for {changed['near_pct']:.0f} % "
        f"(always the deepest ring: {deepest['near_pct']:.0f} %), and promises "
        f"nothing for {changed['none_pct']:.0f} % of those that cannot gain "
        "([measured](docs/changes.md#measured)). All of it "
        "was measured on an H200 and H100s; reports of other chips are read, but not validated. Summary: "
        "[Accuracy and limits](docs/accuracy.md); every case: "
        "[Validation](docs/validation/README.md)."
    )


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "report": lambda: printed("report", str(EXCERPT)),
        "accuracy": accuracy,
    },
    "docs/account.md": {
        "triton": lambda: depth_table("triton_gemm", lambda launch: _options(launch, ("stages",))),
        "wmma": lambda: depth_table("tensor_core_gemm", lambda launch: _options(launch, ("stages", "copy", "vec"))),
    },
    "docs/accuracy.md": {"proof": proof, "truth": truth},
    "docs/kernels.md": {"levels": levels_table},
    "docs/profile.md": {"passes": passes},
    "docs/program.md": {
        "program": lambda: printed("program", "recordings/h100-program/train"),
        "program-cost": lambda: cost_table(read_costs(KEPT)),
    },
    **tutorial_tables.BLOCKS,
    "docs/streams.md": {
        "streams": lambda: printed("streams", "recordings/h200-lanes/streams-pageable", last=15),
        "ring": ring_table,
        "queueing": queueing_table,
    },
    "docs/trace.md": {"trace": lambda: printed("trace", "recordings/h200-lanes/trace-both", last=22)},
    "docs/without-counters.md": {
        "coarse-trace": lambda: printed("report", "recordings/h200-lanes/trace-tensor_core_gemm-stages1"),
        "coarse-agreement": lambda: coarse_table(list(shipped())),
        "coarse-measured": lambda: coarse_table(kept(), each=False),
        "coarse-streams": lambda: printed("report", "recordings/h200-lanes/streams-pageable"),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update the files instead of printing")
    write = parser.parse_args().write
    for file, makers in BLOCKS.items():
        blocks = {name: make() for name, make in makers.items()}
        if write:
            path = REPOSITORY / file
            path.write_text(fill(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")
            continue
        for name, block in blocks.items():
            print(f"{file}: {name}\n\n{block}\n")


if __name__ == "__main__":
    main()
