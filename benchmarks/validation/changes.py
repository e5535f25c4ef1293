"""Advice against changes that were made: the first change of each base's report is followed, and compared with the
best single change that was measured. Loss is in points of the base's time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd

from benchmarks.changes import plan
from benchmarks.changes.pack import TABLE
from benchmarks.validation.page import MET, MISSED, NOTHING, Result, Table, number, origin, rounded
from benchmarks.validation.truth import LOG
from ncubble import __version__
from ncubble.analysis.changes.change import BYTES, NONE, Change
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import open_reports
from ncubble.profiling.runs import Run
from ncubble.recordings import VALIDATION

GAINS_PCT, LITTLE_PCT, NEAR = 5.0, 3.0, 5.0
"""A base can gain where its best change gains so much; it cannot where none gains the second; a change within so many
points of the best one is as good."""
FROZEN, LAST_DRAWN = "library", "cutlass"
"""Sides that no rule was learned from; those before them were retired."""
OK, BUILD = "ok", "build"
Advice = list[Change]


@dataclass(frozen=True)
class Base:
    """A base with its verdict, the changes that were measured of it, (kind, value) to row, and what Nsight's rules
    say of it."""

    gpu: str
    family: str
    name: str
    settings: Mapping[str, int]
    verdict: LaunchVerdict
    changes: Mapping[tuple[str, int], Mapping[str, Any]]
    rules: Sequence[Mapping[str, Any]] = ()

    @property
    def best(self) -> float:
        """The largest gain that was measured; 0 where none gains."""
        return max([0.0, *(row["gain_pct"] for row in self.changes.values() if row["outcome"] == OK)])

    def row_of(self, change: Change) -> Mapping[str, Any] | None:
        """What was measured of a change; None where it was not made."""
        value = change.after
        if change.kind == BUILD:  # which names no value: there is one way to build it right
            return next((row for (kind, _), row in self.changes.items() if kind == BUILD), None)
        if value in ("twice", "half"):
            now = next((row["before"] for (kind, _), row in self.changes.items() if kind == change.kind), None)
            value = (2 * now if value == "twice" else now // 2) if now else None
        return self.changes.get((change.kind, value)) if isinstance(value, int) else None

    def gained(self, change: Change) -> float | None:
        """What a change gained; None where it was not made, or gave other results."""
        row = self.row_of(change)
        return float(row["gain_pct"]) if row is not None and row["outcome"] == OK else None


def bases(folder: Path, split: str) -> Iterator[Base]:
    """Bases of one side, as ``plan.split`` names them."""
    sides = plan.split()
    for place in sorted(path.parent for path in folder.glob(f"*/{TABLE}")):
        table = pd.read_parquet(place / TABLE)
        rows = {key: frame.to_dict("records") for key, frame in table.groupby(["family", "base"])}
        launched = {path.parent: json.loads(path.read_text(encoding="utf-8")) for path in place.glob("*/launches.json")}
        wanted = sorted(run for run, told in launched.items() if any(sides[family] == split for family, *_ in told))
        reports, failures = open_reports(wanted)
        if failures:
            raise failures[0].error
        while reports:  # each is let go of when it is done
            report = reports.pop(0)
            for number_, (family, base, settings) in enumerate(launched[report.path]):
                if sides[family] != split or (family, base) not in rows:
                    continue
                changes = {(row["kind"], int(row["after"])): row for row in rows[family, base]}
                verdict = launch_verdict(report.launch(number_))
                rules = report.rules[report.rules["launch"] == number_].to_dict("records")
                yield Base(place.name, family, base, settings, verdict, changes, rules)


def advised(base: Base) -> Advice:
    """What the report says."""
    return [change for change in base.verdict.changes if not change.blocked]


def _stages(base: Base) -> int:
    return next((base.settings[name] for name in ("num_stages", "stages", "STAGES") if name in base.settings), 0)


def one_stage_more(base: Base) -> Advice:
    return [Change(kind="stages", after=_stages(base) + 1)]


def deepest(base: Base) -> Advice:
    depths = [value for (kind, value), row in base.changes.items() if kind == "stages" and row["outcome"] == OK]
    return [Change(kind="stages", after=max(depths))] if depths else []


def twice_the_tile(base: Base) -> Advice:
    return [Change(kind="tile_n", after="twice")]


def nsight(base: Base) -> Advice:
    """What follows from Nsight's rule with the largest speedup, where a change that was made does: of occupancy that
    shared memory limits a stage less, that registers limit half the columns; of a small grid half the rows."""
    rule = max(base.rules, key=lambda one: one["speedup_pct"] or 0.0, default=None)
    if rule is None or not rule["speedup_pct"]:
        return []
    if rule["title"] == "Small Grid":
        return [Change(kind="tile_m", after="half")]
    if "shared memory" in rule["message"] and (now := _stages(base)) > 1:
        return [Change(kind="stages", after=now - 1)]
    return [Change(kind="tile_n", after="half")] if "registers" in rule["message"] else []


def nothing(base: Base) -> Advice:
    return []


ANSWERS: dict[str, Callable[[Base], Advice]] = {
    "changes": advised,
    "always one stage more": one_stage_more,
    "always the deepest that fits": deepest,
    "always twice the tile": twice_the_tile,
    "Nsight's rules": nsight,
    "always nothing": nothing,
}


def score(measured: Sequence[Base], answer: Callable[[Base], Advice]) -> dict[str, Any]:
    """Scores of an answer over bases."""
    losses, near, modest, errors, inside = [], [], [], [], []
    figures = followed = 0
    not_made: list[str] = []
    for base in measured:
        advice = answer(base)
        first = advice[0] if advice else None
        gained = base.gained(first) if first else None
        if first is not None and first.kind not in (NONE, BYTES):
            followed += 1
            figures += first.gain_pct is not None
            if gained is None:
                not_made.append(f"{base.family} {base.name}: {first.kind} {first.after}")
        loss = base.best - (gained or 0.0)
        losses.append((loss, f"{base.family} {base.name} {base.gpu}"))
        if base.best >= GAINS_PCT:
            near.append(loss <= NEAR)
        if base.best < LITTLE_PCT:
            modest.append(first is None or (first.gain_pct or 0.0) < LITTLE_PCT)
        for change in advice:
            found = base.gained(change)
            if change.gain_pct is not None and found is not None:
                errors.append(abs(change.gain_pct - found))
                if change.low is not None and change.high is not None:
                    inside.append(change.low <= found <= change.high)
    worst = max(losses)
    return {
        "bases": len(losses),
        "loss_mean": fmean(loss for loss, _ in losses),
        "loss_worst": worst[0],
        "worst": worst[1],
        "near_pct": _share(near),
        "near_of": len(near),
        "none_pct": _share(modest),
        "none_of": len(modest),
        "figures": len(errors),
        "error_median": median(errors) if errors else None,
        "error_p90": sorted(errors)[math.ceil(0.9 * len(errors)) - 1] if errors else None,
        "with_figure_pct": 100.0 * figures / followed if followed else None,
        "inside_pct": _share(inside),
        "not_made": not_made,
    }


def _share(hits: Sequence[bool]) -> float | None:
    return 100.0 * fmean(hits) if hits else None


def score_changes(folder: Path, split: str = "learn") -> dict[str, Any]:
    """Scores of the report's changes and of other answers, over all bases and each third."""
    measured = list(bases(folder, split))
    thirds = {name: [base for base in measured if base.name == name] for name in (plan.BAD, plan.FAIR, plan.WELL)}
    places = sorted(path.parent for path in folder.glob(f"*/{TABLE}"))
    return {
        "validation": "changes",
        "origins": {place.name: _origin(place) for place in places},
        "split": split or "learn",
        "changes": sum(len(base.changes) for base in measured),
        "answers": {name: score(measured, answer) for name, answer in ANSWERS.items()},
        "thirds": {name: score(part, advised) for name, part in thirds.items() if part},
    }


