"""The gate's rule on recorded repeats: false alarms, and losses found, beside the rules of asv and
pytest-benchmark.

    python -m benchmarks.gate.proof [--draws 1000] [--jobs 2] [--only TABLE]        # print the tables
    PYTHONPATH=PEERS python -m benchmarks.gate.proof --write docs/validation/gate.md

Both sides of a check are drawn from real launches (``recordings/h200-gate``, see
``gate/draws.py``), and the same code ran in all of them, so every regression is a false alarm. A
loss is then put on the new side: utilization times 1 - loss, cycles over 1 - loss. ``--draws``
checks are drawn per kernel, setting and number of repeats, a fifth of them for the tables of other
rules. Checks share launches, so their number is not the number of independent trials: what limits
these figures is the handful of processes on three GPUs.

PEERS is where asv and pytest-benchmark are (``gate/rules.py`` says how); without them their rows
are missing.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

from benchmarks.gate import apart as gate_apart
from benchmarks.gate import rules as gate_rules
from benchmarks.gate import scatter as gate_scatter
from benchmarks.gate.draws import (
    FOLDER,
    METRICS,
    SETTINGS,
    SIZES,
    Process,
    Side,
    draw,
    factor,
    load,
    processes_of,
    random_of,
    sample,
)
from benchmarks.readme_tables import table
from benchmarks.regressions import kept as regression_kept
from benchmarks.regressions import table as regression_table
from benchmarks.regressions.plan import regressions
from benchmarks.validation.page import fill
from ncubble.analysis.gate.metrics import BY_NAME

LOSSES = (0.0, 0.5, 1.0, 2.0, 5.0)
DRAWS = 1000
FEWER = 5
SERIES = FOLDER / "series.parquet"
STRICT = "cycles, limit 1 %"
GATE = "gate"
RULES: dict[str, tuple[str, gate_rules.Rule]] = {
    "tensor_elapsed_pct": ("tensor_elapsed_pct", gate_rules.gate()),
    "cycles": ("cycles", gate_rules.gate()),
    STRICT: ("cycles", gate_rules.gate(1.0)),
}
"""By what is judged: its metric, and the rule."""

RESTLESS = ("tensor_core_gemm-stages2", "gemm_tma-stages3")
"""Kernels with products whose utilization scatters by more than 0.2 % within a process
(``gate/scatter.py``)."""

Cell = tuple[str, str, int]
"""Series, setting, number of repeats."""
Tally = Counter[tuple[str, float, str]]
"""Number of checks by what was judged, the loss in percent, and the outcome. ``pairs`` and
``alarming`` count, at a loss of 0, pairs of sides of different processes, and those of them in
which the gate ever failed."""


@cache
def recorded() -> dict[str, list[Process]]:
    """The series; read once in every process."""
    return load(SERIES)


def judged(cell: Cell, draws: int) -> Tally:
    """Every rule of the gate on ``draws`` checks of one cell."""
    series, setting, n = cell
    members, rng, tally = recorded()[series], random_of(*cell), Tally()
    pairs, alarming = set(), set()
    for _ in range(draws):
        sides = draw(members, setting, n, rng)
        pairs.add(where := tuple(processes_of(side) for side in sides))
        for loss in LOSSES:
            found = {what: _outcome(sides, name, rule, loss) for what, (name, rule) in RULES.items()}
            found[GATE] = worse_of(found[name] for name in METRICS)
            tally.update((what, loss, outcome) for what, outcome in found.items() if outcome)
            if loss == 0.0 and found[GATE] == "regressed":
                alarming.add(where)
    tally["pairs", 0.0, ""], tally["alarming", 0.0, ""] = len(pairs), len(alarming)
    return tally


def _outcome(sides: tuple[Side, Side], name: str, rule: gate_rules.Rule, loss: float) -> str:
    """Empty where the series has no such metric."""
    if name not in sides[0][0][0].values:
        return ""
    return rule(sample(sides[0], name), sample(sides[1], name, factor(name, loss)), BY_NAME[name])


def worse_of(outcomes: Iterable[str]) -> str:
    """What a merge request sees of both metrics: one that regressed, else one that could not be
    judged."""
    both = set(outcomes)
    return next((outcome for outcome in ("regressed", "inconclusive") if outcome in both), "pass")


def compared(cell: Cell, draws: int, rules: str) -> Tally:
    """The rules named ``ablations`` or ``peers`` on checks of one cell; a merge request sees both
    metrics."""
    series, setting, n = cell
    members, rng, tally = recorded()[series], random_of(*cell), Tally()
    known = gate_rules.ABLATIONS if rules == "ablations" else gate_rules.peers()
    chosen = {what: rule for what, rule in known.items() if rule}
    for _ in range(draws):
        sides = draw(members, setting, n, rng)
        for what, rule in chosen.items():
            for loss in LOSSES:
                tally[what, loss, worse_of(_outcome(sides, name, rule, loss) for name in METRICS)] += 1
    return tally


def tallies(work: Callable[[Cell], Tally], cells: Sequence[Cell], jobs: int) -> dict[Cell, Tally]:
    """``work`` on every cell, in ``jobs`` processes."""
    if jobs == 1:
        return {cell: work(cell) for cell in cells}
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(cells, pool.map(work, cells), strict=True))


def share(found: Iterable[Tally], what: str, loss: float, outcome: str) -> float:
    """Percent of the checks of several cells; NaN where there is none."""
    tally = sum(found, Tally())
    total = sum(count for (name, at, _), count in tally.items() if (name, at) == (what, loss))
    return 100 * tally[what, loss, outcome] / total if total else float("nan")


def cells_of(found: list[Tally], what: str, losses: Sequence[float] = LOSSES) -> list[str]:
    """False alarms, then losses found; in brackets what was inconclusive and ends with 3."""
    cells = []
    for loss in losses:
        bad, open_ = (share(found, what, loss, outcome) for outcome in ("regressed", "inconclusive"))
        cells.append(f"{bad:.{1 if loss else 2}f}" + (f" ({open_:.1f})" if open_ >= 0.05 else ""))
    return cells


FOUND = ("false alarms", *(f"{loss:g} %" for loss in LOSSES[1:]))


def rates(all_of: dict[Cell, Tally]) -> str:
    """Pooled over kernels: one row per what is judged, setting, and number of repeats."""
    rows = []
    for what in (*RULES, GATE):
        for setting in SETTINGS:
            for n in SIZES:
                found = [one for (_, at, size), one in all_of.items() if (at, size) == (setting, n)]
                rows.append(
                    [f"`{what}`" if what in METRICS else what, setting, sides(setting, n), *cells_of(found, what)]
                )
    return table(["judged", "baseline, new launches", "repeats", *FOUND], rows)


def sides(setting: str, n: int) -> str:
    """``5 + 5``; a baseline of two GPUs has ``n`` of each."""
    return f"{n * (2 if setting == SETTINGS[2] else 1)} + {n}"


def summary(all_of: dict[Cell, Tally], n: int = 5) -> str:
    """The target beside what was found with ``n`` repeats: kernels that scatter little, and each of
    the others."""
    rows = [
        ["false alarms of the gate, all kernels", "≤ 0.1 %", *(_alarms(all_of, setting, n) for setting in SETTINGS)]
    ]
    tensor = {name for name, members in recorded().items() if METRICS[0] in members[0].values}
    groups = {"four kernels that scatter little": tensor - set(RESTLESS), **{f"`{one}`": {one} for one in RESTLESS}}
    for loss, target in ((1.0, "≥ 99 %"), (2.0, "–")):
        for name, group in groups.items():
            cells = [_range(all_of, [(one, setting, n) for one in group], loss) for setting in SETTINGS]
            rows.append([f"{loss:g} % of utilization, found in percent of checks: {name}", target, *cells])
    return table(["", "target", *(f"{setting}, {sides(setting, n)}" for setting in SETTINGS)], rows)


def _range(all_of: dict[Cell, Tally], cells: Iterable[Cell], loss: float) -> str:
    """From which to which share a loss of utilization is found."""
    found = [share([all_of[cell]], METRICS[0], loss, "regressed") for cell in cells]
    return " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(found), max(found))))


def _alarms(all_of: dict[Cell, Tally], setting: str, n: int) -> str:
    tally = sum((one for (_, at, size), one in all_of.items() if (at, size) == (setting, n)), Tally())
    checks = sum(count for (what, loss, _), count in tally.items() if (what, loss) == (GATE, 0.0))
    return f"{tally[GATE, 0.0, 'regressed']} of {checks} checks, in {_pairs(tally)} pairs"


def kernels(all_of: dict[Cell, Tally], n: int = 5) -> str:
    """By kernel, ``n`` repeats a side: utilization at a limit of 1 %, cycles at their own, and the
    gate."""
    rows = [
        kernel_row(series, setting, all_of[series, setting, n]) for series in sorted(recorded()) for setting in SETTINGS
    ]
    tensor_head = ["tensor: false alarms", *(f"{loss:g} % found" for loss in LOSSES[1:4]), "1 % passed, not *weak*"]
    head = ["kernel", "setting", *tensor_head, "cycles: false alarms", "2 % found", "gate: false alarms"]
    return table([*head, "in pairs of processes"], rows)


def kernel_row(series: str, setting: str, tally: Tally) -> list[str]:
    """One row of ``kernels``."""
    tensor = [*cells_of([tally], METRICS[0], LOSSES[:4]), f"{share([tally], METRICS[0], 1.0, 'pass'):.1f}"]
    return [
        series,
        setting,
        *(["–"] * len(tensor) if "nan" in tensor[0] else tensor),
        *cells_of([tally], METRICS[1], (0.0, 2.0)),
        *cells_of([tally], GATE, (0.0,)),
        _pairs(tally),
    ]


def alarms(all_of: dict[Cell, Tally]) -> str:
    """Every kernel, setting and number of repeats in which the gate failed without a loss."""
    rows = [
        [series, setting, sides(setting, n), *cells_of([tally], GATE, (0.0,)), _pairs(tally)]
        for (series, setting, n), tally in all_of.items()
        if tally[GATE, 0.0, "regressed"]
    ]
    return table(["kernel", "setting", "repeats", "false alarms, %", "in pairs of processes"], rows)


def _pairs(tally: Tally) -> str:
    return f"{tally['alarming', 0.0, '']} of {tally['pairs', 0.0, '']}"


def others(all_of: dict[Cell, Tally], names: Iterable[str], sizes: Sequence[int]) -> str:
    """Other rules, pooled over kernels; the numbers of repeats stand beside each other in a
    cell."""
    rows = []
    for name in names:
        for setting in SETTINGS[:2]:
            cells = [
                cells_of([one for (_, at, size), one in all_of.items() if (at, size) == (setting, n)], name)
                for n in sizes
            ]
            if "nan" not in cells[0][0]:
                rows.append([name, setting, *(" / ".join(one) for one in zip(*cells, strict=True))])
    return table(["rule", "setting", *FOUND], rows)


def made(draws: int, jobs: int, only: str) -> dict[str, str]:
    """The blocks of the page by name; ``only`` takes those whose name holds it."""
    cells = [(series, setting, n) for series in sorted(recorded()) for setting in SETTINGS for n in SIZES]
    fives = [cell for cell in cells if cell[2] == 5]
    blocks: dict[str, str] = {}
    if only in "gate-summary gate-rates gate-kernels gate-alarms":
        found = tallies(partial(judged, draws=draws), cells, jobs)
        blocks |= {"gate-summary": summary(found), "gate-rates": rates(found)}
        blocks |= {"gate-kernels": kernels(found), "gate-alarms": alarms(found)}
    if only in "gate-ablations":
        found = tallies(partial(compared, draws=draws // FEWER, rules="ablations"), fives, jobs)
        blocks["gate-ablations"] = others(found, gate_rules.ABLATIONS, (5,))
    if only in "gate-peers":
        some = [cell for cell in cells if cell[1] != SETTINGS[2]]
        found = tallies(partial(compared, draws=draws // FEWER, rules="peers"), some, jobs)
        blocks["gate-peers"] = others(found, gate_rules.peers(), SIZES)
    quick = {
        "gate-noise": gate_scatter.table_of,
        "gate-apart": gate_apart.fourth,
        "gate-before": gate_apart.shipped,
        "gate-regressions": regressions_table,
    }
    return blocks | {name: make() for name, make in quick.items() if only in name}


def regressions_table() -> str:
    """The planted regressions, as ``regressions/__main__.py table`` prints them."""
    return regression_table.markdown(regression_kept.FOLDER, regressions())[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS, help="checks per kernel, setting and number of repeats")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="part of a table's name")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the markers of a page")
    given = parser.parse_args()
    blocks = made(given.draws, given.jobs, given.only)
    if given.write:
        given.write.write_text(fill(given.write.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    else:
        print("\n\n".join(f"{name}\n\n{block}" for name, block in blocks.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
