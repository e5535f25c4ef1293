"""Launches of several runs side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncubble.analysis.compare.compare import CompareResult, compare_sides, compared_launch, groups, letter
from ncubble.analysis.compare.words import as_json, markdown, summaries
from ncubble.analysis.diagnosis.results import Unread
from ncubble.api.display import safe
from ncubble.api.launch import ReportLaunch
from ncubble.api.reports import Progress, ReportPath, ReportSet, as_paths, by_report, load, no_report, read
from ncubble.errors import UsageError
from ncubble.records import JsonObject

if TYPE_CHECKING:
    import pandas as pd

Side = ReportPath | Iterable[ReportPath] | ReportSet | ReportLaunch
MOST = 8
"""Maximum sides of a comparison."""


@dataclass(frozen=True, repr=False)
class ReportComparison:
    """Kernels side by side, as returned by ``ncubble.compare``.

    Sides are ``A``, ``B``, … in the order given; all are compared with ``A``.
    """

    result: CompareResult
    sides: tuple[str, ...]
    errors: tuple[Unread, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """Sentences on what changed: one or more per kernel, with its name first."""
        return [f"{title}: {text}" for title, texts in summaries(self.result.comparisons) for text in texts]

    @property
    def rows(self) -> pd.DataFrame:
        """One row per kernel, value and side.

        ``kernel``, ``section`` (``launch``, ``account``, ``time``, ``stalls``), ``name``, ``unit``,
        ``better`` (``higher``, ``lower``, ``neutral``), ``side``; ``n``, ``mean`` and ``sd`` of the
        repeats of this side; and relative to ``A`` ``difference``, ``pct``, ``outcome`` (of
        repeats), ``decision_pct`` and ``p_value``. docs/reference/compare.md defines them.
        """
        import pandas as pd

        titles = [title for title, _ in summaries(self.result.comparisons)]
        found: list[JsonObject] = []
        for title, comparison in zip(titles, self.to_json()["comparisons"], strict=True):
            for row in comparison["rows"]:
                about = {"kernel": title, **{name: row[name] for name in ("section", "name", "unit", "better")}}
                pairs = enumerate(zip(row["values"], row["changes"], strict=True))
                found += [
                    {**about, "side": letter(side), **value, **(change or {})}
                    for side, (value, change) in pairs
                    if value
                ]
        columns = ["kernel", "section", "name", "unit", "better", "side", "n", "mean", "sd"]
        columns += ["difference", "pct", "outcome", "decision_pct", "p_value"]
        return pd.DataFrame(found, columns=columns)

    @property
    def unmatched(self) -> pd.DataFrame:
        """Unmatched kernels: ``side``, ``kernel`` and ``reason``."""
        import pandas as pd

        rows = [(letter(left.side), left.group.title, left.reason) for left in self.result.leftovers]
        return pd.DataFrame(rows, columns=["side", "kernel", "reason"])

    def to_json(self) -> JsonObject:
        """The object of ``ncubble compare --json`` (docs/reference/compare.md)."""
        return as_json(self.result, self.sides, self.errors)

    def to_markdown(self) -> str:
        """The text of ``ncubble compare --markdown``, for a merge request."""
        return markdown(self.result, self.errors)

    def __len__(self) -> int:
        """Compared kernels."""
        return len(self.result.comparisons)

    @property
    def _lines(self) -> list[str]:
        sides = [f"{letter(index)}: {side}" for index, side in enumerate(self.sides)]
        left = [f"{letter(one.side)}: {one.group.title}: {one.reason}" for one in self.result.leftovers]
        return [*sides, *self.sentences, *left, *(f"not read: {file}: {error}" for file, error in self.errors)]

    def __repr__(self) -> str:
        count = len(self)
        return "\n".join([f"<ReportComparison of {count} kernel{'' if count == 1 else 's'}>", *self._lines])

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{safe(line)}</li>' for line in self._lines)}</ul>"


def compare(*sides: Side, strict: bool = True, progress: Progress | None = None) -> ReportComparison:
    """Compare launches with those of the first side: account, time, resources, stall reasons.

    Each side (two to eight) is a path, a list of paths, a ``ReportSet`` or a launch. Launches are
    matched by label, kernel and grid, then by order; if one launch remains on each side, they are
    paired regardless of their names. Repeats of the first side separate change from noise. The
    numbers are those of ``ncubble compare``. ``progress(done, total)`` is called as reports are
    read.

    Raises UsageError for a wrong number of sides, or if no kernel occurs on two sides; ReportError
    if a report is damaged. With ``strict=False`` what can be read is compared, and ``errors`` of
    the result lists the failures.
    """
    if not 2 <= len(sides) <= MOST:
        count = f"{len(sides)} side{' is' if len(sides) == 1 else 's are'} named"
        raise UsageError(count, f"name 2 to {MOST} to compare: ncubble compare A B, or ncubble.compare(before, after)")
    errors: list[Unread] = []
    names, compared = [], []
    for side in sides:
        reports = _reports(side, strict, progress)
        errors += reports.errors
        compared.append(groups(compared_launch(one.launch, one.estimate, one.ablation) for one in reports.judgeable))
        if isinstance(side, ReportSet | ReportLaunch):
            paths = [judged.report.path for judged, _ in by_report(reports)]
        else:
            paths = as_paths([side])
        names.append(", ".join(map(str, paths)))
    result = compare_sides(compared)
    if not result.comparisons and not errors:
        nothing = "nothing to compare: no kernel is on more than one side"
        if strict:
            raise UsageError(nothing, "look at r.launches of each")
        errors.append(Unread("", nothing))
    return ReportComparison(result, tuple(names), tuple(errors))


def _reports(side: Side, strict: bool, progress: Progress | None) -> ReportSet:
    """The launches of a side. Unless ``strict``, what cannot be read is among its errors."""
    if isinstance(side, ReportLaunch):
        return ReportSet((side,))
    if isinstance(side, ReportSet):
        return side
    if strict:
        return load(side)
    paths = as_paths([side])
    reports = read(paths, progress)
    return reports if reports or reports.unread else ReportSet((), (no_report(paths),))
