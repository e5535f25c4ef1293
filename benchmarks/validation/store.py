"""The store of measured launches: reports as Parquet, with what ``ncubble ablate`` measured.

``FOLDER/SPLIT/GPU`` holds launches of one GPU model: ``TABLE.parquet`` for each of ``TABLES`` (as
in the report's cache, ``launch`` being the number in this folder), ``run.json`` (the manifest; its
``launches`` say what the program declared of each), and ``launches.json``: a list, by number, of
``name``, ``family``, ``kind``, ``stages`` (or null), ``started``, ``commit`` and ``ablation`` (the
members of ``ablation.json``). Source files and Nsight's rules are not kept.
``benchmarks/truth/pack.py`` writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.report.container import Frame, Source
from ncubble.analysis.report.report import Launch, Report
from ncubble.errors import ReportError
from ncubble.profiling.runs import MANIFEST, Manifest, Run
from ncubble.records import typed

if TYPE_CHECKING:
    import pandas as pd

LAUNCHES = "launches.json"
TABLES = ("actions", "metrics", "texts", "timeline", "code", "samples")
MEMBERS = {"name", "family", "kind", "stages", "started", "commit", "ablation"}
SPLITS = ("learn", "frozen", "fresh", "fresh2")
LAST_DRAWN = SPLITS[-1]
_EMPTY = {
    "rules": ("launch", "section", "rule", "title", "message", "kind", "speedup_pct", "speedup_kind"),
    "files": ("file", "text"),
}


@dataclass(frozen=True)
class TruthLaunch:
    """A launch with what was measured of it. ``stages``: its depth in a sweep, or None;
    ``started`` (UTC) and ``commit``: when, and by which code."""

    name: str
    family: str
    kind: str
    gpu: str
    stages: int | None
    started: str
    commit: str
    launch: Launch
    ablation: Ablation


class StoredReport(Report):
    """The launches of one folder of the store, as if they were those of a report."""

    def __init__(self, folder: Path, launches: int) -> None:
        manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"), folder / MANIFEST)
        digest = hashlib.sha256((folder / LAUNCHES).read_bytes()).hexdigest()
        frame = Frame(digest, 0, 0, launches, True, True, True, manifest.ncu_version)
        super().__init__(Run(folder, folder / LAUNCHES, manifest), Source(folder / LAUNCHES, frame, (0, 0, 0, 0, 0)))
        self._read = cache(self._read_table)

    def _table(self, name: str, launch: int | None = None) -> pd.DataFrame:
        table = self._read(name)
        return table if launch is None else table[table["launch"] == launch]

    def _read_table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        if name in _EMPTY:
            return pd.DataFrame({column: [] for column in _EMPTY[name]})
        path = self.path / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise ReportError(
                f"{path}: not a table of the store ({error})", "restore it from the repository"
            ) from error


def stored(folder: Path, split: str) -> Iterator[TruthLaunch]:
    """All launches of a split below ``folder``, by GPU and number. Raises ReportError where there
    are none, or what is there is damaged."""
    places = sorted(path.parent for path in (folder / split).glob(f"*/{LAUNCHES}"))
    if not places:
        raise ReportError(f"{folder / split}: no measured launches", "name the folder of recordings/validation/truth")
    for place in places:
        rows = rows_of(place)
        report = StoredReport(place, len(rows))
        for number, row in enumerate(rows):
            name, family, kind = (str(row[member]) for member in ("name", "family", "kind"))
            made = str(row["started"]), str(row["commit"])
            ablation = typed(row["ablation"], Ablation)
            yield TruthLaunch(name, family, kind, place.name, row["stages"], *made, report.launch(number), ablation)


def rows_of(place: Path) -> list[dict[str, Any]]:
    """The members of ``launches.json`` in a folder of the store; raises ReportError."""
    try:
        rows = json.loads((place / LAUNCHES).read_text(encoding="utf-8"))
        if not isinstance(rows, list) or not all(set(row) >= MEMBERS for row in rows):
            raise ValueError("expected a list of launches")
    except (OSError, ValueError, TypeError) as error:
        raise ReportError(f"{place / LAUNCHES}: not readable ({error})", "restore it from the repository") from error
    return rows
