"""Kernels of the catalog and your own: verified, benched, held against gates, compiled, and tuned.

As a program (``python -m ncubble.api.kernels``) it measures configurations for ``tune``: if one
hangs, or a faulting kernel takes its GPU, the search survives. A request is what ``GpuBench`` asks.
Not meant to be called directly.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from ncubble.api.profiling import record_profile
from ncubble.api.subjects import as_pairs, catalog_subject
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.compiling import ARCH, CompileCheck, compile_checks, missing_tools
from ncubble.kernels.run.device import DeviceFacts, Gpu
from ncubble.kernels.run.gates import AcceptanceOutcome, compare_markdown, gates_of, run_acceptance
from ncubble.kernels.run.saved_gates import claim, write
from ncubble.kernels.run.session import KernelOutcome, KernelRequest, execute
from ncubble.kernels.run.trials import FAILED, Trial, Trials
from ncubble.kernels.run.tune import (
    DEPTH,
    Journal,
    KeptBench,
    Setting,
    Tell,
    TuneAdvice,
    Tuner,
    TuneResult,
    advised,
    run_search,
    space_of,
    usual_budget,
)
from ncubble.kernels.run.verify import fresh_seed
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import Value
from ncubble.profiling.processes import ServerDiedError, ServingProcess, active_profiler, answer_requests
from ncubble.profiling.provenance import git_state, utc_now
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.session import Observer
from ncubble.records import JsonObject

ARCHITECTURE = re.compile(r"sm_[1-9]\d{1,2}[af]?")
"""As nvcc names them."""
COUNTED = 3
"""Runs of each path whose counters are read; the median is judged."""
PROFILE_S = 300.0
"""Time limit of a profile."""
ANSWER_S = 180.0
"""Time limit of an answer of the process that measures: building, drawing inputs, the reference on
the CPU, and launches."""


def verify(name: str, **settings: Any) -> KernelOutcome:
    """Run a kernel on random inputs and compare it with the float64 reference; needs a GPU.

    ``settings`` are members of ``KernelRequest``: ``parameters``, ``shape``, ``catalog`` (a folder
    of your own kernels), ``seed``, ``debug``, ``nvtx`` (ranges around the phases; below a profiler
    they are made anyway). ``require`` of the outcome raises VerificationError if the result is
    wrong. Raises UsageError and MeasurementError.
    """
    return execute(KernelRequest(name, iterations=0, **{"nvtx": _profiled(), **settings}))


def bench(name: str, *, library: bool = False, **settings: Any) -> KernelOutcome:
    """As ``verify``, then time the kernel, if it is right, over ``iterations`` launches (100); with
    ``library`` in turns with a library's call of the same operation."""
    return execute(KernelRequest(name, against=library, **{"nvtx": _profiled(), **settings}))


def _profiled() -> bool:
    """Whether a profiler could see NVTX ranges of this process."""
    return bool(active_profiler(os.environ)) and importlib.util.find_spec("nvtx") is not None


def verify_gates(
    name: str,
    *,
    shape: Mapping[str, int] | None = None,
    seed: int | None = None,
    iterations: int | None = None,
    catalog: Path | None = None,
    counters: bool = True,
    out: Path | None = None,
    observing: Callable[[], AbstractContextManager[Observer]] = lambda: nullcontext(Observer()),
) -> AcceptanceOutcome:
    """Hold both paths of a kernel against the gates of its spec; ``out`` is a new folder for the
    results. ``shape``, ``seed`` and ``iterations`` replace those of the spec. ``require`` of the
    outcome raises what the first gate that does not hold raises.

    Below a profiler times and counters are left out, as ncu runs each launch many times and does
    not count below itself, and NVTX ranges are put around paths and phases.
    """

    def count(parameters: Mapping[str, Value], sizes: Mapping[str, int], metrics: Sequence[str]) -> dict[str, float]:
        from ncubble.analysis.report.report import Report

        subject = catalog_subject(name, as_pairs({**parameters, **sizes}), catalog, COUNTED)
        settings = NcuSettings((), tuple(metrics))
        with tempfile.TemporaryDirectory(prefix="ncubble-gates-") as folder, observing() as observer:
            run = record_profile(subject, settings, Path(folder) / "run", timeout_s=PROFILE_S, observer=observer)
            launches = [launch.scalars for launch in Report.open(run.path)]
        read = [metric for metric in metrics if all(metric in scalars for scalars in launches)]
        return {metric: median(scalars[metric] for scalars in launches) for metric in read}

    gates, started = gates_of(name, catalog).asked(shape or {}, seed, iterations), utc_now()
    if out is not None:
        claim(out)
    profiler = active_profiler(os.environ)
    untimed = f"a profiler is active ({profiler} is set)" if profiler else ""
    counted = count if counters and not profiler else None
    outcome = run_acceptance(name, gates, catalog, count=counted, nvtx=_profiled(), untimed=untimed)
    facts = next(iter(outcome.facts.values()))
    meta = {
        **{"schema": 1, "started": started, "git": git_state(Path.cwd())},
        **{"kernel": facts["kernel"]["name"], "device": facts["device"]},
        **{part: {path: each[part] for path, each in outcome.facts.items()} for part in ("build", "clocks")},
    }
    outcome = replace(outcome, meta=meta)
    if out is not None:
        try:
            write(out, outcome, compare_markdown(outcome))
        except MeasurementError as error:
            return replace(outcome, unwritten=error)
    return outcome


