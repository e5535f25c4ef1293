"""Profiles plans of launches (``kernels/run/batch.py``) for the validations, on this machine's GPU."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.validation.planted import PLANTED
from ncubble.errors import UsageError
from ncubble.kernels.build import arch_for
from ncubble.kernels.run.batch import PlannedCase, build_all, checked, launch_facts
from ncubble.profiling.driver import DriverError, describe
from ncubble.profiling.failures import NoGpuError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders.ncu import NcuSettings, profile
from ncubble.profiling.runs import Run
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject


def profile_plan(
    entries: Sequence[Mapping[str, Any]],
    out: Path,
    sets: Sequence[str] = DEFAULT_SETS,
    metrics: Sequence[str] = (),
    count: int | None = None,
) -> Run:
    """One process that launches all ``entries``, under one ncu, into the run directory ``out``; an
    existing run is kept. ``count``: launches to profile, if not all. Raises MeasurementError."""
    items = checked(entries, catalog=PLANTED)
    if (out / "run.json").is_file():
        return _kept(Run.load(out), items, count)
    out.parent.mkdir(parents=True, exist_ok=True)
    plan = out.parent / f"{out.name}.plan.json"
    plan.write_text(json.dumps(list(entries), indent=1) + "\n", encoding="utf-8")
    try:
        build_all(items, arch_here())
        names = sorted({re.escape(item.case.spec.entry) for item in items})
        program = [sys.executable, "-P", "-m", "ncubble.kernels.run.batch", str(plan), "--catalog", str(PLANTED)]
        filters = Filters(kernel=f"^({'|'.join(names)})$", count=count)
        return profile(Session(Subject(program), out, timeout_s=600), NcuSettings(sets, metrics, filters))
    finally:
        plan.unlink()


def arch_here() -> str:
    """nvcc's name of this machine's GPU; raises MeasurementError if there is none."""
    try:
        device = describe()
    except DriverError as error:
        raise NoGpuError(str(error)) from error
    return arch_for(device.capability.major, device.capability.minor)


def _kept(run: Run, items: Sequence[PlannedCase], count: int | None = None) -> Run:
    """An existing run, if it has this plan; raises UsageError if it has another."""
    planned, there = list(launch_facts(items))[:count], run.manifest.launches
    same = ("name", "parameters", "shape")
    if [[entry.get(key) for key in same] for entry in there] == [[entry[key] for key in same] for entry in planned]:
        return run
    raise UsageError(f"{run.path}: its launches are not the planned ones", "remove it, or measure into another folder")
