"""Selection, order and grouping of the launches to show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from ncubble.analysis.diagnosis.groups import ORDERS, LaunchGroup, groups_of, shown_and_rest
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.results import ReportResult
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.errors import UsageError
from ncubble.text.remedies import known_names
from ncubble.text.values import TextPattern

NAMED = 5
"""Kernels listed in an error."""


@dataclass(frozen=True)
class View:
    """``kernel``: a regular expression, searched in names and labels. ``sort``: one of ORDERS;
    None: by time if launches of a kernel are grouped, else as read. ``limit``: rows. ``group``:
    whether launches of a kernel share a row.

    Raises UsageError for an invalid expression or order.
    """

    kernel: str | None = None
    sort: str | None = None
    limit: int | None = None
    group: bool = True

    def __post_init__(self) -> None:
        if self.sort is not None and self.sort not in ORDERS:
            raise UsageError(f"--sort {self.sort}: unknown order", known_names(self.sort, ORDERS, "orders"))
        try:
            self._pattern  # noqa: B018 - compiled here, once
        except ValueError as error:
            remedy = "write a regular expression, as 'gemm.*', without lookarounds"
            raise UsageError(f"--kernel {self.kernel}: {error}", remedy) from error

    def chosen(self, result: ReportResult) -> ReportResult:
        """The launches whose kernel matches, in the requested order. Raises UsageError if there are
        launches and none matches."""
        beside = list(zip_longest(result.verdicts, result.explanations, result.ablations))
        kept = [row for row in beside if self._matches(row[0])]
        if beside and not kept:
            names = sorted({verdict.kernel for verdict in result.verdicts})
            there = ", ".join([*names[:NAMED], *(["…"] if len(names) > NAMED else [])])
            raise UsageError(f"--kernel {self.kernel}: no launch matches", f"available: {there}")
        if self.sort:
            order = ORDERS[self.sort]
            kept.sort(key=lambda row: order(LaunchGroup((row[0],))))
        columns: list[list[Any]] = [list(column) for column in zip(*kept, strict=True)] or [[], [], []]
        explanations = columns[1] if result.explanations else []
        return ReportResult(columns[0], result.errors, explanations, columns[2] if result.ablations else [])

    def first(self, result: ReportResult) -> ReportResult:
        """The first ``limit`` launches, where a limit is given."""
        end = self.limit
        columns = result.verdicts[:end], result.errors, result.explanations[:end], result.ablations[:end]
        return ReportResult(*columns)

    def groups(self, result: ReportResult) -> list[LaunchGroup]:
        """The rows of a table of ``chosen`` launches, each as it was measured."""
        launches = [as_measured(*pair) for pair in zip_longest(result.verdicts, result.ablations)]
        groups = groups_of(launches) if self.group else [LaunchGroup((launch,)) for launch in launches]
        order = self.sort or ("time" if len(groups) < len(launches) else "read")
        return sorted(groups, key=ORDERS[order])

    def rows(self, result: ReportResult) -> tuple[list[LaunchGroup], list[LaunchGroup]]:
        """The groups to show, and those only counted."""
        groups = self.groups(result)
        if self.limit is None and len(groups) == len(result.verdicts):
            return groups, []
        return shown_and_rest(groups, self.limit)

    def _matches(self, verdict: LaunchVerdict) -> bool:
        return self.matches(verdict.kernel, verdict.label)

    def matches(self, *texts: str) -> bool:
        """Whether the expression is found in one of them; True without an expression."""
        return self._pattern is None or any(self._pattern.search(list(texts)))

    @cached_property
    def _pattern(self) -> TextPattern | None:
        return TextPattern(self.kernel) if self.kernel else None
