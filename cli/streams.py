"""``ncubble streams``: what a program's copies and kernels overlap, and why its SMs are idle between kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import (
    PROGRAM,
    Catalog,
    Force,
    Json,
    Out,
    Parameters,
    Perfetto,
    Recorder,
    Timeout,
    kernel_names,
)
from ncubble.cli.terminal import emit_json, passing_on, printable
from ncubble.errors import MeasurementError, UsageError
from ncubble.text.values import UnitStep, scaled

if TYPE_CHECKING:
    from rich.table import Table

    from ncubble.analysis.streams.account import DeviceAccount
    from ncubble.api.streaming import StreamsResult
    from ncubble.records import JsonObject

LEAST_PCT = 0.05
LONGEST = 5
"""Gaps that the table shows."""
_TIMES = (UnitStep(1e6, 1e6, ".3f", "s"), UnitStep(1e3, 1e3, ".2f", "ms"), UnitStep(0.0, 1.0, ".1f", "µs"))
Subject = Annotated[
    str | None, typer.Argument(help="A catalog kernel or a run directory; or -- CMD …", autocompletion=kernel_names)
]


def streams(
    ctx: typer.Context,
    name: Subject = None,
    parameter: Parameters = None,
    catalog: Catalog = None,
    out: Out = None,
    force: Force = False,
    recorder: Recorder = "auto",
    timeout: Timeout = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Count everything, also outside cudaProfilerStart/Stop.")
    ] = False,
    warps: Annotated[bool, typer.Option("--warps", help="Also trace warps of the catalog kernel on one SM.")] = False,
    perfetto: Perfetto = None,
    json: Json = False,
) -> None:
    """Record kernels and copies of a program with CUPTI: what overlaps, and why the SMs are idle.

    It does not run under ncu or nsys: CUPTI serves one client. A run directory as NAME is shown again.
    """
    from ncubble.api.streaming import open_streams, record_streams, stream_folder, traced_subject
    from ncubble.api.subjects import chosen_subject
    from ncubble.profiling.recorders.streams import StreamSettings
    from ncubble.profiling.session import Session, run_folder

    program = ctx.meta[PROGRAM]
    recorded = name is not None and program is None and name not in kernel_names(name) and Path(name).exists()
    shown = name is not None and (recorded or (program is None and stream_folder(Path(name))))
    if name is not None and shown:
        if parameter or catalog or out or force or warps:
            raise UsageError("a recorded run is only shown", "omit the options for recording")
        result = open_streams(Path(name), whole)
    else:
        if warps and (program is not None or name is None):
            raise UsageError("--warps works with catalog kernels only", "run `ncubble streams --warps NAME`")
        kernel = (parameter or [], catalog)
        subject = traced_subject(name or "", *kernel) if warps else chosen_subject(program, name, *kernel)
        with passing_on() as observer:
            session = Session(subject, run_folder(out, f"streams-{subject.label}"), force, timeout, observer)
            result = record_streams(session, StreamSettings(recorder=recorder), whole, warps)
    if perfetto is not None:
        result.write_perfetto(perfetto)
    show(result, json)
    if not shown and result.failed:
        raise MeasurementError(result.failed, f"what was recorded until then is in {result.path}")


def show(result: StreamsResult, json: bool) -> None:
    """Print all accounts of a run to stdout, as JSON or as tables."""
    from rich.console import Console

    shown = result.to_json(LONGEST)
    if json:
        emit_json(shown)
        return
    console = Console(highlight=False)
    for account, told in zip(result.accounts, shown["devices"], strict=True):
        console.print(_head(account.name, told), markup=False)
        for table in _engines(account, told):
            console.print(table)
        idle = f"{_time(told['sm_idle_us'])} ({told['sm_idle_pct']:.1f} %)"
        console.print(f"no SM was busy for {idle}, in {told['gaps']:,} gaps:", markup=False)
        console.print(_causes(told))
        if told["longest"]:
            console.print(_longest(told))
    for note in result.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim")
    console.print(str(result.path), markup=False, soft_wrap=True)


def _head(name: str, told: JsonObject) -> str:
    ways = {"up": "up", "down": "down"} | ({"peer": "between GPUs"} if told["bytes_peer"] else {})
    moved = ", ".join(f"{told[f'bytes_{way}'] / 1e6:,.1f} MB {words}" for way, words in ways.items())
    return (
        f"{f'{name}: ' if name else ''}{_time(told['span_us'])} from first to last work, "
        f"{told['kernels']:,} kernels, {told['copies']:,} copies ({moved})"
    )


def _engines(account: DeviceAccount, told: JsonObject) -> list[Table]:
    busy = [(one["engine"], one["busy_us"], one["busy_pct"]) for one in told["engines"]]
    busy.append(("none of them", told["all_idle_us"], account.pct(account.concurrency.idle_ns)))
    rows = [(name, _time(us), f"{pct:.1f}") for name, us, pct in busy]
    overlaps = [
        (" + ".join(one["engines"]), _time(one["us"]), f"{one['pct_of_span']:.1f}", f"{one['pct_of_least']:.1f}")
        for one in told["overlap"]
    ]
    heads = ("at the same time", ("", "% of span", "% of the less busy"))
    return [_table("engine", ("busy", "busy %"), rows), *([_table(*heads, overlaps)] if overlaps else [])]


def _causes(told: JsonObject) -> Table:
    from ncubble.analysis.streams.work import CAUSES

    rows = []
    for one in told["causes"]:
        pct = one["pct_of_span"]
        remedy = one["remedy"] if pct >= LEAST_PCT else ""
        rows.append((CAUSES[one["cause"]].title, _time(one["us"]), f"{pct:.1f}", f"{one['gaps']:,}", remedy))
    return _table("cause", ("idle", "% of span", "gaps"), rows, ("what helps",))


def _longest(told: JsonObject) -> Table:
    from rich.markup import escape

    from ncubble.analysis.streams.work import CAUSES

    rows = []
    for gap in told["longest"]:
        words = (CAUSES[gap["cause"]].title, printable(gap["evidence"]), printable(gap["next"]))
        rows.append((_time(gap["start_us"]), _time(gap["us"]), *map(escape, words)))
    return _table("longest gaps at", ("idle",), rows, ("cause", "evidence", "before"))


def _table(first: str, numbers: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[str] = ()) -> Table:
    from rich.table import Table

    table = Table(first, box=None, pad_edge=False)
    for title in numbers:
        table.add_column(title, justify="right")
    for title in texts:
        table.add_column(title, style="dim" if title == "what helps" else None)
    for row in rows:
        table.add_row(*row)
    return table


def _time(us: float) -> str:
    """A time with its unit, in three or four figures."""
    return scaled(us, _TIMES)
