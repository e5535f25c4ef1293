"""Measurements of a search, stored after each one: an interrupted search continues without
repeating any.

A search is deterministic given its results, so continuing means rerunning it with the stored
measurements.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.kernels.build import arch_for, case_for, check_arch, code_digest
from ncubble.kernels.run.bench import Timing, time_in_rounds, time_launches
from ncubble.kernels.run.device import DeviceFacts, Gpu
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.verify import Expected, Verification, draw_inputs, expected_rows, verify
from ncubble.kernels.spec.case import Case, check_cluster, make_case
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Value
from ncubble.records import WrongFieldError, typed
from ncubble.store import draft_of

Floats = NDArray[np.float64]
NOISE = 0.005
"""Noise of a timing, as a share of the time."""
LENGTHS = (0.25, 0.5, 1.0, 2.0)
"""Length scale over which times are correlated; an axis has length 1, and so has any pair of
words."""
ADDED = 0.8
"""Share of the variance from individual axes; the rest comes from all axes together."""
SPREAD = 0.4
"""Standard deviation of the logarithm of times, until there are enough to estimate it."""
ENOUGH = 4


@dataclass(frozen=True)
class Surrogate:
    """``points`` of a grid of ``sizes``; ``ordered`` axes are those of numbers."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    points: Sequence[tuple[int, ...]]

    def improvements(self, times: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
        """Expected improvement of the best time by each point not in ``times``, as a share of
        it."""
        known = list(times)
        rest = [point for point in self.points if point not in times]
        if not known or not rest:
            return dict.fromkeys(rest, 0.0)
        logs = np.log(np.array([times[point] for point in known]))
        mean, spread = float(logs.mean()), max(float(logs.std()), SPREAD if len(known) < ENOUGH else 0.02)
        scaled, distances = (logs - mean) / spread, self._distances(known + rest)
        length = max(LENGTHS, key=lambda size: _evidence(_kernel(distances, size)[: len(known), : len(known)], scaled))
        covariance = _kernel(distances, length)
        inner, cross = covariance[: len(known), : len(known)], covariance[len(known) :, : len(known)]
        factor = np.linalg.cholesky(_noisy(inner))
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, scaled))
        expected = cross @ weights
        explained = np.square(np.linalg.solve(factor, cross.T)).sum(axis=0)
        sigma = np.sqrt(np.maximum(1.0 - explained, 1e-9))
        gains = _expected_gain(float(scaled.min()) - expected, sigma) * spread
        return {point: float(gain) for point, gain in zip(rest, gains, strict=True)}

    def _distances(self, points: Sequence[tuple[int, ...]]) -> Floats:
        """(axes, points, points): between 0 and 1."""
        places = np.array(points, dtype=float).T
        apart = np.abs(places[:, :, None] - places[:, None, :])
        scale = np.array([max(size - 1, 1) for size in self.sizes], dtype=float)[:, None, None]
        words = ~np.array(self.ordered, dtype=bool)[:, None, None]
        return np.asarray(np.where(words, (apart > 0).astype(float), apart / scale))


def _kernel(distances: Floats, length: float) -> Floats:
    """Covariance: sum of individual axes and of all axes jointly."""
    near = np.exp(-0.5 * np.square(distances / length))
    return np.asarray(ADDED * near.mean(axis=0) + (1.0 - ADDED) * near.prod(axis=0))


def _noisy(covariance: Floats) -> Floats:
    return np.asarray(covariance + (NOISE**2 + 1e-8) * np.eye(len(covariance)))


def _evidence(covariance: Floats, values: Floats) -> float:
    """Logarithm of the marginal likelihood, up to a constant."""
    factor = np.linalg.cholesky(_noisy(covariance))
    return float(-0.5 * np.square(np.linalg.solve(factor, values)).sum() - np.log(np.diag(factor)).sum())


def _expected_gain(better: Floats, sigma: Floats) -> Floats:
    ratio = better / sigma
    below = 0.5 * (1.0 + np.array([math.erf(value / math.sqrt(2.0)) for value in ratio]))
    return np.asarray(better * below + sigma * np.exp(-0.5 * np.square(ratio)) / math.sqrt(2.0 * math.pi))


OK, WRONG, REFUSED, FAILED = "ok", "wrong", "refused", "failed"
"""Outcome of a configuration: timed; wrong result; not launched, because device or compiler rejects
it; ended by a fault, or hung."""