@dataclass(frozen=True)
class CompileResult:
    """What a build-only check found: a check of each kernel, and tools that are ``missing``, each
    with its remedy."""

    checks: list[CompileCheck]
    missing: list[tuple[str, str]]

    def to_json(self) -> JsonObject:
        """JSON-ready."""
        tools = [{"name": tool, "remedy": remedy} for tool, remedy in self.missing]
        return {"schema": 1, "missing": tools, "kernels": [asdict(check) for check in self.checks]}

    def require(self) -> None:
        """Raises MeasurementError if anything is missing or wrong."""
        said = []
        if broken := [check.name for check in self.checks if check.problems]:
            said += [f"{len(broken)} of {len(self.checks)} kernels do not build as specified: {', '.join(broken)}"]
        if self.missing:
            said += [f"missing: {', '.join(tool for tool, _ in self.missing)}"]
        if said:
            raise MeasurementError("; ".join(said), "see above")


def compile_kernels(
    name: str | None = None,
    settings: Sequence[str] = (),
    catalog: Path | None = None,
    arch: str = "",
    progress: Callable[[CompileCheck], None] = lambda check: None,
) -> CompileResult:
    """Build a kernel, or all of ``catalog``, without a GPU, and report everything that is missing
    or wrong at once. Raises UsageError for an invalid request."""
    if arch and not ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"--arch {arch}: not an architecture", "write sm_80, sm_90a or such")
    if name is None and settings:
        raise UsageError("-p needs one kernel", "name it: ncubble verify NAME --compile-only")
    result = CompileResult([], missing_tools())
    names = [tool for tool, _ in result.missing]
    if names in ([], ["nvdisasm"]):
        for check in compile_checks(name, catalog, settings, arch or ARCH, promises=not names):
            result.checks.append(check)
            progress(check)
    return result


def tune(
    name: str,
    out: Path,
    *,
    shape: Mapping[str, int] | None = None,
    fixed: Mapping[str, Value] | None = None,
    start: Mapping[str, Value] | None = None,
    catalog: Path | None = None,
    budget: int | None = None,
    iterations: int = 60,
    seed: int | None = None,
    resume: bool = False,
    profiles: bool = True,
    tell: Tell = lambda tuner, point, trial, why: None,
    note: Callable[[str], None] = lambda text: None,
) -> TuneResult:
    """Search the parameters of a kernel for the fastest configuration, and write ``tune.json`` and
    ``elites.json`` to ``out`` as it goes. ``fixed`` parameters are not searched. ``tell`` hears of
    each trial, ``note`` of what the reader should know.

    Raises UsageError, MeasurementError, and VerificationError if no configuration is right.
    """
    spec, fixed, start = find_spec(name, catalog), dict(fixed or {}), dict(start or {})
    first = make_case(spec, {**fixed, **start}, shape)
    kept = Journal.kept(out, resume)
    seed = seed if seed is not None else kept.setting.seed if kept else fresh_seed()
    notes: list[str] = []

    def noted(text: str) -> None:
        notes.append(text)
        note(text)

    bench = GpuBench(name, catalog, first.shape, seed, iterations, profiles, noted)
    try:
        device = bench.device()
        space = space_of(spec, shape or {}, fixed, start, device)
        about = (device.name, device.driver, iterations, seed)
        setting = Setting(name, dict(first.shape), fixed, space.settings(space.start), *about)
        if kept is not None:
            kept.require(setting, out)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {out}: {error.strerror}", "name a folder that can be written") from error
        measuring = KeptBench(out, kept or Journal(setting), bench)
        tuner = Tuner(space, measuring, usual_budget(len(space.cases)) if budget is None else budget)
        return run_search(tuner, setting, out, tell, notes)
    finally:
        bench.process.close()


