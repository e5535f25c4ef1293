"""The launches of reports: loaded by path, judged once, as frames and one by one.

``load`` (for scripts) refuses what cannot be read; ``read`` (for the command line and agents)
collects it as errors.
"""

from __future__ import annotations

import difflib
import glob
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, overload

from ncubble.analysis.account.parts import display_order
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.results import ReportResult, Unread
from ncubble.analysis.report.report import Report, ReportFailure, open_reports
from ncubble.api.display import account_bar, columns, safe, table
from ncubble.api.launch import JudgedReport, ReportLaunch
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import without_report
from ncubble.records import JsonObject
from ncubble.text.values import duration, expression, fixed, short_name, some

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

ReportPath = str | os.PathLike[str]
"""Path of a ``.ncu-rep`` or ``.ncu-repz`` file, of a run directory, or of a folder of them."""
Progress = Callable[[int, int], None]
"""Is called with the number of reports that are read, and of all."""
REMEDY = "pass the path of a report or run, e.g. 'x.ncu-rep'; the path of a launch is launch.report"
SHOWN, SHOWN_HTML = 12, 50
"""Maximum launches listed in a terminal, and in a notebook."""
LONGEST = 56
"""Maximum length of a launch name in a notebook table, and in a figure of many."""
OF_VERDICT = ("unit", "tensor_elapsed_pct", "dram_pct", "cause", "change", "cause_pct", "integrity")
"""Columns of ``launches`` that are members of a verdict."""
NAMED, UNREAD = 5, 3
"""Maximum kernels, and unreadable reports, listed in an error."""


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
    def __getitem__(self, chosen: object) -> ReportLaunch | ReportSet:
        """A launch by number, or a subset. Raises UsageError for missing numbers (IndexError for a
        single one), or if no kernel matches."""
        if isinstance(chosen, str):
            return self._part(self._matching(chosen))
        if isinstance(chosen, slice):
            return self._part(self.members[chosen])
        if not isinstance(chosen, SupportsIndex):
            return self._part(self.members[number] for number in self._numbers(chosen))
        try:
            return self.members[chosen]
        except IndexError:
            there = f"launches are 0 to {len(self) - 1}" if self.members else "no launch is chosen"
            raise IndexError(f"no launch {chosen}: {there}") from None

    def _part(self, members: Iterable[ReportLaunch]) -> ReportSet:
        return ReportSet(tuple(members), self.unread)

    def _matching(self, pattern: str) -> list[ReportLaunch]:
        wanted = expression(pattern, repr(pattern))
        found = [launch for launch in self if wanted.search(launch.kernel) or wanted.search(launch.label)]
        if not found:
            there = some(sorted(launch.kernel for launch in self), NAMED)
            raise UsageError(
                f"no kernel or label matches {pattern!r}", f"available: {there}" if there else "load a report"
            )
        return found

    def _numbers(self, chosen: object) -> list[int]:
        """Launch numbers of a list, or of a boolean mask with one value per launch. A mask with an
        index (a Series) is aligned by that index."""
        import numpy as np
        import pandas as pd

        if isinstance(chosen, pd.Series) and chosen.dtype == bool:
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

    def filter(self, kernel: str = "", /, **parameters: object) -> ReportSet:
        """Launches whose kernel or label matches (a regular expression, searched) and whose
        parameters have these values: ``r.filter("gemm", stages=3)``. Raises UsageError where no
        kernel matches, or no launch has such a parameter."""
        chosen = self[kernel] if kernel else self
        known = {name for launch in chosen for name in launch.parameters}
        for name in parameters.keys() - known:
            raise UsageError(f"no launch has a parameter {name!r}", f"available: {', '.join(sorted(known)) or 'none'}")
        return self._part(launch for launch in chosen if parameters.items() <= launch.parameters.items())

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch; the index is the number for ``r[...]``.

        ``report``, ``launch`` (number in its report), ``label``, ``kernel``, ``demangled``,
        ``mangled``, ``grid``, ``block``, ``registers``, ``smem_static_B``, ``smem_dynamic_B``,
        ``device``, ``compute_capability``, ``ncu_version``, ``nvtx``, ``duration_ns``, ``cycles``,
        ``sm_clock_hz``, ``without_value``; and of the verdict: ``unit``, ``tensor_elapsed_pct``,
        ``dram_pct``, ``cause``, ``change``, ``cause_pct``, ``integrity``, ``bubble_pct`` and
        ``gain_pct`` (of the first change). ``attrs["units"]`` has the units.
        """
        return self._frame(_launch_frame)

    @property
    def accounts(self) -> pd.DataFrame:
        """One row per launch, a column per part of the account, in percent of elapsed SM cycles:
        rows sum to 100, or are NaN if a report lacks the counters. Index as in ``launches``."""
        return self._frame(_account_frame)

    @property
    def parameters(self) -> pd.DataFrame:
        """One row per launch, a column per kernel parameter and dimension of its problem, as the
        run declares them. Index as in ``launches``: ``r.launches.join(r.parameters)``."""
        import pandas as pd

        return self._frame(lambda members: pd.DataFrame([launch.parameters for launch in members]))

    @property
    def tidy(self) -> pd.DataFrame:
        """One row per launch and part of its account: ``number`` for ``r[...]``, ``report``,
        ``launch``, ``label``, ``kernel``, ``device``, ``duration_ns``, a column per parameter,
        ``part``, and ``pct`` of elapsed SM cycles."""
        known = self.launches[["report", "launch", "label", "kernel", "device", "duration_ns"]]
        clashing = {name: f"{name}_parameter" for name in known.columns}
        known = known.join(self.parameters.rename(columns=clashing)).rename_axis("number").reset_index()
        parts = self.accounts.rename_axis("number").reset_index().melt("number", var_name="part", value_name="pct")
        return known.merge(parts.dropna(), on="number")

    @property
    def metrics(self) -> pd.DataFrame:
        """Every scalar counter: ``report``, ``launch``, ``metric``, ``value``, ``unit``."""
        return self._details("metrics")

    @property
    def timeline(self) -> pd.DataFrame:
        """Counters over time (PM sampling): ``report``, ``launch``, ``t_ns``, ``metric``,
        ``value``, ``unit``."""
        return self._details("timeline")

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
        judged = {id(launch.judged): launch.judged for launch in self}
        return [*self.unread, *(error for report in judged.values() for error in report.errors)]

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
        from ncubble.api.display import MOST_ROWS, accounts_figure

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

    def to_json(self) -> JsonObject:
        """The object of ``ncubble report --json``, without traces (docs/reference/verdicts.md)."""
        known = self.judgeable
        return ReportResult(
            [one.estimate for one in known], self.errors, ablations=[one.ablation for one in known]
        ).to_json()

    @property
    def judgeable(self) -> list[ReportLaunch]:
        """Its launches, without those whose values contradict each other."""
        return [launch for launch in self if launch.number in launch.judged.verdicts]

    def _details(self, name: str) -> pd.DataFrame:
        return self._frame(lambda members: _detail_frame(members, name))

    def _frame(self, made: Callable[[Sequence[ReportLaunch]], pd.DataFrame]) -> pd.DataFrame:
        if not self.members:
            raise UsageError("no launch is chosen", "the selection is empty: choose another")
        return made(self.members)

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
        bubbles = words.bubble_pct(verdict.account)
        busy = "" if bubbles is None else fixed(100.0 - bubbles)
        return [str(number), title, duration(verdict.duration_ns), busy, words.cause_words(verdict)]

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


def by_report(launches: Iterable[ReportLaunch]) -> list[tuple[JudgedReport, list[int]]]:
    """The reports of ``launches`` in their order, each with the numbers of its launches."""
    found: dict[int, tuple[JudgedReport, list[int]]] = {}
    for launch in launches:
        found.setdefault(id(launch.judged), (launch.judged, []))[1].append(launch.number)
    return list(found.values())


def _detail_frame(launches: Sequence[ReportLaunch], name: str) -> pd.DataFrame:
    """Rows of ``launches`` in the frame ``name`` (``metrics``, ``timeline``, ``source``, ``rules``)
    of their reports, with the report's path as first column."""
    import numpy as np
    import pandas as pd

    from ncubble.api.frames import joined, reasons_of, with_units

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
    whole = with_units(joined(parts), name)
    reasons = reasons_of(whole, name)  # a report omits reasons without stalled warps
    return whole.fillna(dict.fromkeys(reasons, 0.0)) if reasons else whole


