"""What recorded launches are told to change first against what is wrong with them, and gains against what cures gained.

Three sets: ``planted`` are kernels written with one loss each, beside a cured twin; ``foreign`` are launches of
libraries and compilers, labelled by changing them and measuring; ``second`` are more of these, measured after the
rules were fixed. A change is right where it acts on a part that the pair or the experiment admits; of pairs its kind
is judged, too. Gains are in percent of the launch's cycles, ours and those of Nsight's own rules; cures that cured
nothing are left out.

What was planted is not all that is wrong: most planted kernels also run mma.sync. So the first change is judged as it
stands (``first_right``), and once more without those of ``BESIDE`` that nothing was planted for (``right``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.validation.page import NOTHING, Result, Table, number, origin, verdict
from benchmarks.validation.recorded import Opener, load, opener, origin_of, scored, unscored_notes
from ncubble.analysis.changes.change import NONE, Change
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import Launch
from ncubble.errors import ReportError

PLANTED, FOREIGN, SECOND = "planted", "foreign", "second"
FILES = {
    PLANTED: Path("planted.json"),
    FOREIGN: Path("foreign") / "labels.json",
    SECOND: Path("second") / "labels.json",
}
TOP1_PCT, GAIN_POINTS = 95.0, 10.0
"""Targets: share of correctly named parts, and the median error of predicted gains in points of
kernel time."""
BESIDE = (NONE, "path")
LABELS = {"memory_bound": ("bytes", NONE), "tiny_launch": (NONE, "tail")}
"""Parts that are right for labels which are none."""
ESTIMATES = {"ours": "predicted_gain_pct", "nsight global": "nsight_global_pct", "nsight any": "nsight_any_pct"}
"""Estimators of the gain, and the row member of each."""

SETS = {PLANTED: "planted, fitted", FOREIGN: "foreign, fitted", SECOND: "foreign, unseen"}
Row = dict[str, Any]


@dataclass(frozen=True)
class LabelledLaunch:
    """A recorded launch whose trouble is known.

    ``expected``: the members of its row that are known without ncubble. ``runs``: the run of the
    launch, and that of its cured twin. ``nsight``: what Nsight's rules estimate in a run with all
    sections, where there is one. ``unscored``: why nothing can be held against it.
    """

    expected: Row
    runs: Sequence[str]
    launch: int
    nsight: Sequence[Result] | None
    unscored: str = ""


def score_diagnosis(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready, of recordings in
    ``folder``.

    Raises ReportError where they are missing, damaged or hold nothing that could be scored.
    """
    files = {name: folder / file for name, file in FILES.items() if (folder / file).is_file()}
    if not files:
        raise ReportError(
            f"{folder}: contains neither {' nor '.join(map(str, FILES.values()))}", "measure with --measure"
        )
    contents = {name: load(file) for name, file in files.items()}
    sets: dict[str, dict[str, Row]] = {}
    origins: dict[str, Row] = {}
    unscored: dict[str, str] = {}
    for name, content in contents.items():
        place, launches = files[name].parent, list(_labelled(name, content))
        reports = opener(place, [launch.runs[0] for launch in launches if not launch.unscored])
        named = {str(launch.expected["name"]): launch for launch in launches}
        sets[name], missing = scored(named.items(), partial(_row, reports))
        origins[name] = origin_of(
            content, place, [run for scored_name in sets[name] for run in named[scored_name].runs]
        )
        unscored |= missing
    rows = [row for members in sets.values() for row in members.values()]
    if not rows:
        raise ReportError(f"{folder}: no launch could be scored", "measure them with --measure")
    return {
        "schema": 1,
        "validation": "diagnosis",
        "origins": origins,
        "scores": {name: scores(list(members.values())) for name, members in sets.items() if members},
        "launches": rows,
        "unscored": unscored,
    }


