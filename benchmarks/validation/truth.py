"""Account, its largest part, the gain of that and depth of measured launches, against measurements.

Truth are the shares of cycles that vanish when a part is taken out of the machine code, shared out
by Shapley values (``MeasuredPart.measured``), and what vanishes with a part ``alone``. Estimates
are made anew by the code that runs. Launches whose replay did not repeat the program's results
(but for kernels that add in any order), and those of which a part could not be measured, neither
alone nor together with another, are named and not scored. Nor are copies of kernels that a memory
bounds: without them, its work is gone. Means come with an interval of 95 %,
from families drawn anew (bootstrap), since launches of a family are alike. Every launch of a sweep
predicts the other depths of its family on its GPU.

Held-out launches are scored from a clean commit only, and each scoring is logged in
``scorings.jsonl`` beside the store.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.validation.account import BUSY, label, naive_of
from benchmarks.validation.depths import PROMISED_PCT, Row, depth_scores, interval
from benchmarks.validation.page import NOTHING, Result, Table, number, origin, rounded
from benchmarks.validation.recorded import scored, unscored_notes
from benchmarks.validation.store import TruthLaunch, stored
from ncubble import __version__
from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, MeasuredPart
from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.parts import JOINED, PARTS
from ncubble.analysis.account.shares import PART_OF, REST
from ncubble.analysis.account.units import MEMORY
from ncubble.analysis.changes.change import gain_of
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.provenance import git_state
from ncubble.recordings import VALIDATION
from ncubble.sass.opcodes import adds_in_any_order

LOG = "scorings.jsonl"
GAINED_PCT = 1.0
"""A promised gain with a measured one below this is a broken promise."""
ENOUGH_PCT, NEAR_PCT = 5.0, 3.0
"""A launch has a first cause if removing one part gains at least the first; every part within the
second of the best is a right answer."""


def score_truth(folder: Path, split: str = "learn") -> dict[str, Any]:
    """The whole result, JSON-ready, of one side of the
    store in ``folder``. Raises ReportError where nothing could be scored."""
    launches = list(stored(folder, split))
    rows, unscored = scored(((f"{one.name} {one.gpu}", one) for one in launches), _row)
    if not rows:
        raise ReportError(f"{folder / split}: no launch could be scored", "the messages above say why")
    members = list(rows.values())
    return {
        "schema": 1,
        "validation": "truth",
        "split": split,
        "launches": len(launches),
        "origins": {
            gpu: _origin([one for one in launches if one.gpu == gpu]) for gpu in sorted({one.gpu for one in launches})
        },
        "scores": {
            "all": scores(members),
            **{f"gpu {name}": scores(of) for name, of in _by(members, "gpu").items()},
            **{f"kind {name}": scores(of) for name, of in _by(members, "kind").items()},
        },
        "parts": {
            part: part_errors(members, part) for part in sorted({part for row in members for part in row["parts"]})
        },
        "depth": depth_scores(launches),
        "rows": members,
        "unscored": unscored,
    }


def _origin(launches: Sequence[TruthLaunch]) -> Row:
    """Of the launches of one GPU model: where they come from, by all their commits and days."""
    manifest, made = launches[0].launch.report.run.manifest, sorted((one.started, one.commit) for one in launches)
    return {
        **{"device": manifest.device, "ncu_version": manifest.ncu_version},
        "commits": list(dict.fromkeys(commit for _, commit in made if commit)),
        "days": list(dict.fromkeys(started[:10] for started, _ in made)),
    }


def _by(rows: Iterable[Row], member: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[member]].append(row)
    return dict(sorted(groups.items()))


def _row(one: TruthLaunch) -> Row:
    """Estimates and measurements of one launch; raises ReportError where it cannot be scored."""
    measured = {part.part: part for part in one.ablation.parts}
    if one.ablation.faithful is False and not adds_in_any_order(one.launch.source["sass"]):
        raise ReportError("its replay did not repeat the program's results", "")
    if REST not in measured or not _parts_of_code(one) <= {name for part in measured.values() for name in part.names}:
        raise ReportError("not every part could be measured, alone or with another", "")
    bubbles = account(one.launch)
    if bubbles is None:
        raise ReportError("it has no account", "")
    busy = math.fsum(bubbles.parts.get(part, 0.0) for part in BUSY)
    naive = naive_of(one.launch, busy)
    parts = {
        name: {
            **{"measured": part.measured, "alone": part.alone},
            **{"account": _sum(bubbles.parts, part), "naive": _sum(naive, part)},
        }
        for name, part in measured.items()
        if name != REST and not (bubbles.unit in MEMORY and "copy_cost" in part.names)
    }
    removable = [part for part in bubbles.bubbles if PARTS[part].fix]
    named, copied = _named(removable, parts), _named(["copy_cost"], parts)
    return {
        **{"name": one.name, "family": one.family, "kind": one.kind, "gpu": one.gpu, "stages": one.stages},
        "cycles": one.ablation.cycles,
        "parts": parts,
        "first": first_cause(parts),
        "enough": is_enough(parts, named),
        "least": is_least(parts, named),
        "copies": is_enough(parts, copied),
        "gain": _gain(bubbles, removable[:1], {name: measured[name] for name in parts}),
    }


def _parts_of_code(one: TruthLaunch) -> set[str]:
    """The parts that the kernel has, measured or not."""
    return {PART_OF[variant.name] for variant in one.ablation.variants if variant.name in PART_OF}


def _sum(parts: Mapping[str, float], part: MeasuredPart) -> float:
    return math.fsum(parts.get(name, 0.0) for name in part.names)


def first_cause(parts: Mapping[str, Row]) -> Row:
    """The largest part by measurement and by estimate ("" where none has ``LEAST_CAUSE_PCT``),
    whether they are the same, and the ``regret``: measured points of the right one beyond those of
    the one that is named."""
    first = {side: max(parts, key=lambda name: parts[name][side], default="") for side in ("measured", "account")}
    named = {side: name if name and parts[name][side] >= LEAST_CAUSE_PCT else "" for side, name in first.items()}
    got = {side: parts[name]["measured"] if name else 0.0 for side, name in named.items()}
    return {**named, "right": named["measured"] == named["account"], "regret": got["measured"] - got["account"]}


def _named(ranked: Iterable[str], parts: Iterable[str]) -> str:
    """The measured part, alone or with another, that ``ranked`` parts begin with; "" for none."""
    return next((part for name in ranked for part in parts if name in part.split(JOINED)), "")


def is_enough(parts: Mapping[str, Row], named: str) -> bool | None:
    """Whether removing the part ``named`` first gains as much as removing any other part; None
    where no removal gains much."""
    alone = {name: part["alone"] for name, part in parts.items() if part["alone"] is not None}
    if not alone or max(alone.values()) < ENOUGH_PCT:
        return None
    return bool(alone.get(named, -math.inf) >= max(alone.values()) - NEAR_PCT)


def is_least(parts: Mapping[str, Row], named: str) -> bool | None:
    """Whether the part ``named`` is enough, and not more than is needed: removing copies removes
    the waits for them, too, so that they always gain as much as these."""
    if not is_enough(parts, named):
        return is_enough(parts, named)
    return named != "copy_cost" or not is_enough(parts, "data_wait")


def _gain(bubbles: BubbleAccount, first: Sequence[str], measured: Mapping[str, MeasuredPart]) -> Row | None:
    """What the removal of the largest part is estimated to give, and what vanishes with it alone."""
    part = next((part for part in measured.values() if set(first) & set(part.names)), None)
    if part is None or part.alone is None:
        return None
    (name,) = first
    return {
        "part": name,
        "promised": gain_of(bubbles.parts[name], 100.0 - bubbles.busy_pct).expected,
        "alone": part.alone,
    }


def scores(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors of account, first cause and gain over ``rows``, in points of kernel time."""
    right, within = interval(rows, lambda row: [100.0 * row["first"]["right"]])
    gains = [row["gain"] for row in rows if row["gain"] is not None]
    shares = {name: [row[name] for row in rows if row[name] is not None] for name in ("enough", "least", "copies")}
    return {
        "launches": len(rows),
        "account": _errors(rows, "account"),
        "naive": _errors(rows, "naive"),
        "first_right_pct": right,
        "first_right_interval": within,
        **{f"first_{name}_pct": 100.0 * fmean(right) if right else None for name, right in shares.items()},
        "first_regret": fmean(row["first"]["regret"] for row in rows),
        "gains": {
            "count": len(gains),
            "mean_abs": fmean(abs(gain["promised"] - gain["alone"]) for gain in gains) if gains else None,
            "median_abs": median(abs(gain["promised"] - gain["alone"]) for gain in gains) if gains else None,
            "broken": sum(gain["promised"] > PROMISED_PCT and gain["alone"] < GAINED_PCT for gain in gains),
        },
    }


