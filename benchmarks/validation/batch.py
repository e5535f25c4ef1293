"""``python benchmarks/validation/batch.py PLAN.json``: many cases in one process, each launched in
turn. For profilers.

Starting a profiler, the driver and this program costs seconds, a launch milliseconds: sweeps and
ablations run as one batch. PLAN.json holds a list of objects ``{"kernel", "parameters", "shape",
"launches"}``, of which only the first is needed. Nothing is verified or timed. ``build_all`` builds
everything beforehand: a profiler does not like the program that it watches to start compilers from
several threads (ncu 2025.3 ended one such program by a segmentation fault).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ncubble.errors import NcubbleError, UsageError
from ncubble.kernels.build import build, case_for
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import device_facts, kernel_facts, prepare, write_facts
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case
from ncubble.records import WrongFieldError, typed

SEED = 1
REMEDY = "use a JSON list of objects with a member 'kernel'; 'parameters', 'shape' and 'launches' are optional"


class PlanEntry(msgspec.Struct, forbid_unknown_fields=True):
    """An object of a plan."""

    kernel: str
    parameters: dict[str, int | str] = {}
    shape: dict[str, int] = {}
    launches: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass(frozen=True)
class PlannedCase:
    """A case and how often it runs."""

    case: Case
    runs: int


def read_plan(path: Path, catalog: Path | None = None) -> list[PlannedCase]:
    """The checked plan; raises UsageError naming the entry that is wrong."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a plan ({error})", REMEDY) from error
    return checked(entries, str(path), catalog)


def checked(entries: Any, where: str = "plan", catalog: Path | None = None) -> list[PlannedCase]:
    """The entries of a plan as cases; raises UsageError naming the one that is wrong."""
    try:
        plan = typed(entries, list[PlanEntry])
        if not plan:
            raise WrongFieldError("", "is empty")
    except WrongFieldError as error:
        raise UsageError(f"{where}: {error}", REMEDY) from error
    items = [
        PlannedCase(make_case(find_spec(entry.kernel, catalog), entry.parameters, entry.shape), entry.launches)
        for entry in plan
    ]
    for index, item in enumerate(items):
        if item.case.spec.language == "host":
            raise UsageError(f"{where}[{index}]: {item.case.spec.name} is driven by the host", "run it separately")
    return items


def build_all(items: Sequence[PlannedCase], arch: str) -> None:
    """Builds all CUDA C++ of a plan, in parallel, so that it is in the cache. Raises UsageError or
    MeasurementError."""
    cuda = [case_for(item.case, arch) for item in items if item.case.spec.language == "cuda"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: build(case, arch), cuda))


def execute(items: Sequence[PlannedCase], gpu: Gpu) -> None:
    """Write the facts of every launch, then launch. Raises UsageError or MeasurementError."""
    items = [replace(item, case=case_for(item.case, gpu.arch, gpu.facts.sm_count)) for item in items]
    write_facts({"launches": list(launch_facts(items)), "device": device_facts(gpu), "clocks": gpu.clocks()})
    drawn: tuple[tuple[str, Mapping[str, int]] | None, dict[str, Any]] = (None, {})
    for item in items:
        prepared = prepare(item.case, gpu)
        inputs = (item.case.spec.name, item.case.shape)
        if drawn[0] != inputs:
            drawn = (inputs, draw_inputs(item.case, SEED))
        prepared.upload(drawn[1])
        for _ in range(item.runs):
            prepared.run()
        gpu.sync()
        gpu.free()


def launch_facts(items: Sequence[PlannedCase]) -> Iterator[dict[str, Any]]:
    """The facts of every launch of a plan, in order."""
    for item in items:
        yield from [kernel_facts(item.case)] * (item.runs * item.case.launches)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(prog="batch.py", description=__doc__)
    parser.add_argument("plan", type=Path, help="JSON list of launches")
    parser.add_argument(
        "--catalog", type=Path, metavar="DIR", help="folder with your own specs; its files are executed"
    )
    options = parser.parse_args(argv)
    try:
        items = read_plan(options.plan, options.catalog)
        with closing(Gpu.open()) as gpu:
            execute(items, gpu)
    except NcubbleError as error:
        sys.stderr.write(f"batch.py: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
