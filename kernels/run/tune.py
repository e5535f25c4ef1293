"""Searches the parameters of a kernel: from a start, along the advice of profiles, then where the
largest improvement is expected; the best three are kept.

What a search measured is stored after each step. A search is deterministic given its measurements,
so that an interrupted one continues by running again with the stored ones.
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

from ncubble.errors import MeasurementError, ReportError, UsageError, VerificationError
from ncubble.kernels.build import arch_for, case_for, check_arch, code_digest
from ncubble.kernels.run.device import DeviceFacts
from ncubble.kernels.run.trials import OK, Trial
from ncubble.kernels.spec.case import Case, check_cluster, make_case
from ncubble.kernels.spec.spec import DOWN, UP, KernelSpec, Parameter, Value
from ncubble.records import WrongFieldError, typed
from ncubble.store import draft_of

MOST = 50_000
"""Maximum combinations that are enumerated."""
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
FILE, ELITES_FILE = "tune.json", "elites.json"
SCHEMA = 1

DEPTH = "stages"
"""The parameter that facts and predictions use as the depth of the pipeline."""
Depths = Mapping[int, float]
"""Predicted cycles by depth."""
Floats = NDArray[np.float64]
Point = tuple[int, ...]
"""A configuration: for each axis the index of its value."""


@dataclass(frozen=True)
class Space:
    """All valid combinations of a kernel's parameters that compute the same. ``axes``: the searched
    parameters. ``cases``: the configurations in grid order. ``start``: where the search begins.
    ``left_out``: parameters that are not searched, with reasons."""

    axes: tuple[Parameter, ...]
    cases: Mapping[Point, Case]
    start: Point
    left_out: Mapping[str, str]

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

    def improvements(self, times: Mapping[Point, float]) -> dict[Point, float]:
        """Expected improvement of the best time by each configuration not in ``times``."""
        sizes = tuple(len(axis.choices) for axis in self.axes)
        ordered = tuple(all(isinstance(value, int) for value in axis.choices) for axis in self.axes)
        return improvements(sizes, ordered, list(self.cases), times)


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
        remedy = "tune the kernel that it launches; `ncubble kernels` lists all"
        raise UsageError(f"{spec.name} is driven by the host", remedy)
    if both := sorted(set(fixed) & set(begin)):
        raise UsageError(f"{', '.join(both)}: both fixed and searched", "use either -p or --start")
    arch = arch_for(*device.compute_capability)
    first = case_for(make_case(spec, {**fixed, **begin}, shape), arch, device.sm_count)
    if first.unverified is not None:
        raise UsageError(f"{first.label}: {first.unverified}", "start at a configuration that can be verified")

    def checked(case: Case) -> Case:
        check_arch(case, arch)
        check_cluster(case, case.grid_on(device.sm_count))
        if case.smem > device.smem_per_cta:
            message = f"{case.smem} bytes of shared memory per CTA, {device.name} has {device.smem_per_cta}"
            raise UsageError(f"{case.label}: {message}", "use fewer stages or a smaller tile")
        return case

    checked(first)
    left_out, axes = _axes(first, fixed)
    if (count := math.prod(len(axis.choices) for axis in axes)) > MOST:
        raise UsageError(f"{spec.name} has {count} combinations, but at most {MOST} are searched", "fix some with -p")
    cases: dict[Point, Case] = {}
    for point in itertools.product(*(range(len(axis.choices)) for axis in axes)):
        chosen = {axis.name: axis.choices[index] for axis, index in zip(axes, point, strict=True)}
        try:
            case = checked(make_case(spec, {**first.parameters, **chosen}, first.shape))
        except UsageError:
            continue
        if (case.flops, case.bytes) == (first.flops, first.bytes) and case.unverified is None:
            cases[point] = case
    if len(cases) < 2:
        raise UsageError(f"{first.label}: has no other valid configuration", "fix fewer parameters with -p")
    return Space(axes, cases, tuple(axis.choices.index(first.parameters[axis.name]) for axis in axes), left_out)


def _axes(first: Case, fixed: Mapping[str, Value]) -> tuple[dict[str, str], tuple[Parameter, ...]]:
    """Parameters that are not searched, with reasons; and those that are."""
    left_out = {item.name: "fixed by -p" for item in first.spec.parameters if item.name in fixed}
    free = [item for item in first.spec.parameters if item.name not in fixed]
    left_out |= {item.name: "defines what is computed" for item in free if item.problem and not item.tacit}
    held = [item.name for item in free if item.tacit and not item.problem]
    left_out |= {name: f"fixed at {first.parameters[name]}, its default here" for name in held}
    return left_out, tuple(item for item in free if not item.problem and not item.tacit and len(item.choices) > 1)


def improvements(
    sizes: Sequence[int], ordered: Sequence[bool], points: Sequence[Point], times: Mapping[Point, float]
) -> dict[Point, float]:
    """Expected improvement of the best time by each of ``points`` not in ``times``, as a share of
    it. The points lie in a grid of ``sizes``; ``ordered`` axes are those of numbers.

    A Gaussian process over the logarithm of the time (C. Rasmussen and C. Williams, "Gaussian
    Processes for Machine Learning", 2006, algorithm 2.1) and the expected improvement (D. Jones, M.
    Schonlau and W. Welch, "Efficient Global Optimization of Expensive Black-Box Functions", 1998):
    few configurations are timed, and each timing is exact to a percent.
    """
    known, rest = list(times), [point for point in points if point not in times]
    if not known or not rest:
        return dict.fromkeys(rest, 0.0)
    logs = np.log(np.array([times[point] for point in known]))
    mean, spread = float(logs.mean()), max(float(logs.std()), SPREAD if len(known) < ENOUGH else 0.02)
    scaled, distances = (logs - mean) / spread, _distances(sizes, ordered, known + rest)
    count = len(known)

    def evidence(length: float) -> float:
        """Logarithm of the marginal likelihood, up to a constant."""
        factor = _factor(_covariance(distances, length)[:count, :count])
        return float(-0.5 * np.square(np.linalg.solve(factor, scaled)).sum() - np.log(np.diag(factor)).sum())

    covariance = _covariance(distances, max(LENGTHS, key=evidence))
    factor, cross = _factor(covariance[:count, :count]), covariance[count:, :count]
    expected = cross @ np.linalg.solve(factor.T, np.linalg.solve(factor, scaled))
    explained = np.square(np.linalg.solve(factor, cross.T)).sum(axis=0)
    sigma = np.sqrt(np.maximum(1.0 - explained, 1e-9))
    better = float(scaled.min()) - expected
    ratio = better / sigma
    below = 0.5 * (1.0 + np.array([math.erf(value / math.sqrt(2.0)) for value in ratio]))
    gains = better * below + sigma * np.exp(-0.5 * np.square(ratio)) / math.sqrt(2.0 * math.pi)
    return {point: float(gain) for point, gain in zip(rest, gains * spread, strict=True)}


def _distances(sizes: Sequence[int], ordered: Sequence[bool], points: Sequence[Point]) -> Floats:
    """(axes, points, points): between 0 and 1."""
    places = np.array(points, dtype=float).T
    apart = np.abs(places[:, :, None] - places[:, None, :])
    scale = np.array([max(size - 1, 1) for size in sizes], dtype=float)[:, None, None]
    words = ~np.array(ordered, dtype=bool)[:, None, None]
    return np.asarray(np.where(words, (apart > 0).astype(float), apart / scale))


def _covariance(distances: Floats, length: float) -> Floats:
    """Sum of individual axes and of all axes jointly."""
    near = np.exp(-0.5 * np.square(distances / length))
    return np.asarray(ADDED * near.mean(axis=0) + (1.0 - ADDED) * near.prod(axis=0))


def _factor(covariance: Floats) -> Floats:
    """The Cholesky factor with the noise of timings added."""
    return np.asarray(np.linalg.cholesky(covariance + (NOISE**2 + 1e-8) * np.eye(len(covariance))))


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
    """What measures configurations."""

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
        while not self.stopped:
            point, why = self._next()
            if point is not None:
                self._try(point, why)
        contenders = self._contenders()[: self.budget - self.launches]
        if len(contenders) > 1:
            times = self.bench.in_turns([self.space.cases[point] for point in contenders])
            self.turns = dict(zip(contenders, times, strict=True))
        return self.elites

    @property
    def launches(self) -> int:
        """Configurations timed, or launched in vain; again in turns counts again."""
        return sum(trial.launches for trial in self.trials.values()) + len(self.turns)

    @property
    def elites(self) -> list[Elite]:
        """The best that are right, fastest first."""
        ranked = sorted(self._times.items(), key=lambda item: (item[1], item[0]))[:ELITES]
        causes = {point: advice.cause for point, advice in self.advice.items()}
        return [Elite(point, self.trials[point], time, causes.get(point, "")) for point, time in ranked]

    @property
    def _times(self) -> dict[Point, float]:
        """Median times of what is right, in microseconds; those in turns replace single ones."""
        single = {point: trial.p50_us for point, trial in self.trials.items() if trial.outcome == OK and trial.p50_us}
        return {**single, **self.turns}

    def _try(self, point: Point, why: str) -> None:
        """Measures a configuration; profiles the best one if it gained enough on the last that
        was."""
        self.trials[point] = self.bench.measure(self.space.cases[point])
        self.tell(point, self.trials[point], why)
        if len(self.advice) >= PROFILES or not self.elites:
            return
        best, times = self.elites[0], self._times
        before = min((times[point] for point in self.advice if point in times), default=math.inf)
        if best.p50_us < (1.0 - STEP) * before:
            self._advise(best.point)

    def _next(self) -> tuple[Point | None, str]:
        """The next configuration, and why; None at the end, which ``stopped`` then explains."""
        kept_back = min(ELITES, self.budget // AGAIN)  # for retiming the best; one alone needs none
        if len(self.trials) == len(self.space.cases):
            self.stopped = "all configurations are timed"
        elif self.launches + (kept_back if kept_back > 1 else 0) >= self.budget:
            self.stopped = "the budget is used up"
        if self.stopped:
            return None, ""
        for point, why in self._advised():
            return point, why
        times = self._times
        slowest = max(times.values(), default=1.0)  # what is wrong or fails counts as slow as the slowest
        gains = self.space.improvements({point: times.get(point, slowest) for point in self.trials})
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

    def _contenders(self) -> list[Point]:
        """The best configuration, and those that a single timing cannot separate from it."""
        elites = self.elites
        return [elite.point for elite in elites if elite.p50_us <= (1.0 + NEAR) * elites[0].p50_us]

    def _advise(self, point: Point) -> None:
        if point not in self.advice and (advice := self.bench.advise(self.space.cases[point])) is not None:
            self.advice[point] = advice


def usual_budget(configurations: int) -> int:
    """A third of the grid, but what a start, two others and their comparison take."""
    return max(configurations // SHARE, min(configurations, 2 * ELITES))


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
    """The measurements of a search, newest last: ``tune.json`` of its folder."""

    setting: Setting
    trials: list[KeptTrial] = field(default_factory=list)
    advice: list[KeptAdvice] = field(default_factory=list)
    turns: list[KeptTurns] = field(default_factory=list)

    @classmethod
    def kept(cls, folder: Path, resume: bool) -> Journal | None:
        """The search to continue; raises UsageError if the folder is not empty, and nothing is to
        be continued."""
        if resume:
            return cls.load(folder)
        try:
            if folder.exists() and any(folder.iterdir()):
                raise UsageError(f"--out {folder}: not empty", "name a new folder, or add --resume to continue")
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}", "name a new folder") from error
        return None

    @classmethod
    def load(cls, folder: Path) -> Journal:
        """Raises ReportError if there is none, or it is damaged."""
        file, remedy = folder / FILE, "use a folder written by ncubble tune, or omit --resume"
        try:
            return typed(json.loads(file.read_text(encoding="utf-8")), cls)
        except WrongFieldError as error:
            raise ReportError(f"{file}: is damaged: {error}", remedy) from error
        except (OSError, ValueError) as error:
            raise ReportError(f"{file}: cannot be read: {error}", remedy) from error

    def require(self, setting: Setting, folder: Path) -> None:
        """Raise UsageError if the stored search has another setting."""
        asked = asdict(setting)
        for name, value in asdict(self.setting).items():
            if value != asked[name]:
                message = f"{folder}: {name} was {value}, but is now {asked[name]}"
                raise UsageError(message, "repeat the original command, or use a new folder with --out")

    def save(self, folder: Path) -> None:
        """Raises MeasurementError if the folder is not writable."""
        write_json(folder / FILE, {"schema": SCHEMA, **asdict(self)})


def write_json(file: Path, content: Any) -> None:
    """Write ``file`` atomically; raises MeasurementError."""
    try:
        with draft_of(file) as draft:
            draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        remedy = "use a folder with free space with --out"
        raise MeasurementError(f"{file}: cannot be written: {error}", remedy) from error


@dataclass
class KeptBench:
    """Measures through ``bench`` only what ``journal`` lacks for the same code, and stores it in
    ``folder``."""

    folder: Path
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
        self.journal.save(self.folder)
        return trial

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Same as ``bench``."""
        digests = tuple(code_digest(case) for case in cases)
        for kept in self.journal.turns:
            if kept.digests == digests:
                return list(kept.p50_us)
        times = self.bench.in_turns(cases)
        self.journal.turns.append(KeptTurns(digests, tuple(times)))
        self.journal.save(self.folder)
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
            self.journal.save(self.folder)
        return advice


