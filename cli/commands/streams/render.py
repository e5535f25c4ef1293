"""The account of streams as JSON, or as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncubble.cli.terminal import emit_json, printable
from ncubble.text.values import UnitStep, scaled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
        _print_account(console, account, longest)
    for note in shown.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim")
    console.print(str(shown.folder), markup=False, soft_wrap=True)


def _print_account(console: Console, account: DeviceAccount, longest: int) -> None:
    from ncubble.analysis.streams.work import D2H, H2D, P2P

    title = f"{account.name}: " if account.name else ""
    moved = f"{account.copied(H2D) / 1e6:,.1f} MB up, {account.copied(D2H) / 1e6:,.1f} MB down"
    if account.copied(P2P):
        moved += f", {account.copied(P2P) / 1e6:,.1f} MB between GPUs"
    console.print(
        f"{title}{_time(account.span_ns)} from first to last work, {account.kernels:,} kernels, "
        f"{account.copies:,} copies ({moved})",
        markup=False,
    )
    _print_engines(console, account)
    _print_causes(console, account)
    _print_longest(console, account, longest)


def _print_engines(console: Console, account: DeviceAccount) -> None:
    from ncubble.analysis.traces.overlap import percent

    together, names = account.concurrency, {group: account.engine(group) for group in account.concurrency.busy_ns}
    rows = [(names[group], ns) for group, ns in together.busy_ns.items()] + [("none of them", together.idle_ns)]
    shares = [(name, _time(ns), f"{percent(ns, together.span_ns):.1f}") for name, ns in rows]
    console.print(_table("engine", ("busy", "busy %"), shares))
    overlaps = [
        (
            " + ".join(names[group] for group in overlap.what),
            _time(overlap.ns),
            f"{overlap.pct_of_span:.1f}",
            f"{overlap.pct_of_least:.1f}",
        )
        for overlap in together.overlaps
    ]
    if overlaps:
        console.print(_table("at the same time", ("", "% of span", "% of the less busy"), overlaps))


def _table(first: str, numbers: tuple[str, ...], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table

    table = Table(first, box=None, pad_edge=False)
    for title in numbers:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _print_causes(console: Console, account: DeviceAccount) -> None:
    from collections import Counter

    from ncubble.analysis.streams.causes import CAUSES
    from ncubble.analysis.streams.gaps import by_cause
    from ncubble.analysis.traces.overlap import percent

    span, gaps = account.span_ns, Counter(gap.cause for gap in account.gaps)
    console.print(
        f"no SM was busy for {_time(account.idle_ns)} ({percent(account.idle_ns, span):.1f} %), "
        f"in {len(account.gaps):,} gaps:",
        markup=False,
    )
    table = _table("cause", ("idle", "% of span", "gaps"), [])
    table.add_column("what helps", style="dim")
    for name, ns in by_cause(account.gaps).items():
        cause, pct = CAUSES[name], percent(ns, span)
        remedy = cause.remedy if pct >= LEAST_PCT else ""
        table.add_row(cause.title, _time(ns), f"{pct:.1f}", f"{gaps.get(name, 0):,}", remedy)
    console.print(table)


def _print_longest(console: Console, account: DeviceAccount, most: int) -> None:
    from rich.markup import escape

    from ncubble.analysis.streams.account import longest_gaps
    from ncubble.analysis.streams.causes import CAUSES
    from ncubble.analysis.streams.work import short_name

    if not account.gaps or not most:
        return
    table = _table("longest gaps at", ("idle",), [])
    for title in ("cause", "evidence", "before"):
        table.add_column(title)
    for gap in longest_gaps(account.gaps, most):
        before = short_name(gap.next) if gap.next else ""
        words = (CAUSES[gap.cause].title, printable(gap.evidence), printable(before))
        table.add_row(_time(gap.start - account.zero), _time(gap.ns), *map(escape, words))
    console.print(table)


_TIMES = (UnitStep(1e9, 1e9, ".3f", "s"), UnitStep(1e6, 1e6, ".2f", "ms"), UnitStep(0.0, 1e3, ".1f", "µs"))


def _time(ns: float) -> str:
    """A time with its unit, in three or four figures."""
    return scaled(ns, _TIMES)
