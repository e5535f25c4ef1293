"""The only module that imports ``ncu_report``; runs in a worker process that may die (see ``workers``).

``python -m ncubble.analysis.native`` reads one JSON object {"path", "out"} per line from stdin, writes the raw tables
of that report as Parquet files into the directory ``out``, and answers with one JSON object per line: {"ok": true},
{"error": text} where the report is at fault, or {"disk": text} where ``out`` could not be written. Tables:
``actions``, ``metrics``, ``texts``, ``timeline``, ``source``, ``rules``, ``files``; columns as built below.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Columns = dict[str, list[Any]]
PC_SAMPLES = "smsp__pcsamp_"
MEMORY_LIMIT_B = 8 << 30
STALLED = "smsp__pcsamp_warps_issue_stalled_"


def extract(path: str) -> dict[str, Columns]:
    """All raw tables of the report at ``path``. Raises ValueError for a report that its content contradicts."""
    import ncu_report

    tables: dict[str, Columns] = {
        "actions": {key: [] for key in ("launch", "kernel", "demangled", "mangled", "nvtx", "workload")},
        "metrics": {key: [] for key in ("launch", "metric", "value", "unit")},
        "texts": {key: [] for key in ("launch", "metric", "value")},
        "timeline": {key: [] for key in ("launch", "t_ns", "metric", "value", "unit")},
        "source": {key: [] for key in ("launch", "pc", "sass", "file", "line", "metric", "value")},
        "rules": {
            key: [] for key in ("launch", "section", "rule", "title", "message", "kind", "speedup_pct", "speedup_kind")
        },
        "files": {key: [] for key in ("file", "text")},
    }
    context = ncu_report.load_report(path)
    launch = 0
    for index in range(context.num_ranges()):
        part = context.range_by_idx(index)
        for number in range(part.num_actions()):
            _read_action(part.action_by_idx(number), launch, tables)
            launch += 1
    if not launch:
        raise ValueError("holds no launches: the profiler recorded nothing, or the file is damaged")
    return tables


def _read_action(action: Any, launch: int, tables: dict[str, Columns]) -> None:
    name, names = action.name(), list(action.metric_names())
    if name is None or not names:
        raise ValueError(f"launch {launch} has {'no name' if name is None else 'no metrics'}: the file is damaged")
    actions = tables["actions"]
    demangled = action.name(action.NameBase_DEMANGLED)
    mangled = action.name(action.NameBase_MANGLED)
    row = (launch, name, demangled or name, mangled or name, _nvtx(action), int(action.workload_type()))
    for key, value in zip(actions, row, strict=True):
        actions[key].append(value)
    series = _read_scalars(action, launch, names, tables)
    _read_timeline(action, launch, series, tables["timeline"])
    _read_source(action, launch, names, tables["source"])
    _read_rules(action, launch, tables["rules"])
    _read_files(action, tables["files"])


def _nvtx(action: Any) -> str:
    """All NVTX ranges that were open at the launch, as ``domain:a/b`` joined by ``;``. The state may be None."""
    state = action.nvtx_state()
    if state is None:
        return ""
    found = []
    for identifier in state.domains():
        domain = state.domain_by_id(identifier)
        ranges = [*domain.push_pop_ranges(), *domain.start_end_ranges()]
        if ranges:
            found.append(f"{domain.name()}:{'/'.join(ranges)}")
    return ";".join(found)


def _read_scalars(action: Any, launch: int, names: list[str], tables: dict[str, Columns]) -> list[tuple[str, Any]]:
    """Append every scalar; returns the instanced metrics that look like time series."""
    metrics, texts, series = tables["metrics"], tables["texts"], []
    for name in names:
        metric = action.metric_by_name(name)
        if metric is None:
            continue
        if is_series(name) and metric.has_correlation_ids():
            series.append((name, metric))
        value = metric.value() if metric.has_value() else None
        if isinstance(value, str):
            for key, item in zip(texts, (launch, name, value), strict=True):
                texts[key].append(item)
        elif value is not None:
            for key, item in zip(metrics, (launch, name, float(value), metric.unit()), strict=True):
                metrics[key].append(item)
    return series


def is_series(name: str) -> bool:
    """Whether a metric name is that of a PM-sampling time series, in any version's spelling."""
    return name.startswith(("pmsampling:", "warpsampling:")) or ".Triage" in name


def _read_timeline(action: Any, launch: int, series: list[tuple[str, Any]], table: Columns) -> None:
    timelines = action.timelines() if series else None
    if timelines is None:
        return
    for name, metric in series:
        aligned = timelines.aligned_metric(metric)
        count = aligned.num_instances() if aligned is not None else 0
        if not count:
            continue
        times = aligned.correlation_ids()
        table["launch"] += [launch] * count
        table["t_ns"] += [times.as_uint64(i) for i in range(count)]
        table["metric"] += [name] * count
        table["value"] += [aligned.as_double(i) for i in range(count)]
        table["unit"] += [aligned.unit()] * count


