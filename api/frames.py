"""Frames over the launches of any number of reports, with the unit of each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.parts import display_order
from ncubble.analysis.diagnosis.words import bubble_pct
from ncubble.api.units import reasons_of, with_units

if TYPE_CHECKING:
    from ncubble.api.judged import JudgedReport
    from ncubble.api.launch import ReportLaunch

VERDICT = ("unit", "tensor_elapsed_pct", "dram_pct", "cause", "disease", "integrity")


def detail_frame(launches: Sequence[ReportLaunch], name: str) -> pd.DataFrame:
    """Rows of ``launches`` in the frame ``name`` (``metrics``, ``timeline``, ``source``, ``rules``)
    of their reports, with the report's path as first column."""
    parts = []
    for judged, numbers in by_report(launches):
        frame: pd.DataFrame = getattr(judged.report, name)
        if len(numbers) < len(judged.numbers):
            frame = frame[frame["launch"].isin(numbers)]
        frame = frame.reset_index(drop=True)
        path = pd.Categorical.from_codes(
            np.zeros(len(frame), dtype=int), categories=pd.Index([str(judged.report.path)])
        )
        frame.insert(0, "report", pd.Series(path))
        parts.append(frame)
    whole = with_units(_joined(parts), name)
    reasons = reasons_of(whole, name)  # a report omits reasons without stalled warps
    return whole.fillna(dict.fromkeys(reasons, 0.0)) if reasons else whole


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames concatenated by rows. Categories stay categories."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    categories = {
        column: pd.api.types.union_categoricals([part[column] for part in parts]).categories
        for column in parts[0].columns
        if all(isinstance(part.get(column, pd.Series()).dtype, pd.CategoricalDtype) for part in parts)
    }
    alike = [
        part.assign(**{column: part[column].cat.set_categories(names) for column, names in categories.items()})
        for part in parts
    ]
    return pd.concat(alike, ignore_index=True)


def by_report(launches: Iterable[ReportLaunch]) -> list[tuple[JudgedReport, list[int]]]:
    """The reports of ``launches`` in their order, each with the numbers of its launches."""
    found: dict[int, tuple[JudgedReport, list[int]]] = {}
    for launch in launches:
        found.setdefault(id(launch.judged), (launch.judged, []))[1].append(launch.number)
    return list(found.values())


def launch_frame(launches: Sequence[ReportLaunch]) -> pd.DataFrame:
    """One row per launch, in their order: identity, geometry, time, and the verdict."""
    parts, order = [], []
    for judged, numbers in by_report(launches):
        part = judged.report.launches.set_index("launch").loc[numbers].reset_index()
        part.insert(0, "report", str(judged.report.path))
        parts.append(part)
        order += [(id(judged), number) for number in numbers]
    place = {key: row for row, key in enumerate(order)}
    rows = [place[id(launch.judged), launch.number] for launch in launches]
    frame = _joined(parts).iloc[rows].reset_index(drop=True)
    frame.insert(2, "label", [launch.label for launch in launches])
    verdicts = pd.DataFrame([_verdict_cells(launch) for launch in launches])
    return with_units(pd.concat([frame, verdicts], axis=1), "launches")


def _verdict_cells(launch: ReportLaunch) -> dict[str, Any]:
    """All cells are missing for a launch that cannot be judged."""
    verdict = launch.verdict_or_none
    if verdict is None:
        return dict.fromkeys([*VERDICT, "bubble_pct", "cause_pct", "predicted_gain_pct"])
    first = verdict.causes[0] if verdict.causes else None
    return {
        **{name: getattr(verdict, name) for name in VERDICT},
        "bubble_pct": bubble_pct(verdict.account),
        "cause_pct": first.pct if first else None,
        "predicted_gain_pct": first.predicted_gain_pct if first else None,
    }


def account_frame(launches: Sequence[ReportLaunch]) -> pd.DataFrame:
    """One row per launch, one column per account part that any launch has, in percent of elapsed SM
    cycles; all NaN for launches without account."""
    verdicts = [launch.verdict_or_none for launch in launches]
    accounts: list[Mapping[str, float]] = [(verdict.account if verdict else None) or {} for verdict in verdicts]
    names = display_order(name for account in accounts for name in account)
    rows = [[account.get(name, 0.0) if account else float("nan") for name in names] for account in accounts]
    frame = pd.DataFrame(rows, columns=names, index=range(len(launches)), dtype=float)
    frame.attrs["units"] = dict.fromkeys(names, "% of elapsed SM cycles")
    return frame


def parameter_frame(launches: Sequence[ReportLaunch]) -> pd.DataFrame:
    """One row per launch, one column per parameter and dimension of its kernel, as the program
    declared them in the manifest of the run."""
    rows = []
    for launch in launches:
        facts = launch.judged.report.run.manifest.kernel_of(launch.number)
        rows.append({**(facts.get("parameters") or {}), **(facts.get("shape") or {})})
    return pd.DataFrame(rows, index=range(len(launches)))