def _errors(rows: Sequence[Row], side: str) -> Row:
    def of(row: Row) -> list[float]:
        return [abs(cells[side] - cells["measured"]) for cells in row["parts"].values()]

    mean, within = interval(rows, of)
    off = [(error, row["name"], row["gpu"]) for row in rows for error in of(row)]
    worst = max(off, default=None)
    return {
        "count": len(off),
        "mean_abs": mean,
        "interval": within,
        "worst_abs": worst[0] if worst else None,
        "worst": f"{worst[1]} {worst[2]}" if worst else "",
    }


def part_errors(rows: Sequence[Row], part: str) -> Row:
    """Errors of one part over the launches that have it; ``bias`` is account less measured."""
    cells = [(row, row["parts"][part]) for row in rows if part in row["parts"]]
    off = [(cell["account"] - cell["measured"], row["name"], row["gpu"]) for row, cell in cells]
    worst = max(off, key=lambda item: abs(item[0]))
    return {
        "count": len(off),
        "mean_abs": fmean(abs(error) for error, *_ in off),
        "bias": fmean(error for error, *_ in off),
        "worst": worst[0],
        "worst_of": f"{worst[1]} {worst[2]}",
        "naive_mean_abs": fmean(abs(cell["naive"] - cell["measured"]) for _, cell in cells),
    }


