"""Prints a trace: where the warps' time went, what overlapped, and how accurate it is."""

from __future__ import annotations

from collections.abc import Iterator

from ncubble.analysis.traces.summary import TraceFacts
from ncubble.cli.terminal import printable
from ncubble.text.values import UnitStep, scaled

MOST_OVERLAPS = 12


def trace_lines(trace: TraceFacts) -> Iterator[str]:
    """Lines printed by ``ncubble trace``."""
    yield _title(trace)
    span = trace.span_ns / 1e3
    clock = f" at {trace.clock.mhz:.0f} MHz" if trace.clock.mhz else ""
    yield f"{trace.warps} warps on {trace.sms} SM{'s' if trace.sms > 1 else ''}, {span:.2f} µs each{clock}"
    if trace.cut_ns:
        low, high = (1e-3 * at for at in trace.cut_ns)
        yield f"a section of the trace, from {low:.2f} to {high:.2f} µs"
    yield ""
    yield f"{'role':<10} {'region':<12} {'of its time':>11} {'regions':>9} {'median':>10}"
    for share in trace.shares:
        count = f"{share.count:>9}" if share.count else " " * 9
        yield (
            f"{printable(share.group):<10} {printable(share.tag):<12} {share.pct:>9.1f} % {count} "
            f"{_ns(share.median_ns):>10}"
        )
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


def _title(trace: TraceFacts) -> str:
    if trace.kernel is None:
        return printable(" ".join(trace.argv))
    settings = {**trace.kernel.parameters, **trace.kernel.shape}
    return printable(" ".join([trace.kernel.name, *(f"{key}={value}" for key, value in settings.items())]))


def _trust(trace: TraceFacts) -> Iterator[str]:
    loss, cost = trace.loss, trace.cost
    lost = [
        (loss.warps, "warps found no slot"),
        (
            loss.full,
            f"warps ran out of room and miss {_ns(loss.unseen_ns / max(loss.full, 1))} each (raise --events)",
        ),
        (loss.unended, "warps did not finish"),
        (loss.damaged, "invalid marks were dropped"),
    ]
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


_TIMES = (UnitStep(9999.5, 1e3, ".1f", "µs"), UnitStep(0.0, 1.0, ".0f", "ns"))


def _ns(value: float | None) -> str:
    return scaled(value, _TIMES, "")