def _labelled(name: str, content: Result) -> Iterator[LabelledLaunch]:
    """The launches of a set: the sick side of a pair, or the base launch of an experiment."""
    for pair in content["pairs"] if name == PLANTED else ():
        sick, cured = pair["sick"], pair.get("cured_cycles")
        expected = {
            **{"name": str(pair["name"]), "set": name, "parts": list(pair["parts"]), "kinds": list(pair["kinds"])},
            "change": str(pair["what"]),
            "gain_pct": 100.0 * (1.0 - fmean(cured) / fmean(pair["sick_cycles"])) if cured else None,
        }
        runs = [str(side["run"]) for side in (sick, pair.get("cured")) if side]
        yield LabelledLaunch(expected, runs, int(sick["launch"]), pair.get("nsight") or None)
    for experiment in content["experiments"] if name != PLANTED else ():
        label, launch, gain = experiment["label"], experiment.get("launch"), experiment.get("gain") or {}
        why = "" if label and launch is not None else "was not profiled" if label else "its experiment found no cause"
        if label == ["no_tensor_work"]:  # from its code, not from its experiment
            why = "its label only states that it issued no MMAs"
        parts = [part for cause in label or () for part in LABELS.get(cause, (cause,))]
        expected = {
            **{"name": str(experiment["experiment"]), "set": name, "parts": parts, "kinds": []},
            "change": gain.get("change"),
            "gain_pct": gain.get("gain_pct"),
        }
        runs = [] if why else [str(experiment["report"])]
        yield LabelledLaunch(expected, runs, int(launch or 0), experiment.get("nsight"), why)


def _row(reports: Opener, labelled: LabelledLaunch) -> Row:
    if labelled.unscored:
        raise ReportError(labelled.unscored, "")
    said = judgement(reports(labelled.runs[0]).launch(labelled.launch), labelled.expected["parts"])
    if labelled.nsight is not None:
        said |= nsight(labelled.nsight)
    return judged(labelled.expected, said)


def judgement(launch: Launch, parts: Sequence[str]) -> Row:
    """What ncubble says to change in a launch with a loss in one of ``parts``, and what Nsight's rules
    in the same report estimate."""
    verdict = launch_verdict(launch)
    told = said(verdict, parts)
    return {
        "first": verdict.cause,
        "cause": told.cause,
        "kind": told.change,
        "share_pct": told.cause_pct,
        **predicted(told.first),
        **nsight(launch.rules.to_dict("records")),
    }


def said(verdict: LaunchVerdict, parts: Sequence[str]) -> LaunchVerdict:
    """The verdict without leading changes of ``BESIDE`` that act on none of ``parts``, where others
    are left that are not blocked."""
    for place, change in enumerate(verdict.changes):
        rest = replace(verdict, changes=verdict.changes[place:])
        if not change.blocked and (change.kind not in BESIDE or rest.cause in parts):
            return rest
    return verdict


def predicted(change: Change | None) -> Row:
    """What a change gains: expected, least and most; None where that is not known."""
    return {
        "predicted_gain_pct": change.gain_pct if change else None,
        "predicted_low_pct": change.low if change else None,
        "predicted_high_pct": change.high if change else None,
    }


def nsight(rules: Iterable[Mapping[Any, Any]]) -> Row:
    """The largest speedup that Nsight's rules estimate for the whole kernel, and of any kind; None
    where none does."""
    speedups = [(rule["speedup_pct"], rule["speedup_kind"]) for rule in rules]
    known = [(pct, kind) for pct, kind in speedups if pct is not None and pct == pct]
    return {
        "nsight_global_pct": max((pct for pct, kind in known if kind == "global"), default=None),
        "nsight_any_pct": max((pct for pct, _ in known), default=None),
    }


def judged(expected: Row, judgement: Row) -> Row:
    """One row with whether part and kind are right; where none is expected, the kind is not judged."""
    return {
        **expected,
        **judgement,
        "first_right": judgement["first"] in expected["parts"],
        "right": judgement["cause"] in expected["parts"],
        "kind_right": judgement["kind"] in expected["kinds"] if expected["kinds"] else None,
    }


