"""Measures the planted pairs again on this machine's GPU, for ``python -m benchmarks.validation diagnosis``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.validation.measuring import profile_plan
from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.pairs import PAIRS, PlantedPair, PlantedSide
from benchmarks.validation.recorded import CYCLES
from ncubble.analysis.report.report import Report
from ncubble.errors import NcubbleError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.runs import Run

Place = dict[str, Any]


def measure(out: Path, only: str = "") -> None:
    """OUT/whole/KERNEL: all sides of all pairs, a launch each, with the default sets.
    OUT/planted.json: the pairs with their cycles, and Nsight's own estimates from a run with
    ``--set full``. A failing kernel only loses its pairs.
    """
    pairs = [pair for pair in PAIRS if re.search(only, pair.name)]
    places: dict[str, Place] = {}
    sides = {_key(side): side for pair in pairs for side in (pair.sick, pair.cured) if side is not None}
    sick = {_key(pair.sick) for pair in pairs}
    for name, members in _groups(list(sides.values())).items():
        try:
            run = profile_plan([asdict_of(side) for side in members], out / "whole" / name, count=len(members))
            places |= _places(run, members)
            rules = _rules([side for side in members if _key(side) in sick], out / "full" / name)
            places = {key: {**place, **rules.get(key, {})} for key, place in places.items()}
        except NcubbleError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"{name}: {len(members)} launches", file=sys.stderr)
        origin = {key: getattr(run.manifest, key) for key in ("device", "ncu_version", "git", "started")}
        rows = [_row(pair, places) for pair in pairs if _known(pair, places)]
        content = {"schema": 1, **origin, "pairs": rows}
        (out / "planted.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def asdict_of(side: PlantedSide) -> dict[str, Any]:
    """A side as an entry of a plan."""
    return {"kernel": side.kernel, "parameters": dict(side.parameters), "shape": dict(side.shape)}


def _key(side: PlantedSide) -> str:
    return json.dumps(asdict_of(side), sort_keys=True)


def _groups(sides: Sequence[PlantedSide]) -> dict[str, list[PlantedSide]]:
    """Sides by kernel; a side of many launches is separate, because only its first launch is
    profiled."""
    groups: dict[str, list[PlantedSide]] = {}
    for side in sides:
        many = _launches(side) > 1
        groups.setdefault(f"{side.kernel}-many" if many else side.kernel, []).append(side)
    return groups


def _launches(side: PlantedSide) -> int:
    return make_case(find_spec(side.kernel, PLANTED), side.parameters, side.shape).launches


def _places(run: Run, members: Sequence[PlantedSide]) -> dict[str, Place]:
    """Recording of each side, and its cycles: of one launch, times the launches of a run."""
    report = Report.open(run.path)
    return {
        _key(side): {
            "run": f"whole/{run.path.name}",
            "launch": number,
            "launches": _launches(side),
            "cycles": report.launch(number).value(CYCLES) * _launches(side),
        }
        for number, side in enumerate(members)
    }


def _rules(members: Sequence[PlantedSide], out: Path) -> dict[str, Place]:
    """Nsight Compute's own estimates for each side, with all sections. The run is not kept."""
    if not members:
        return {}
    report = Report.open(profile_plan([asdict_of(side) for side in members], out, ("full",), count=len(members)).path)
    estimated = report.rules[report.rules["speedup_pct"].notna()]
    columns = ["section", "rule", "title", "speedup_pct", "speedup_kind"]
    return {
        _key(side): {"nsight": estimated[estimated["launch"] == launch][columns].to_dict("records")}
        for launch, side in enumerate(members)
    }


def _known(pair: PlantedPair, places: dict[str, Place]) -> bool:
    return _key(pair.sick) in places and (pair.cured is None or _key(pair.cured) in places)


def _row(pair: PlantedPair, places: dict[str, Place]) -> dict[str, Any]:
    members = asdict(pair)
    sick = places[_key(pair.sick)]
    cured = places[_key(pair.cured)] if pair.cured else None
    return {
        **{name: members[name] for name in ("name", "causes", "disease", "what")},
        "sick": {**members["sick"], **{name: sick[name] for name in ("run", "launch", "launches")}},
        "cured": {**members["cured"], **{name: cured[name] for name in ("run", "launch", "launches")}}
        if cured
        else None,
        "sick_cycles": [sick["cycles"]],
        "cured_cycles": [cured["cycles"]] if cured else None,
        "nsight": sick.get("nsight", []),
    }
