"""The table of many launches: a row for each kernel, with its time and its account as a stacked bar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.diagnosis.groups import LaunchGroup
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.cli.commands.report.names import folded
from ncubble.cli.commands.report.parts import SMALL_PCT, colour
from ncubble.cli.commands.report.words import busy, duration, share, title, verdict_words
from ncubble.cli.labels import full_labels, short_labels
from ncubble.cli.terminal import printable
from ncubble.text.values import fixed

BAR_CELLS = {104: 24, 80: 10}
"""Cells of the account's bar by minimum terminal width; narrower terminals show no bar."""
NAME_CELLS = 24
"""Minimum width of run names beside a bar."""
COLUMNS = {"time": 8, "% time": 6, "busy %": 9, "DRAM %": 6}
"""Widths of the number columns."""
VERDICT_CELLS = 21


def print_summary(out: Console, groups: Sequence[LaunchGroup], rest: Sequence[LaunchGroup] = ()) -> None:
    """A row for each of ``groups``, and one for all of ``rest`` together."""
    everything = [*groups, *rest]
    total = sum(group.time_ns for group in everything)
    plain = out.no_color or not out.is_terminal
    length = next((cells for least, cells in BAR_CELLS.items() if out.width >= least), 0)
    shared = any(len(group.launches) > 1 for group in everything)
    figures = ["time", *(["% time"] if shared else []), "busy %"]
    figures += ["DRAM %"] if out.width >= max(BAR_CELLS) else []
    verdicts = [verdict_words(group.verdict) for group in groups]
    cells = _name_cells(out.width, figures, length, max((len(words.plain) for words in verdicts), default=0))
    of_report = Counter(group.verdict.report for group in everything)
    names = short_labels([group.verdict for group in everything])
    heads = [
        _head(group, name, cells, several=of_report[group.verdict.report] > 1)
        for group, name in zip(groups, names, strict=False)
    ]
    widest = max((len(line) for head in heads for line in head.plain.splitlines()), default=0)
    table = _frame(figures, length, out.width - max(widest, NAME_CELLS if length else 0) - 2 - _taken(figures, length))
    for group, head, words in zip(groups, heads, verdicts, strict=False):
        verdict = group.verdict
        known = _figures(verdict, group.time_ns, total)
        bar = stacked_bar(verdict.account, length, plain) if verdict.account else Text("–", style="dim")
        table.add_row(head, *(known[figure] for figure in figures), *([bar] if length else []), words)
    if rest:
        spent = sum(group.time_ns for group in rest)
        of_time = [share(spent, total)] if shared else []
        table.add_row(Text(f"and {_count(rest)}", style="dim"), duration(spent or None), *of_time)
    out.print(table)
    if length:
        accounts = (group.verdict.account or {} for group in groups)
        shown = {part for one in accounts for part, pct in one.items() if pct >= SMALL_PCT}
        out.print(_legend(shown, plain, out.width))
    _print_doubts(out, [launch for group in everything for launch in group.launches])
    out.print(_footer(everything, rest))


def _figures(verdict: LaunchVerdict, time_ns: float, total: float) -> dict[str, str]:
    return {
        "time": duration(verdict.duration_ns),
        "% time": share(time_ns, total),
        "busy %": busy(verdict),
        "DRAM %": fixed(verdict.dram_pct, 1, "–"),
    }


def _frame(figures: Sequence[str], length: int, room: int) -> Table:
    """``room``: cells for the verdict, in lines of their own where it is longer."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False, pad_edge=False)
    table.add_column("kernel", overflow="fold", min_width=NAME_CELLS if length else None)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    if length:
        table.add_column("account", no_wrap=True)
    table.add_column("verdict", overflow="fold", max_width=max(room, len("verdict")))
    return table


def _name_cells(width: int, figures: Sequence[str], length: int, verdict: int) -> int:
    """Cells left for the first column, given a verdict column of ``verdict`` cells."""
    taken = _taken(figures, length) + min(max(verdict, len("verdict")), VERDICT_CELLS) + 2
    return max(NAME_CELLS if length else 12, width - taken)


def _taken(figures: Sequence[str], length: int) -> int:
    """Cells of numbers and bar, including separators."""
    return sum(COLUMNS[figure] + 2 for figure in figures) + (length + 2 if length else 0)


def _head(group: LaunchGroup, name: str, cells: int, several: bool) -> Text:
    """The kernel's name in lines of ``cells``, followed by the number of launches, or the launch
    number."""
    verdict = group.verdict
    text = title(verdict, name)
    if len(group.launches) > 1:
        text.append(f" ×{len(group.launches)}", style="dim")
    elif several:
        text.append(f" #{verdict.launch}", style="dim")
    return folded(text, cells)


def _count(groups: Sequence[LaunchGroup]) -> str:
    launches = sum(len(group.launches) for group in groups)
    kernels = f"{len(groups)} more kernel{'s' if len(groups) != 1 else ''}"
    return kernels if launches == len(groups) else f"{kernels} ({launches} launches)"


def _print_doubts(out: Console, launches: list[LaunchVerdict]) -> None:
    for launch, label in zip(launches, full_labels(launches), strict=True):
        for doubt in launch.doubts:
            out.print(title(launch, label).append(f" #{launch.launch}: {printable(doubt)}", style="red not bold"))


def _footer(groups: Sequence[LaunchGroup], rest: Sequence[LaunchGroup]) -> Text:
    launches = [launch for group in groups for launch in group.launches]
    estimated = "estimated " if any(cause.measured for launch in launches for cause in launch.causes) else ""
    of_kernels = f" of {len(groups)} kernels" if len(groups) < len(launches) else ""
    text = (
        f"{len(launches)} launches{of_kernels}; {estimated}accounts in % of elapsed SM cycles, each "
        "sums to 100; --details shows lines and shared parameters"
    )
    if rest:
        text += "; --limit N for more rows"
    return Text(text, style="dim")


def stacked_bar(account: Mapping[str, float], width: int, plain: bool = False) -> Text:
    """All parts in ``width`` cells, by largest remainder. Work is solid, bubbles shaded, or letters if ``plain``."""
    exact = {part: pct / 100 * width for part, pct in account.items()}
    cells = {part: int(size) for part, size in exact.items()}
    for part in sorted(exact, key=lambda name: cells[name] - exact[name])[: width - sum(cells.values())]:
        cells[part] += 1
    text = Text()
    for part, size in cells.items():
        text.append(_glyph(part, plain) * size, style=colour(part))
    return text


def _glyph(part: str, plain: bool) -> str:
    """A cell of the stacked bar. Without colour each bubble has a letter of its own."""
    if part in WORK or plain:
        return PARTS[part].letter if part in PARTS else "?"
    return "▒"


def _legend(parts: set[str], plain: bool, width: int) -> Text:
    """The glyphs of ``parts`` and their names, each pair on one line."""
    text, used = Text(), 0
    for part, style in PARTS.items():
        if part not in parts:
            continue
        cells = len(style.label) + 2
        gap = "   " if used else ""
        if used and used + len(gap) + cells > width:
            gap, used = "\n", 0
        text.append(f"{gap}{_glyph(part, plain)} ", style=style.color).append(style.label, style="dim")
        used += cells + (len(gap) if gap != "\n" else 0)
    return text