@dataclass(frozen=True)
class Trial:
    """One configuration: its full ``parameters``, outcome, times in microseconds, verification and
    build. ``why``: the reason if it is not ``OK``."""

    parameters: Mapping[str, Value]
    outcome: str
    why: str = ""
    p50_us: float | None = None
    p90_us: float | None = None
    std_us: float | None = None
    sm_mhz: int | None = None
    verification: Mapping[str, Any] | None = None
    build: Mapping[str, Any] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        """Its cost: 1, unless it was rejected before a launch."""
        return int(self.outcome != REFUSED)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


class Trials:
    """Times cases of one kernel and shape on ``gpu``, whose parameters compute the same. All use
    the same arrays and inputs drawn by ``seed``, and are compared with one reference."""

    def __init__(self, gpu: Gpu, seed: int) -> None:
        self._gpu, self._seed = gpu, seed
        self._inputs: dict[str, Any] = {}
        self._expected: Expected | None = None
        self._pointers: tuple[int, ...] | None = None

    def measure(self, case: Case, iterations: int) -> Trial:
        """Builds, verifies and times ``case``; never raises NcubbleError."""
        try:
            prepared = self._prepared(case)
        except UsageError as error:
            return Trial(case.parameters, REFUSED, error.message)
        except NcubbleError as error:  # it does not compile, or memory is insufficient
            return Trial(case.parameters, FAILED, error.message)
        try:
            return self._timed(prepared, iterations)
        except NcubbleError as error:
            return Trial(case.parameters, FAILED, error.message)
        finally:
            self._clear()

    def _timed(self, prepared: Prepared, iterations: int) -> Trial:
        case, checked = prepared.case, self._verified(prepared)
        build = {name: asdict(prepared.build)[name] for name in ("registers", "spill_B", "code_sha256")}
        if not checked.passed:
            prepared.upload(self._inputs)  # it may have written there
            return Trial(case.parameters, WRONG, checked.describe(), verification=checked.to_json(), build=build)
        timing = time_launches(self._gpu, prepared.run, iterations)
        return Trial(case.parameters, OK, **_times(timing), verification=checked.to_json(), build=build)

    def in_turns(self, cases: Sequence[Case], iterations: int) -> list[float]:
        """Median times of several cases in microseconds, timed in turns. Raises NcubbleError."""
        try:
            runs = [self._prepared(case).run for case in cases]
            return [rounds.timing.p50_us for rounds in time_in_rounds(self._gpu, runs, iterations)]
        finally:
            self._clear()

    def _prepared(self, case: Case) -> Prepared:
        prepared = prepare(case, self._gpu, pointers=self._pointers)
        if self._pointers is None:
            self._inputs, self._pointers = draw_inputs(case, self._seed), prepared.pointers
            prepared.upload(self._inputs)
        return prepared

    def _clear(self) -> None:
        """Frees all memory but the arrays."""
        if others := set(self._gpu.allocated) - set(self._pointers or ()):
            self._gpu.free(*others)

    def _verified(self, prepared: Prepared) -> Verification:
        prepared.poison()
        prepared.run()
        outputs, overrun = prepared.outputs()
        if self._expected is None:
            self._expected = expected_rows(prepared.case, self._inputs, self._seed)
        return verify(prepared.case, self._inputs, outputs, self._seed, overrun, self._expected)


def _times(timing: Timing) -> dict[str, Any]:
    return {
        "p50_us": timing.p50_us,
        "p90_us": timing.p90_us,
        "std_us": timing.std_us,
        "sm_mhz": timing.clocks.get("sm_mhz"),
    }


MOST = 50_000
"""Maximum combinations that are enumerated."""
Point = tuple[int, ...]
"""A configuration: for each axis the index of its value."""


