"""The table of the Checks page: one row per kernel and GPU model. Cells are drawn by
``assets/checks.js``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ncubble.analysis.account.palette import VERDICT_STYLES
from ncubble.analysis.gate.check.result import RANKS
from ncubble.analysis.history.checked import CheckedKernel
from ncubble.dashboard.pages.checks.address import ChecksAddress
from ncubble.dashboard.pages.checks.words import change, metric_words, short_sha, style_of, when
from ncubble.dashboard.ui.grid import ag_grid

_RANK = {verdict: place for place, verdict in enumerate(RANKS)}


def rows(found: Sequence[CheckedKernel]) -> list[dict[str, Any]]:
    """JSON-ready rows in the order of the subjects; texts from reports stay texts."""
    return [_row(place, one) for place, one in enumerate(found)]


def _row(place: int, one: CheckedKernel) -> dict[str, Any]:
    counted = [f"{count} {style_of(verdict).label}" for verdict, count in sorted(one.counts.items(), key=_rank_of)]
    decided = f"{change(one.change_pct)} {metric_words(one.metric)}" if one.metric else one.reason or "not compared"
    return {
        "id": f"{one.kernel}/{one.gpu}",
        "place": place,
        "label": one.label,
        "device": one.device or "no GPU",
        "verdict": style_of(one.verdict).label,
        "verdict_key": one.verdict,
        "change": decided,
        "change_pct": one.change_pct,
        "strip": list(one.strip),
        "counted": ", ".join(counted),
        "checks": one.checks,
        "checked": int(one.checked.timestamp()),
        "checked_text": when(one.checked).removesuffix(" UTC"),
        "commit": short_sha(one.sha) or "not collected",
    }


def _rank_of(item: tuple[str, int]) -> int:
    return _RANK.get(item[0], len(_RANK))


def _column(field: str, name: str, tip: str, **extra: Any) -> dict[str, Any]:
    return {"field": field, "headerName": name, "headerTooltip": tip, "tooltipField": field, **extra}


def columns() -> list[dict[str, Any]]:
    """Column definitions. Rows come in the order of the page: regressed first, then those checked
    last."""
    by_change = {"comparator": {"function": "ncChecksByChange"}, "sortingOrder": ["asc", "desc"]}
    by_time = {"comparator": {"function": "ncChecksByTime"}, "sortingOrder": ["desc", "asc"], "filter": False}
    strip = {"sortable": False, "filter": False, "cellDataType": False, "tooltipField": "counted"}
    shown = "The metric that decided the last check, and its change against the baseline"
    return [
        _column("label", "Kernel", "Kernel, parameters and shape", cellRenderer="NcCheckKernel", minWidth=250, flex=3),
        _column("device", "GPU", "GPU model that it ran on", minWidth=100, flex=1),
        _column("verdict", "Last verdict", "Verdict of the last check", cellRenderer="NcVerdict", width=150),
        _column("change", "Decided by", shown, minWidth=176, flex=2, **by_change),
        _column(
            "strip", "History", "The last checks, the newest on the right", cellRenderer="NcStrip", width=190, **strip
        ),
        _column("checks", "Checks", "How often it was checked", width=76, filter="agNumberColumnFilter"),
        _column("checked_text", "Last check, UTC", "When it was checked last", width=138, **by_time),
        _column("commit", "Commit", "Commit of the runs that were checked last", width=118),
    ]


def grid(found: Sequence[CheckedKernel], address: ChecksAddress) -> Any:
    """The table, with the row of ``address`` selected and its search applied."""
    styles = {name: [style.label, style.color, style.sign] for name, style in VERDICT_STYLES.items()}
    chosen = f"{address.kernel}/{address.gpu}"
    options = {
        "rowSelection": {"mode": "singleRow", "enableClickSelection": True, "checkboxes": False},
        "quickFilterText": address.search,
        "context": {"verdicts": styles},
    }
    selected = {"ids": [chosen]} if address.kernel else []
    return ag_grid(
        "checks-grid", columns(), options, rowData=rows(found), getRowId="params.data.id", selectedRows=selected
    )
