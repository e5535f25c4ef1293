"""From one report to the rows of its file in a dataset."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from ncubble.analysis.datasets.schema import LAUNCH, LONGEST, METRIC, ROW
from ncubble.analysis.diagnosis.results import facts_hash, judge, rules_hash
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.container import Source
from ncubble.errors import NcubbleError
from ncubble.profiling.ranks import rank_of
from ncubble.profiling.runs import Run

if TYPE_CHECKING:
    from ncubble.analysis.report.report import Report

Cells = dict[str, object]


def content_name(path: Path) -> str:
    """The name of the report at ``path``, 32 hex digits: equal for equal reports with equal
    manifests. One that is damaged is named by its path."""
    try:
        run = Run.load(path)
        content = Source.of(run.report).frame.sha256 + facts_hash(run.manifest)
    except NcubbleError:
        content = str(path)
    return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def text(value: object) -> str | None:
    """``value`` as text that a table can hold; None for nothing. Names of files need not be
    UTF-8."""
    if value is None or value != value:
        return None
    return str(value).encode("utf-8", "backslashreplace").decode() or None


def report_rows(name: str, report: Report) -> tuple[pa.Table, list[NcubbleError]]:
    """The rows of a report, and why launches that have none could not be judged."""
    verdicts, failed = judge(report)
    about = about_run(report.run) | {
        "sha256": report.frame.sha256,
        "launches": report.frame.launches,
        "complete": not failed,
        "ncu_version": text(report.frame.ncu_version or report.run.manifest.ncu_version),
    }
    rows = [_launch_cells(about, verdict, report) for verdict in verdicts]
    numbers = [verdict.launch for verdict in verdicts]
    metrics = _lists(report.metrics, numbers, METRIC) if numbers else None
    return _table(name, about, rows, failed, metrics), failed


def failed_rows(name: str, path: Path, error: NcubbleError) -> pa.Table:
    """The row of a report that could not be read."""
    try:
        about = about_run(Run.load(path))
    except NcubbleError:
        about = {"path": text(path), "rules": rules_hash()}
    return _table(name, about | {"complete": False}, [], [error])


def _table(
    name: str, about: Cells, rows: list[Cells], errors: Iterable[NcubbleError], metrics: pa.Array | None = None
) -> pa.Table:
    rows = rows or [{}]
    rows[0] |= {
        "about": about,
        "errors": [{"error": text(error.message[:LONGEST]), "remedy": error.remedy} for error in errors],
    }
    table = pa.Table.from_pylist([{"report": name, "path": about["path"]} | row for row in rows], schema=ROW)
    at = ROW.get_field_index("metrics")
    return table if metrics is None else table.set_column(at, ROW.field(at), metrics)


def about_run(run: Run) -> Cells:
    """What manifest and name tell of a report."""
    manifest, rank = run.manifest, rank_of(run)
    return {
        "path": text(run.path),
        "rules": rules_hash(),
        "file": text(run.report.absolute()),
        "bytes": run.report.stat().st_size if run.report.is_file() else None,
        "label": text(run.label),
        "outcome": text(manifest.outcome),
        "started": text(manifest.started),
        "git_sha": text(manifest.git.get("sha")),
        "rank": rank.rank if rank else None,
        "world_size": rank.size if rank else None,
        "rank_from": rank.source if rank else None,
        "program": text(rank.program if rank else None),
    }


def _launch_cells(about: Cells, verdict: LaunchVerdict, report: Report) -> Cells:
    """The verdict of a launch (docs/reference/verdicts.md), flat."""
    identity = report.launch(verdict.launch).identity
    first, place = verdict.first, next(iter(verdict.places), None)
    cells: Cells = {}
    for source in (identity, verdict):  # a verdict knows better
        cells |= {name: _plain(getattr(source, name)) for name in LAUNCH.names if hasattr(source, name)}
    del cells["report"]
    cells |= {name: about[name] for name in ("path", "sha256", "rank", "program")}
    cells |= {f"{part}_pct": pct for part, pct in (verdict.account or {}).items()}
    cells |= {
        "parameters": _json(report.run.manifest.kernel_of(verdict.launch).get("parameters")),
        "shape": _json(verdict.shape),
        **verdict.async_copy,
        "merged": _json(verdict.merged),
        "change_text": first.text if first else None,
        "gain_pct": first.gain_pct if first else None,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "warnings": [warning[:LONGEST] for warning in verdict.warnings],
    }
    return {name: text(value) if isinstance(value, str) else value for name, value in cells.items()}


def _plain(value: object) -> object:
    """A cell without a value that the report does not tell."""
    return None if value == "" or (isinstance(value, float) and not math.isfinite(value)) else value


def _json(value: object) -> str | None:
    return text(json.dumps(value, default=str)) if value else None


def _lists(frame: pd.DataFrame, launches: Sequence[int], fields: pa.StructType) -> pa.Array:
    """The rows of each of ``launches`` in a frame that is sorted by launch."""
    frame = frame[frame["launch"].isin(launches)]
    rows = pa.Table.from_pandas(frame, schema=pa.schema(list(fields)), preserve_index=False)
    starts = [*np.searchsorted(frame["launch"], launches), len(frame)]
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), rows.to_struct_array().combine_chunks())
