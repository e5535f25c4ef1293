"""Prints the ranks of a program side by side."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.compare.ranks import ByRank, Matched, Program, largest, most_apart
from ncubble.analysis.compare.spreads import RankSpread
from ncubble.cli.terminal import printable
from ncubble.text.values import duration

MOST = 30
"""Launches of a program that are shown: those whose ranks differ most."""


def print_ranks(ranks: ByRank) -> None:
    """Print programs to stdout, unreadable files to stderr."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    for program in ranks.programs:
        _print_program(out, program)
    for text in ranks.notes:
        out.print(Text(f"note: {printable(text)}", style="dim"))
    for path in ranks.unranked:
        err.print(Text(f"ncubble: {printable(path)}: its rank is unknown", style="yellow"), soft_wrap=True)
    for failure in ranks.errors:
        err.print(Text(f"ncubble: {printable(failure.error)}", style="red"), soft_wrap=True)


def _print_program(out: Console, program: Program) -> None:
    ranks = ", ".join(str(rank) for rank in list(program.ranks)[:16]) + (" …" if len(program.ranks) > 16 else "")
    of = f" of {program.size}" if program.size else ""
    sources = ", ".join("file names" if source == "name" else source for source in program.sources)
    out.print(
        Text(printable(program.name), style="bold").append(
            f"  {len(program.ranks)}{of} ranks ({ranks}), numbered by {sources}", style="dim not bold"
        )
    )
    shown = largest(program.matched, MOST)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("launch", overflow="fold", min_width=24)
    for name in ("shortest", "median", "longest", "skew %", "slowest", "tensor %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("differs most", overflow="fold")
    for launch in shown:
        table.add_row(*_cells(launch))
    out.print(table)
    furthest = max(shown, key=lambda launch: launch.apart_ns, default=None)
    if furthest and furthest.why:
        slowest = f"{furthest.label} #{furthest.ordinal}, rank {furthest.slowest}: {furthest.why}"
        out.print(Text(printable(slowest)))
    if len(shown) < len(program.matched):
        text = f"{len(shown)} of {len(program.matched)} launches, those whose ranks differ most; --json has all"
        out.print(Text(text, style="dim"))
    out.print()


def _cells(launch: Matched) -> list[Text | str]:
    title = Text(printable(launch.label), style="bold")
    title.append(f" #{launch.ordinal} grid {launch.grid or 'not known'}", style="dim not bold")
    if launch.missing:
        missing = ", ".join(map(str, launch.missing[:8])) + (" …" if len(launch.missing) > 8 else "")
        title.append(f" not on rank {missing}", style="yellow not bold")
    measured = ", measured" if launch.measured else ""
    times, tensor, apart = launch.values.get("duration_ns"), launch.values.get("tensor_elapsed_pct"), most_apart(launch)
    return [
        title,
        *([duration(value) for value in (times.min, times.median, times.max)] if times else ["–"] * 3),
        "–" if launch.skew_pct is None else f"{launch.skew_pct:.1f}",
        "–" if launch.slowest is None else f"rank {launch.slowest}",
        _range(tensor),
        f"{part_label(apart[0], '')} {_range(apart[1])} % (rank {apart[1].max_rank}){measured}" if apart else "–",
    ]


def _range(spread: RankSpread | None) -> str:
    if spread is None:
        return "–"
    low, high = f"{spread.min:.1f}", f"{spread.max:.1f}"
    return low if low == high else f"{low}–{high}"
