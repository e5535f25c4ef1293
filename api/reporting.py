"""What ``ncubble report`` shows: chosen launches with their verdicts, and accounts of recordings
without counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ncubble.analysis.diagnosis.groups import ORDERS, LaunchGroup, groups_of, shown_and_rest
from ncubble.analysis.diagnosis.results import ReportResult, Unread
from ncubble.api.launch import ReportLaunch
from ncubble.api.reports import Progress, ReportSet, no_report, read
from ncubble.errors import NcubbleError, UsageError
from ncubble.records import JsonObject
from ncubble.text.remedies import known_names
from ncubble.text.values import TextPattern, some

if TYPE_CHECKING:
    from ncubble.analysis.account.explain import Explanation
    from ncubble.analysis.details.coarse import CoarseVerdict
    from ncubble.analysis.model.depths import Depths

LANES = "lanes.parquet"
"""File of recordings without counters, here to avoid the slow import of pandas."""
NAMED = 5
"""Kernels listed in an error."""
T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """``kernel``: a regular expression, searched in names and labels. ``sort``: one of ORDERS;
    None: rows by ``lost``, launches as read. ``limit``: rows. ``group``: whether launches of a
    kernel share a row.

    Raises UsageError for an invalid expression or order.
    """

    kernel: str = ""
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

    def matches(self, *texts: str) -> bool:
        """Whether the expression is found in one of them; True without an expression."""
        return self._pattern is None or any(self._pattern.search(list(texts)))

    @cached_property
    def _pattern(self) -> TextPattern | None:
        return TextPattern(self.kernel) if self.kernel else None


@dataclass(frozen=True)
class LaunchReport:
    """Launches in the order to show, with ``explanations`` and ``depths`` where asked for;
    ``traces`` are recordings without counters. ``errors``: what could not be read or judged."""

    launches: Sequence[ReportLaunch]
    errors: list[Unread]
    traces: Sequence[CoarseVerdict] = ()
    explanations: dict[ReportLaunch, Explanation] | None = None
    depths: dict[ReportLaunch, Depths] | None = None
    selection: Selection = Selection()

    @property
    def groups(self) -> list[LaunchGroup]:
        """The launches as rows of a table, each with the measured cause if it was ablated."""
        verdicts = [launch.verdict for launch in self.launches]
        groups = groups_of(verdicts) if self.selection.group else [LaunchGroup((one,)) for one in verdicts]
        return sorted(groups, key=ORDERS[self.selection.sort or "lost"])

    @property
    def rows(self) -> tuple[list[LaunchGroup], list[LaunchGroup]]:
        """The groups to show, and those only counted."""
        groups = self.groups
        if self.selection.limit is None and len(groups) == len(self.launches):
            return groups, []
        return shown_and_rest(groups, self.selection.limit)

    @property
    def first(self) -> Sequence[ReportLaunch]:
        """The first ``limit`` launches, where a limit is given."""
        return self.launches[: self.selection.limit]

    def to_json(self) -> JsonObject:
        """The object of ``ncubble report --json`` (docs/reference/verdicts.md)."""
        verdicts, ablations = [one.estimate for one in self.first], [one.ablation for one in self.first]
        whole = ReportResult(verdicts, self.errors, ablations).to_json()
        for launch, told in zip(self.first, whole["launches"], strict=True):
            if self.explanations is not None:
                explained = self.explanations.get(launch)
                told["explain"] = asdict(explained) if explained else None
            if self.depths is not None:
                known = self.depths.get(launch)
                told["depths"] = known.to_json() if known else None
        return whole | {"traces": [trace.to_json() for trace in self.traces]}


def report(
    paths: Sequence[Path],
    selection: Selection = Selection(),
    *,
    explained: bool = False,
    depths: bool = False,
    stages: int | None = None,
    progress: Progress | None = None,
    then: Sequence[str] = (),
) -> LaunchReport:
    """The launches at ``paths`` that ``selection`` chooses, judged, and recordings of ``trace`` and
    ``streams``. What cannot be read is among the errors; raises UsageError where there are launches
    and none is chosen. ``depths``: predict other depths, from the present one, ``stages``, where
    neither manifest nor code shows it. ``then``: modules to import while reports are read."""
    traces, unread = _traces(paths, selection)
    launches = read(paths, progress, then)
    errors = launches.errors
    if not launches and not errors and not traces and not unread:
        errors = [no_report(paths)]
    found = chosen(launches, selection, required=not traces)
    explanations = _of_each(found.launches, ReportLaunch.explain, errors) if explained else None
    if stages and len(found.first) > 1:
        raise UsageError(f"the present depth is of one launch, and {len(found.first)} are chosen", "choose one")
    predicted = _of_each(found.first, lambda launch: launch.predict_depths(stages), errors) if depths else None
    return replace(found, errors=[*errors, *unread], traces=traces, explanations=explanations, depths=predicted)


def _of_each(
    launches: Sequence[ReportLaunch], made: Callable[[ReportLaunch], T], errors: list[Unread]
) -> dict[ReportLaunch, T]:
    """What is made of each launch; one whose values contradict each other is among the errors."""
    known: dict[ReportLaunch, T] = {}
    for launch in launches:
        try:
            known[launch] = made(launch)
        except UsageError:
            raise
        except NcubbleError as error:
            errors.append(Unread(launch.report, str(error)))
    return known


def chosen(launches: ReportSet, selection: Selection, required: bool = True) -> LaunchReport:
    """The launches that ``selection`` chooses, in its order. Raises UsageError if there are
    launches and none is chosen, but one is ``required``."""
    known = launches.judgeable
    kept = [one for one in known if selection.matches(one.estimate.kernel, one.estimate.label)]
    if known and not kept and required:
        there = some(sorted(one.estimate.kernel for one in known), NAMED)
        raise UsageError(f"--kernel {selection.kernel}: no launch matches", f"available: {there}")
    if selection.sort:
        order = ORDERS[selection.sort]
        kept.sort(key=lambda one: order(LaunchGroup((one.estimate,))))
    return LaunchReport(kept, launches.errors, selection=selection)


def _traces(paths: Sequence[Path], selection: Selection) -> tuple[list[CoarseVerdict], list[Unread]]:
    """Accounts of recordings without counters that ``selection`` chooses, and errors of others."""
    if not any(path.is_dir() and next(path.rglob(LANES), None) for path in paths):
        return [], []
    from ncubble.analysis.details.coarse import CoarseVerdict, coarse_verdicts

    found = list(coarse_verdicts(paths))
    known = [one for one in found if isinstance(one, CoarseVerdict)]
    unread = [Unread(str(one[0]), str(one[1])) for one in found if not isinstance(one, CoarseVerdict)]
    return [one for one in known if selection.matches(one.kernel, one.label)][: selection.limit], unread
