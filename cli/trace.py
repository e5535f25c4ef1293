"""``ncubble trace``: records what each warp does over time, by a probe in the kernel itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, Force, Json, Out, Parameters, Perfetto, Timeout
from ncubble.cli.terminal import emit_json, passing_on, printable, terminal_width, wrapped
from ncubble.errors import UsageError
from ncubble.text.values import UnitStep, scaled

if TYPE_CHECKING:
    from ncubble.analysis.traces.probe import TraceFacts

MOST_OVERLAPS = 12
_TIMES = (UnitStep(9999.5, 1e3, ".1f", "µs"), UnitStep(0.0, 1.0, ".0f", "ns"))


def trace(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A kernel with a probe, or a folder written by trace; or -- CMD …")
    ] = None,
    parameters: Parameters = None,
    catalog: Catalog = None,
    sms: Annotated[int, typer.Option(min=1, max=512, help="Record the warps that start on the first N SMs.")] = 1,
    events: Annotated[int, typer.Option(min=1, max=(1 << 20) - 1, help="Marks to keep for each warp.")] = 2048,
    cost: Annotated[
        bool, typer.Option(" /--no-cost", help="Do not measure the cost of the probe.", show_default=False)
    ] = True,
    out: Out = None,
    force: Force = False,
    perfetto: Perfetto = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Record what each warp does over time: loads, waits, computation, stores, with clocks written
    by the kernel itself.

    NAME: a catalog kernel with the probe; its result is verified, and the probe's cost is measured.
    -- CMD …: your own program whose kernels include bubble_probe.cuh (docs/trace.md). A recorded
    folder is shown again.
    """
    from ncubble.api.subjects import chosen_subject
    from ncubble.api.tracing import TraceSettings, open_trace, trace_kernel, trace_program
    from ncubble.profiling.session import Session
    from ncubble.profiling.staging import default_out

    program, settings = ctx.meta[PROGRAM], TraceSettings(sms, events, cost)
    if program is not None or name is None:
        subject = chosen_subject(program, name, parameters or [], catalog)
        with passing_on() as observer:
            session = Session(subject, out or default_out(f"trace-{subject.label}"), force, timeout, observer)
            result = trace_program(session, settings)
    elif Path(name).is_dir():
        if out or force:
            raise UsageError("a recorded trace is only shown", "omit the options for recording")
        result = open_trace(Path(name))
    else:
        from ncubble.kernels.run.session import KernelRequest

        result = trace_kernel(KernelRequest.parse(name, parameters, catalog), settings, out, force)
    if perfetto is not None:
        result.write_perfetto(perfetto)
    if json:
        emit_json(result.to_json())
    else:
        width = terminal_width()
        lines = [part for line in trace_lines(result.facts) for part in wrapped(line, width)]
        sys.stdout.write("\n".join([*lines, f"run: {result.path}"]) + "\n")
    if result.wrong:
        raise result.wrong


def trace_lines(trace: TraceFacts) -> Iterator[str]:
    """Lines printed by ``ncubble trace``."""

    named = trace.kernel
    settings = {**named.parameters, **named.shape} if named else {}
    words = [named.name, *(f"{key}={value}" for key, value in settings.items())] if named else trace.argv
    yield printable(" ".join(words))
    span = trace.span_ns / 1e3
    clock = f" at {trace.clock.mhz:.0f} MHz" if trace.clock.mhz else ""
    yield f"{trace.warps} warps on {trace.sms} SM{'s' if trace.sms > 1 else ''}, {span:.2f} µs each{clock}"
    if trace.cut_ns:
        low, high = (1e-3 * at for at in trace.cut_ns)
        yield f"a section of the trace, from {low:.2f} to {high:.2f} µs"
    yield ""
    yield f"{'role':<10} {'region':<12} {'of its time':>11} {'regions':>9} {'median':>10}"
    for share in trace.shares:
        count = share.count or ""
        times = f"{share.pct:>9.1f} % {count:>9} {_ns(share.median_ns):>10}"
        yield f"{printable(share.group):<10} {printable(share.tag):<12} {times}"
    yield ""
    yield "in flight on an SM, share of time"
    for name, pct in trace.busy_pct.items():
        yield f"  {printable(name):<40} {pct:>6.1f} %"
    pairs = [overlap for overlap in trace.overlaps if overlap.ns > 0]
    if pairs:
        shown = sorted(pairs, key=lambda overlap: (len(overlap.what), -overlap.ns))[:MOST_OVERLAPS]
        texts = [" + ".join(printable(what) for what in overlap.what) for overlap in shown]
        wide = max(40, *map(len, texts))
        yield f"{'at the same time':<{wide + 2}} {'':>6}   of the less busy"
        for text, overlap in zip(texts, shown, strict=True):
            yield f"  {text:<{wide}} {overlap.pct_of_span:>6.1f} %   {overlap.pct_of_least:>6.1f} %"
    yield ""
    yield from _trust(trace)


def _trust(trace: TraceFacts) -> Iterator[str]:
    loss, cost = trace.loss, trace.cost
    missed = _ns(loss.unseen_ns / max(loss.full, 1))
    lost = (
        (loss.warps, "warps found no slot"),
        (loss.full, f"warps ran out of room and miss {missed} each (raise --events)"),
        (loss.unended, "warps did not finish"),
        (loss.damaged, "invalid marks were dropped"),
    )
    yield "; ".join(f"{number} {what}" for number, what in lost if number) or "nothing was lost"
    if cost:
        chosen = f", {cost.chosen_pct:+.1f} % with {cost.sms}" if cost.chosen_pct is not None else ""
        yield (
            f"the probe costs {cost.on_pct:+.1f} % ({cost.on_low_pct:+.1f} to {cost.on_high_pct:+.1f} over "
            f"{cost.rounds} rounds) with every SM recorded{chosen}, {cost.idle_pct:+.1f} % with none: "
            f"{cost.off_us:.1f} µs without it"
        )
        if cost.kept_pct < 99.5:
            yield f"during this measurement {cost.kept_pct:.0f} % of the warps found a slot"
    yield _clock(trace)
    if trace.verification:
        yield "result: verified" if trace.verification.passed else "result: wrong"


def _clock(trace: TraceFacts) -> str:
    clock = trace.clock
    if not clock.ns_per_cycle:
        return "the SM clock is not known: times are in cycles, not ns"
    if trace.sms < 2:
        off = f"; its clock deviates from a straight line by up to {_ns(clock.residual_ns)}"
        return f"one SM: its warps are ordered to the cycle{off if clock.residual_ns > 100 else ''}"
    if clock.quantum_ns is None:
        return "the offset between SM clocks is not known: too few warps began and ended"
    return f"SM clocks agree within {clock.residual_ns + clock.quantum_ns / 2:.0f} ns"


def _ns(value: float | None) -> str:
    return scaled(value, _TIMES, "")