def line(result: Result, commit: str) -> dict[str, Any]:
    """The log entry of a scoring."""
    figures = {name: result["answers"]["changes"][name] for _, name, _, _ in TARGETS}
    scored = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"side": result["split"], "bases": result["answers"]["changes"]["bases"]}
    return {"scored": scored, **about, "commit": commit, "version": __version__, **rounded(figures)}


def _origin(place: Path) -> dict[str, Any]:
    """What was measured on what, of the manifest of its first run."""
    manifest = Run.load(min(path.parent for path in place.glob("*/launches.json"))).manifest
    return {"device": manifest.device, "ncu_version": manifest.ncu_version, "started": manifest.started}


TARGETS: tuple[tuple[str, str, float, float], ...] = (
    ("time lost by following the first change, mean, points", "loss_mean", -math.inf, 4.0),
    ("… worst, points", "loss_worst", -math.inf, 15.0),
    ("first change within 5 points of the best, where that gains 5 %, %", "near_pct", 75.0, math.inf),
    ("none, or less than 3 % promised, where no change gains 3 %, %", "none_pct", 80.0, math.inf),
    ("predicted against measured gain, median, points", "error_median", -math.inf, 5.0),
    ("… 90th percentile, points", "error_p90", -math.inf, 15.0),
    ("first changes that carry a figure, %", "with_figure_pct", 60.0, math.inf),
    ("intervals of 80 % that hold, %", "inside_pct", 75.0, 90.0),
)


