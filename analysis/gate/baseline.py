"""Baselines: what one kernel measured on one GPU model, recorded from repeats. One readable JSON
file each.

Layout of a store: ``<root>/<gpu>/<kernel and parameters>-<hash of the key>.json``; see
``baseline_file``. Pure functions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ncubble.analysis.gate.accounts import Account
from ncubble.analysis.gate.metrics import BY_NAME, METRICS, MIN_TENSOR_PCT, Better
from ncubble.analysis.gate.noise import Sample, mean_sd
from ncubble.analysis.gate.repeats import REMEDY, Repeats, listed
from ncubble.analysis.gate.rule_verdicts import TOLERATED
from ncubble.analysis.report.launch_key import KernelKey, slug
from ncubble.errors import MeasurementError, UsageError
from ncubble.records import Number

SCHEMA = 3
MIN_REPEATS = 5
FEWEST_REPEATS = 2


@dataclass(frozen=True)
class BaselineMetric:
    """Values of one counter over the launches, None where one lacks it, with their mean and sample
    deviation (None of one value). ``better`` is ``higher``, ``lower`` or ``neutral``."""

    counter: str
    unit: str
    better: Better
    gated: bool
    mean: Number | None
    sd: Number | None
    values: tuple[Number | None, ...]

    @property
    def measured(self) -> tuple[float, ...]:
        """The values of the launches that have one."""
        return tuple(value for value in self.values if value is not None)


@dataclass(frozen=True)
class BaselineDevice:
    """The GPU model, and the driver of the machine."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    compute_capability: str
    driver: str = ""


@dataclass(frozen=True)
class Launches:
    """Of every launch of a baseline: ``run`` (index into its ``reports``) and SM clock, None where
    unknown."""

    run: tuple[int, ...] = ()
    sm_clock_hz: tuple[Number | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """One baseline, as its file has it.

    ``sm_clock_hz``: min, mean and max, or empty. ``sass_sha256``: hash of the machine code, empty
    where it was not collected. ``path``: where it was read from, if it was.
    """

    schema: int
    key: KernelKey
    device: BaselineDevice
    ncu_version: str
    recorded: str
    git: dict[str, Any] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    geometry: dict[str, Any] = field(default_factory=dict)
    sm_clock_hz: dict[str, Number] = field(default_factory=dict)
    sass_sha256: str = ""
    repeats: Annotated[int, msgspec.Meta(ge=FEWEST_REPEATS)]
    metrics: dict[str, BaselineMetric]
    launches: Launches
    reports: tuple[dict[str, Any], ...] = ()
    account: Account | None = None
    path: str = ""

    @property
    def place(self) -> Path:
        """Where the baseline lives below the root of a store."""
        return Path(slug(self.device.name)) / f"{self.key.slug}.json"

    @property
    def gpus(self) -> set[str]:
        """UUIDs of the GPUs that it was recorded on, as far as they are known."""
        return {report.get("gpu", "") for report in self.reports} - {""}

    def sample(self, name: str) -> Sample:
        """The values of metric ``name``, each with its run, GPU and clock as far as they are
        known."""
        metric = self.metrics[name]
        launches = [launch for launch, value in enumerate(metric.values) if value is not None]
        clocks = [self.launches.sm_clock_hz[launch] for launch in launches]
        reports = [self.reports[self.launches.run[launch]] for launch in launches]
        return Sample(
            metric.measured,
            tuple(math.nan if clock is None else clock for clock in clocks),
            tuple(report.get("key", "") for report in reports),
            tuple(report.get("gpu", "") for report in reports),
        )

    def holds(self, group: Repeats, launch: int) -> bool:
        """Whether the baseline was recorded from a launch of ``group``, however its report is
        stored: a gated value, the duration and the clock are equal to the last bit."""
        values = {metric.counter: group.values.get(metric.counter, ()) for metric in self.metrics.values()}
        now = {name: values[metric.counter][launch] for name, metric in self.metrics.items() if values[metric.counter]}
        return any(self._is(number, now, group.clock_of[launch]) for number in range(self.repeats))

    def _is(self, number: int, now: Mapping[str, float], clock_hz: float) -> bool:
        """Whether the launch of this number has the values ``now``."""
        then = {name: metric.values[number] for name, metric in self.metrics.items()}
        beside = [(then.get("duration_ns"), now.get("duration_ns", math.nan))]
        beside.append((self.launches.sm_clock_hz[number], clock_hz))
        if any(before is not None and value == value and before != value for before, value in beside):
            return False
        gated = (name for name, metric in self.metrics.items() if metric.gated and then.get(name) is not None)
        return any(then[name] == now.get(name) for name in gated)

    def to_json(self) -> dict[str, Any]:
        """The file's object, in an order that reviews well; what is no number is null."""
        members = {"schema": SCHEMA, "label": self.key.label, **vars(self)}
        members["account"] = self.account.to_json() if self.account else None
        del members["path"]
        if self.account is None:
            del members["account"]
        raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(members))
        return raw


