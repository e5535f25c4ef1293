"""Everything that ncubble shows of a report, as text that can be compared: the verdict and the
cards of its page.

The verdict is one element of what ``ncubble report --json`` prints; the page is that of the
dashboard. Where the file lies and what its bytes hash to are replaced by fixed words, and warnings
that begin with ``suspicious:`` are taken out: they label a value, they are none.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.rows import launch_row
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.pages.overview.layout import OF_GROUPS, sent
from ncubble.dashboard.ui.components import near
from ncubble.text.values import finite

LABEL = "suspicious:"
DIGITS = 3
"""Significant digits at which ``coarse`` compares: what a reader of a page or a table sees."""


@dataclass(frozen=True)
class Shown:
    """One launch: its whole verdict, its text by section (``json``, ``table``, and the page's cards
    by title), whether it carries a label, and the traceback that was logged on the way, if any."""

    verdict: dict[str, Any]
    sections: dict[str, str]
    labelled: bool
    crash: str


def show(paths: Sequence[Path]) -> tuple[dict[Path, dict[int, Shown]], dict[str, str]]:
    """What is shown of each report, by launch, and the failures by where they happened. Equal
    contents are shown once, so the reports must differ."""
    store = ReportStore(list(paths)).start()
    store.wait()
    found: dict[Path, dict[int, Shown]] = {}
    for row in sorted(store.rows(), key=lambda row: int(row["launch"])):
        entry = store.find(row["id"].split("/")[0], row["launch"])
        assert entry is not None
        found.setdefault(entry.report.run.path, {})[entry.number] = _shown(store, entry)
    return found, {failure.where: failure.error for failure in store.failures()}


def is_label(warning: str) -> bool:
    return warning.startswith(LABEL)


@dataclass(frozen=True)
class _Judged:
    """A store that gives a launch this verdict."""

    store: ReportStore
    verdict: LaunchVerdict

    def report_of(self, entry: Entry) -> Any:
        return self.store.report_of(entry)

    def verdict_of(self, entry: Entry) -> LaunchVerdict:
        return self.verdict


def _shown(store: ReportStore, entry: Entry) -> Shown:
    warnings = entry.verdict.warnings
    verdict = replace(entry.verdict, warnings=[text for text in warnings if not is_label(text)])
    row = launch_row(entry.report, entry.number, verdict)
    unlabelled = replace(entry, row=row, _store=_Judged(store, verdict))
    with _errors_logged() as crashes:
        view = LaunchView(store, unlabelled)
        late = [kernel.panel(view, place) for place, panel in kernel.PANELS.items() if panel.stage is not None]
        page = _plain([kernel.layout(store, unlabelled), *late])
    parts = {"json": _nameless(_plain(finite(verdict.to_json())), row), **sections(page, row)}
    return Shown(_plain(finite(entry.verdict.to_json())), parts, any(map(is_label, warnings)), "\n".join(crashes))


def sections(page: Any, row: dict[str, Any]) -> dict[str, str]:
    """The page of a launch, as the browser gets it, by card, and its ``row`` of the table; without
    names of files and what depends on other launches."""
    alone = {name: value for name, value in sent(row).items() if name not in OF_GROUPS}
    return {title: _nameless(part, row) for title, part in (("table", _plain(alone)), *_cards(page))}


class _errors_logged(logging.Handler):  # noqa: N801
    """Collects what ncubble logs as an error, with its traceback, while in use."""

    def __enter__(self) -> list[str]:
        self.found: list[str] = []
        logging.getLogger("ncubble").addHandler(self)
        return self.found

    def __exit__(self, *_: object) -> None:
        logging.getLogger("ncubble").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self.found.append(logging.Formatter().format(record))


def _plain(part: Any) -> Any:
    """Components, figures and numpy values as JSON knows them, as the browser gets them."""
    return json.loads(json.dumps(part, cls=PlotlyJSONEncoder))


def _cards(node: Any) -> Iterator[tuple[str, Any]]:
    """The cards of a page by title, and its head as ``head``. A card stands in for one that waits
    for it."""
    if isinstance(node, list):
        for one in node:
            yield from _cards(one)
    elif isinstance(node, dict) and "props" in node:
        style = str(node["props"].get("className") or "")
        if style.startswith(("card", "page-head")):
            yield (_title(node) if style.startswith("card") else "head"), _alone(node)
        else:
            yield from _cards(node["props"].get("children"))


def _alone(node: Any) -> Any:
    """The node without its links to other launches, which depend on what else is shown."""
    if isinstance(node, list):
        return [_alone(one) for one in node if not _links_others(one)]
    if isinstance(node, dict):
        return {name: _alone(one) for name, one in node.items()}
    return node


def _links_others(node: Any) -> bool:
    return isinstance(node, dict) and (node.get("props") or {}).get("className") == "against"


def _title(node: Any) -> str:
    label = node["props"].get("aria-label")
    return str(label or node["props"]["children"][0]["props"]["children"][0]["props"]["children"])


def _nameless(part: Any, row: dict[str, Any]) -> str:
    text = json.dumps(part, sort_keys=True)  # the order of a component's attributes differs from process to process
    for number, name in enumerate((row["path"], near(row["path"]), row["id"].split("/")[0], row["report"])):
        text = text.replace(json.dumps(name)[1:-1], f"<{number}>")
    return text


def changed(found: Shown, original: Shown) -> list[str]:
    """Titles of the sections that show something else."""
    return [
        title
        for title in dict.fromkeys([*original.sections, *found.sections])
        if found.sections.get(title) != original.sections.get(title)
    ]


def coarse(text: str) -> Any:
    """A section with every number rounded to ``DIGITS`` significant digits."""
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.{DIGITS}g}"), object_hook=_unpacked)


def _unpacked(node: dict[str, Any]) -> Any:
    """The numbers of an array that plotly packs as base64."""
    if set(node) >= {"dtype", "bdata"}:
        values = np.frombuffer(base64.b64decode(node["bdata"]), dtype=node["dtype"])
        return [f"{float(value):.{DIGITS}g}" for value in values]
    return node