@dataclass(frozen=True)
class TuneResult:
    """Result of the search; ``notes`` are for the reader."""

    setting: Setting
    tuner: Tuner
    elites: list[Elite]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """The content of elites.json, and of --json."""
        tuner, space, setting = self.tuner, self.tuner.space, asdict(self.setting)
        return {
            "schema": SCHEMA,
            **{name: setting[name] for name in ("kernel", "shape", "device", "driver", "seed", "iterations")},
            "searched": {axis.name: list(axis.choices) for axis in space.axes},
            "left_out": dict(space.left_out),
            "configurations": len(space.cases),
            "launches": tuner.launches,
            "timed_again": len(tuner.turns),
            "profiles": len(tuner.advice),
            "stopped": tuner.stopped,
            "start": {"parameters": space.settings(space.start), "p50_us": tuner.trials[space.start].p50_us},
            "elites": [
                {
                    "parameters": dict(elite.trial.parameters),
                    "p50_us": elite.p50_us,
                    "in_turns": elite.point in tuner.turns,
                    "p90_us": elite.trial.p90_us,
                    "std_us": elite.trial.std_us,
                    "cause": elite.cause or None,
                    "verification": dict(elite.trial.verification or {}),
                    "build": dict(elite.trial.build),
                }
                for elite in self.elites
            ],
            "notes": self.notes,
        }


