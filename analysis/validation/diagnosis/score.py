"""Holds the diagnosis of recorded launches against what is wrong with them, and gains against what
cures gained.

Three sets: ``planted`` are kernels written with one disease each, beside a cured twin; ``foreign``
are launches of libraries and compilers, labelled by changing them and measuring; ``second`` are
more of these, measured after the rules were fixed. A cause is named right where it is one of those
that the pair or the experiment admits. Gains are in percent of the launch's cycles, ours and those
of Nsight's own rules; cures that cured nothing are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.diagnosis.diagnose import Diagnosis, diagnose
from ncubble.analysis.diagnosis.gains import fixes
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.validation.recorded import Opener, load, opener, origin_of
from ncubble.errors import NcubbleError, ReportError

PLANTED, FOREIGN, SECOND = "planted", "foreign", "second"
FILES = {
    PLANTED: Path("planted.json"),
    FOREIGN: Path("foreign") / "labels.json",
    SECOND: Path("second") / "labels.json",
}
TOP1_PCT, GAIN_POINTS = 95.0, 10.0
"""Targets: causes named right, and the median error of predicted gains in points of kernel time."""
ESTIMATES = {"ours": "predicted_gain_pct", "nsight global": "nsight_global_pct", "nsight any": "nsight_any_pct"}
"""Who estimates a gain, and the member of a row that holds it."""

Row = dict[str, Any]


def score_diagnosis(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready (schema: docs/reference/validations.md), of recordings in
    ``folder``.

    Raises ReportError where they are missing, damaged or hold nothing that could be scored.
    """
    there = {name: load(folder / file) for name, file in FILES.items() if (folder / file).is_file()}
    if not there:
        raise ReportError(f"{folder}: holds neither {' nor '.join(map(str, FILES.values()))}", "measure with --measure")
    rows: list[Row] = []
    unscored: dict[str, str] = {}
    for name, content in there.items():
        reports = opener((folder / FILES[name]).parent, [first for first, *_ in _runs(content).values()])
        rows += planted(content, reports, unscored) if name == PLANTED else foreign(content, reports, unscored, name)
    if not rows:
        raise ReportError(f"{folder}: no launch could be scored", "measure them with --measure")
    sets = {name: [row for row in rows if row["set"] == name] for name in there}
    runs = {name: [run for row in found for run in _runs(there[name])[row["name"]]] for name, found in sets.items()}
    return {
        "schema": 1,
        "validation": "diagnosis",
        "origins": {
            name: origin_of(content, (folder / FILES[name]).parent, runs[name]) for name, content in there.items()
        },
        "scores": {name: scores(found) for name, found in sets.items() if found},
        "launches": rows,
        "unscored": unscored,
    }


