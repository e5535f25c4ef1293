"""Measures again, on this machine's GPU, what the validations are scored on.

``account``: ablations of the source. FOLDER/whole/KERNEL-SPLIT: the whole kernels with the default sets, a launch per
subject. FOLDER/ablation.json: cycles of every variant.

``diagnosis``: the planted pairs. FOLDER/whole/KERNEL: all sides of all pairs, a launch each, with the default sets.
FOLDER/planted.json: the pairs with their cycles, and Nsight's own estimates from a run with ``--set full``.

``waste``: likewise planted waste and its opposites.

``prediction``: sweeps of depth. FOLDER/profiles and FOLDER/predictions.json first, which are kept if they are there;
then FOLDER/measured and FOLDER/measured.json. Runs of other programs in FOLDER/profiles and FOLDER/measured count as
well, if they tell the facts of their launches. Beside the predictions stand simple ones that a model has to beat
(``baselines``).

A kernel that fails is named and left out. ``benchmarks/truth`` measures the launches of ``truth``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.validation import batch
from benchmarks.validation.account import FILE
from benchmarks.validation.batch import PlannedCase, build_all, checked, launch_facts
from benchmarks.validation.page import Result
from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.pairs import PAIRS, WASTE, PlantedPair, PlantedSide
from benchmarks.validation.prediction import MEASURED, PREDICTIONS, SECOND
from benchmarks.validation.recorded import BUSY, CYCLES, PRODUCTS
from benchmarks.validation.subjects import (
    TAIL,
    WHOLE_ROWS,
    DepthSweep,
    ValidationSubject,
    ablated,
    depth_sweeps,
    second_sweeps,
    variants,
)
from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.units import INCIDENTAL_PCT, busy_of
from ncubble.analysis.model.depths import DEPTHS, predict_all
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import ctas_at
from ncubble.analysis.report.report import Launch, Report
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.kernels.build import arch_for
from ncubble.kernels.catalog.ablation import NONE
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.driver import require_gpu
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.ncu import Filters
from ncubble.profiling.provenance import git_state
from ncubble.profiling.recorders.ncu import NcuSettings, profile
from ncubble.profiling.runs import Run
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject

REPEATS = 2
SLIM = ("tensor",)
FROM = (2, 3)
"""Depths whose profiles serve for prediction, where a kernel has them: the usual first choices."""
PORT_B = 64.0
"""Bytes per cycle from L2 to an SM in the white papers of V100 and A100, for ``little``."""
BASELINES = ("no_change", "nsight", "linear", "little")
Row = dict[str, Any]


def profile_plan(
    entries: Sequence[Mapping[str, Any]],
    out: Path,
    sets: Sequence[str] = DEFAULT_SETS,
    metrics: Sequence[str] = (),
    count: int | None = None,
) -> Run:
    """One process that launches all ``entries`` (``batch.py``), under one ncu, into the run directory
    ``out``; an existing run is kept. ``count``: launches to profile, if not all. Raises MeasurementError."""
    items = checked(entries, catalog=PLANTED)
    if (out / "run.json").is_file():
        return _kept(Run.load(out), items, count)
    out.parent.mkdir(parents=True, exist_ok=True)
    plan = out.parent / f"{out.name}.plan.json"
    plan.write_text(json.dumps(list(entries), indent=1) + "\n", encoding="utf-8")
    try:
        device = require_gpu()
        build_all(items, arch_for(device.capability.major, device.capability.minor))
        names = sorted({re.escape(item.case.spec.entry) for item in items})
        program = [sys.executable, "-P", batch.__file__, str(plan), "--catalog", str(PLANTED)]
        filters = Filters(kernel=f"^({'|'.join(names)})$", count=count)
        return profile(Session(Subject(program), out, timeout_s=600), NcuSettings(sets, metrics, filters))
    finally:
        plan.unlink()


def _kept(run: Run, items: Sequence[PlannedCase], count: int | None = None) -> Run:
    """An existing run, if it has this plan; raises UsageError if it has another."""
    planned, there = list(launch_facts(items))[:count], run.manifest.launches
    same = ("name", "parameters", "shape")
    if [[entry.get(key) for key in same] for entry in there] == [[entry[key] for key in same] for entry in planned]:
        return run
    raise UsageError(f"{run.path}: its launches are not the planned ones", "remove it, or measure into another folder")


@contextmanager
def attempting(name: str) -> Iterator[None]:
    """Says on stderr how measuring ``name`` went. An error of ncubble ends the block, and nothing else."""
    try:
        yield
    except NcubbleError as error:
        print(f"{name}: {error}", file=sys.stderr)
    else:
        print(f"{name}: measured", file=sys.stderr)


def write(path: Path, content: Mapping[str, Any]) -> None:
    """``content`` as JSON, with the number of its schema."""
    path.write_text(json.dumps({"schema": 1, **content}, indent=1) + "\n", encoding="utf-8")


def origin(run: Run) -> Row:
    """Where a run comes from."""
    return {key: getattr(run.manifest, key) for key in ("device", "ncu_version", "git", "started")}


def measure_account(out: Path, only: str = "") -> None:
    """Measure the ablations whose names match ``only``."""
    rows: list[Row] = []
    groups: dict[str, list[ValidationSubject]] = {}
    for subject in ablated():
        if re.search(only, subject.name):
            groups.setdefault(f"{subject.kernel}-{subject.split}", []).append(subject)
    for name, subjects in groups.items():
        with attempting(name):
            run = profile_plan([subject.entry() for subject in subjects], out / "whole" / name)
            rows += _ablations(name, subjects, out)
            write(out / FILE, {**origin(run), "repeats": REPEATS, "cases": rows})


def _ablations(name: str, subjects: Sequence[ValidationSubject], out: Path) -> list[Row]:
    """One row per subject from one slim run of all variants of all of them."""
    planned = [(subject, list(variants(subject))) for subject in subjects]
    plan = [{**entry, "launches": REPEATS} for _, entries in planned for _, entry in entries]
    report = Report.open(profile_plan(plan, out / "slim" / name, SLIM, PRODUCTS).path)
    launches = iter(report.launches["launch"].tolist())
    rows = []
    for index, (subject, entries) in enumerate(planned):
        chosen = {word: [report.launch(next(launches)) for _ in range(REPEATS)] for word, _ in entries}
        counter = product_counter(chosen[NONE][0])
        rows.append(
            {
                **{"case": subject.name, "kernel": subject.kernel, "split": subject.split},
                **{"parameters": dict(subject.parameters), "shape": dict(subject.shape)},
                **{"run": f"whole/{name}", "launch": index},
                "variants": {word: _cell(members, word, counter) for word, members in chosen.items()},
            }
        )
    return rows


def product_counter(launch: Launch) -> str:
    """The counter of a kernel's products. Without MMAs its HMMA counter is not 0: HFMA2.MMA moves constants."""
    tensor = launch.value(BUSY) >= INCIDENTAL_PCT
    for name in PRODUCTS:
        if tensor == ("tensor" in name) and launch.value(name) > 0:
            return name
    raise MeasurementError(f"launch {launch.number}: no products were counted", f"collect {', '.join(PRODUCTS)}")


