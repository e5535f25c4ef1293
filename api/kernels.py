"""Kernels of the catalog and your own: verified, benched, held against gates, and compiled.

As a program (``python -m ncubble.api.kernels``) it measures configurations for ``ncubble try``: if
one hangs, or a faulting kernel takes its GPU, the others are still measured. A request is what
``CatalogBench`` asks. Not meant to be called directly.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from ncubble.api.profiling import record_profile
from ncubble.api.subjects import as_pairs, catalog_subject
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.compiling import ARCH, CompileCheck, chosen_specs, compile_check, missing_tools
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.gates import AcceptanceOutcome, compare_markdown, gates_of, run_acceptance
from ncubble.kernels.run.saved_gates import claim, write
from ncubble.kernels.run.session import KernelOutcome, KernelRequest, execute
from ncubble.kernels.run.trials import Trials
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value
from ncubble.profiling.processes import active_profiler, answer_requests
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
    parameters: Mapping[str, Value] | None = None,
    shape: Mapping[str, int] | Sequence[str] = (),
    seeds: Sequence[int] = (),
    *,
    iterations: int | None = None,
    catalog: Path | None = None,
    counters: bool = True,
    out: Path | None = None,
    observing: Callable[[], AbstractContextManager[Observer]] = lambda: nullcontext(Observer()),
) -> AcceptanceOutcome:
    """Hold both paths of a kernel against the gates of its spec; ``out`` is a new folder for the
    results. ``shape`` (sizes, or names of the spec's shapes), ``seeds`` and ``iterations`` replace
    those of the spec, ``parameters`` are for both paths. ``require`` of the outcome raises what the
    first gate that does not hold raises.

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

    gates, started = gates_of(name, catalog).asked(shape, seeds, iterations, parameters), utc_now()
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
    out: Path | None = None,
) -> CompileResult:
    """Build a kernel, or all of ``catalog``, without a GPU, and report everything that is missing
    or wrong at once. ``out``: a folder for the machine code. Raises UsageError for an invalid
    request."""
    if arch and not ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"--arch {arch}: not an architecture", "write sm_80, sm_90a or such")
    if name is None and settings:
        raise UsageError("-p needs one kernel", "name it: ncubble verify NAME --compile-only")
    arch = arch or ARCH
    specs, unread = chosen_specs(name, catalog, arch)
    result = CompileResult([], missing_tools(specs))
    missing = {tool for tool, _ in result.missing}
    built = (
        compile_check(spec, settings, arch, "nvdisasm" not in missing, out)
        for spec in specs
        if spec.language != "cuda" or missing <= {"nvdisasm"}
    )
    for check in itertools.chain(unread, built):
        result.checks.append(check)
        progress(check)
    return result


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
        return {"times_us": trials.in_turns(cases, request["iterations"], request["rounds"])}
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
