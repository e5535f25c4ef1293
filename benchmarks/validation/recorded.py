"""Reads what ``python -m benchmarks.validation --measure`` wrote beside the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ncubble.analysis.report.report import Report, open_reports
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import Run

CYCLES = "sm__cycles_elapsed.max"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
PRODUCTS = (
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
"""Product counters of a launch; the first nonzero one must be equal in all variants of a kernel."""

Case = TypeVar("Case")
Score = TypeVar("Score")
Opener = Callable[[str], Report]


def load(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ReportError where it is missing or holds none."""
    if not file.is_file():
        raise ReportError(f"{file}: no such recording", "use a folder written by --measure, or measure one")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReportError(f"{file}: not JSON ({error})", "restore it, or measure again") from error
    if not isinstance(content, dict):
        raise ReportError(f"{file}: not a JSON object", "restore it, or measure again")
    return content


def opener(folder: Path, runs: Iterable[str]) -> Opener:
    """Opens reports below ``folder`` by name, each once. Those of ``runs`` that are there are read
    now, together."""
    present = [path for path in dict.fromkeys(folder / run for run in runs) if path.exists()]
    opened = {report.path: report for report in open_reports(present)[0]}
    return cache(lambda run: opened.get(folder / run) or Report.open(folder / run))


def scored(
    cases: Iterable[tuple[str, Case]], score: Callable[[Case], Score]
) -> tuple[dict[str, Score], dict[str, str]]:
    """The ``score`` of every case by its name, and why others cannot be scored."""
    scores: dict[str, Score] = {}
    unscored: dict[str, str] = {}
    for name, case in cases:
        try:
            scores[name] = score(case)
        except NcubbleError as error:
            unscored[name] = error.message
    return scores, unscored


def unscored_notes(result: Mapping[str, Any]) -> list[str]:
    """What was not scored, a sentence for each reason."""
    cases: dict[str, list[str]] = {}
    for name, why in sorted(result["unscored"].items()):
        cases.setdefault(why, []).append(name)
    return [f"{', '.join(names)}: not scored, {why}" for why, names in cases.items()]


def origin_of(content: Mapping[str, Any], folder: Path, runs: Iterable[str]) -> dict[str, Any]:
    """Where the ``runs`` below ``folder`` come from: device and ncu of ``content``, and by the
    manifests of the runs all commits, in the order of their measurements, and all days."""
    manifests = [Run.load(folder / run).manifest for run in set(runs)]
    manifests.sort(key=lambda manifest: manifest.started)
    return {
        **{key: content.get(key) for key in ("device", "ncu_version")},
        "commits": list(dict.fromkeys(made.git["sha"] for made in manifests if made.git.get("sha"))),
        "days": list(dict.fromkeys(made.started[:10] for made in manifests if made.started)),
    }
