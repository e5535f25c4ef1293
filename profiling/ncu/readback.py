"""Reads a fresh report back through ncu itself: an unknown metric is not an error for ncu, but has
the value ``n/a``."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ncubble.profiling.ncu.failures import NcuFailedError

_ABSENT = frozenset({"", "n/a", "nan", "(!) n/a", "(!) nan"})
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class ReadBack:
    """Summary of ncu's raw page: the number of launches, and the metrics with a value in any of
    them."""

    launches: int
    present: frozenset[str]

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of ``names`` without a value in any launch. Groups and other prefixed names are not
        checked."""
        return [name for name in names if ":" not in name and name not in self.present]


def read_back(ncu: str, report: Path) -> ReadBack | None:
    """The raw page of ``report``, or None if ncu printed an unknown table. Raises NcuFailedError if
    ncu cannot read its own report.
    """
    argv = [ncu, "--config-file", "off", "--import", str(report), "--page", "raw", "--csv"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NcuFailedError(-1, f"reading back {report.name} took more than {_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise NcuFailedError(
            done.returncode, f"ncu cannot read the report it wrote: {done.stderr or done.stdout}".strip()
        )
    return parse_raw_page(done.stdout)


def parse_raw_page(text: str) -> ReadBack | None:
    """The CSV of ncu's raw page: a row of names that starts with ID, a row of units, then one row a
    launch."""
    rows = list(csv.reader(text.splitlines()))
    start = next((number for number, row in enumerate(rows) if row and row[0] == "ID"), None)
    if start is None:
        return None
    names, launches = rows[start], [row for row in rows[start + 2 :] if row]
    present = {
        name
        for row in launches
        for name, value in zip(names, row, strict=False)
        if value.strip().lower() not in _ABSENT
    }
    return ReadBack(len(launches), frozenset(present))
