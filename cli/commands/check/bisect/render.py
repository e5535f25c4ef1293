"""A search in a terminal. Subjects and names of kernels are shown as plain text, never as markup."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.gate.bisect.output import cells_of, sentence
from ncubble.analysis.gate.bisect.result import BisectResult
from ncubble.cli.commands.check.render import print_result
from ncubble.text.markup import printable

_STYLES = {"good": "green", "bad": "bold red", "unsure": "yellow", "skipped": "yellow"}


def print_bisect(result: BisectResult, console: Console) -> None:
    """What was judged, the comparison that the answer rests on, then the answer."""
    if result.judged:
        console.print(_table(result))
        console.print()
    for item in result.judged:
        if item.judgement.reason and item.judgement.verdict in ("unsure", "skipped"):
            console.print(Text(f"{item.candidate.short}: {printable(item.judgement.reason)}", style="dim"))
    base = result.against if result.confirmed else None
    title = f"{result.culprit.short} against its parent" if base and result.culprit else "BAD against GOOD"
    console.print(Text(f"{title}:", style="bold"))
    print_result(result.gate, console)
    for aim in result.more:
        console.print(Text(f"also regressed: {printable(aim.name)} of {printable(aim.label)}"))
    console.print(Text(printable(sentence(result)), style="bold red" if result.aim else "bold"))


def _table(result: BisectResult) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("commit" if result.kind == "commit" else "nvcc", no_wrap=True)
    table.add_column("subject" if result.kind == "commit" else "path", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("verdict", no_wrap=True)
    table.add_column("loss since GOOD", justify="right", no_wrap=True)
    for item in result.judged:
        short, subject, verdict, loss, _ = cells_of(item)
        style = _STYLES.get(verdict, "")
        table.add_row(short, Text(printable(subject)), Text(verdict, style=style), Text(loss.replace("95 %: ", "")))
    return table
