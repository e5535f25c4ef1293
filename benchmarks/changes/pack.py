"""Puts what ``benchmarks.changes.measure`` wrote into the store: ``python -m benchmarks.changes.pack OUT GPU``.

``recordings/validation/changes/GPU`` gets the reports of the bases, and ``changes.parquet`` with one row for
each change that was made.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.changes.measure import LAUNCHES, is_well
from benchmarks.changes.plan import WELL
from ncubble.profiling.runs import Run
from ncubble.recordings import VALIDATION

STORE = VALIDATION / "changes"
TABLE = "changes.parquet"


def rows_of(family: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes of the bases of one family. The last round of the fair base is that of the well-tuned one,
    unless the time was up before."""
    rows: list[dict[str, Any]] = []
    for base, one in measured.items():
        rounds = {base: one["rounds"][0]}
        if is_well(base, one):
            rounds[WELL] = one["rounds"][-1]
        for name, made in rounds.items():
            for change in made["changes"]:
                if not isinstance(change["after"], int):
                    continue  # of catalog kernels: words, which advice does not name
                told = {
                    key: change[key] for key in ("name", "before", "after", "outcome", "us", "gain_pct", "low", "high")
                }
                built = {key: change["built"][key] for key in ("registers", "spilled_B", "shared_B")}
                about = {"family": family, "base": name, "base_us": made["us"], "kind": change["kind"]}
                rows.append({**about, **told, **built, "difference": change["difference"]})
    return rows


def main() -> int:
    out, gpu = Path(sys.argv[1]), sys.argv[2]
    place = STORE / gpu
    place.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in sorted(out.glob("*.json")):
        rows += rows_of(path.stem, json.loads(path.read_text(encoding="utf-8")))
    frame = pd.DataFrame(rows)
    if (place / TABLE).is_file():  # bases that were measured before stay
        before = pd.read_parquet(place / TABLE)
        again = pd.MultiIndex.from_frame(before[["family", "base"]]).isin(
            pd.MultiIndex.from_frame(frame[["family", "base"]])
        )
        frame = pd.concat([before[~again], frame], ignore_index=True)
    for column in ("base_us", "us", "gain_pct", "low", "high", "difference"):
        frame[column] = frame[column].astype("float32")
    frame.to_parquet(place / TABLE, compression="zstd", index=False)
    for run in sorted((out / "profiled").iterdir()):
        kept = place / run.name
        shutil.copytree(run, kept, dirs_exist_ok=True)
        manifest = Run.load(kept).manifest
        # Where the plan lay, and the commit of a copy of the tree, say nothing to others.
        argv = ["launches.json" if word.endswith(LAUNCHES) else word for word in manifest.argv]
        replace(manifest, argv=argv, git={}).save(kept)
    sys.stdout.write(f"{len(frame)} changes of {len(frame.groupby(['family', 'base']))} bases\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