def changes_tables(result: Result) -> list[Table]:
    """Targets, all answers, and the thirds."""
    today = result["answers"]["changes"]
    rows = []
    for words, name, least, most in TARGETS:
        value = today[name]
        target = f"{least:g}–{most:g}" if math.isfinite(least) and math.isfinite(most) else f"≤ {most:g}"
        target = f"≥ {least:g}" if math.isinf(most) else target
        met = NOTHING if value is None else MET if least <= value <= most else MISSED
        rows.append((words, number(value), target, met))
    header = ("answer", "n", "mean", "worst", "near %", "none %", "error", "p90", "figure %", "inside %")
    return [
        Table("targets", "Targets", ("figure", "today", "target", ""), rows),
        Table("answers", "Answers, over all bases", header, _rows(result["answers"])),
        Table("thirds", "Changes, by how well the base is tuned", header, _rows(result["thirds"])),
        _scorings(VALIDATION / "changes" / LOG),
    ]


def _scorings(log: Path) -> Table:
    """Each scoring of the frozen side."""
    lines = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    header = ("scored", "side", "commit", "bases", *(name for _, name, _, _ in TARGETS))
    rows = [
        (
            *(told["scored"][:16], told["side"], told["commit"][:12], str(told["bases"])),
            *(number(told[name]) for _, name, _, _ in TARGETS),
        )
        for told in lines
    ]
    return Table("scorings", "Scorings of frozen sides", header, rows, texts=3)


def _rows(scored: Mapping[str, Any]) -> list[tuple[str, ...]]:
    names = (
        "loss_mean",
        "loss_worst",
        "near_pct",
        "none_pct",
        "error_median",
        "error_p90",
        "with_figure_pct",
        "inside_pct",
    )
    return [(name, str(one["bases"]), *(number(one[key]) for key in names)) for name, one in scored.items()]


def changes_notes(result: Result) -> list[str]:
    """Which side, the worst base, and advice that no configuration follows."""
    today = result["answers"]["changes"]
    by = [f"{gpu}: {origin(made)}" for gpu, made in sorted(result["origins"].items())]
    notes = [
        *by,
        f"side: {result['split']}, {result['changes']} changes of {today['bases']} bases; worst: {today['worst']}",
    ]
    return [*notes, f"first changes not made, or with other results: {len(today['not_made'])} (`not_made` of --json)"]