def scores(rows: Sequence[Row]) -> dict[str, Any]:
    """Of one set: how many parts and kinds are right, what was said instead, and errors of
    estimated gains."""
    kinds = [row["kind_right"] for row in rows if row["kind_right"] is not None]
    right = sum(row["right"] for row in rows)
    top1 = 100.0 * right / len(rows)
    gains = {who: gain_errors(rows, member) for who, member in ESTIMATES.items()}
    middle = gains["ours"]["median_abs"]
    return {
        "launches": len(rows),
        "first_right": sum(row["first_right"] for row in rows),
        "right": right,
        "top1_pct": top1,
        "kinds": len(kinds),
        "kinds_right": sum(kinds),
        "confused": [
            {"name": row["name"], "expected": row["parts"], "said": row["cause"]} for row in rows if not row["right"]
        ],
        "gains": gains,
        "in_interval_pct": in_interval_pct(rows),
        "targets": {
            "top1_pct": {"limit": TOP1_PCT, "at_least": True, "met": top1 >= TOP1_PCT},
            "gain": {"limit": GAIN_POINTS, "met": middle is not None and middle <= GAIN_POINTS},
        },
    }


def cures(row: Result) -> bool:
    """Whether a cure was measured, and cured anything."""
    return row["gain_pct"] is not None and row["gain_pct"] > 0


def in_interval_pct(rows: Sequence[Row]) -> float | None:
    """How often the measured gain lies between the least and the most that was predicted; None
    without any."""
    inside = [
        row["predicted_low_pct"] <= row["gain_pct"] <= row["predicted_high_pct"]
        for row in rows
        if cures(row) and row["predicted_gain_pct"] is not None
    ]
    return 100.0 * fmean(inside) if inside else None


def gain_errors(rows: Sequence[Row], member: str) -> dict[str, Any]:
    """Errors of the estimates in ``member`` against measured gains, in points of kernel time.

    ``median_abs`` is over the launches with an estimate; ``silent_abs`` over all, where silence
    means no gain.
    """
    measured = [row for row in rows if cures(row)]
    estimated = [abs(row[member] - row["gain_pct"]) for row in measured if row[member] is not None]
    silent = [abs((row[member] or 0.0) - row["gain_pct"]) for row in measured]
    return {
        "measured": len(measured),
        "told": len(estimated),
        "median_abs": median(estimated) if estimated else None,
        "worst_abs": max(estimated) if estimated else None,
        "silent_abs": median(silent) if silent else None,
    }


def diagnosis_tables(result: Result) -> list[Table]:
    """Scores and errors of gains; ``confused`` of the JSON has what was said instead."""
    return [_scores(result), _gains(result)]


def diagnosis_notes(result: Result) -> list[str]:
    """Where each set comes from, launches that could not be scored, each with the reason, and cures
    that cured nothing."""
    idle = [row for row in result["launches"] if row["gain_pct"] is not None and not cures(row)]
    return [
        *(f"{SETS[name]}: {origin(measured)}" for name, measured in result["origins"].items()),
        *unscored_notes(result),
        *(
            f"{row['name']}: excluded from the gains, because its fix gained {number(row['gain_pct'])} %"
            for row in idle
        ),
    ]


def _scores(result: Result) -> Table:
    header = ("launches", "n", "first change right", "planted change right", "%", f"≥ {TOP1_PCT:g}", "kind right")
    rows = [
        (
            SETS[name],
            str(score["launches"]),
            str(score["first_right"]),
            str(score["right"]),
            number(score["top1_pct"]),
            verdict(score["targets"]["top1_pct"]),
            f"{score['kinds_right']} of {score['kinds']}" if score["kinds"] else NOTHING,
        )
        for name, score in result["scores"].items()
    ]
    return Table("scores", "Part that the first change acts on", header, rows)


def _gains(result: Result) -> Table:
    header = (
        *("launches", "estimate", "cures", "estimated", "median error", f"≤ {GAIN_POINTS:g}", "worst"),
        *("missing as 0", "in interval %"),
    )
    rows = [
        (
            SETS[name] if who == "ours" else "",
            who,
            str(errors["measured"]),
            str(errors["told"]),
            number(errors["median_abs"]),
            verdict(score["targets"]["gain"] if who == "ours" else None),
            number(errors["worst_abs"]),
            number(errors["silent_abs"]),
            number(score["in_interval_pct"] if who == "ours" else None),
        )
        for name, score in result["scores"].items()
        for who, errors in score["gains"].items()
    ]
    return Table("gains", "Estimated against measured gains, in points of kernel time", header, rows, texts=2)