def _instances(metric: Any) -> Iterator[tuple[int, float]]:
    """(pc, value) of a per-instruction metric; nothing where the report holds only its total."""
    if metric is None or not metric.has_correlation_ids():
        return
    pcs = metric.correlation_ids()
    for i in range(metric.num_instances()):
        yield pcs.as_uint64(i), metric.as_double(i)


def _read_source(action: Any, launch: int, names: list[str], table: Columns) -> None:
    wanted = [n for n in names if n.startswith(STALLED) and not n.endswith("_not_issued")]
    wanted += [n for n in ("smsp__pcsamp_sample_count", "inst_executed") if n in set(names)]
    rows: list[tuple[int, str, float]] = []
    for name in wanted:
        rows += [(pc, name, value) for pc, value in _instances(action.metric_by_name(name)) if pc]
    if not rows:
        return
    base = min(pc for pc, _, _ in rows)
    where = {pc: _locate(action, pc) for pc in {pc for pc, _, _ in rows}}
    for pc, name, value in rows:
        sass, file, line = where[pc]
        item = (launch, pc - base, sass, file, line, name, value)
        for key, cell in zip(table, item, strict=True):
            table[key].append(cell)


def _locate(action: Any, pc: int) -> tuple[str, str, int]:
    info = action.source_info(pc)
    sass = (action.sass_by_pc(pc) or "").strip()
    return sass, (info.file_name() if info else ""), (int(info.line()) if info else 0)


def _read_rules(action: Any, launch: int, table: Columns) -> None:
    kinds = {1: "ok", 2: "optimization", 3: "warning", 4: "error"}
    scopes = {1: "local", 2: "global"}
    for rule in action.rule_results_as_dicts():
        said = rule.get("rule_message") or {}
        gain = rule.get("speedup_estimation") or {}
        row = (
            launch,
            rule.get("section_identifier", ""),
            rule.get("rule_identifier", ""),
            said.get("title") or rule.get("name", ""),
            said.get("message", ""),
            kinds.get(said.get("type", 0), ""),
            float(gain["speedup"]) if "speedup" in gain else None,
            scopes.get(gain.get("type", 0), ""),
        )
        for key, value in zip(table, row, strict=True):
            table[key].append(value)


def _read_files(action: Any, table: Columns) -> None:
    known = set(table["file"])
    for name, text in action.source_files().items():
        if text and name not in known:
            table["file"].append(name)
            table["text"].append(text)


_TYPES = {
    "launch": "int32",
    "value": "float64",
    "t_ns": "uint64",
    "pc": "int64",
    "line": "int32",
    "workload": "int32",
    "speedup_pct": "float64",
}


def write(tables: dict[str, Columns], out: Path) -> None:
    """Write each table to ``out/NAME.parquet``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, columns in tables.items():
        types = {**_TYPES, "value": "string"} if name == "texts" else _TYPES
        schema = pa.schema([(key, types.get(key, "string")) for key in columns])
        pq.write_table(pa.table(columns, schema=schema), out / f"{name}.parquet", compression="zstd")


@contextmanager
def readable(path: Path, out: Path) -> Iterator[str]:
    """``path`` as the native reader can open it: by a name in UTF-8, and uncompressed.

    The reader itself unpacks ``.ncu-repz`` into /tmp and, where that is full, returns launches without names.
    """
    plain = out / "input.ncu-rep"
    try:
        if path.suffix == ".ncu-repz":
            import zstandard

            with path.open("rb") as source, plain.open("wb") as sink:
                zstandard.ZstdDecompressor().copy_stream(source, sink)
        else:
            plain.symlink_to(path.absolute())
        yield str(plain)
    finally:
        plain.unlink(missing_ok=True)


def _serve(path: Path, out: Path) -> dict[str, Any]:
    """The answer to one request; ``out`` is made if need be."""
    try:
        out.mkdir(exist_ok=True)
        with readable(path, out) as plain:
            tables = extract(plain)
        write(tables, out)
    except OSError as error:
        return {"disk": error.strerror or str(error)}
    except (TypeError, UnicodeError) as error:  # what the reader's binding makes of names that are not UTF-8
        return {"error": f"holds text that is not UTF-8: the file is damaged ({error})"}
    except Exception as error:
        return {"error": f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"}
    return {"ok": True}


def _limit_memory() -> None:
    """Let a report that asks for absurd amounts of memory kill this process, and leave no core file."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_LIMIT_B if hard == resource.RLIM_INFINITY else min(hard, MEMORY_LIMIT_B)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve requests from stdin until it closes."""
    _limit_memory()
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # whatever native code prints is no answer
        for line in sys.stdin:
            request = json.loads(line)
            replies.write(json.dumps(_serve(Path(request["path"]), Path(request["out"]))) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
