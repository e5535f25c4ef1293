"""Predicts depths and then measures them on this machine's GPU, for ``python -m benchmarks.validation
prediction``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.validation.measuring import profile_plan
from benchmarks.validation.prediction import record
from benchmarks.validation.prediction.score import MEASURED, PREDICTIONS
from benchmarks.validation.subjects import SECOND, ValidationSubject, depth_sweeps, second_sweeps
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.provenance import git_state
from ncubble.profiling.runs import Run

SLIM = ("tensor",)
FROM = (2, 3)
"""Depths whose profiles serve for prediction, where a kernel has them: the usual first choices."""
Sweep = tuple[ValidationSubject, tuple[int, ...]]


def measure(out: Path, second: bool = False) -> None:
    """OUT/profiles and OUT/predictions.json first, which are kept if they are there; then
    OUT/measured and OUT/measured.json. Runs of other programs in OUT/profiles and OUT/measured
    count as well, if they tell the facts of their launches. A failing kernel is skipped.
    ``second``: the second held-out set, in OUT/second, in the same way and alone."""
    if second:
        _measure(second_sweeps(), out / SECOND, SECOND)
    else:
        _measure(depth_sweeps(), out, "test")


def _measure(sweeps: Sequence[Sweep], out: Path, split: str) -> None:
    """``split``: of configurations that are not among those which the model was fitted to."""
    _profile(sweeps, out / record.PROFILES, FROM, DEFAULT_SETS)
    if not record.runs(out / record.PROFILES):
        raise MeasurementError(f"{out / record.PROFILES}: nothing was profiled", "the messages above say why")
    if not (out / PREDICTIONS).is_file():
        dev = [_config(subject) for subject, _ in sweeps if subject.split == "dev"]
        rows = record.predicted(out, dev, split)
        _write(out / PREDICTIONS, {"written": _now(), "git": git_state(Path.cwd()), "predictions": rows})
    _profile(sweeps, out / record.MEASURED, None, SLIM)
    manifests = [Run.load(run).manifest for run in record.runs(out / record.MEASURED)]
    if not manifests:
        raise MeasurementError(f"{out / record.MEASURED}: nothing was measured", "the messages above say why")
    first = min(manifests, key=lambda manifest: manifest.started)
    origin = {"started": first.started, "device": first.device, "ncu_version": first.ncu_version, "git": first.git}
    _write(out / MEASURED, {**origin, "launches": record.measured(out)})


def _profile(sweeps: Sequence[Sweep], out: Path, depths: Sequence[int] | None, sets: Sequence[str]) -> None:
    """A run for each kernel, of all its sweeps at ``depths`` (None: all)."""
    for kernel in dict.fromkeys(subject.kernel for subject, _ in sweeps):
        plan = [
            subject.entry(stages=stages)
            for subject, known in sweeps
            for stages in known
            if subject.kernel == kernel and (depths is None or stages in depths)
        ]
        try:
            profile_plan(plan, out / kernel, sets)
        except NcubbleError as error:
            print(f"{kernel}: {error}", file=sys.stderr)
            continue
        print(f"{out.name}/{kernel}: {len(plan)} launches", file=sys.stderr)


def _config(subject: ValidationSubject) -> str:
    """As the facts of its launches name it."""
    case = make_case(find_spec(subject.kernel), subject.parameters, subject.shape)
    return record.config(subject.kernel, case.settings, case.shape)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps({"schema": 1, **content}, indent=1) + "\n", encoding="utf-8")