def record(
    groups: Iterable[Repeats], recorded: str, min_repeats: int = MIN_REPEATS, *, allow_suspicious: bool = False
) -> list[Baseline]:
    """A baseline for every group. Raises MeasurementError, before anything is written, if one
    cannot be a baseline.

    ``recorded`` is the time, ISO 8601 UTC. ``min_repeats`` may go down to 2: the gate is then weak,
    and says so. ``allow_suspicious``: launches whose values contradict each other are no reason to
    refuse.
    """
    if min_repeats < FEWEST_REPEATS:
        raise UsageError(
            f"min_repeats {min_repeats}: a baseline needs at least {FEWEST_REPEATS}", f"{MIN_REPEATS} are recommended"
        )
    measured = list(groups)
    if not measured:
        raise MeasurementError(
            "nothing measured: there are no launches to record", "profile the kernel first, or widen --kernel"
        )
    suspicious = [launch for group in measured for launch in group.suspicious]
    if suspicious and not allow_suspicious:
        texts = "\n  ".join(listed(suspicious))
        raise MeasurementError(
            f"nothing recorded, {len(suspicious)} launches are suspicious:\n  {texts}",
            f"{REMEDY}, or record them anyway with --setting allow_suspicious=true",
        )
    copies = [text for group in measured for text in group.copies]
    if copies:
        texts = "\n  ".join(listed(copies, "copies"))
        raise MeasurementError(
            f"nothing recorded, {len(copies)} launches are copies of others, not repeats:\n  {texts}",
            "name each report once, and measure every repeat",
        )
    short = [f"{group.key.label} ({group.launches})" for group in measured if group.launches < min_repeats]
    if short:
        raise MeasurementError(
            f"too few launches, {min_repeats} needed: {'; '.join(short[:8])}{' …' if short[8:] else ''}",
            f"profile each with `ncubble profile NAME --count {min_repeats}`, choose kernels with --kernel REGEX, or "
            f"take fewer with --setting min_repeats=N (at least {FEWEST_REPEATS})",
        )
    return [_record_one(group, recorded, min_repeats) for group in measured]


def _record_one(group: Repeats, recorded: str, min_repeats: int) -> Baseline:
    label = group.key.label
    if not group.device:
        raise MeasurementError(f"{label}: the report does not name its GPU", "profile with the default metric set")
    # The cubin is another one wherever its source lies: the machine code counts, by its hash in the
    # manifests or, where they have none, by the SASS in the reports.
    builds = {str(build.get("code_sha256") or build.get("cubin_sha256") or build) for build in group.builds}
    of_builds = 1 if group.code else len(builds)
    for what, number in (("builds", of_builds), ("versions of ncu", len(group.ncu_versions))):
        if number > 1:
            raise MeasurementError(
                f"{label}: its launches come from {number} {what}", "record from runs of a single one"
            )
    clocks = group.clocks_hz
    index = {report["key"]: number for number, report in enumerate(group.reports)}
    run_of = tuple(index[key] for key in group.run_of)
    return Baseline(
        schema=SCHEMA,
        key=group.key,
        device=BaselineDevice(group.device, group.compute_capability, ", ".join(sorted(group.drivers))),
        ncu_version=next(iter(group.ncu_versions), ""),
        recorded=recorded,
        repeats=group.launches,
        metrics=_metrics(group, min_repeats),
        sm_clock_hz={"min": min(clocks), "mean": statistics.fmean(clocks), "max": max(clocks)} if clocks else {},
        build=group.builds[0] if group.builds else {},
        geometry=group.geometry[0] if len(group.geometry) == 1 else {},
        git=group.commits[0] if len(group.commits) == 1 else {},
        reports=tuple(group.reports),
        launches=Launches(run_of, tuple(hz if hz == hz else None for hz in group.clock_of)),
        account=group.account,
        sass_sha256=group.code,
    )


def _metrics(group: Repeats, min_repeats: int) -> dict[str, BaselineMetric]:
    metrics = {}
    for metric in METRICS:
        counter = group.counter(metric)
        values = group.measured(metric, counter)
        if not values:
            continue
        if metric.gated and len(values) < min_repeats:
            raise MeasurementError(
                f"{group.key.label}: {counter} was measured in {len(values)} of {group.launches} launches",
                "profile again",
            )
        mean, sd = mean_sd(values)
        gated = metric.gated and (metric.name != "tensor_elapsed_pct" or mean >= MIN_TENSOR_PCT)
        per_launch = tuple(value if metric.plausible(value) else None for value in group.values[counter])
        deviation = sd if len(values) > 1 else None
        metrics[metric.name] = BaselineMetric(counter, metric.unit, metric.better, gated, mean, deviation, per_launch)
    if not any(metric.gated for metric in metrics.values()):
        wanted = ", ".join(metric.counters[0] for metric in METRICS if metric.gated)
        raise MeasurementError(
            f"{group.key.label}: nothing was measured that can be gated ({wanted})", "profile with `--set pipeline`"
        )
    return metrics


def weaknesses(baseline: Baseline) -> list[str]:
    """What limits this baseline, in sentences: few repeats, more noise than expected, no tensor
    counter."""
    weak = []
    if baseline.repeats < MIN_REPEATS:
        weak.append(f"{baseline.repeats} repeats make a weak gate; {MIN_REPEATS} or more are recommended")
    if "tensor_elapsed_pct" not in baseline.metrics:
        weak.append("tensor utilization was not collected: only cycles are gated")
    elif not baseline.metrics["tensor_elapsed_pct"].gated:
        mean = mean_sd(baseline.metrics["tensor_elapsed_pct"].measured)[0]
        weak.append(f"tensor utilization of {mean:.1f} % is below {MIN_TENSOR_PCT:g} %: only cycles are gated")
    for name, metric in baseline.metrics.items():
        if not metric.gated or name not in BY_NAME:
            continue
        known, sample = BY_NAME[name], baseline.sample(name)
        itself = known.compare(sample, sample, known.limit_pct)
        if itself.detectable_pct > known.limit_pct * TOLERATED:
            mean, sd = mean_sd(metric.measured)
            weak.append(
                f"{name} scatters by {sd / mean * 100:.2f} % over {len(metric.measured)} repeats: only losses of "
                f"{itself.detectable_pct:.1f} % or more are reliably detected"
            )
    return weak
