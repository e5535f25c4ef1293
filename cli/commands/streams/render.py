"""The account of streams as JSON, or as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncubble.cli.render import emit_json, printable
from ncubble.text.values import UnitStep, scaled

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
        devices = [account_json(account, longest) for account in shown.accounts]
        emit_json({"schema": SCHEMA, "run": str(shown.folder), "notes": list(shown.notes), "devices": devices})
        return
    from rich.console import Console

    console = Console(highlight=False)
    for account in shown.accounts:
        _print_account(console, account, account_json(account, longest))
    for note in shown.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim")
    console.print(str(shown.folder), markup=False, soft_wrap=True)


def _print_account(console: Console, account: DeviceAccount, numbers: dict[str, Any]) -> None:
    title = f"{account.name}: " if account.name else ""
    moved = f"{numbers['bytes_up'] / 1e6:,.1f} MB up, {numbers['bytes_down'] / 1e6:,.1f} MB down"
    console.print(
        f"{title}{microseconds(numbers['span_us'])} from first to last work, {numbers['kernels']:,} kernels, "
        f"{numbers['copies']:,} copies ({moved})",
        markup=False,
    )
    _print_engines(console, numbers)
    _print_causes(console, numbers)
    _print_longest(console, numbers)


def _print_engines(console: Console, account: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("engine", box=None, pad_edge=False)
    for title in ("busy", "busy %"):
        table.add_column(title, justify="right")
    for row in account["engines"]:
        table.add_row(row["engine"], microseconds(row["busy_us"]), f"{row['busy_pct']:.1f}")
    table.add_row(
        "none of them", microseconds(account["all_idle_us"]), f"{_share(account['all_idle_us'], account):.1f}"
    )
    console.print(table)
    if not account["overlap"]:
        return
    table = Table("at the same time", box=None, pad_edge=False)
    for title in ("", "% of span", "% of the least busy"):
        table.add_column(title, justify="right")
    for row in account["overlap"]:
        numbers = (microseconds(row["us"]), f"{row['pct_of_span']:.1f}", f"{row['pct_of_least']:.1f}")
        table.add_row(" + ".join(row["engines"]), *numbers)
    console.print(table)


def _print_causes(console: Console, account: dict[str, Any]) -> None:
    from rich.table import Table

    from ncubble.analysis.streams.causes import CAUSES

    console.print(
        f"no SM worked for {microseconds(account['sm_idle_us'])} ({account['sm_idle_pct']:.1f} %), "
        f"in {account['gaps']:,} gaps:",
        markup=False,
    )
    table = Table("cause", box=None, pad_edge=False)
    for title in ("idle", "% of span", "gaps"):
        table.add_column(title, justify="right")
    table.add_column("what helps", style="dim")
    for row in account["causes"]:
        cause = CAUSES[row["cause"]]
        numbers = (microseconds(row["us"]), f"{row['pct_of_span']:.1f}", f"{row['gaps']:,}")
        table.add_row(cause.title, *numbers, cause.remedy if row["pct_of_span"] >= LEAST_PCT else "")
    console.print(table)


def _print_longest(console: Console, account: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from ncubble.analysis.streams.causes import CAUSES

    if not account["longest"]:
        return
    table = Table("longest gaps at", box=None, pad_edge=False)
    table.add_column("idle", justify="right")
    for title in ("cause", "evidence", "before"):
        table.add_column(title)
    for row in account["longest"]:
        words = (CAUSES[row["cause"]].title, printable(row["evidence"]), printable(row["next"]))
        table.add_row(microseconds(row["start_us"]), microseconds(row["us"]), *map(escape, words))
    console.print(table)


def _share(part: float, account: dict[str, Any]) -> float:
    return 100.0 * part / account["span_us"] if account["span_us"] else 0.0


_TIMES = (UnitStep(1e6, 1e6, ".3f", "s"), UnitStep(1e3, 1e3, ".2f", "ms"), UnitStep(0.0, 1.0, ".1f", "us"))


def microseconds(us: float) -> str:
    """A time with its unit, in three or four figures."""
    return scaled(us, _TIMES)