def _runs(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """By launch the run that is diagnosed, and that of its cured twin."""
    sides = {str(pair["name"]): (pair["sick"], pair.get("cured")) for pair in content.get("pairs", ())}
    experiments = [one for one in content.get("experiments", ()) if one["label"] and one.get("launch") is not None]
    return {name: [str(side["run"]) for side in both if side] for name, both in sides.items()} | {
        str(one["experiment"]): [str(one["report"])] for one in experiments
    }


def planted(content: Mapping[str, Any], reports: Opener, unscored: dict[str, str]) -> Iterator[Row]:
    """A row per pair: of the sick launch. What cannot be scored is added to ``unscored``. Nsight's
    estimates come from a run with all its sections, where there is one."""
    for pair in content["pairs"]:
        name, cured = str(pair["name"]), pair.get("cured_cycles")
        gain = 100.0 * (1.0 - fmean(cured) / fmean(pair["sick_cycles"])) if cured else None
        expected = {"name": name, "set": PLANTED, "causes": list(pair["causes"]), "disease": pair["disease"]}
        try:
            said = verdict(reports(str(pair["sick"]["run"])).launch(int(pair["sick"]["launch"])))
        except NcubbleError as error:
            unscored[name] = error.message
            continue
        if pair.get("nsight"):
            said |= nsight(pair["nsight"])
        yield judged({**expected, "change": str(pair["what"]), "gain_pct": gain}, said)


def foreign(content: Mapping[str, Any], reports: Opener, unscored: dict[str, str], of: str = FOREIGN) -> Iterator[Row]:
    """A row per labelled experiment of the set ``of``: of its base launch, and otherwise as for
    pairs."""
    for one in content["experiments"]:
        name, gain = str(one["experiment"]), one.get("gain")
        if not one["label"] or one.get("launch") is None:
            unscored[name] = "was not profiled" if one["label"] else "its experiment found no cause"
            continue
        expected = {"name": name, "set": of, "causes": list(one["label"]), "disease": None}
        try:
            said = verdict(reports(str(one["report"])).launch(int(one["launch"])))
        except NcubbleError as error:
            unscored[name] = error.message
            continue
        if one.get("nsight") is not None:
            said |= nsight(one["nsight"])
        change = {"change": gain["change"] if gain else None, "gain_pct": gain["gain_pct"] if gain else None}
        yield judged({**expected, **change}, said)


def verdict(launch: Launch) -> Row:
    """What ncubble says of one launch, and what Nsight's rules in the same report estimate."""
    told = account(launch)
    found = diagnose(launch, told)
    first = found.causes[0] if found.causes else None
    return {
        "cause": found.cause,
        "said_disease": found.disease,
        "share_pct": first.pct if first else None,
        **predicted(launch, told, found),
        **nsight(launch.rules.to_dict("records")),
    }


def predicted(launch: Launch, told: BubbleAccount | None, found: Diagnosis) -> Row:
    """What curing the cause that is named gives: expected, least and most. None where that is not
    identified, or where another cause heads the list, whose gain is of another cure."""
    named = bool(found.causes) and found.causes[0].cause == found.cause
    identified = named and found.causes[0].predicted_gain_pct is not None
    fix = fixes(launch, told, found)[0] if identified else None
    return {
        "predicted_gain_pct": fix.predicted_gain_pct if fix else None,
        "predicted_low_pct": fix.low if fix else None,
        "predicted_high_pct": fix.high if fix else None,
    }


def nsight(rules: Iterable[Mapping[Any, Any]]) -> Row:
    """The largest speedup that Nsight's rules estimate for the whole kernel, and of any kind; None
    where none does."""
    told = [(rule["speedup_pct"], rule["speedup_kind"]) for rule in rules if rule["speedup_pct"] == rule["speedup_pct"]]
    told = [(pct, kind) for pct, kind in told if pct is not None]
    return {
        "nsight_global_pct": max((pct for pct, kind in told if kind == "global"), default=None),
        "nsight_any_pct": max((pct for pct, _ in told), default=None),
    }


def judged(expected: Row, said: Row) -> Row:
    """One row with whether cause and disease are right; where none is expected, the disease is not
    judged."""
    disease = expected["disease"]
    return {
        **expected,
        **said,
        "right": said["cause"] in expected["causes"],
        "disease_right": None if disease is None else said["said_disease"] == disease,
    }


def scores(rows: Sequence[Row]) -> dict[str, Any]:
    """Of one set: how many causes and diseases are right, what was said instead, and errors of
    estimated gains."""
    diseased = [row for row in rows if row["disease"] is not None]
    healthy = [row for row in rows if none_expected(row)]
    top1 = 100.0 * sum(row["right"] for row in rows) / len(rows)
    gains = {who: gain_errors(rows, member) for who, member in ESTIMATES.items()}
    middle = gains["ours"]["median_abs"]
    return {
        "launches": len(rows),
        "right": sum(row["right"] for row in rows),
        "top1_pct": top1,
        "diseases": len(diseased),
        "diseases_right": sum(row["disease_right"] for row in diseased),
        "without_disease": len(healthy),
        "diseases_unneeded": sum(row["said_disease"] is not None for row in healthy),
        "confused": [
            {"name": row["name"], "expected": row["causes"], "said": row["cause"]} for row in rows if not row["right"]
        ],
        "gains": gains,
        "in_interval_pct": in_interval_pct(rows),
        "targets": {
            "top1_pct": {"limit": TOP1_PCT, "at_least": True, "met": top1 >= TOP1_PCT},
            "gain": {"limit": GAIN_POINTS, "met": middle is not None and middle <= GAIN_POINTS},
        },
    }


def none_expected(row: Mapping[str, Any]) -> bool:
    """Whether the launch has no disease to name. Labels of foreign launches have causes only, and
    do not tell."""
    return row["set"] == PLANTED and row["disease"] is None


def cures(row: Mapping[str, Any]) -> bool:
    """Whether a cure was measured, and cured anything."""
    return row["gain_pct"] is not None and row["gain_pct"] > 0


def in_interval_pct(rows: Sequence[Row]) -> float | None:
    """How often the measured gain lies between the least and the most that was predicted; None
    without any."""
    told = [row for row in rows if cures(row) and row["predicted_gain_pct"] is not None]
    inside = [row["predicted_low_pct"] <= row["gain_pct"] <= row["predicted_high_pct"] for row in told]
    return 100.0 * fmean(inside) if inside else None


def gain_errors(rows: Sequence[Row], member: str) -> dict[str, Any]:
    """Errors of the estimates in ``member`` against measured gains, in points of kernel time.

    ``median_abs`` is over the launches with an estimate; ``silent_abs`` over all, where silence
    means no gain.
    """
    measured = [row for row in rows if cures(row)]
    told = [abs(row[member] - row["gain_pct"]) for row in measured if row[member] is not None]
    silent = [abs((row[member] or 0.0) - row["gain_pct"]) for row in measured]
    return {
        "measured": len(measured),
        "told": len(told),
        "median_abs": median(told) if told else None,
        "worst_abs": max(told) if told else None,
        "silent_abs": median(silent) if silent else None,
    }