@dataclass(frozen=True)
class Space:
    """``axes``: the searched parameters. ``cases``: the valid configurations in grid order.
    ``start``: where the search begins. ``left_out``: parameters that are not searched, with
    reasons."""

    axes: tuple[Parameter, ...]
    cases: Mapping[Point, Case]
    start: Point
    left_out: Mapping[str, str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each axis."""
        return tuple(len(axis.choices) for axis in self.axes)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether each axis is ordered: axes of numbers are."""
        return tuple(all(isinstance(value, int) for value in axis.choices) for axis in self.axes)

    def settings(self, point: Point) -> dict[str, Value]:
        """The searched parameters of a configuration."""
        return {axis.name: axis.choices[index] for axis, index in zip(self.axes, point, strict=True)}

    def moved(self, point: Point, name: str, value: Value) -> Point | None:
        """The configuration with one value changed; None if invalid, or not in the space."""
        for number, axis in enumerate(self.axes):
            if axis.name == name and value in axis.choices:
                other = (*point[:number], axis.choices.index(value), *point[number + 1 :])
                return other if other in self.cases else None
        return None


def space_of(
    spec: KernelSpec,
    shape: Mapping[str, int],
    fixed: Mapping[str, Value],
    begin: Mapping[str, Value],
    device: DeviceFacts,
) -> Space:
    """The space of ``spec`` on ``device``. ``fixed`` parameters are not searched; the search begins
    at ``begin``, with defaults for the rest.

    Raises UsageError if nothing is left to search, the start is invalid, or there are more
    combinations than ``MOST``.
    """
    if spec.language == "host":
        raise UsageError(
            f"{spec.name} is driven by the host", "tune the kernel that it launches; `ncubble kernels` lists all"
        )
    if both := sorted(set(fixed) & set(begin)):
        raise UsageError(f"{', '.join(both)}: both fixed and searched", "use either -p or --start")
    asked = make_case(spec, {**fixed, **begin}, shape)
    first = case_for(asked, arch_for(*device.compute_capability), device.sm_count)
    if first.unverified is not None:
        raise UsageError(f"{first.label}: {first.unverified}", "start at a configuration that can be verified")
    _check_device(first, device)
    left_out = {item.name: "fixed by -p" for item in spec.parameters if item.name in fixed}
    free = [item for item in spec.parameters if item.name not in fixed]
    left_out |= {item.name: "defines what is computed" for item in free if item.problem and not item.tacit}
    held = [item.name for item in free if item.tacit and not item.problem]
    left_out |= {name: f"fixed at {first.parameters[name]}, its default here" for name in held}
    axes = tuple(item for item in free if not item.problem and not item.tacit and len(item.choices) > 1)
    if (count := math.prod(len(axis.choices) for axis in axes)) > MOST:
        raise UsageError(f"{spec.name} has {count} combinations, but at most {MOST} are searched", "fix some with -p")
    cases: dict[Point, Case] = {}
    for point in itertools.product(*(range(len(axis.choices)) for axis in axes)):
        chosen = {axis.name: axis.choices[index] for axis, index in zip(axes, point, strict=True)}
        case = _valid(first, {**first.parameters, **chosen}, device)
        if case is not None:
            cases[point] = case
    if len(cases) < 2:
        raise UsageError(f"{first.label}: has no other valid configuration", "fix fewer parameters with -p")
    start = tuple(axis.choices.index(first.parameters[axis.name]) for axis in axes)
    return Space(axes, cases, start, left_out)


def _valid(first: Case, parameters: Mapping[str, Value], device: DeviceFacts) -> Case | None:
    """The case of these parameters; None if it is invalid, cannot be verified, or does other
    work."""
    try:
        case = make_case(first.spec, parameters, first.shape)
        _check_device(case, device)
    except UsageError:
        return None
    same = (case.flops, case.bytes) == (first.flops, first.bytes)
    return case if same and case.unverified is None else None


def _check_device(case: Case, device: DeviceFacts) -> None:
    check_arch(case, arch_for(*device.compute_capability))
    check_cluster(case, case.grid_on(device.sm_count))
    if case.smem > device.smem_per_cta:
        message = f"{case.label}: {case.smem} bytes of shared memory per CTA, {device.name} has {device.smem_per_cta}"
        raise UsageError(message, "use fewer stages or a smaller tile")


def device_from(members: Mapping[str, Any]) -> DeviceFacts:
    """A device as another process described it."""
    return DeviceFacts(**{**members, "compute_capability": tuple(members["compute_capability"])})


ELITES = 3
NEAR = 0.01
"""Configurations within this share of the best time are timed again, in turns: single timings
cannot separate them."""
AGAIN = 5
"""The budget divided by this is reserved for retiming the best ones."""
STEP = 0.03
"""Minimum gain in time since the last profile before the next is taken."""
PROFILES = 3
"""Maximum profiles during the search."""
SHARE = 3
"""The budget is the grid's size divided by this."""


@dataclass(frozen=True)
class TuneMove:
    """A parameter with ``values`` that may fix a cause, best first."""

    parameter: str
    values: tuple[Value, ...]
    why: str


@dataclass(frozen=True)
class TuneAdvice:
    """Advice from a profile of a configuration: its first cause, and values to try, best first."""

    cause: str
    moves: tuple[TuneMove, ...] = ()


class Bench(Protocol):
    """Interface of objects that measure configurations."""

    def measure(self, case: Case) -> Trial:
        """Verify and time one."""

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Median times of several in microseconds, timed in turns."""

    def advise(self, case: Case) -> TuneAdvice | None:
        """Advice from a profile; None if it cannot be profiled."""


@dataclass(frozen=True)
class Elite:
    """One of the best: timed in ``trial``; ``p50_us`` is the median of that, or of the timing in
    turns. ``cause`` is the first of its profile, empty without."""

    point: Point
    trial: Trial
    p50_us: float
    cause: str = ""


@dataclass
class Tuner:
    """One search. ``tell(point, trial, why)`` is called for every trial."""

    space: Space
    bench: Bench
    budget: int
    tell: Callable[[Point, Trial, str], None] = lambda point, trial, why: None
    trials: dict[Point, Trial] = field(default_factory=dict)
    turns: dict[Point, float] = field(default_factory=dict)
    advice: dict[Point, TuneAdvice] = field(default_factory=dict)
    stopped: str = ""

    def run(self) -> list[Elite]:
        """The best that ``search`` finds, each with the first cause of its profile."""
        for elite in self.search():
            self._advise(elite.point)
        return self.elites

    def search(self) -> list[Elite]:
        """Searches within the budget and returns the best, fastest first; none where no
        configuration is right."""
        self._try(self.space.start, "the start")
        self._profile()
        while not self.stopped:
            point, why = self._next()
            if point is not None:
                self._try(point, why)
                self._profile()
        self._time_in_turns()
        return self.elites

    @property
    def launches(self) -> int:
        """Configurations timed, or launched in vain; again in turns counts again."""
        return sum(trial.launches for trial in self.trials.values()) + len(self.turns)

    @property
    def elites(self) -> list[Elite]:
        """The best that are right, fastest first."""
        ranked = sorted(self._times.items(), key=lambda item: (item[1], item[0]))[:ELITES]
        return [
            Elite(point, self.trials[point], time, self.advice[point].cause if point in self.advice else "")
            for point, time in ranked
        ]

    @property
    def _times(self) -> dict[Point, float]:
        """Median times of what is right, in microseconds; those in turns replace single ones."""
        single = {point: trial.p50_us for point, trial in self.trials.items() if trial.outcome == OK and trial.p50_us}
        return {**single, **self.turns}

    def _try(self, point: Point, why: str) -> None:
        self.trials[point] = self.bench.measure(self.space.cases[point])
        self.tell(point, self.trials[point], why)

    def _next(self) -> tuple[Point | None, str]:
        """The next configuration, and why; None at the end, which ``stopped`` then explains."""
        if len(self.trials) == len(self.space.cases):
            self.stopped = "all configurations are timed"
        elif self.launches + self._kept_back() >= self.budget:
            self.stopped = "the budget is used up"
        if self.stopped:
            return None, ""
        for point, why in self._advised():
            return point, why
        gains = Surrogate(self.space.sizes, self.space.ordered, list(self.space.cases)).improvements(self._costs())
        point = max(gains, key=lambda candidate: (gains[candidate], tuple(-index for index in candidate)))
        return point, f"expected to gain {100 * gains[point]:.1f} %"

    def _advised(self) -> Iterator[tuple[Point, str]]:
        """Untried values of the newest advice on the best configuration."""
        if not (self.advice and self.elites):
            return
        best, newest = self.elites[0].point, list(self.advice.values())[-1]
        for move in newest.moves:
            for value in move.values:
                point = self.space.moved(best, move.parameter, value)
                if point is not None and point not in self.trials:
                    yield point, move.why

    def _costs(self) -> dict[Point, float]:
        """Times of all that was tried: what is wrong or fails counts as slow as the slowest."""
        times = self._times
        slowest = max(times.values(), default=1.0)
        return {point: times.get(point, slowest) for point, trial in self.trials.items()}

    def _contenders(self) -> list[Point]:
        """The best configuration, and those that a single timing cannot separate from it."""
        elites = self.elites
        return [elite.point for elite in elites if elite.p50_us <= (1.0 + NEAR) * elites[0].p50_us]

    def _kept_back(self) -> int:
        """Budget for retiming the best configurations; 0 if there is only one."""
        count = min(ELITES, self.budget // AGAIN)
        return count if count > 1 else 0

    def _profile(self) -> None:
        """Profiles the best configuration if it gained enough on the last that was."""
        if len(self.advice) >= PROFILES or not self.elites:
            return
        best, times = self.elites[0], self._times
        before = min((times[point] for point in self.advice if point in times), default=math.inf)
        if best.p50_us < (1.0 - STEP) * before:
            self._advise(best.point)

    def _advise(self, point: Point) -> None:
        if point in self.advice:
            return
        advice = self.bench.advise(self.space.cases[point])
        if advice is not None:
            self.advice[point] = advice

    def _time_in_turns(self) -> None:
        """Separate the best configurations by further timings within the budget."""
        contenders = self._contenders()[: self.budget - self.launches]
        if len(contenders) > 1:
            times = self.bench.in_turns([self.space.cases[point] for point in contenders])
            self.turns = dict(zip(contenders, times, strict=True))


def usual_budget(configurations: int) -> int:
    """A third of the grid, but what a start, two others and their comparison take."""
    return max(configurations // SHARE, min(configurations, 2 * ELITES))


FILE, ELITES_FILE = "tune.json", "elites.json"
SCHEMA = 1


@dataclass(frozen=True)
class Setting:
    """Setting of a search; measurements of another setting are not reused."""

    kernel: str
    shape: Mapping[str, int]
    fixed: Mapping[str, Value]
    start: Mapping[str, Value]
    device: str
    driver: str
    iterations: int
    seed: int


@dataclass(frozen=True)
class KeptTrial:
    """A trial, and the digest of the code that it ran."""

    digest: str
    trial: Trial


@dataclass(frozen=True)
class KeptAdvice:
    """The advice on a configuration, and the digest of its code."""

    digest: str
    advice: TuneAdvice


@dataclass(frozen=True)
class KeptTurns:
    """Times in turns, in microseconds, of configurations by the digests of their code."""

    digests: tuple[str, ...]
    p50_us: tuple[float, ...]


@dataclass
class Journal:
    """The measurements of a search in ``folder``, newest last."""

    folder: Path
    setting: Setting
    trials: list[KeptTrial] = field(default_factory=list)
    advice: list[KeptAdvice] = field(default_factory=list)
    turns: list[KeptTurns] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> Journal:
        """Raises ReportError if there is none, or it is damaged."""
        file, remedy = folder / FILE, "use a folder written by ncubble tune, or omit --resume"
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReportError(f"{file}: cannot be read: {error}", remedy) from error
        try:
            return cls(
                folder,
                typed(raw["setting"], Setting),
                typed(raw["trials"], list[KeptTrial]),
                typed(raw["advice"], list[KeptAdvice]),
                typed(raw["turns"], list[KeptTurns]),
            )
        except (WrongFieldError, KeyError, TypeError) as error:
            raise ReportError(f"{file}: is damaged: {error}", remedy) from error

    def require(self, setting: Setting) -> None:
        """Raise UsageError if the stored search has another setting."""
        kept, asked = asdict(self.setting), asdict(setting)
        for name, value in kept.items():
            if value != asked[name]:
                message = f"{self.folder}: {name} was {value}, but is now {asked[name]}"
                raise UsageError(message, "repeat the original command, or use a new folder with --out")

    def save(self) -> None:
        """Raises MeasurementError if the folder is not writable."""
        kept = {"schema": SCHEMA, **{name: asdict(self)[name] for name in ("setting", "trials", "advice", "turns")}}
        write_json(self.folder / FILE, kept)


def write_json(file: Path, content: Any) -> None:
    """Write ``file`` atomically; raises MeasurementError."""
    try:
        with draft_of(file) as draft:
            draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(
            f"{file}: cannot be written: {error}", "use a folder with free space with --out"
        ) from error


@dataclass
class KeptBench:
    """Measures through ``bench`` only what ``journal`` lacks for the same code, and stores it."""

    journal: Journal
    bench: Bench

    def measure(self, case: Case) -> Trial:
        """Same as ``bench``."""
        digest = code_digest(case)
        for kept in self.journal.trials:
            if kept.digest == digest and dict(kept.trial.parameters) == dict(case.parameters):
                return kept.trial
        trial = replace(self.bench.measure(case), parameters=dict(case.parameters))
        self.journal.trials.append(KeptTrial(digest, trial))
        self.journal.save()
        return trial

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Same as ``bench``."""
        digests = tuple(code_digest(case) for case in cases)
        for kept in self.journal.turns:
            if kept.digests == digests:
                return list(kept.p50_us)
        times = self.bench.in_turns(cases)
        self.journal.turns.append(KeptTurns(digests, tuple(times)))
        self.journal.save()
        return times

    def advise(self, case: Case) -> TuneAdvice | None:
        """Same as ``bench``; failures are not stored."""
        digest = code_digest(case)
        for kept in self.journal.advice:
            if kept.digest == digest:
                return kept.advice
        advice = self.bench.advise(case)
        if advice is not None:
            self.journal.advice.append(KeptAdvice(digest, advice))
            self.journal.save()
        return advice
