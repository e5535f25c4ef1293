"""The account of streams as JSON, or as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncubble.cli.render import emit_json, printable

if TYPE_CHECKING:
    from rich.console import Console

    from ncubble.analysis.streams.account import DeviceAccount
    from ncubble.cli.commands.streams.job import StreamsOutput

LEAST_PCT = 0.05


def print_accounts(shown: StreamsOutput, longest: int, as_json: bool) -> None:
    """Print all accounts of a run to stdout."""
    from ncubble.analysis.streams.account import SCHEMA
    from ncubble.analysis.streams.account import as_json as account_json

    if as_json:
        found = [account_json(one, longest) for one in shown.accounts]
        emit_json({"schema": SCHEMA, "run": str(shown.folder), "notes": list(shown.notes), "devices": found})
        return
    from rich.console import Console

    console = Console(highlight=False)
    for one in shown.accounts:
        _print_account(console, one, account_json(one, longest))
    for note in shown.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim")
    console.print(str(shown.folder), markup=False, soft_wrap=True)


def _print_account(console: Console, account: DeviceAccount, told: dict[str, Any]) -> None:
    title = f"{account.name}: " if account.name else ""
    moved = f"{told['bytes_up'] / 1e6:,.1f} MB up, {told['bytes_down'] / 1e6:,.1f} MB down"
    console.print(
        f"{title}{microseconds(told['span_us'])} from first to last work, {told['kernels']:,} kernels, "
        f"{told['copies']:,} copies ({moved})",
        markup=False,
    )
    _print_engines(console, told)
    _print_causes(console, told)
    _print_longest(console, told)


def _print_engines(console: Console, told: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("engine", box=None, pad_edge=False)
    for title in ("busy", "busy %"):
        table.add_column(title, justify="right")
    for row in told["engines"]:
        table.add_row(row["engine"], microseconds(row["busy_us"]), f"{row['busy_pct']:.1f}")
    table.add_row("none of them", microseconds(told["all_idle_us"]), f"{_share(told['all_idle_us'], told):.1f}")
    console.print(table)
    if not told["overlap"]:
        return
    table = Table("at the same time", box=None, pad_edge=False)
    for title in ("", "% of span", "% of the least busy"):
        table.add_column(title, justify="right")
    for row in told["overlap"]:
        numbers = (microseconds(row["us"]), f"{row['pct_of_span']:.1f}", f"{row['pct_of_least']:.1f}")
        table.add_row(" + ".join(row["engines"]), *numbers)
    console.print(table)


def _print_causes(console: Console, told: dict[str, Any]) -> None:
    from rich.table import Table

    from ncubble.analysis.streams.causes import CAUSES

    console.print(
        f"no SM worked for {microseconds(told['sm_idle_us'])} ({told['sm_idle_pct']:.1f} %), in {told['gaps']:,} gaps:",
        markup=False,
    )
    table = Table("cause", box=None, pad_edge=False)
    for title in ("idle", "% of span", "gaps"):
        table.add_column(title, justify="right")
    table.add_column("what helps", style="dim")
    for row in told["causes"]:
        cause = CAUSES[row["cause"]]
        numbers = (microseconds(row["us"]), f"{row['pct_of_span']:.1f}", f"{row['gaps']:,}")
        table.add_row(cause.title, *numbers, cause.remedy if row["pct_of_span"] >= LEAST_PCT else "")
    console.print(table)


def _print_longest(console: Console, told: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from ncubble.analysis.streams.causes import CAUSES

    if not told["longest"]:
        return
    table = Table("longest gaps at", box=None, pad_edge=False)
    table.add_column("idle", justify="right")
    for title in ("cause", "evidence", "before"):
        table.add_column(title)
    for row in told["longest"]:
        words = (CAUSES[row["cause"]].title, printable(row["evidence"]), printable(row["next"]))
        table.add_row(microseconds(row["start_us"]), microseconds(row["us"]), *map(escape, words))
    console.print(table)


def _share(part: float, told: dict[str, Any]) -> float:
    return 100.0 * part / told["span_us"] if told["span_us"] else 0.0


def microseconds(us: float) -> str:
    """A time with its unit, in three or four figures."""
    if us >= 1e6:
        return f"{us / 1e6:.3f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"
