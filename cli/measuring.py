"""Measures anew what the validations are scored on, on this machine's GPU: runs of plans of ``kernels/subjects.py``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ncubble.analysis.report import Report
from ncubble.analysis.validation.ablation import BUSY, CYCLES, PRODUCTS
from ncubble.errors import NcubbleError
from ncubble.kernels.batch import build_all, read_plan
from ncubble.kernels.build import arch_for
from ncubble.kernels.subjects import TAIL, WHOLE_ROWS, Subject, ablated, variants
from ncubble.profiling.device import describe
from ncubble.profiling.metrics import DEFAULT_SETS
from ncubble.profiling.ncu import Filters
from ncubble.profiling.run import Run
from ncubble.profiling.session import Request, profile

REPEATS = 2
SLIM = ("tensor",)


def profile_plan(
    entries: Sequence[Mapping[str, Any]],
    out: Path,
    sets: Sequence[str] = DEFAULT_SETS,
    metrics: Sequence[str] = (),
    count: int | None = None,
) -> Run:
    """One process that launches all ``entries``, under one ncu, into the run directory ``out``; one that is there is
    kept. ``count``: launches to profile, if not all. Raises MeasurementError."""
    if (out / "run.json").is_file():
        return Run.load(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    plan = out.parent / f"{out.name}.plan.json"
    plan.write_text(json.dumps(list(entries), indent=1) + "\n", encoding="utf-8")
    try:
        items = read_plan(plan)
        build_all(items, arch_here())
        names = sorted({re.escape(item.case.spec.entry) for item in items})
        program = [sys.executable, "-P", "-m", "ncubble.kernels.batch", str(plan)]
        filters = Filters(kernel=f"^({'|'.join(names)})$", count=count)
        return profile(Request(program, out, sets, metrics, filters, timeout_s=600))
    finally:
        plan.unlink()


def arch_here() -> str:
    """nvcc's name of this machine's GPU; raises MeasurementError where there is none."""
    device = describe()
    return arch_for(device.capability.major, device.capability.minor)


def measure_account(out: Path, only: str = "") -> None:
    """OUT/whole/KERNEL-SPLIT: the whole kernels with the default sets, a launch per subject. OUT/ablation.json: cycles
    of every variant. A kernel that fails is named and costs only itself."""
    rows: list[dict[str, Any]] = []
    groups: dict[str, list[Subject]] = {}
    for subject in ablated():
        if re.search(only, subject.name):
            groups.setdefault(f"{subject.kernel}-{subject.split}", []).append(subject)
    for name, subjects in groups.items():
        try:
            run = profile_plan([subject.entry() for subject in subjects], out / "whole" / name)
            rows += _ablations(name, subjects, out)
        except NcubbleError as error:
            typer.echo(f"{name}: {error}", err=True)
            continue
        typer.echo(f"{name}: {len(subjects)} subjects", err=True)
        told = {key: getattr(run.manifest, key) for key in ("device", "ncu_version", "git", "started")}
        content = {"schema": 1, **told, "repeats": REPEATS, "cases": rows}
        (out / "ablation.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _ablations(name: str, subjects: Sequence[Subject], out: Path) -> list[dict[str, Any]]:
    """One row per subject from one slim run of all variants of all of them."""
    found = [(subject, list(variants(subject))) for subject in subjects]
    plan = [{**entry, "launches": REPEATS} for _, entries in found for _, entry in entries]
    report = Report.open(profile_plan(plan, out / "slim" / name, SLIM, PRODUCTS).path)
    launches = iter(report.launches["launch"].tolist())
    rows = []
    for index, (subject, entries) in enumerate(found):
        cells = {word: _cell(report, [next(launches) for _ in range(REPEATS)], word) for word, _ in entries}
        same = {key: getattr(subject, key) for key in ("kernel", "split")}
        settings = {"parameters": dict(subject.parameters), "shape": dict(subject.shape)}
        rows.append(
            {"case": subject.name, **same, **settings, "run": f"whole/{name}", "launch": index, "variants": cells}
        )
    return rows


def _cell(report: Report, launches: Sequence[int], word: str) -> dict[str, Any]:
    values = {name: [report.value(launch, name) for launch in launches] for name in (CYCLES, BUSY, *PRODUCTS)}
    products = next((values[name][0] for name in PRODUCTS if values[name][0] > 0), None)
    work = WHOLE_ROWS / 4096 if word == TAIL else 1.0
    return {"cycles": values[CYCLES], "tensor_pct": values[BUSY], "products": products, "work": work}