def log_scoring(
    folder: Path, split: str, score: Callable[[Path, str], Result], line: Callable[[Result, str], Result]
) -> Result:
    """Score one side of a store, and append a ``line`` to ``scorings.jsonl`` in ``folder``.

    Raises UsageError for a tree with changes, or without a checkout.
    """
    state = git_state(Path(__file__).parent)
    if not state:
        raise UsageError(
            f"--{split}: this ncubble does not run from a checkout", "score from a checkout of the repository"
        )
    if state["dirty"]:
        raise UsageError(f"--{split}: the checkout has uncommitted changes", "commit them, then score")
    result = score(folder, split)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line(result, str(state["sha"]))) + "\n")
    return result


def line(result: Result, commit: str) -> dict[str, Any]:
    """The log entry of a scoring."""
    score, depth = result["scores"]["all"], result["depth"]
    figures = {
        "launches": score["launches"],
        "account_mean": score["account"]["mean_abs"],
        "account_worst": score["account"]["worst_abs"],
        "first_right_pct": score["first_right_pct"],
        **{name: score[name] for name in ("first_enough_pct", "first_least_pct", "first_copies_pct")},
        "gain_mean": score["gains"]["mean_abs"],
        "gain_median": score["gains"]["median_abs"],
        "depth_mean": depth["mean_abs"],
        "depth_worst": depth["worst"] and depth["worst"]["error"],
        "depth_regret_pct": depth["regret_mean_pct"],
        "depth_regret_worst_pct": depth["regret_worst_pct"],
        "no_gain_promised_pct": depth["no_gain_promised_pct"],
        "intervals_hold_pct": depth["inside_pct"],
    }
    told: dict[str, Any] = rounded(figures)
    scored = datetime.now(UTC).isoformat(timespec="seconds")
    return {"scored": scored, "split": result["split"], "commit": commit, "version": __version__, **told}


def truth_tables(result: Result) -> list[Table]:
    """What has to be reached, scores of all launches and by GPU and kind, errors by part, depth, margins of depths, and
    the last scorings of held-out launches."""
    depth = result["depth"]
    tables = [_targets(result), _scores_table(result), _parts_table(result), _depth_table(depth), _margins_table(depth)]
    return [*tables, _scorings(VALIDATION / "truth" / LOG)]


def truth_notes(result: Result) -> list[str]:
    """Where each GPU's launches come from, and launches that count for nothing, with the reason."""
    by = [f"{gpu}: {origin(made)}" for gpu, made in sorted(result["origins"].items())]
    return [*by, *unscored_notes(result)]


def _targets(result: Result) -> Table:
    score, depth = result["scores"]["all"], result["depth"]
    worst = depth["worst"] and abs(depth["worst"]["error"])
    predicted = 100.0 * (1.0 - depth["silent"] / depth["pairs"]) if depth["pairs"] else None
    rows = [
        _target("account: mean error of a part, points", score["account"]["mean_abs"], most=3.0),
        _target("account: worst error of a part, points", score["account"]["worst_abs"], most=12.0),
        _target("largest part gains within 3 points of the best, %", score["first_enough_pct"], least=90.0),
        _target("… and is the smallest such part, %", score["first_least_pct"]),
        _target("… if copies were always named, %", score["first_copies_pct"]),
        _target("gain of the largest part: median error, points", score["gains"]["median_abs"], most=4.0),
        _target("depth: mean error, points of the busy share", depth["mean_abs"], most=3.0),
        _target("depth: worst error, points", worst, most=12.0),
        _target("chosen depth: cycles lost, %", depth["regret_mean_pct"], most=1.5),
        _target("chosen depth: most cycles lost, %", depth["regret_worst_pct"], most=10.0),
        _target("deeper without gain, but over 2 points promised, %", depth["no_gain_promised_pct"], most=5.0),
        _target("intervals of depths (90 %) that cover the measurement, %", depth["inside_pct"], *_band(depth)),
        _target("depths predicted, %", predicted, least=80.0),
    ]
    return Table("targets", "Targets for a model of launches", ("figure", "today", "target", ""), rows, texts=1)