def _cell(launches: Sequence[Launch], word: str, counter: str) -> Row:
    values = {name: [launch.value(name) for launch in launches] for name in (CYCLES, BUSY)}
    work = WHOLE_ROWS / 4096 if word == TAIL else 1.0
    return {"cycles": values[CYCLES], "tensor_pct": values[BUSY], "products": launches[0].value(counter), "work": work}


def measure_waste(out: Path) -> None:
    """Measure planted waste and its opposites."""
    measure_diagnosis(out, pairs=WASTE)


def measure_diagnosis(out: Path, only: str = "", pairs: Sequence[PlantedPair] = PAIRS) -> None:
    """Measure the planted pairs whose names match ``only``. A side of many launches is a run of its own, because only
    its first launch is profiled."""
    pairs = [pair for pair in pairs if re.search(only, pair.name)]
    sides = {_key(side): side for pair in pairs for side in (pair.sick, pair.cured) if side is not None}
    sick = {_key(pair.sick) for pair in pairs}
    places: dict[str, Row] = {}
    groups: dict[str, list[PlantedSide]] = {}
    for side in sides.values():
        groups.setdefault(f"{side.kernel}-many" if _launches(side) > 1 else side.kernel, []).append(side)
    for name, members in groups.items():
        with attempting(name):
            run = profile_plan([side.entry() for side in members], out / "whole" / name, count=len(members))
            found = _places(run, members)
            rules = _rules([side for side in members if _key(side) in sick], out / "full" / name)
            places |= {key: {**place, **rules.get(key, {})} for key, place in found.items()}
            known = [pair for pair in pairs if all(_key(side) in places for side in (pair.sick, pair.cured) if side)]
            write(out / "planted.json", {**origin(run), "pairs": [_row(pair, places) for pair in known]})


