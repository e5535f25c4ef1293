"""How the gate looks in a terminal. Names of kernels are shown as plain text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.output import cells, headline, number, remarks, rule_cells, shown_kernels, unrecorded_lines
from ncubble.analysis.gate.verdicts import GateResult, KernelVerdict
from ncubble.cli.terminal import table_lines, tied
from ncubble.text.markup import printable

INDENT = 2
WIDE = 130
"""Columns from which a kernel's name has room beside its numbers."""
_STYLES = {
    "pass": "green",
    "improved": "bold green",
    "regressed": "bold red",
    "not_comparable": "bold yellow",
    "nothing_measured": "bold yellow",
    "info": "dim",
}


def print_result(result: GateResult, console: Console) -> None:
    """A table of all metrics, then reasons and notes, then the verdict of the gate."""
    wide = console.width >= WIDE
    kernels = shown_kernels(result)
    if kernels and wide:
        console.print(_result_table(kernels))
    for kernel in kernels:
        if remarks(kernel) or not wide:
            console.print(Text(printable(kernel.label), style="bold"))
        if not wide:
            console.print(_result_table([kernel], named=False))
        _print_said(kernel, console)
    for file, error in result.errors:
        console.print(Text(f"could not read {printable(file)}: {printable(error)}", style="yellow"))
    if result.unmeasured:
        count = len(result.unmeasured)
        which = f"{count} baseline{'s' if count > 1 else ''} of this GPU {'were' if count > 1 else 'was'}"
        console.print(Text(f"{which} not measured (--all makes that an error)"))
    for line in unrecorded_lines(result):
        console.print(Text(printable(line)))
    for note in result.notes:
        console.print(Text(printable(note)))
    console.print(Text(f"gate {headline(result)}", style=_STYLES[result.verdict]))


def _print_said(kernel: KernelVerdict, console: Console) -> None:
    """What is said of a kernel, each with its mark: what moved comes first."""
    for index, text in enumerate(remarks(kernel)):
        mark = "→" if index < len(kernel.moved) else "·"
        console.print(Padding(Text(f"{mark} {printable(text)}"), (0, 0, 0, 2)))


def _result_table(kernels: Sequence[KernelVerdict], named: bool = True) -> Table:
    """All metrics and limits; without the kernels' names where they stand above, in a narrow terminal."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kernel" if named else "", overflow="fold", ratio=1 if named else None)
    table.add_column("metric", no_wrap=True)
    for name in ("baseline", "now", "change", "fails beyond"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for kernel in kernels:
        label = Text(printable(kernel.label) if named else "")
        if not kernel.metrics and not kernel.rules:
            table.add_row(label, "", "", "", "", "", _verdict(kernel.verdict))
        for index, metric in enumerate(kernel.metrics):
            texts = [Text(cell) for cell in cells(metric)]
            table.add_row(label if not index else Text(""), Text(metric.name), *texts, _verdict(metric.verdict))
        for index, rule in enumerate(kernel.rules):
            texts = [Text(cell) for cell in rule_cells(rule)]
            first = not kernel.metrics and not index
            table.add_row(label if first else Text(""), Text(rule.rule.metric), *texts, _verdict(rule.verdict))
    return table


def _verdict(verdict: str) -> Text:
    return Text(verdict.replace("_", " "), style=_STYLES[verdict])


def print_baselines(baselines: Sequence[Baseline], console: Console) -> None:
    """One line per baseline: means with their spread, and where they come from. In a narrow terminal the name of the
    kernel stands above it."""
    wide = console.width >= WIDE
    header = ["kernel", "GPU", "tensor %", "cycles", "n", "ncu", "recorded"]
    rows = [_baseline_row(item) for item in baselines]
    start, room = (0, console.width) if wide else (1, console.width - INDENT)
    right = [name == "n" for name in header[start:]]
    above = -1
    for index, line in table_lines(header[start:], [row[start:] for row in rows], right, room):
        if not wide and not line:
            continue
        if not wide and index > above:
            above = index
            console.print(Text(rows[index][0], style="bold"))
        console.print(Text(line if wide else " " * INDENT + line, style="bold" if index < 0 else ""))


def _baseline_row(item: Baseline) -> list[str]:
    spreads = _spread(item, "tensor_elapsed_pct"), _spread(item, "cycles")
    texts = item.key.label, item.device.name, *spreads, str(item.repeats), item.ncu_version, item.recorded[:10]
    return [tied(text) if text in spreads else printable(text) for text in texts]


def _spread(baseline: Baseline, name: str) -> str:
    metric = baseline.metrics.get(name)
    if metric is None:
        return "not collected"
    mean, sd = mean_sd(metric.measured)
    return f"{number(mean)} ± {sd / mean * 100:.2f} %" if len(metric.measured) > 1 and mean else number(mean)
