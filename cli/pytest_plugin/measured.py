"""Measured launches of a test, a callable or report files, by kernel."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pytest

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.repeats import REMEDY, Repeats, SuspiciousLaunch, collect, listed
from ncubble.analysis.report.report import Report, open_reports
from ncubble.cli.pytest_plugin.settings import ALLOW_SUSPICIOUS
from ncubble.errors import MeasurementError, UsageError
from ncubble.text.values import current_name


class _Means(dict[str, float]):
    """Means by metric, also accessible by older names."""

    def __missing__(self, name: str) -> float:
        if current_name(name) == name:
            raise KeyError(name)
        return self[current_name(name)]


@dataclass(frozen=True)
class MeasuredKernel:
    """One kernel on one GPU model; ``values`` holds what each launch measured by metric of the gate, in their units."""

    label: str
    device: str
    launches: int
    values: Mapping[str, tuple[float, ...]]

    @property
    def metrics(self) -> dict[str, float]:
        """Means by metric; a metric that was not collected is absent."""
        return _Means({name: mean_sd(values)[0] for name, values in self.values.items()})


class Parts(dict[str, float]):
    """A bubble account: percent of elapsed SM cycles by part. A part missing from the report raises
    MeasurementError, an unknown name UsageError; ``get`` and ``in`` never raise."""

    def __init__(self, parts: Mapping[str, float], merged: Mapping[str, Sequence[str]]) -> None:
        super().__init__(parts)
        self._merged = merged

    def __missing__(self, name: str) -> float:
        __tracebackhide__ = True
        if name not in PARTS:
            near = difflib.get_close_matches(str(name), PARTS, n=3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise UsageError(f"the account has no part {name!r}{hint}", f"parts: {', '.join(PARTS)}")
        coarse = next((part for part, finer in self._merged.items() if name in finer), "")
        if coarse:
            why = f"these launches have it only within {coarse}, which cannot be split"
        else:
            why = "no account of these launches has it"
        raise MeasurementError(f"{name}: {why}", "profile with the default sets (omit sets=)")


class Measured:
    """Measured launches. Attributes of a single kernel raise UsageError if there are several:
    choose one with ``kernel=``."""

    def __init__(
        self, reports: Sequence[Report], item: pytest.Item, kernel: str = "", errors: Iterable[Any] = ()
    ) -> None:
        self.reports = tuple(reports)
        failures = tuple(errors)
        self.errors = tuple((str(failure.path), failure.error.message) for failure in failures)
        self.remedies = tuple(dict.fromkeys(failure.error.remedy for failure in failures if failure.error.remedy))
        self.groups, notes = collect(self.reports, kernel=kernel)
        self.notes = tuple(notes)
        self.wanted = kernel
        self.profiled = False
        self.item = item

    @classmethod
    def read(cls, paths: Iterable[Path], item: pytest.Item, kernel: str = "") -> Self:
        """The launches in run directories, report files, or folders of them. A broken report is kept in ``errors``."""
        reports, failures = open_reports(paths)  # all of a report: whether its values contradict each other
        return cls(reports, item, kernel, failures)

    @cached_property
    def kernels(self) -> tuple[MeasuredKernel, ...]:
        """All measured kernels, in order of appearance."""
        return tuple(
            MeasuredKernel(group.key.label, group.device, group.launches, _values(group)) for group in self.groups
        )

    def refuse_suspicious(self) -> None:
        """Raise MeasurementError for launches whose values contradict each other, unless the session accepts them."""
        if self.suspicious and not self.allows_suspicious:
            texts = "\n  ".join(listed(self.suspicious))
            count = f"{len(self.suspicious)} of {sum(group.launches for group in self.groups)}"
            raise MeasurementError(
                f"{count} launches are suspicious:\n  {texts}", f"{REMEDY}, or accept them with {ALLOW_SUSPICIOUS}"
            )

    @cached_property
    def suspicious(self) -> tuple[SuspiciousLaunch, ...]:
        """Launches whose values contradict each other."""
        return tuple(launch for group in self.groups for launch in group.suspicious)

    @property
    def allows_suspicious(self) -> bool:
        """Whether the session accepts launches whose values contradict each other."""
        return bool(self.item.config.getoption(ALLOW_SUSPICIOUS))

    @property
    def others(self) -> tuple[str, ...]:
        """Labels of all kernels in the reports, also of those that ``kernel`` left out."""
        return tuple(dict.fromkeys(group.key.label for group in collect(self.reports)[0]))

    @property
    def kernel(self) -> MeasuredKernel:
        """The only kernel. Raises MeasurementError if there is none, and UsageError if there are
        several."""
        return self.kernels[self._only()]

    def _only(self) -> int:
        if not self.kernels:
            raise MeasurementError("no launch was measured", "check kernel=, and check that the kernel is launched")
        if len(self.kernels) > 1:
            names = "; ".join(kernel.label for kernel in self.kernels)
            raise UsageError(f"{len(self.kernels)} kernels were measured: {names}", "choose one with kernel=REGEX")
        return 0

    @property
    def metrics(self) -> dict[str, float]:
        """Means of the only kernel by metric of the gate (``docs/gate.md``); metrics that were not
        collected are absent."""
        return self.kernel.metrics

    @property
    def tensor_elapsed_pct(self) -> float:
        """Percent of elapsed cycles in which the tensor pipe was active; raises MeasurementError if not collected."""
        means = self.metrics
        if "tensor_elapsed_pct" not in means:
            raise MeasurementError("tensor_elapsed_pct was not collected", "profile with the set tensor")
        return means["tensor_elapsed_pct"]

    @property
    def tensor_active_pct(self) -> float:
        """The older name of ``tensor_elapsed_pct``, with a note."""
        return float(getattr(self, current_name("tensor_active_pct")))

    @cached_property
    def account(self) -> Parts:
        """The bubble account of the only kernel: percent of elapsed SM cycles by part, the mean over its launches
        (of many, ten).

        Raises MeasurementError if a report lacks the data, or if launches have different parts.
        """
        group = self.groups[self._only()]
        account = group.account
        if account is None or any(None in values for values in account.parts.values()):
            raise MeasurementError(
                f"{group.key.label}: the accounts of its launches have different parts",
                "profile with the default sets (omit sets=)",
            )
        return Parts(account.means, account.merged)


def _values(group: Repeats) -> dict[str, tuple[float, ...]]:
    """What can be real of the values of a group, by metric, each of its first counter that has any."""
    by_metric = {}
    for metric in METRICS:
        values = next((measured for name in metric.counters if (measured := group.measured(metric, name))), [])
        if values:
            by_metric[metric.name] = tuple(values)
    return by_metric