Tell = Callable[[Tuner, Point, Trial, str], None]
"""Hears of a trial, and why it was made."""


def run_search(tuner: Tuner, setting: Setting, folder: Path, tell: Tell, notes: list[str]) -> TuneResult:
    """Runs the search, and writes ``elites.json`` as it goes; raises VerificationError if no
    configuration is right."""

    def heard(point: Point, trial: Trial, why: str) -> None:
        tell(tuner, point, trial, why)
        write_json(folder / ELITES_FILE, TuneResult(setting, tuner, tuner.elites, notes).to_json())

    tuner.tell = heard
    result = TuneResult(setting, tuner, tuner.run(), notes)
    write_json(folder / ELITES_FILE, result.to_json())
    if not result.elites:
        why = next((trial.why for trial in tuner.trials.values()), "")
        message = f"{setting.kernel}: no configuration gave a right result: {why}"
        raise VerificationError(message, f"see {folder / FILE}")
    return result


def advised(case: Case, cause: str, causes: Sequence[tuple[tuple[str, ...], str]], cycles: Depths) -> TuneAdvice:
    """The moves that the ``causes`` of a profile suggest, in their order: the names of each, the
    finest first, and its share of the time in words. A parameter is moved by the first cause that
    it fixes. Depths are ordered by predicted ``cycles``, without those predicted to lose."""
    moves: dict[str, TuneMove] = {}
    for names, share in causes:
        for item in case.spec.parameters:
            cure = next((item.cures[name] for name in names if name in item.cures), None)
            if cure is None or item.name in moves:
                continue
            values = list(_values(item, cure, case.parameters[item.name]))
            if item.name == DEPTH and cure == UP:
                values = _deeper(values, cycles, case.parameters[item.name])
            if values:
                moves[item.name] = TuneMove(item.name, tuple(values), f"{names[0].replace('_', ' ')} {share}".strip())
    return TuneAdvice(cause, tuple(moves.values()))


def _values(item: Parameter, cure: Value, present: Value) -> Iterator[Value]:
    """The values to try: the fix itself; or of larger or smaller values the nearest and the
    farthest."""
    if cure not in (UP, DOWN):
        yield from [cure] * (cure != present)
    elif isinstance(present, int):
        numbers = sorted(value for value in item.choices if isinstance(value, int))
        beyond = [value for value in numbers if (value > present if cure == UP else value < present)]
        ends = beyond[:1] + beyond[-1:]
        yield from dict.fromkeys(ends if cure == UP else reversed(ends))


def _deeper(values: list[Value], cycles: Depths, present: Value) -> list[Value]:
    """The deeper depth with the fewest predicted cycles, none if all lose; ``values`` without a
    prediction."""
    if not isinstance(present, int) or present not in cycles or len(cycles) == 1:
        return values
    better = [depth for depth in cycles if depth > present and cycles[depth] < cycles[present]]
    return [min(better, key=lambda depth: (cycles[depth], depth))] if better else []
