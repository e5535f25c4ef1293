"""Measures the ablations again on this machine's GPU, for the validation of the account."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.validation.measuring import profile_plan
from benchmarks.validation.recorded import BUSY, CYCLES, PRODUCTS
from benchmarks.validation.subjects import TAIL, WHOLE_ROWS, ValidationSubject, ablated, variants
from ncubble.analysis.account.units import INCIDENTAL_PCT
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.kernels.catalog.ablation import NONE

REPEATS = 2
SLIM = ("tensor",)


def measure(out: Path, only: str = "") -> None:
    """OUT/whole/KERNEL-SPLIT: the whole kernels with the default sets, a launch per subject.
    OUT/ablation.json: cycles of every variant. A failing kernel is reported and skipped."""
    rows: list[dict[str, Any]] = []
    groups: dict[str, list[ValidationSubject]] = {}
    for subject in ablated():
        if re.search(only, subject.name):
            groups.setdefault(f"{subject.kernel}-{subject.split}", []).append(subject)
    for name, subjects in groups.items():
        try:
            run = profile_plan([subject.entry() for subject in subjects], out / "whole" / name)
            rows += _ablations(name, subjects, out)
        except NcubbleError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"{name}: {len(subjects)} subjects", file=sys.stderr)
        origin = {key: getattr(run.manifest, key) for key in ("device", "ncu_version", "git", "started")}
        content = {"schema": 1, **origin, "repeats": REPEATS, "cases": rows}
        (out / "ablation.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _ablations(name: str, subjects: Sequence[ValidationSubject], out: Path) -> list[dict[str, Any]]:
    """One row per subject from one slim run of all variants of all of them."""
    ablated = [(subject, list(variants(subject))) for subject in subjects]
    plan = [{**entry, "launches": REPEATS} for _, entries in ablated for _, entry in entries]
    report = Report.open(profile_plan(plan, out / "slim" / name, SLIM, PRODUCTS).path)
    launches = iter(report.launches["launch"].tolist())
    rows = []
    for index, (subject, entries) in enumerate(ablated):
        places = {word: [next(launches) for _ in range(REPEATS)] for word, _ in entries}
        counter = _counter(report.launch(places[NONE][0]))
        chosen = {word: [report.launch(number) for number in numbers] for word, numbers in places.items()}
        cells = {word: _cell(variant, word, counter) for word, variant in chosen.items()}
        same = {key: getattr(subject, key) for key in ("kernel", "split")}
        settings = {"parameters": dict(subject.parameters), "shape": dict(subject.shape)}
        rows.append(
            {"case": subject.name, **same, **settings, "run": f"whole/{name}", "launch": index, "variants": cells}
        )
    return rows


def _counter(launch: Launch) -> str:
    """Function that counts the products of a kernel. Without MMAs its HMMA counter is not 0:
    HFMA2.MMA moves constants."""
    tensor = launch.value(BUSY) >= INCIDENTAL_PCT
    for name in PRODUCTS:
        if tensor == ("tensor" in name) and launch.value(name) > 0:
            return name
    raise MeasurementError(f"launch {launch.number}: no products were counted", f"collect {', '.join(PRODUCTS)}")


def _cell(launches: Sequence[Launch], word: str, counter: str) -> dict[str, Any]:
    values = {name: [launch.value(name) for launch in launches] for name in (CYCLES, BUSY)}
    work = WHOLE_ROWS / 4096 if word == TAIL else 1.0
    products = launches[0].value(counter)
    return {"cycles": values[CYCLES], "tensor_pct": values[BUSY], "products": products, "work": work}
