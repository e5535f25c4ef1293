"""Puts measured launches into the store, and says what is in it.

    python -m benchmarks.truth.pack OUT          # what ``python -m benchmarks.truth OUT`` measured
    python -m benchmarks.truth.pack OUT --again  # launches that the store has, measured once more
    python -m benchmarks.truth.pack --show       # what the store holds, by kind

A launch that is there already is replaced; ``--again`` keeps what vanishes with each variant beside
it (``again.json``). The store is described in ``benchmarks/validation/store.py``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.blocks import table
from benchmarks.truth.plan import TOLD
from benchmarks.validation.store import LAUNCHES, SPLITS, TABLES, StoredReport, rows_of, stored
from ncubble.analysis.ablation.experiment import SLOWER
from ncubble.analysis.ablation.result import FILE, REST, Ablation
from ncubble.analysis.report.report import Report
from ncubble.profiling.runs import Manifest
from ncubble.recordings import VALIDATION

STORE = VALIDATION / "truth"
AGAIN = "again.json"
SLOWER_FROM_PCT = 5.0
_OWN = re.compile(r".*?/src/ncubble/")
Entry = tuple[dict[str, Any], dict[str, Any], dict[str, pd.DataFrame], Manifest]
"""Row of ``launches.json``, what the program declared, the tables, and the manifest."""


def public(path: str) -> str:
    """A source path without the folders of the machine that recorded it."""
    if not path.startswith("/"):
        return path
    return _OWN.sub("", path) if _OWN.match(path) else "/".join(Path(path).parts[-2:])


def measured(run: Path) -> Entry:
    """A measured launch, of its run directory."""
    told = json.loads((run / TOLD).read_text(encoding="utf-8"))
    ablation = json.loads((run / FILE).read_text(encoding="utf-8"))
    for line in ablation["lines"]:
        line["file"] = public(line["file"]) if line["file"] else line["file"]
    row = {name: told[name] for name in ("name", "family", "kind", "stages")} | {"ablation": ablation}
    report = Report.open(run)
    row |= {"started": report.run.manifest.started, "commit": str(report.run.manifest.git.get("sha") or "")}
    tables = {name: report._table(name, 0) for name in TABLES}
    tables["code"] = tables["code"].assign(file=[public(file) if file else file for file in tables["code"]["file"]])
    return row, report.run.manifest.kernel_of(0), tables, report.run.manifest


def kept(place: Path) -> dict[str, Entry]:
    """What a folder of the store holds, by name."""
    if not (place / LAUNCHES).is_file():
        return {}
    rows = rows_of(place)
    report = StoredReport(place, len(rows))
    manifest = report.run.manifest
    return {
        row["name"]: (row, manifest.kernel_of(number), {name: report._table(name, number) for name in TABLES}, manifest)
        for number, row in enumerate(rows)
    }


def write(place: Path, entries: list[Entry]) -> None:
    """Write a folder of the store, its launches in this order."""
    place.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        frames = [tables[name].assign(launch=number) for number, (_, _, tables, _) in enumerate(entries)]
        _write_table(pd.concat(frames, ignore_index=True), place / f"{name}.parquet")
    rows = [row for row, _, _, _ in entries]
    (place / LAUNCHES).write_text(json.dumps(rows) + "\n", encoding="utf-8")
    newest = max((manifest for *_, manifest in entries), key=lambda manifest: manifest.started)
    oldest = min((manifest for *_, manifest in entries), key=lambda manifest: manifest.started)
    Manifest(
        started=oldest.started,
        ended=newest.ended,
        ncu_version=newest.ncu_version,
        metric_set=newest.metric_set,
        git=newest.git,
        device=newest.device,
        launches=[kernel for _, kernel, _, _ in entries],
    ).save(place)


def _write_table(frame: pd.DataFrame, path: Path) -> None:
    for column in frame.columns:
        if isinstance(frame[column].dtype, pd.CategoricalDtype):
            frame[column] = frame[column].astype("str")
    plain: dict[str, str] = {}
    if path.stem == "timeline":
        frame = frame.astype({"value": "float32"})
        plain = {"t_ns": "DELTA_BINARY_PACKED"}
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    dictionary = [name for name in rows.column_names if name not in plain]
    pq.write_table(
        rows, path, compression="zstd", compression_level=19, use_dictionary=dictionary, column_encoding=plain or None
    )


def pack(out: Path) -> int:
    """Add what was measured to the store; the number of launches that were added or replaced."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for told in sorted(out.glob(f"*/*/{TOLD}")):
        members = json.loads(told.read_text(encoding="utf-8"))
        found[STORE / members["split"] / members["gpu"]].append(told.parent)
    for place, runs in found.items():
        entries = kept(place)
        for run in runs:
            entry = measured(run)
            entries[entry[0]["name"]] = entry
        write(place, [entries[name] for name in sorted(entries)])
    return sum(map(len, found.values()))


def keep_again(out: Path) -> int:
    """Keep what vanished with the variants of launches that were measured once more; their number."""
    kept = {(row["name"], row["gpu"]): row for row in _again()}
    for path in sorted(out.glob(f"*/*/{TOLD}")):
        members = json.loads(path.read_text(encoding="utf-8"))
        if (ablation := Ablation.load(path.parent)) is not None:
            row = {"name": members["name"], "gpu": members["gpu"], "gone": _gone(ablation)}
            kept[row["name"], row["gpu"]] = row
    rows = list(kept.values())
    (STORE / AGAIN).write_text("\n".join(["[", ",\n".join(map(json.dumps, rows)), "]", ""]), encoding="utf-8")
    return len(rows)


