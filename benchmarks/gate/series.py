"""Take the gate's values out of recorded series: one row per launch, small enough to commit.

    python -m benchmarks.gate.series OUT.parquet START...

Each START is a folder that ``benchmarks/gate/record.py`` wrote at one machine start. Columns:
``start`` (name of the folder), ``gpu`` (UUID), ``driver``, ``ncu_version``, ``series``, ``label``,
``run`` (name of the process in its start), ``sets``, ``launch``, ``sm_clock_hz``, the counters that
the gate reads, and ``part:NAME`` for the parts of the bubble account, in percent of elapsed cycles,
where the sets allow one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.report.report import Report, open_reports


def rows(report: Report, start: str, series: str) -> Iterator[dict[str, Any]]:
    """The rows of one run."""
    counters = [name for metric in METRICS for name in metric.counters]
    table = report.wide([name for name in counters if name != "gpu__time_duration"])
    parts = {one["launch"]: one["account"] or {} for one in judge(report)[0]}
    manifest = report.run.manifest
    for _, row in report.launches.iterrows():
        launch = int(row["launch"])
        yield {
            "start": start,
            "gpu": manifest.device.get("uuid", ""),
            "driver": manifest.device.get("driver", ""),
            "ncu_version": row["ncu_version"],
            "series": series,
            "label": report.run.label_of(launch),
            "run": report.run.path.name,
            "sets": " ".join(manifest.metric_set),
            "launch": launch,
            "sm_clock_hz": row["sm_clock_hz"],
            "duration_ns": row["duration_ns"],
            **table.loc[launch].to_dict(),
            **{f"part:{name}": pct for name, pct in parts.get(launch, {}).items()},
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("starts", type=Path, nargs="+", metavar="START")
    given = parser.parse_args()
    found = []
    for start in given.starts:
        for folder in sorted(path for path in start.iterdir() if path.is_dir()):
            reports, failures = open_reports([folder])
            for failure in failures:
                print(f"left out {failure.path}: {failure.error}")
            found += [row for report in reports for row in rows(report, start.name, folder.name)]
    table = pd.DataFrame(found).dropna(axis="columns", how="all")
    table.to_parquet(given.out, compression="zstd", index=False)
    print(table.groupby(["series", "start"]).size().unstack().to_string())
    print(f"{given.out}: {len(table)} launches, {given.out.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
