"""From one report to its rows in the tables of a dataset. Pure, but for what a ``Report`` reads
when asked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ncubble.analysis.datasets.schema import ERRORS, LAUNCHES, LONGEST, METRICS, REPORTS, RULES, SOURCE, TIMELINE
from ncubble.analysis.diagnosis.results import facts_hash, judge, rules_hash
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import LaunchIdentity
from ncubble.errors import NcubbleError
from ncubble.profiling.ranks import rank_of
from ncubble.profiling.runs import Run

if TYPE_CHECKING:
    import pandas as pd

    from ncubble.analysis.report.report import Report

FRAME_COLUMNS = ("demangled", "grid", "block", "nvtx", "registers", "smem_static_B", "smem_dynamic_B", "ncu_version")
VERDICT_COLUMNS = (
    *("launch", "label", "kernel", "device", "compute_capability", "duration_ns", "cycles", "sm_clock_hz"),
    *("tensor_elapsed_pct", "tensor_of_active_pct", "dram_pct", "unit", "cause", "disease", "integrity"),
)


@dataclass(frozen=True)
class KnownReport:
    """What is known of a report before it is read: where it is, and what its files looked like."""

    path: str
    stamp: str

    @property
    def report(self) -> str:
        """Its id in the dataset."""
        return report_id(self.path)


def report_id(path: str) -> str:
    """The id of the report at this absolute path."""
    return hashlib.sha256(path.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def text(value: Any) -> str | None:
    """``value`` as text that a table can hold; None for nothing. Names of files need not be
    UTF-8."""
    if value is None or value != value or value == "":
        return None
    return str(value).encode("utf-8", "backslashreplace").decode()


def rows_of(known: KnownReport, report: Report, details: bool) -> dict[str, pa.Table]:
    """Every table's rows of a report. Launches that cannot be judged have a row of ``errors``
    instead."""
    verdicts, failed = judge(report)
    about = report_row(known, report.run) | {
        "sha256": report.frame.sha256,
        "launches": report.frame.launches,
        "complete": not failed,
        "details": details,
        "ncu_version": text(report.frame.ncu_version or report.run.manifest.ncu_version),
    }
    identities = [report.launch(verdict.launch).identity for verdict in verdicts]
    launches = [
        launch_row(about, verdict, identity, report.run) for verdict, identity in zip(verdicts, identities, strict=True)
    ]
    tables = {
        "reports": pa.Table.from_pylist([about], schema=REPORTS),
        "launches": pa.Table.from_pylist(launches, schema=LAUNCHES),
        "metrics": table_of(report.metrics, known.report, METRICS),
        "errors": error_rows(known, failed),
    }
    return tables | (detail_rows(known.report, report) if details else {})


def failed_rows(known: KnownReport, error: NcubbleError, sha256: str | None = None) -> dict[str, pa.Table]:
    """The rows of a report that cannot be read."""
    try:
        about = report_row(known, Run.load(Path(known.path)))
    except NcubbleError:
        about = _unknown(known)
    about |= {"sha256": sha256, "complete": False}
    return {"reports": pa.Table.from_pylist([about], schema=REPORTS), "errors": error_rows(known, [error])}


def _unknown(known: KnownReport) -> dict[str, Any]:
    path = text(known.path)
    return {"report": known.report, "path": path, "rules": rules_hash(), "stamp": known.stamp}


def report_row(known: KnownReport, run: Run) -> dict[str, Any]:
    """What manifest and name tell of a report."""
    manifest, rank = run.manifest, rank_of(run)
    sha = manifest.git.get("sha")
    size = run.report.stat().st_size if run.report.is_file() else None
    return _unknown(known) | {
        "file": text(run.report.absolute()),
        "facts": facts_hash(manifest),
        "bytes": size,
        "label": text(run.label),
        "outcome": text(manifest.outcome),
        "started": text(manifest.started),
        "git_sha": text(sha if isinstance(sha, str) else None),
        "rank": rank.rank if rank else None,
        "world_size": rank.size if rank else None,
        "rank_from": rank.source if rank else None,
        "program": text(rank.program if rank else None),
    }


def launch_row(about: Mapping[str, Any], verdict: LaunchVerdict, identity: LaunchIdentity, run: Run) -> Any:
    """One row of ``launches``: the verdict of a launch (docs/reference/verdicts.md), flat."""
    kernel = run.manifest.kernel_of(verdict.launch)
    cause = verdict.causes[0] if verdict.causes else None
    place = cause.where[0] if cause and cause.where else None
    row = {name: about[name] for name in ("report", "path", "sha256", "rank", "program")}
    row |= {name: getattr(verdict, name) for name in VERDICT_COLUMNS}
    row |= {name: _plain(getattr(identity, name)) for name in FRAME_COLUMNS}
    row |= {f"{part}_pct": pct for part, pct in (verdict.account or {}).items()}
    row |= {
        "parameters": _json(kernel.get("parameters")),
        "shape": _json(verdict.shape),
        **verdict.async_copy,
        "merged": _json(verdict.merged),
        "cause_pct": cause.pct if cause else None,
        "fix": cause.fix if cause else None,
        "predicted_gain_pct": cause.predicted_gain_pct if cause else None,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "warnings": [warning[:LONGEST] for warning in verdict.warnings],
    }
    return {name: text(value) if isinstance(value, str) else value for name, value in row.items()}


def _plain(value: str | float) -> str | int | None:
    """A value of a launch's identity for a table: None where the report does not tell it."""
    if isinstance(value, str):
        return value or None
    return int(value) if math.isfinite(value) else None


def _json(value: Any) -> str | None:
    return text(json.dumps(value, ensure_ascii=True, default=str)) if value else None


def error_rows(known: KnownReport, errors: Iterable[NcubbleError]) -> pa.Table:
    """Rows of ``errors``."""
    rows = [
        {
            "report": known.report,
            "path": text(known.path),
            "error": text(error.message[:LONGEST]),
            "remedy": error.remedy,
        }
        for error in errors
    ]
    return pa.Table.from_pylist(rows, schema=ERRORS)


def table_of(frame: pd.DataFrame, report: str, schema: pa.Schema) -> pa.Table:
    """Rows of a frame in the columns of ``schema``, with the report's id."""
    plain = pa.Table.from_pandas(frame, preserve_index=False)
    owner = pa.array([report], schema.field("report").type).take(pa.array([0] * len(frame), pa.int8()))
    columns = [owner if name == "report" else plain[name].cast(schema.field(name).type) for name in schema.names]
    return pa.table(columns, schema=schema)


def detail_rows(owner: str, report: Report) -> dict[str, pa.Table]:
    """Rows of the tables that ``--details`` adds."""
    source = report.source
    known = set(SOURCE.names)
    reasons = [name for name in source.columns if name not in known]
    stalls = [stalled(row, reasons) for row in source[reasons].to_numpy().tolist()] if reasons else [[]] * len(source)
    plain = source.drop(columns=reasons)
    slim = pa.schema([field for field in SOURCE if field.name != "stalls"])
    table = table_of(plain, owner, slim).append_column(
        SOURCE.field("stalls"), pa.array(stalls, SOURCE.field("stalls").type)
    )
    return {
        "timeline": table_of(report.timeline, owner, TIMELINE),
        "source": table,
        "rules": table_of(report.rules, owner, RULES),
    }


def stalled(row: Sequence[float], reasons: Sequence[str]) -> list[tuple[str, float]]:
    """The stall reasons of an instruction that have samples."""
    return [(reason, value) for reason, value in zip(reasons, row, strict=True) if value > 0]