def _key(side: PlantedSide) -> str:
    return json.dumps(side.entry(), sort_keys=True)


def _launches(side: PlantedSide) -> int:
    return make_case(find_spec(side.kernel, PLANTED), side.parameters, side.shape).launches


def _places(run: Run, members: Sequence[PlantedSide]) -> dict[str, Row]:
    """Recording of each side, and its cycles: of one launch, times the launches of a run."""
    report = Report.open(run.path)
    return {
        _key(side): {
            **{"run": f"whole/{run.path.name}", "launch": number, "launches": _launches(side)},
            "cycles": report.launch(number).value(CYCLES) * _launches(side),
        }
        for number, side in enumerate(members)
    }


def _rules(members: Sequence[PlantedSide], out: Path) -> dict[str, Row]:
    """Nsight Compute's own estimates for each side, with all sections. The run is not kept."""
    if not members:
        return {}
    report = Report.open(profile_plan([side.entry() for side in members], out, ("full",), count=len(members)).path)
    estimated = report.rules[report.rules["speedup_pct"].notna()]
    columns = ["section", "rule", "title", "speedup_pct", "speedup_kind"]
    return {
        _key(side): {"nsight": estimated[estimated["launch"] == launch][columns].to_dict("records")}
        for launch, side in enumerate(members)
    }


def _row(pair: PlantedPair, places: Mapping[str, Row]) -> Row:
    def side(one: PlantedSide | None) -> Row | None:
        where = places[_key(one)] if one else {}
        return {**one.entry(), **{name: where[name] for name in ("run", "launch", "launches")}} if one else None

    sick = places[_key(pair.sick)]
    return {
        **{"name": pair.name, "parts": pair.parts, "kinds": pair.kinds, "what": pair.what},
        **({"never": pair.never} if pair.never else {}),
        **{"sick": side(pair.sick), "cured": side(pair.cured)},
        "sick_cycles": [sick["cycles"]],
        "cured_cycles": [places[_key(pair.cured)]["cycles"]] if pair.cured else None,
        "nsight": sick.get("nsight", []),
    }


def measure_prediction(out: Path, second: bool = False) -> None:
    """Predict depths and then measure them; ``second``: of the second held-out set, in OUT/second, alone."""
    sweeps, split = (second_sweeps(), SECOND) if second else (depth_sweeps(), "test")
    out = out / SECOND if second else out
    _profile(sweeps, out / "profiles", FROM, DEFAULT_SETS)
    if not runs(out / "profiles"):
        raise MeasurementError(f"{out / 'profiles'}: nothing was profiled", "the messages above say why")
    if not (out / PREDICTIONS).is_file():
        dev = [_config_of(subject) for subject, _ in sweeps if subject.split == "dev"]
        written = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = {"written": written, "git": git_state(Path.cwd()), "predictions": predicted(out, dev, split)}
        write(out / PREDICTIONS, told)
    _profile(sweeps, out / "measured", None, SLIM)
    found = [Run.load(run) for run in runs(out / "measured")]
    if not found:
        raise MeasurementError(f"{out / 'measured'}: nothing was measured", "the messages above say why")
    first = min(found, key=lambda run: run.manifest.started)
    write(out / MEASURED, {**origin(first), "launches": measured(out)})