def _again() -> list[dict[str, Any]]:
    path = STORE / AGAIN
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return rows


def _gone(ablation: Ablation) -> dict[str, float]:
    return {variant.name: round(variant.gone_pct, 3) for variant in ablation.variants if variant.gone_pct is not None}


def show() -> None:
    """What was measured by kind, launches that were measured twice, those that waits make faster, and how far those of
    both GPU models are apart."""
    launches = [launch for split in SPLITS if (STORE / split).is_dir() for launch in stored(STORE, split)]
    rows = []
    for kind in ["all", *sorted({one.kind for one in launches})]:
        members = [one.ablation for one in launches if kind in ("all", one.kind)]
        whole, faithful = sum(one.whole for one in members), sum(bool(one.faithful) for one in members)
        counts = [len(one.variants) for one in members]
        numbers = (len(members), whole, len(members) - whole, faithful)
        rows.append([kind, *map(str, numbers), f"{min(counts)}–{max(counts)}"])
    print(table(["kind", "launches", "all sets measured", "some", "results repeat", "variants"], rows))
    first = {(one.name, one.gpu): _gone(one.ablation) for one in launches}
    again = [row for row in _again() if (row["name"], row["gpu"]) in first]
    if off := [
        abs(pct - first[row["name"], row["gpu"]].get(name, pct)) for row in again for name, pct in row["gone"].items()
    ]:
        apart = (
            f"{fmean(off):.2f} points on average, {sum(one < 1 for one in off)} by less than 1, worst {max(off):.2f}"
        )
        print(f"\n{len(again)} launches measured again on the same GPU: {len(off)} variants differ by {apart}")
    for gpu in sorted({one.gpu for one in launches}):
        slower = [one.name for one in launches if one.gpu == gpu and _slower(one.ablation)]
        what = f"{len(slower)} launches take over {SLOWER_FROM_PCT:.0f} % longer without waits"
        print(f"\n{gpu}: {what}: {', '.join(slower)}")
    shares = {(one.name, one.gpu): {part.part: part.measured for part in one.ablation.parts} for one in launches}
    distances: dict[str, list[float]] = defaultdict(list)
    for name, gpu in shares:
        here, there = shares[name, "h100"] if gpu == "h200" and (name, "h100") in shares else {}, shares[name, gpu]
        for part in here.keys() & there.keys() - {REST}:
            distances[part].append(abs(here[part] - there[part]))
    cells = [[part, str(len(found)), f"{fmean(found):.1f}"] for part, found in sorted(distances.items())]
    print("\n" + table(["part, on both GPUs", "launches", "mean distance"], cells))


def _slower(ablation: Ablation) -> bool:
    wait = next((variant for variant in ablation.variants if variant.name == "wait"), None)
    return wait is not None and (wait.status == SLOWER or (wait.gone_pct or 0.0) < -SLOWER_FROM_PCT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--show", action="store_true", help="what the store holds, by kind")
    parser.add_argument("--again", action="store_true", help="keep OUT beside what the store holds")
    given = parser.parse_args()
    if given.out is not None and given.again:
        sys.stdout.write(f"{keep_again(given.out)} launches put into {STORE / AGAIN}\n")
    elif given.out is not None:
        sys.stdout.write(f"{pack(given.out)} launches put into {STORE}\n")
    if given.show:
        show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
