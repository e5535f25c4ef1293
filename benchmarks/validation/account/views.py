"""The result of ``python -m benchmarks.validation account`` in tables, notes and plots: truth against account by
part, and all sides of every case as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.validation.account.score import MEAN, ORDER, RATIO, SIDES, SPLITS, WORST
from benchmarks.validation.page import NOTHING, Result, Table, number, verdict
from benchmarks.validation.plots import (
    GREY,
    INK,
    SIZE,
    Colour,
    agreement,
    bars,
    figure,
    labelled,
    plain,
)
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import TAIL, removed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETS = {"dev": "fitted", "test": "held out, first", "second": "held out, second", "all": "all"}
MARKS = {"dev": ("o", "rules fitted"), "test": ("D", SETS["test"]), "second": ("s", SETS["second"])}
TOGETHER = "←"
COLUMNS = tuple(part for part in ORDER if JOINED not in part)
BUSY = "tensor_busy"
STACKED = (BUSY, *COLUMNS)
ROW = 0.46
"""Height of a case in the bar chart, in inches."""


def account_tables(result: Result) -> list[Table]:
    """Scores, scores by part, every case on all sides, what vanishes with each variant, and
    overlaps."""
    return [_scores(result), _parts(result), _cases(result), _variants(result), _overlaps(result)]


def account_notes(result: Result) -> list[str]:
    """Cases that could not be scored, and variants that count for nothing, each with the reason."""
    return [f"{case}: not scored, {why}" for case, why in result["unscored"].items()] + [
        f"{case['case']} without {word}: excluded, {why}"
        for case in result["cases"]
        for word, why in case["excluded"].items()
    ]


def _scores(result: Result) -> Table:
    limits = [f"≤ {limit:g}" for limit in (MEAN, WORST, RATIO)]
    header = (
        *("kernels", "worst in", "cases", "mean error", limits[0], "worst", limits[1]),
        *("naive mean", "naive worst", "ratio", limits[2]),
    )
    rows = [
        (
            SETS[name],
            f"{overall['worst']['case']}, {label(overall['worst']['part'])}",
            str(score["cases"]),
            number(overall["mean_abs"]),
            verdict(score["targets"]["mean_abs"]),
            number(overall["worst_abs"]),
            verdict(score["targets"]["worst_abs"]),
            number(overall["naive_mean_abs"]),
            number(overall["naive_worst_abs"]),
            number(overall["ratio"], 2),
            verdict(score["targets"]["ratio"]),
        )
        for name, score in result["scores"].items()
        for overall in [score["overall"]]
    ]
    return Table("scores", "Absolute error over all parts, in points of kernel time", header, rows, texts=2)


def _parts(result: Result) -> Table:
    splits = [result["scores"].get(split, {"parts": {}})["parts"] for split in SPLITS]
    rows = [
        (
            label(part),
            errors["worst"]["case"],
            str(errors["count"]),
            number(errors["mean_abs"]),
            *(number(parts.get(part, {}).get("mean_abs")) for parts in splits),
            *(number(value) for value in (errors["bias"], errors["worst"]["error"], errors["naive_mean_abs"])),
            number(errors["ratio"], 2),
        )
        for part, errors in result["scores"]["all"]["parts"].items()
    ]
    names = (SETS[split] for split in SPLITS)
    header = ("part", "worst in", "n", "mean error", *names, "bias", "worst", "naive mean", "ratio")
    return Table("parts", "By part, in points of kernel time", header, rows, texts=2)


def _cases(result: Result) -> Table:
    rows = [
        (
            case["case"] if side == SIDES[0] else "",
            SETS[case["split"]] if side == SIDES[0] else "",
            side,
            number(case["busy_pct"]) if side == SIDES[0] else "",
            *_sides(case[side]),
        )
        for case in result["cases"]
        for side in SIDES
    ]
    header = ("case", "", "", "busy", *(label(part) for part in COLUMNS))
    return Table("cases", "Truth, account and naive account, in percent of kernel time", header, rows, texts=3)


def _sides(parts: Mapping[str, float]) -> Iterator[str]:
    """Cells of ``COLUMNS``. A joined part stands in its first column, and the second points
    there."""
    joined = {part: whole for whole in parts if JOINED in whole for part in whole.split(JOINED)}
    for part in COLUMNS:
        whole = joined.get(part, part)
        yield number(parts.get(whole)) if whole.startswith(part) else TOGETHER


def _variants(result: Result) -> Table:
    alone = dict.fromkeys(word for case in result["cases"] for word in case["alone"] if word != TAIL)
    words = [*sorted(alone, key=lambda word: (len(removed(word)), word.count("_"))), TAIL]
    rows = [
        (
            case["case"],
            f"{case['cycles']:.0f}",
            number(case["spread_pct"], 2),
            *(number(case["alone"].get(word)) for word in words),
        )
        for case in result["cases"]
    ]
    header = ("case", "cycles", "spread %", *(word.replace("_", " ") for word in words))
    return Table("variants", "Percent of cycles saved without …", header, rows)


def _overlaps(result: Result) -> Table:
    words = list(dict.fromkeys(word for case in result["cases"] for word in case["overlaps"]))
    rows = [
        (case["case"], *(number(case["overlaps"].get(word)) for word in words))
        for case in result["cases"]
        if case["overlaps"]
    ]
    header = ("case", *(word.replace("_", " ") for word in words))
    return Table("overlaps", "Saved by removing both, less the sum of both alone, in points", header, rows)


def label(part: str) -> str:
    """A part, or several joined ones, in words."""
    return f" {JOINED} ".join(name.replace("_", " ") for name in part.split(JOINED)) or NOTHING


def account_plots(result: Result, colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    return {"account-scatter": _scatter(result, colour), "account-bars": _bars(result["cases"], colour)}


def _column(part: str) -> str:
    """The panel and colour of a part; joined ones go with their first."""
    return part.split(JOINED)[0]


def _scatter(result: Result, colour: Colour) -> Figure:
    made = figure(9.0, 5.0)
    *panels, spare = list(made.subplots(2, 4).flat)[: len(COLUMNS) + 1]
    for part, axes in zip(COLUMNS, panels, strict=True):
        _panel(plain(axes, label(part)), part, result, colour(part))
    spare.axis("off")
    spare.legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=SIZE)
    return labelled(made, "time saved without the part, % of kernel time", "account, % of kernel time")


def _panel(axes: Axes, part: str, result: Result, colour: str) -> None:
    points = [
        (case["split"], case["truth"][name], case["account"][name], case["naive"][name])
        for case in result["cases"]
        for name in case["truth"]
        if _column(name) == part
    ]
    values = [value for point in points for value in point[1:]] or [0.0]
    agreement(axes, min(0.0, *values) - 2, max(10.0, *values) + 2, WORST, "account = truth")
    axes.scatter(
        [truth for _, truth, _, _ in points],
        [naive for *_, naive in points],
        marker="x",
        s=16,
        linewidths=0.8,
        color=GREY,
        label="naive account",
    )
    for split, (marker, words_of_split) in MARKS.items():
        axes.scatter(
            [truth for name, truth, _, _ in points if name == split],
            [account for name, _, account, _ in points if name == split],
            marker=marker,
            s=18,
            facecolors=colour if split == "dev" else "white",
            edgecolors=colour,
            linewidths=1.0,
            label=f"account, {words_of_split}",
        )
    axes.locator_params(nbins=4)


def _bars(cases: Sequence[Result], colour: Colour) -> Figure:
    made = figure(9.0, 1.0 + ROW * len(cases))
    axes = plain(made.subplots())
    for part in STACKED:
        bars(axes, _boxes(part, cases), colour(part), "busy" if part == BUSY else label(part))
    axes.set_yticks(range(len(cases)), [case["case"] for case in cases], fontsize=SIZE - 1)
    axes.autoscale_view()
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("% of kernel time; in each group: truth, account, naive account", fontsize=SIZE)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(False, axis="y")
    made.legend(loc="outside upper center", ncols=8, frameon=False, fontsize=SIZE)
    return made


def _boxes(part: str, cases: Sequence[Result]) -> Iterator[tuple[float, float, float, float]]:
    """One part in every bar. What is below 0 goes to the left of 0, and takes nothing from the
    others."""
    for index, case in enumerate(cases):
        for place, side in enumerate(SIDES):
            parts = {BUSY: case["busy_pct"], **{_column(name): value for name, value in case[side].items()}}
            width = parts.get(part, 0.0)
            before = (parts.get(name, 0.0) for name in STACKED[: STACKED.index(part)])
            left = sum(value for value in before if (value < 0) == (width < 0))
            yield left, index + 0.27 * (place - 1) - 0.12, width, 0.24