def _launch_frame(launches: Sequence[ReportLaunch]) -> pd.DataFrame:
    """One row per launch, in their order: identity, geometry, time, and the verdict."""
    import pandas as pd

    from ncubble.api.frames import joined, with_units

    parts, order = [], []
    for judged, numbers in by_report(launches):
        part = judged.report.launches.set_index("launch").loc[numbers].reset_index()
        part.insert(0, "report", str(judged.report.path))
        parts.append(part)
        order += [(id(judged), number) for number in numbers]
    place = {key: row for row, key in enumerate(order)}
    rows = [place[id(launch.judged), launch.number] for launch in launches]
    frame = joined(parts).iloc[rows].reset_index(drop=True)
    frame.insert(2, "label", [launch.label for launch in launches])
    verdicts = pd.DataFrame([_verdict_cells(launch) for launch in launches])
    return with_units(pd.concat([frame, verdicts], axis=1), "launches")


def _verdict_cells(launch: ReportLaunch) -> JsonObject:
    """All cells are missing for a launch that cannot be judged."""
    verdict = launch.verdict_or_none
    if verdict is None:
        return dict.fromkeys([*OF_VERDICT, "bubble_pct", "gain_pct"])
    return {
        **{name: getattr(verdict, name) for name in OF_VERDICT},
        "bubble_pct": words.bubble_pct(verdict.account),
        "gain_pct": verdict.first.gain_pct if verdict.first else None,
    }


