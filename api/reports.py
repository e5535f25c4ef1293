"""The launches of reports, as frames and one by one."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.diagnosis.results import ReportResult, Unread
from ncubble.analysis.diagnosis.words import bubble_pct
from ncubble.api.launch import ReportLaunch
from ncubble.api.markup import account_bar, columns, safe, table
from ncubble.errors import UsageError
from ncubble.text.values import duration, expression, fixed, short_name

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from ncubble.api.timeline import TimelineFrame

SHOWN, SHOWN_HTML = 12, 50
"""Maximum launches listed in a terminal, and in a notebook."""
LONGEST = 56
"""Maximum length of a launch name in a notebook table, and in a figure of many."""
NAMED = 5
"""Maximum kernels listed in an error."""


@dataclass(frozen=True, repr=False, eq=False)
class ReportSet(Sequence[ReportLaunch]):
    """Launches of any number of reports, in order, as returned by ``ncubble.load``.

    ``r[0]`` is a launch. ``r[2:5]``, ``r[[0, 3]]``, ``r["gemm.*"]`` (a regular expression searched
    in kernels and labels) and ``r[r.launches.cause == "data_wait"]`` return a new ``ReportSet``,
    numbered from 0. Frames are computed on first use; each access returns a new copy. ``errors``
    lists reports that ``load(strict=False)`` could not read.
    """

    members: tuple[ReportLaunch, ...]
    unread: tuple[Unread, ...] = ()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ReportLaunch]:
        return iter(self.members)

    @overload
    def __getitem__(self, chosen: int) -> ReportLaunch: ...
    @overload
    def __getitem__(self, chosen: slice | str | Sequence[int] | Sequence[bool] | pd.Series) -> ReportSet: ...
    def __getitem__(self, chosen: Any) -> ReportLaunch | ReportSet:
        """A launch by number, or a subset. Raises UsageError for missing numbers (IndexError for a
        single one), or if no kernel matches."""
        if isinstance(chosen, str):
            return self._part(self._matching(chosen))
        if isinstance(chosen, slice):
            return self._part(self.members[chosen])
        if hasattr(chosen, "__index__"):
            return self._member(chosen)
        return self._part(self.members[number] for number in self._numbers(chosen))

    def _member(self, number: Any) -> ReportLaunch:
        try:
            launch: ReportLaunch = self.members[number]
        except IndexError:
            there = f"launches are 0 to {len(self) - 1}" if self.members else "no launch is chosen"
            raise IndexError(f"no launch {number}: {there}") from None
        return launch

    def _part(self, members: Any) -> ReportSet:
        return ReportSet(tuple(members), self.unread)

    def _matching(self, pattern: str) -> list[ReportLaunch]:
        wanted = expression(pattern, repr(pattern))
        found = [launch for launch in self if wanted.search(launch.kernel) or wanted.search(launch.label)]
        if not found:
            names = sorted({launch.kernel for launch in self})
            there = ", ".join([*names[:NAMED], *(["…"] if len(names) > NAMED else [])])
            raise UsageError(
                f"no kernel or label matches {pattern!r}", f"available: {there}" if names else "load a report"
            )
        return found

    def _numbers(self, chosen: Any) -> list[int]:
        """Launch numbers of a list, or of a boolean mask with one value per launch. A mask with an
        index (a Series) is aligned by that index."""
        import numpy as np

        if hasattr(chosen, "index") and hasattr(chosen, "to_numpy") and chosen.dtype == bool:
            return [int(number) for number in chosen.index[chosen]]
        array = np.asarray(chosen)
        if array.dtype == bool:
            if array.shape != (len(self),):
                raise UsageError(f"a mask of {array.size} values for {len(self)} launches", "pass one value per launch")
            return [int(number) for number in np.flatnonzero(array)]
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise UsageError(f"{chosen!r} selects no launches", "use a number, slice, regular expression, list or mask")
        lost = [int(number) for number in array if not -len(self) <= number < len(self)]
        if lost:
            raise UsageError(f"no launch {lost[0]}", f"launches are 0 to {len(self) - 1}")
        return [int(number) for number in array]

    def tagged(self, tag: str) -> ReportSet:
        """Launches whose run has this tag; empty if no run has it."""
        return self._part(launch for launch in self if tag in launch.tags)

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch; the index is the number for ``r[...]``.

        ``report``, ``launch`` (number in its report), ``label``, ``kernel``, ``demangled``,
        ``mangled``, ``grid``, ``block``, ``registers``, ``smem_static_B``, ``smem_dynamic_B``,
        ``device``, ``compute_capability``, ``ncu_version``, ``nvtx``, ``duration_ns``, ``cycles``,
        ``sm_clock_hz``, ``without_value``; and of the verdict: ``unit``, ``tensor_elapsed_pct``,
        ``dram_pct``, ``cause``, ``disease``, ``integrity``, ``bubble_pct``, ``cause_pct`` and
        ``predicted_gain_pct``. ``attrs["units"]`` has the units.
        """
        from ncubble.api.frames import launch_frame

        return self._frame(launch_frame)

    @property
    def accounts(self) -> pd.DataFrame:
        """One row per launch, a column per part of the account, in percent of elapsed SM cycles:
        rows sum to 100, or are NaN if a report lacks the counters. Index as in ``launches``."""
        from ncubble.api.frames import account_frame

        return self._frame(account_frame)

    @property
    def parameters(self) -> pd.DataFrame:
        """One row per launch, a column per kernel parameter and dimension of its problem, as the
        run declares them. Index as in ``launches``: ``r.launches.join(r.parameters)``."""
        from ncubble.api.frames import parameter_frame

        return self._frame(parameter_frame)

    @property
    def metrics(self) -> pd.DataFrame:
        """Every scalar counter: ``report``, ``launch``, ``metric``, ``value``, ``unit``."""
        return self._details("metrics")

    @property
    def timeline(self) -> TimelineFrame:
        """Counters over time (PM sampling): ``report``, ``launch``, ``t_ns``, ``metric``,
        ``value``, ``unit``. ``plot()`` draws a single launch."""
        from ncubble.api.timeline import TimelineFrame

        return TimelineFrame.of(self._details("timeline"), [launch.plot_timeline for launch in self])

    @property
    def source(self) -> pd.DataFrame:
        """One row per instruction: ``report``, ``launch``, ``pc``, ``sass``, ``opcode``, ``file``,
        ``line``, ``samples``, ``executed``, and warp samples by stall reason."""
        return self._details("source")

    @property
    def rules(self) -> pd.DataFrame:
        """Findings of Nsight Compute's rules: ``report``, ``launch``, ``section``, ``rule``,
        ``title``, ``message``, ``kind``, ``speedup_pct``, ``speedup_kind``."""
        return self._details("rules")

    @property
    def errors(self) -> list[Unread]:
        """Unreadable reports and launches that could not be judged, as (report, error)."""
        from ncubble.api.frames import by_report

        return [*self.unread, *(error for judged, _ in by_report(self) for error in judged.errors)]

    def wide(self, metrics: str | Iterable[str]) -> pd.DataFrame:
        """One column per counter of ``metrics``; NaN if it was not collected. Index as in
        ``launches``. Warns of a name that no launch has and that resembles one that is there."""
        import pandas as pd

        names = as_names(metrics)
        rows = [[launch.value(name) for name in names] for launch in self]
        frame = pd.DataFrame(rows, columns=names, index=range(len(self)), dtype=float)
        for name in names if rows else ():
            if frame[name].isna().all() and (near := self._near(name)):
                warnings.warn(f"no launch has the metric {name!r}; did you mean {near}?", stacklevel=2)
        return frame

    def _near(self, metric: str) -> str:
        """The collected metric nearest to ``metric``, which is none; empty if none is near, or it
        was collected without a value."""
        known = set(self.metrics["metric"])
        near = [] if metric in known else difflib.get_close_matches(metric, known, n=1, cutoff=0.8)
        return near[0] if near else ""

    def plot(self, theme: str = "light") -> Figure:
        """Figure with the account of each launch as a bar, or the waterfall of a single launch.
        ``theme`` is ``light`` or ``dark``. Raises UsageError for more than 60 launches, or if none
        has an account."""
        from ncubble.api.figures import MOST_ROWS, accounts_figure

        if len(self) == 1:
            return self[0].plot(theme)
        known = [
            (f"{number} {short_name(launch.label, LONGEST)}", launch.verdict_or_none)
            for number, launch in enumerate(self)
        ]
        rows = [(name, verdict.account) for name, verdict in known if verdict and verdict.account]
        if not rows:
            raise UsageError("no launch has an account", "load reports with the default metric sets")
        if len(rows) > MOST_ROWS:
            raise UsageError(
                f"{len(rows)} launches are more than a figure holds", f"choose up to {MOST_ROWS}: r[:60].plot()"
            )
        left = f", {len(self) - len(rows)} without an account left out" if len(rows) < len(self) else ""
        return accounts_figure(rows, f"Accounts of {len(rows)} launches{left}", theme)

    def to_json(self) -> dict[str, Any]:
        """The object of ``ncubble report --json``, without traces (docs/reference/verdicts.md)."""
        known = [launch for launch in self if launch.verdict_or_none is not None]
        verdicts = [launch.judged.verdicts[launch.number] for launch in known]
        ablations = [launch.judged.ablations.get(launch.number) for launch in known]
        return ReportResult(verdicts, self.errors, ablations=ablations).to_json()

    def _details(self, name: str) -> pd.DataFrame:
        from ncubble.api.frames import detail_frame

        return self._frame(lambda members: detail_frame(members, name))

    def _frame(self, made: Any) -> pd.DataFrame:
        if not self.members:
            raise UsageError("no launch is chosen", "the selection is empty: choose another")
        frame: pd.DataFrame = made(self.members)
        return frame

    @cached_property
    def _headline(self) -> str:
        count = len({id(launch.judged) for launch in self})
        bad = f", {len(self.unread)} not read (see .errors)" if self.unread else ""
        return f"{_counted(len(self), 'launch', 'launches')} of {_counted(count, 'report', 'reports')}{bad}"

    def _cells(self, number: int, launch: ReportLaunch) -> list[str]:
        verdict = launch.verdict_or_none
        title = launch.label if launch.label.split(" ")[0] == launch.kernel else f"{launch.label} {launch.kernel}"
        if verdict is None:
            return [str(number), title, "", "", "cannot be judged"]
        bubbles = bubble_pct(verdict.account)
        busy = "" if bubbles is None else fixed(100.0 - bubbles)
        return [str(number), title, duration(verdict.duration_ns), busy, part_label(verdict.cause)]

    def __repr__(self) -> str:
        rows = [self._cells(number, launch) for number, launch in enumerate(self.members[:SHOWN])]
        more = [f"… and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        head = ["#", "launch", "time", "busy %", "cause"]
        return "\n".join([self._headline, *([columns(head, rows, (0, 2, 3), 1)] if rows else []), *more])

    def _repr_html_(self) -> str:
        rows = []
        for number, launch in enumerate(self.members[:SHOWN_HTML]):
            verdict = launch.verdict_or_none
            bar = account_bar(verdict.account) if verdict and verdict.account else ""
            index, title, took, busy, cause = self._cells(number, launch)
            named = f'<span title="{safe(title)}">{safe(short_name(title, LONGEST))}</span>'
            rows.append([index, named, safe(took), safe(busy), bar, safe(cause)])
        more = f"<p>… and {len(self) - SHOWN_HTML} more</p>" if len(self) > SHOWN_HTML else ""
        head = ["#", "launch", "time", "busy %", "account", "cause"]
        return f"<p>{safe(self._headline)}</p>{table(head, rows, (0, 2, 3))}{more}"


def as_names(given: str | Iterable[str]) -> list[str]:
    """The names of an argument that takes several; a string is a single name."""
    return [given] if isinstance(given, str) else list(given)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
