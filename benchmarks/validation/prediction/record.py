"""What sweeps of depth hold, by the facts of their launches: predictions from profiles, and
measured depths.

``FOLDER/profiles/NAME`` are runs with the default sets, of which every launch is a profile that
depths are predicted from; ``FOLDER/measured/NAME`` runs of all depths with few counters. The facts
of a launch tell kernel, parameters, shape and stages.

Beside the predictions stand simple ones that a model has to beat, the busy share of the unit in
percent, from the same launch. ``no_change``: as now. ``nsight``: a deeper ring gains the largest
global speedup that Nsight's rules estimate for this launch. ``linear``: the account's share of
waits for data falls and grows as 1 / depth. ``little``: Little's law, an iteration takes what the
unit needs for all resident CTAs, what L2 needs to bring their tiles, or the latency divided by the
tiles on their way, whichever is most; the latency is calibrated on the present iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.validation.page import Result
from benchmarks.validation.recorded import CYCLES
from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.units import busy_of
from ncubble.analysis.diagnosis.advise import DEPTHS, predict_sweep
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import ctas_at
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError

PROFILES, MEASURED = "profiles", "measured"
PORT_B = 64.0
"""Bytes per cycle from L2 to an SM in the white papers of V100 and A100, for ``little``."""
BASELINES = ("no_change", "nsight", "linear", "little")
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
        predictions, simple = predict_sweep(launch, present), baselines(launch, present)
        for depth in DEPTHS:
            if depth != present:
                prediction = predictions[depth]
                yield {
                    **named,
                    "split": "dev" if named["config"] in dev else other,
                    "from_stages": present,
                    "run": f"{PROFILES}/{run.name}",
                    "launch": launch.number,
                    "to_stages": depth,
                    "predicted": asdict(prediction) if prediction else None,
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
    """Launches with family, configuration without its depth, and depth."""
    report = Report.open(run)
    if not report.run.manifest.launches:
        raise ReportError(
            f"{run}: the launches cannot be identified", "profile a program that writes facts about its launches"
        )
    for number, facts in enumerate(report.run.manifest.launches):
        name = config(facts["name"], facts["parameters"], facts["shape"])
        yield report.launch(number), {"family": facts["name"], "config": name, "stages": facts["stages"]}


def config(name: str, parameters: Result, shape: Result) -> str:
    """A kernel without its depth: ``gemm_tma 4096x4096x1024``."""
    words = [f"{key}={value}" for key, value in parameters.items() if key != "stages"]
    return " ".join([name, *words, "x".join(str(extent) for extent in shape.values())])


def baselines(launch: Launch, stages: int | None = None, depths: Sequence[int] = DEPTHS) -> dict[int, dict[str, float]]:
    """For each depth what the baselines say; those that need the present depth are absent where
    nothing tells it."""
    bubbles = account(launch)
    now = pipeline_of(launch, stages)
    if bubbles is None:
        return {depth: {} for depth in depths}
    busy, estimate = bubbles.parts["tensor_busy"] + bubbles.parts["unit_busy"], _largest_estimate(launch)
    table = {}
    for depth in depths:
        table[depth] = {"no_change": busy}
        if now.stages:
            gain = estimate if depth > now.stages else 0.0
            table[depth]["nsight"] = min(100.0, busy / (1.0 - gain / 100.0))
            table[depth]["linear"] = linear(bubbles, now.stages, depth)
        if not isinstance(now, Unidentified):
            table[depth]["little"] = little(now, depth)
    return table


def linear(bubbles: BubbleAccount, stages: int, depth: int) -> float:
    """Busy share if the share of waits for data went as 1 / depth."""
    busy, wait = bubbles.parts["tensor_busy"] + bubbles.parts["unit_busy"], bubbles.parts.get("data_wait", 0.0)
    return min(100.0, 100.0 * busy / (100.0 - wait + wait * stages / depth))


def little(now: Pipeline, depth: int) -> float:
    """Busy share by Little's law."""
    if depth == now.stages:
        return now.busy_pct
    ctas = ctas_at(now, depth)
    latency = now.cycle * (now.stages - 1) if now.stages > 1 else now.cycle - now.busy
    bound = max(ctas * now.busy, ctas * now.tile_B / PORT_B)
    cycle = max(bound, latency / (depth - 1) if depth > 1 else latency + now.busy)
    return min(100.0, now.busy_pct * (now.cycle / now.ctas) / (cycle / ctas))


def _largest_estimate(launch: Launch) -> float:
    """The largest global speedup, in percent of time, that a rule of the report estimates; 0
    without one."""
    rules = launch.rules[launch.rules["speedup_kind"] == "global"]
    largest = rules["speedup_pct"].max() if len(rules) else 0.0
    return min(99.0, float(largest)) if largest > 0 else 0.0
