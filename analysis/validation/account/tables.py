"""The result of ``ncubble validate account`` in tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ncubble.analysis.validation.account.score import MEAN, ORDER, RATIO, SIDES, SPLITS, WORST
from ncubble.analysis.validation.account.truth import JOINED, TAIL, removed
from ncubble.analysis.validation.tables import NOTHING, Table, number, verdict

SETS = {"dev": "fitted", "test": "kept apart, first", "second": "kept apart, second", "all": "all"}
TOGETHER = "←"
COLUMNS = tuple(part for part in ORDER if JOINED not in part)


def account_tables(result: Mapping[str, Any]) -> list[Table]:
    """Scores, scores by part, every case on all sides, what vanishes with each variant, and
    overlaps."""
    return [_scores(result), _parts(result), _cases(result), _variants(result), _overlaps(result)]


def account_notes(result: Mapping[str, Any]) -> list[str]:
    """Cases that could not be scored, and variants that count for nothing, each with the reason."""
    return [f"{case}: not scored, {why}" for case, why in result["unscored"].items()] + [
        f"{case['case']} without {word}: excluded, {why}"
        for case in result["cases"]
        for word, why in case["excluded"].items()
    ]


def _scores(result: Mapping[str, Any]) -> Table:
    errors = (
        "mean error",
        f"≤ {MEAN:g}",
        "worst",
        f"≤ {WORST:g}",
        "naive mean",
        "naive worst",
        "ratio",
        f"≤ {RATIO:g}",
    )
    rows = []
    for name, found in result["scores"].items():
        overall, targets = found["overall"], found["targets"]
        rows.append(
            (
                SETS[name],
                f"{overall['worst']['case']}, {label(overall['worst']['part'])}",
                str(found["cases"]),
                number(overall["mean_abs"]),
                verdict(targets["mean_abs"]),
                number(overall["worst_abs"]),
                verdict(targets["worst_abs"]),
                number(overall["naive_mean_abs"]),
                number(overall["naive_worst_abs"]),
                number(overall["ratio"], 2),
                verdict(targets["ratio"]),
            )
        )
    header = ("kernels", "worst in", "cases", *errors)
    return Table("scores", "Absolute error over all parts, in points of kernel time", header, rows, texts=2)


def _parts(result: Mapping[str, Any]) -> Table:
    header = (
        "part",
        "worst in",
        "n",
        "mean error",
        *(SETS[split] for split in SPLITS),
        "bias",
        "worst",
        "naive mean",
        "ratio",
    )
    scores, rows = result["scores"], []
    for part, found in scores["all"]["parts"].items():
        means = [scores.get(split, {"parts": {}})["parts"].get(part, {}).get("mean_abs") for split in SPLITS]
        values = (found["mean_abs"], *means, found["bias"], found["worst"]["error"], found["naive_mean_abs"])
        cells = (str(found["count"]), *(number(value) for value in values), number(found["ratio"], 2))
        rows.append((label(part), found["worst"]["case"], *cells))
    return Table("parts", "By part, in points of kernel time", header, rows, texts=2)


def _cases(result: Mapping[str, Any]) -> Table:
    rows = []
    for case in result["cases"]:
        for side in SIDES:
            head = (case["case"], SETS[case["split"]], number(case["busy_pct"])) if side == SIDES[0] else ("", "", "")
            rows.append((*head[:2], side, head[2], *_sides(case[side])))
    header = ("case", "", "", "busy", *(label(part) for part in COLUMNS))
    return Table("cases", "Truth, account and naive account, in percent of kernel time", header, rows, texts=3)


def _sides(parts: Mapping[str, float]) -> Iterator[str]:
    """Cells of ``COLUMNS``. A joined part stands in its first column, and the second points
    there."""
    joined = {one: whole for whole in parts if JOINED in whole for one in whole.split(JOINED)}
    for part in COLUMNS:
        whole = joined.get(part)
        if whole is None:
            yield number(parts.get(part))
        else:
            yield number(parts[whole]) if whole.startswith(part) else TOGETHER


def _variants(result: Mapping[str, Any]) -> Table:
    found = dict.fromkeys(word for case in result["cases"] for word in case["alone"] if word != TAIL)
    words = sorted(found, key=lambda word: (len(removed(word)), word.count("_")))
    rows = [
        (
            case["case"],
            f"{case['cycles']:.0f}",
            number(case["spread_pct"], 2),
            *(number(case["alone"].get(word)) for word in [*words, TAIL]),
        )
        for case in result["cases"]
    ]
    header = ("case", "cycles", "spread %", *(word.replace("_", " ") for word in words), TAIL)
    return Table("variants", "Percent of cycles that vanish without …", header, rows)


def _overlaps(result: Mapping[str, Any]) -> Table:
    words = list(dict.fromkeys(word for case in result["cases"] for word in case["overlaps"]))
    rows = [
        (case["case"], *(number(case["overlaps"].get(word)) for word in words))
        for case in result["cases"]
        if case["overlaps"]
    ]
    header = ("case", *(word.replace("_", " ") for word in words))
    return Table("overlaps", "What vanishes with both less what vanishes with each, in points", header, rows)


def label(part: str) -> str:
    """A part, or several joined ones, in words."""
    return f" {JOINED} ".join(one.replace("_", " ") for one in part.split(JOINED)) or NOTHING