def _band(depth: Result) -> tuple[float, float]:
    """Most and least of as many intervals of 90 % that hold in 95 % of all draws (binomial, by its
    normal approximation)."""
    spread = 196.0 * math.sqrt(0.9 * 0.1 / max(1, depth["pairs"] - depth["silent"]))
    return min(100.0, 90.0 + spread), 90.0 - spread


def _target(
    figure: str, value: float | None, most: float = math.inf, least: float = -math.inf
) -> tuple[str, str, str, str]:
    both = math.isfinite(most) and math.isfinite(least)
    target = f"{least:.0f}–{most:.0f}" if both else f"≤ {most:g}" if math.isfinite(most) else f"≥ {least:g}"
    if most == -least == math.inf:
        return figure, number(value) if value is not None else NOTHING, NOTHING, ""
    if value is None:
        return figure, NOTHING, target, ""
    return figure, number(value), target, "met" if least <= value <= most else "missed"


def _scores_table(result: Result) -> Table:
    header = (
        *("launches of", "worst in", "n", "account", "95 %", "worst", "naive"),
        *("first right %", "regret", "gains", "error", "broken"),
    )
    rows = [
        (
            name,
            score["account"]["worst"],
            str(score["launches"]),
            number(score["account"]["mean_abs"]),
            _bounds(score["account"]["interval"]),
            number(score["account"]["worst_abs"]),
            number(score["naive"]["mean_abs"]),
            number(score["first_right_pct"], 0),
            number(score["first_regret"]),
            str(score["gains"]["count"]),
            number(score["gains"]["mean_abs"]),
            str(score["gains"]["broken"]),
        )
        for name, score in result["scores"].items()
    ]
    return Table("scores", "Mean errors in points of kernel time, and first causes", header, rows, texts=2)


def _parts_table(result: Result) -> Table:
    header = ("part", "worst in", "n", "mean error", "bias", "worst", "naive")
    rows = [
        (
            label(part),
            errors["worst_of"],
            str(errors["count"]),
            *(number(errors[name]) for name in ("mean_abs", "bias", "worst", "naive_mean_abs")),
        )
        for part, errors in result["parts"].items()
    ]
    return Table("parts", "By part: account minus measured, in points of kernel time", header, rows, texts=2)


def _depth_table(depth: Result) -> Table:
    header = (
        *("sweeps", "pairs", "silent", "mean error", "95 %", "as now", "worst"),
        *("lost %", "most %", "as now", "deepest"),
    )
    worst = depth["worst"]
    row = (
        str(depth["sweeps"]),
        str(depth["pairs"]),
        str(depth["silent"]),
        number(depth["mean_abs"]),
        _bounds(depth["interval"]),
        number(depth["no_change_mean_abs"]),
        f"{number(worst['error'])} ({worst['family']} {worst['gpu']})" if worst else NOTHING,
        *(
            number(depth[name])
            for name in ("regret_mean_pct", "regret_worst_pct", "stay_regret_mean_pct", "deepest_regret_mean_pct")
        ),
    )
    title = "Other depths: error of the busy share in points, and cycles lost by the chosen depth"
    return Table("depth", title, header, [row] if depth["pairs"] else [])


def _margins_table(depth: Result) -> Table:
    rows = [
        (str(row["predictions"]), *(number(row[name]) for name in ("margin", "needed", "held_pct")))
        for row in depth["margins"]
    ]
    title = (
        "Distance in points from depth predictions to the bounds of their intervals, and distances for 90 % coverage"
    )
    return Table("margins", title, ("predictions", "margin", "needed", "family left out %"), rows, texts=0)


def _bounds(bounds: Sequence[float] | None) -> str:
    return NOTHING if bounds is None else f"{number(bounds[0])} to {number(bounds[1])}"


def _scorings(log: Path) -> Table:
    """The last scoring of each side of the held-out launches."""
    figures = {
        "account, mean": "account_mean",
        "worst": "account_worst",
        "first cause within 3 points, %": "first_enough_pct",
        "gain, median": "gain_median",
        "depth, mean": "depth_mean",
        "worst depth": "depth_worst",
        "cycles lost, %": "depth_regret_pct",
        "intervals that hold, %": "intervals_hold_pct",
    }
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    told = {one.get("split", "frozen"): one for one in map(json.loads, lines)}
    rows = [
        (
            f"{one['scored'][:16].replace('T', ' ')}",
            one.get("split", "frozen"),
            one["commit"][:8],
            str(one["launches"]),
            *(number(one.get(member)) for member in figures.values()),
        )
        for one in told.values()
    ]
    return Table("scorings", "Scorings of held-out launches", ("scored", "side", "code", "n", *figures), rows, texts=3)