def _profile(sweeps: Sequence[DepthSweep], out: Path, depths: Sequence[int] | None, sets: Sequence[str]) -> None:
    """A run for each kernel, of all its sweeps at ``depths`` (None: all)."""
    for kernel in dict.fromkeys(subject.kernel for subject, _ in sweeps):
        plan = [
            subject.entry(stages=stages)
            for subject, known in sweeps
            for stages in known
            if subject.kernel == kernel and (depths is None or stages in depths)
        ]
        with attempting(f"{out.name}/{kernel}"):
            profile_plan(plan, out / kernel, sets)


def _config_of(subject: ValidationSubject) -> str:
    """As the facts of its launches name it."""
    case = make_case(find_spec(subject.kernel), subject.parameters, subject.shape)
    return config(subject.kernel, case.settings, case.shape)


def runs(folder: Path) -> list[Path]:
    """The run directories right below ``folder``, in order."""
    return sorted(path.parent for path in folder.glob("*/run.json"))


def predicted(folder: Path, dev: Sequence[str] = (), split: str = "test") -> list[Row]:
    """A row for every launch of the profiles and every other depth; ``dev``: configurations that it was fitted to, and
    ``split`` what all others are."""
    return [row for run in runs(folder / "profiles") for row in _predicted(run, dev, split)]


def _predicted(run: Path, dev: Sequence[str], other: str) -> Iterator[Row]:
    for launch, named in _named(run):
        present = named.pop("stages")
        predictions, simple = predict_all(pipeline_of(launch, present)), baselines(launch, present)
        for depth in DEPTHS:
            if depth != present:
                prediction = predictions[depth]
                yield {
                    **named,
                    "split": "dev" if named["config"] in dev else other,
                    "from_stages": present,
                    "run": f"profiles/{run.name}",
                    "launch": launch.number,
                    "to_stages": depth,
                    "predicted": asdict(prediction) if prediction else None,
                    "baselines": simple[depth],
                }


def measured(folder: Path) -> list[Row]:
    """A row for every launch of the measured depths: busy share of the unit, percent of elapsed cycles, and cycles."""
    return [
        {**named, "tensor_elapsed_pct": busy.pct, "cycles": launch.value(CYCLES)}
        for run in runs(folder / "measured")
        for launch, named in _named(run)
        if (busy := busy_of(launch)) is not None
    ]


def _named(run: Path) -> Iterator[tuple[Launch, Row]]:
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


def baselines(launch: Launch, stages: int | None = None, depths: Iterable[int] = DEPTHS) -> dict[int, dict[str, float]]:
    """For each depth the busy share of the unit in percent that simple rules say from the same launch; rules that need
    the present depth are absent where nothing tells it.

    ``no_change``: as now. ``nsight``: a deeper ring gains the largest global speedup that Nsight's rules estimate for
    this launch. ``linear``: the account's share of waits for data falls and grows as 1 / depth. ``little``: Little's
    law, an iteration takes what the unit needs for all resident CTAs, what L2 needs to bring their tiles, or the
    latency divided by the tiles on their way, whichever is most; the latency is calibrated on the present iteration.
    """
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
    """The largest global speedup, in percent of time, that a rule of the report estimates; 0 without one."""
    rules = launch.rules[launch.rules["speedup_kind"] == "global"]
    largest = rules["speedup_pct"].max() if len(rules) else 0.0
    return min(99.0, float(largest)) if largest > 0 else 0.0