def _account_frame(launches: Sequence[ReportLaunch]) -> pd.DataFrame:
    """One row per launch, one column per account part that any launch has, in percent of elapsed SM
    cycles; all NaN for launches without account."""
    import pandas as pd

    verdicts = [launch.verdict_or_none for launch in launches]
    accounts: list[Mapping[str, float]] = [(verdict.account if verdict else None) or {} for verdict in verdicts]
    names = display_order(name for account in accounts for name in account)
    rows = [[account.get(name, 0.0) if account else float("nan") for name in names] for account in accounts]
    frame = pd.DataFrame(rows, columns=names, index=range(len(launches)), dtype=float)
    frame.attrs["units"] = dict.fromkeys(names, "% of elapsed SM cycles")
    return frame


def load(*paths: ReportPath | Iterable[ReportPath], details: bool = True, strict: bool = True) -> ReportSet:
    """Load the launches of all reports at ``paths``. Each path is a ``.ncu-rep`` or ``.ncu-repz``
    file, a run directory, a folder that is searched for both, or a pattern of such paths
    (``runs/*.ncu-rep``, ``**`` for folders at any depth); pass several as arguments or as a list.
    Reports that were read before come from the cache. ``details=False`` reads only scalar
    counters at first; timeline, source and rules are read on first use. Raises ReportError if a
    report is damaged, UsageError if a path does not exist or contains no report. With
    ``strict=False`` readable reports are loaded anyway, and ``errors`` of the result lists the
    failures.
    """
    wanted = [one for path in as_paths(paths) for one in _expanded(path)]
    if not wanted:
        raise UsageError("no path", REMEDY)
    launches, failures = _launches(*open_reports(wanted, details=details))
    if failures and (strict or not launches):
        raise _refusal(failures)
    if not launches:
        raise without_report(wanted[:UNREAD])
    return ReportSet(tuple(launches), _unread(failures))


def _expanded(path: Path) -> list[Path]:
    """What a pattern matches, in order; a path that exists, or is no pattern, as it is. Raises
    UsageError where nothing matches."""
    if path.exists() or not any(sign in str(path) for sign in "*?["):
        return [path]
    if found := sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207 - Path.glob takes no absolute patterns
        return [Path(one) for one in found]
    raise UsageError(f"{path}: nothing matches", REMEDY)


def read(paths: Sequence[Path], progress: Progress | None = None, then: Sequence[str] = ()) -> ReportSet:
    """``load`` for whoever prints verdicts next: launches are judged, and what cannot be read is
    among ``errors``. ``then``: modules to import meanwhile."""
    launches, failures = _launches(*open_reports(paths, progress, then=then), judged=True)
    return ReportSet(tuple(launches), _unread(failures))


def no_report(paths: Sequence[Path]) -> Unread:
    """Says that there is no report at or below ``paths``."""
    return Unread(", ".join(map(str, paths)), str(without_report(paths)))


def _launches(
    reports: Iterable[Report], failures: Iterable[ReportFailure], judged: bool = False
) -> tuple[list[ReportLaunch], list[ReportFailure]]:
    """Launches of reports; a report whose launches cannot be listed joins the failures. Remembered
    verdicts, if they are wanted anyway, list them without the report's tables."""
    launches: list[ReportLaunch] = []
    failed = list(failures)
    for report in map(JudgedReport, reports):
        try:
            numbers = report.numbers if not judged or report.errors else tuple(report.verdicts)
            launches += [ReportLaunch(report, number) for number in numbers]
        except ReportError as error:
            failed.append(ReportFailure(report.report.path, error))
    return launches, failed


def _unread(failures: Iterable[ReportFailure]) -> tuple[Unread, ...]:
    return tuple(Unread(str(failure.path), str(failure.error)) for failure in failures)


def _refusal(failures: list[ReportFailure]) -> Exception:
    first = failures[0].error
    if len(failures) == 1:
        return first
    named = "\n".join(f"  {failure.error.message}" for failure in failures[:UNREAD])
    more = f"\n  and {len(failures) - UNREAD} more" if len(failures) > UNREAD else ""
    remedy = "load(..., strict=False) loads the others, and lists these in .errors"
    return ReportError(f"{len(failures)} reports could not be read:\n{named}{more}", remedy)


def as_paths(given: Iterable[ReportPath | Iterable[ReportPath]]) -> list[Path]:
    """The paths of a call, given as arguments or lists; ``~`` is the home directory. Raises
    UsageError for anything that is not a path."""
    found: list[Path] = []
    for item in given:
        if isinstance(item, str | os.PathLike):
            text = os.fspath(item)
            if not isinstance(text, str) or not text or "\0" in text:
                raise UsageError(f"{item!r} is not a path", REMEDY)
            found.append(Path(os.path.expanduser(text)))  # noqa: PTH111 - Path.expanduser raises if there is no home
        elif isinstance(item, Iterable) and not isinstance(item, bytes):
            found += as_paths(item)
        else:
            raise UsageError(f"{item!r} is not a path", REMEDY)
    return found


def as_path(given: ReportPath | None) -> Path | None:
    """One path of a call; None where it is not given."""
    return as_paths([given])[0] if given is not None else None
