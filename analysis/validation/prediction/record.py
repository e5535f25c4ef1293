"""What sweeps of depth hold, by the facts of their launches: predictions from profiles, and
measured depths.

``FOLDER/profiles/NAME`` are runs with the default sets, of which every launch is a profile that
depths are predicted from; ``FOLDER/measured/NAME`` runs of all depths with few counters. The facts
of a launch tell kernel, parameters, shape and stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncubble.analysis.account.units import busy_of
from ncubble.analysis.diagnosis.advise import DEPTHS, predict_sweep
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report
from ncubble.analysis.validation.ablation import CYCLES
from ncubble.analysis.validation.prediction.baselines import baselines
from ncubble.errors import ReportError

PROFILES, MEASURED = "profiles", "measured"
Row = dict[str, Any]


def runs(folder: Path) -> list[Path]:
    """The run directories right below ``folder``, in order."""
    return sorted(path.parent for path in folder.glob("*/run.json"))


def predicted(folder: Path, dev: Sequence[str] = (), split: str = "test") -> list[Row]:
    """A row for every launch of the profiles and every other depth; ``dev``: configurations that it
    was fitted to, and ``split`` what all others are."""
    return [row for run in runs(folder / PROFILES) for row in _predicted(run, dev, split)]


def _predicted(run: Path, dev: Sequence[str], other: str) -> Iterator[Row]:
    for launch, named in _launches(run):
        present = named.pop("stages")
        told, simple = predict_sweep(launch, present), baselines(launch, present)
        split = "dev" if named["config"] in dev else other
        same = {**named, "split": split, "from_stages": present}
        same |= {"run": f"{PROFILES}/{run.name}", "launch": launch.number}
        for depth in DEPTHS:
            if depth != present:
                one = told[depth]
                yield {
                    **same,
                    "to_stages": depth,
                    "predicted": asdict(one) if one else None,
                    "baselines": simple[depth],
                }


def measured(folder: Path) -> list[Row]:
    """A row for every launch of the measured depths: busy share of the unit, percent of elapsed
    cycles, and cycles."""
    return [
        {**named, "tensor_elapsed_pct": busy.pct, "cycles": launch.value(CYCLES)}
        for run in runs(folder / MEASURED)
        for launch, named in _launches(run)
        if (busy := busy_of(launch)) is not None
    ]


def _launches(run: Path) -> Iterator[tuple[Launch, Row]]:
    report = Report.open(run)
    told = report.run.manifest.launches
    if not told:
        raise ReportError(
            f"{run}: nothing tells which launch is which", "profile a program that writes facts of launches"
        )
    for number, facts in enumerate(told):
        yield report.launch(number), _named(facts)


def config(name: str, parameters: Mapping[str, Any], shape: Mapping[str, Any]) -> str:
    """A kernel without its depth: ``gemm_tma 4096x4096x1024``."""
    words = [f"{key}={value}" for key, value in parameters.items() if key != "stages"]
    return " ".join([name, *words, "x".join(str(extent) for extent in shape.values())])


def _named(facts: Mapping[str, Any]) -> Row:
    """Family, configuration without its depth, and depth of a launch."""
    told = config(facts["name"], facts["parameters"], facts["shape"])
    return {"family": facts["name"], "config": told, "stages": facts["stages"]}
