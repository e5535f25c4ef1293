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

from benchmarks.changes.plan import FAIR, WELL
from ncubble.api.trying import kind_of_constant
from ncubble.profiling.runs import Run
from ncubble.recordings import VALIDATION

STORE = VALIDATION / "changes"
TABLE = "changes.parquet"


def kind_of(name: str, value: int) -> str:
    """The kind of a change by the name of its parameter."""
    return {"num_stages": "stages", "num_warps": "warps"}.get(name) or kind_of_constant(name, value)


def rows_of(family: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes of the bases of one family. The last round of the fair base is that of the well-tuned one."""
    rows: list[dict[str, Any]] = []
    for base, one in measured.items():
        rounds = {base: one["rounds"][0]}
        if base == FAIR and len(one["rounds"]) > 1:
            rounds[WELL] = one["rounds"][-1]
        for name, made in rounds.items():
            for change in made["changes"]:
                told = {
                    key: change[key] for key in ("name", "before", "after", "outcome", "us", "gain_pct", "low", "high")
                }
                built = {key: change["built"][key] for key in ("registers", "spilled_B", "shared_B")}
                kind = kind_of(change["name"], change["before"])
                about = {"family": family, "base": name, "base_us": made["us"], "kind": kind}
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
    for column in ("base_us", "us", "gain_pct", "low", "high", "difference"):
        frame[column] = frame[column].astype("float32")
    frame.to_parquet(place / TABLE, compression="zstd", index=False)
    for run in sorted((out / "profiled").iterdir()):
        kept = place / run.name
        shutil.copytree(run, kept, dirs_exist_ok=True)
        manifest = Run.load(kept).manifest
        # Where the plan lay, and the commit of a copy of the tree, say nothing to others.
        replace(manifest, argv=[*manifest.argv[:-1], "launches.json"], git={}).save(kept)
    sys.stdout.write(f"{len(frame)} changes of {len(frame.groupby(['family', 'base']))} bases\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
