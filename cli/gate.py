"""How the gate looks in a terminal. Names of kernels are shown as plain text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.output import headline, number, remarks, rows, shown_kernels, unrecorded_lines
from ncubble.analysis.gate.verdicts import GateResult, KernelVerdict
from ncubble.cli.terminal import table_lines, tied
from ncubble.text.markup import printable

INDENT = 2
_STYLES = {
    "pass": "green",
    "improved": "bold green",
    "regressed": "bold red",
    "limit_broken": "bold red",
    "not_comparable": "bold yellow",
    "nothing_measured": "bold yellow",
    "info": "dim",
}


def print_result(result: GateResult, console: Console) -> None:
    """Of each kernel a table of its metrics and limits with reasons and notes, then the verdict of the gate."""
    for kernel in shown_kernels(result):
        console.print(Text(printable(kernel.label), style="bold"))
        console.print(_table(kernel))
        for index, text in enumerate(remarks(kernel)):  # what moved comes first
            mark = "→" if index < len(kernel.moved) else "·"
            console.print(Padding(Text(f"{mark} {printable(text)}"), (0, 0, 0, INDENT)))
    for file, error in result.errors:
        console.print(Text(f"could not read {printable(file)}: {printable(error)}", style="yellow"))
    if count := len(result.unmeasured):
        which = "1 baseline of this GPU was" if count == 1 else f"{count} baselines of this GPU were"
        console.print(Text(f"{which} not measured (--all makes that an error)"))
    for text in (*unrecorded_lines(result), *result.notes):
        console.print(Text(printable(text)))
    console.print(Text(f"gate {headline(result)}", style=_STYLES[result.verdict]))


def _table(kernel: KernelVerdict) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    table.add_column("metric", no_wrap=True)
    for name in ("baseline", "now", "change", "fails beyond"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for *texts, verdict in rows(kernel) or [(*[""] * 5, kernel.verdict)]:
        table.add_row("", *map(Text, texts), Text(verdict.replace("_", " "), style=_STYLES[verdict]))
    return table


def print_baselines(baselines: Sequence[Baseline], console: Console) -> None:
    """Of each baseline its kernel, then a line: means with their spread, and where they come from."""
    header = ["GPU", "tensor %", "cycles", "n", "ncu", "recorded"]
    right, room = [name == "n" for name in header], console.width - INDENT
    above = -1
    for index, line in table_lines(header, [_baseline_row(item) for item in baselines], right, room):
        if index > above:
            above = index
            console.print(Text(printable(baselines[index].key.label), style="bold"))
        if line:
            console.print(Text(" " * INDENT + line, style="bold" if index < 0 else ""))


def _baseline_row(item: Baseline) -> list[str]:
    spreads = _spread(item, "tensor_elapsed_pct"), _spread(item, "cycles")
    texts = item.device.name, *spreads, str(item.repeats), item.ncu_version, item.recorded[:10]
    return [tied(text) if text in spreads else printable(text) for text in texts]


def _spread(baseline: Baseline, name: str) -> str:
    metric = baseline.metrics.get(name)
    if metric is None:
        return "not collected"
    mean, sd = mean_sd(metric.measured)
    return f"{number(mean)} ± {sd / mean * 100:.2f} %" if len(metric.measured) > 1 and mean else number(mean)