@dataclass
class GpuBench:
    """Measures configurations of one kernel, shape and seed: times in a process of its own, advice
    by a profile under ncu. ``profiles``: whether to profile; if that fails, ``tell`` is called once
    with the reason."""

    kernel: str
    catalog: Path | None
    shape: Mapping[str, int]
    seed: int
    iterations: int
    profiles: bool = True
    tell: Callable[[str], None] = lambda text: None
    process: ServingProcess = field(default_factory=lambda: ServingProcess("ncubble.api.kernels", own_group=True))

    def device(self) -> DeviceFacts:
        """The GPU; raises MeasurementError if there is none."""
        members = self._ask("device")["device"]
        return DeviceFacts(**{**members, "compute_capability": tuple(members["compute_capability"])})

    def measure(self, case: Case) -> Trial:
        """Verify and time a configuration; one that hangs or crashes its process has failed. Raises
        MeasurementError if the GPU is lost afterwards, which leaves the outcome unknown."""
        try:
            trial = Trial(**self._ask("measure", [case])["trial"])
        except MeasurementError as error:
            trial = Trial(case.parameters, FAILED, str(error).partition("\n")[0])
        if trial.outcome == FAILED:
            self.process.close()  # a fault stays with its process
            try:
                self.device()
            except MeasurementError as error:
                message = f"the GPU was lost with {dict(trial.parameters)} ({trial.why}): {error.message}"
                remedy = "check `nvidia-smi`, then add --resume and --out to the command: this trial was not kept"
                raise MeasurementError(message, remedy) from error
        return trial

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Median times in microseconds, measured in turns."""
        return [float(time) for time in self._ask("turns", cases)["p50_us"]]

    def advise(self, case: Case) -> TuneAdvice | None:
        """Advice from a profile under ncu; None without one."""
        if not self.profiles:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="ncubble-tune-") as folder:
                return profile_advice(case, self.catalog, Path(folder) / "run")
        except NcubbleError as error:
            self.profiles = False
            self.tell(f"timings only, no profiles: {error.message}")
            return None

    def _ask(self, do: str, cases: Sequence[Case] = ()) -> JsonObject:
        request = {
            **{"do": do, "kernel": self.kernel, "catalog": str(self.catalog.resolve()) if self.catalog else ""},
            **{"shape": dict(self.shape), "seed": self.seed, "iterations": self.iterations},
            "parameters": [dict(case.parameters) for case in cases],
        }
        try:
            answered = self.process.ask(request, ANSWER_S)
        except ServerDiedError as error:
            how = f"gave no answer within {ANSWER_S:.0f} s" if error.expired else f"ended with {error}"
            remedy = "add --resume and --out to the command: finished trials are kept"
            raise MeasurementError(f"the process that measures {how}", remedy) from error
        if "error" in answered:
            raise MeasurementError(answered["error"], answered["remedy"])
        return answered


def profile_advice(case: Case, catalog: Path | None, out: Path) -> TuneAdvice:
    """Profile a configuration into the folder ``out`` and derive advice; raises NcubbleError."""
    from ncubble.analysis.diagnosis.advise import predict_sweep
    from ncubble.analysis.diagnosis.diagnose import launch_verdict
    from ncubble.analysis.report.report import Report

    subject = catalog_subject(case.spec.name, as_pairs({**case.parameters, **case.shape}), catalog)
    launch = Report.open(record_profile(subject, out=out, timeout_s=PROFILE_S).path).launch(0)
    choices = [value for item in case.spec.parameters if item.name == DEPTH for value in item.choices]
    present, depths = case.parameters.get(DEPTH), tuple(value for value in choices if isinstance(value, int))
    predicted = predict_sweep(launch, present if isinstance(present, int) else None, depths)
    return read_advice(launch_verdict(launch), {depth: one.cycles for depth, one in predicted.items() if one}, case)


def read_advice(verdict: Any, cycles: Mapping[int, float], case: Case) -> TuneAdvice:
    """The moves that a verdict suggests; one that is not a part of the account comes first."""
    causes = [((item.disease, item.cause), f"{item.pct:.0f} %") for item in verdict.causes]
    if verdict.cause not in {item.cause for item in verdict.causes}:
        causes.insert(0, ((verdict.disease, verdict.cause), ""))
    named = [(tuple(filter(None, names)), share) for names, share in causes]
    return advised(case, verdict.disease or verdict.cause, named, cycles)


def answer(request: JsonObject, progress: Callable[[], None]) -> Mapping[str, Any]:
    """The device, a trial, or times in turns; ``error`` and ``remedy`` on failure."""
    try:
        if request["do"] == "device":
            return {"device": asdict(_gpu().facts)}
        spec = find_spec(request["kernel"], Path(request["catalog"]) if request["catalog"] else None)
        cases = [make_case(spec, parameters, request["shape"]) for parameters in request["parameters"]]
        trials = _trials(request["seed"])
        if request["do"] == "measure":
            return {"trial": asdict(trials.measure(cases[0], request["iterations"]))}
        return {"p50_us": trials.in_turns(cases, request["iterations"])}
    except NcubbleError as error:
        return {"error": error.message, "remedy": error.remedy}


@cache
def _gpu() -> Gpu:
    return Gpu.open()


@cache
def _trials(seed: int) -> Trials:
    return Trials(_gpu(), seed)


if __name__ == "__main__":
    answer_requests(answer)
