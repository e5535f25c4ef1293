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

from benchmarks.truth.plan import TOLD
from benchmarks.validation.store import LAUNCHES, SPLITS, TABLES, StoredReport, TruthLaunch, rows_of, stored
from ncubble.analysis.ablation.measured import SLOWER
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
    table = pa.Table.from_pandas(frame, preserve_index=False)
    dictionary = [name for name in table.column_names if name not in plain]
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=dictionary, column_encoding=plain or None
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
    """What was measured by kind, how long that took, launches that were measured twice, and those of
    both GPU models side by side."""
    launches = [launch for split in SPLITS if (STORE / split).is_dir() for launch in stored(STORE, split)]
    kinds: dict[str, list[TruthLaunch]] = defaultdict(list)
    for launch in launches:
        kinds[launch.kind].append(launch)
    sys.stdout.write("| kind | launches | all sets measured | some | results repeat | variants |\n")
    sys.stdout.write("| -- | -: | -: | -: | -: | -: |\n")
    for kind, members in sorted({**kinds, "all": launches}.items()):
        whole = sum(one.ablation.whole for one in members)
        faithful = sum(bool(one.ablation.faithful) for one in members)
        counts = sorted(len(one.ablation.variants) for one in members)
        sys.stdout.write(
            f"| {kind} | {len(members)} | {whole} | {len(members) - whole} | {faithful} | {counts[0]}–{counts[-1]} |\n"
        )
    _show_seconds(launches)
    _show_again({(one.name, one.gpu): one.ablation for one in launches})
    _show_slower(launches)
    _show_pairs(launches)


def _show_slower(launches: list[TruthLaunch]) -> None:
    slower: dict[str, list[str]] = defaultdict(list)
    for launch in launches:
        wait = next((variant for variant in launch.ablation.variants if variant.name == "wait"), None)
        if wait and (wait.status == SLOWER or (wait.gone_pct is not None and wait.gone_pct < -SLOWER_FROM_PCT)):
            slower[launch.gpu].append(launch.name)
    for gpu, names in sorted(slower.items()):
        what = f"{len(names)} launches take over {SLOWER_FROM_PCT:.0f} % longer without waits"
        sys.stdout.write(f"\n{gpu}: {what}: {', '.join(names)}\n")


def _show_seconds(launches: list[TruthLaunch]) -> None:
    sys.stdout.write("\n| GPU | variants, all of which ran | launches | seconds for them | for the profile |\n")
    sys.stdout.write("| -- | -: | -: | -: | -: |\n")
    groups: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for one in launches:
        if one.ablation.seconds and _all_ran(one) and not one.ablation.notes:
            groups[one.gpu, len(one.ablation.variants)].append(one.ablation.seconds)
    for (gpu, variants), took in sorted(groups.items()):
        cells = (sorted(seconds[name] for seconds in took) for name in ("ablate", "profile"))
        spans = " | ".join(f"{values[0]:.1f}–{values[-1]:.1f}" for values in cells)
        sys.stdout.write(f"| {gpu} | {variants} | {len(took)} | {spans} |\n")


def _show_again(first: dict[tuple[str, str], Ablation]) -> None:
    rows = [row for row in _again() if (row["name"], row["gpu"]) in first]
    off = sorted(
        (abs(pct - before[name]), f"{row['name']} {row['gpu']} without {name}")
        for row in rows
        if (before := _gone(first[row["name"], row["gpu"]]))
        for name, pct in row["gone"].items()
        if name in before
    )
    if off:
        mean, (worst, where) = fmean(points for points, _ in off), off[-1]
        below = sum(points < 1.0 for points, _ in off)
        sys.stdout.write(
            f"\n{len(rows)} launches measured again on the same GPU: {len(off)} variants differ by "
            f"{mean:.2f} points on average, {below} of them by less than 1, worst {worst:.2f} ({where})\n"
        )


def _show_pairs(launches: list[TruthLaunch]) -> None:
    """How far parts of one launch are apart on both GPU models, by part, and the largest distances."""
    shares = {(one.name, one.gpu): {part.part: part.measured for part in one.ablation.parts} for one in launches}
    apart: dict[str, list[tuple[float, str, float, float]]] = defaultdict(list)
    for name in sorted({name for name, gpu in shares if gpu == "h100"}):
        here, there = shares[name, "h100"], shares.get((name, "h200"), {})
        for part in here.keys() & there.keys() - {REST}:
            apart[part].append((abs(here[part] - there[part]), name, here[part], there[part]))
    sys.stdout.write("\n| part, on both GPUs | launches | mean distance | largest | h100 | h200 |\n")
    sys.stdout.write("| -- | -: | -: | -- | -: | -: |\n")
    for part, pairs in sorted(apart.items()):
        mean = fmean(points for points, *_ in pairs)
        for number, (_, name, here, there) in enumerate(sorted(pairs, reverse=True)[:3]):
            cells = f"{part} | {len(pairs)} | {mean:.1f}" if not number else " |  | "
            sys.stdout.write(f"| {cells} | {name} | {here:.1f} | {there:.1f} |\n")


def _all_ran(launch: TruthLaunch) -> bool:
    return all(variant.status == "ok" for variant in launch.ablation.variants)


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
