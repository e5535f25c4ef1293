"""What to know about a comparison: other GPU, clock, ncu, problem or kernel, and what the reports
cannot tell."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.compare.sides import Group, letter
from ncubble.analysis.gate.check.kernel import CLOCK_TOLERANCE_PCT


def clock_change_pct(first: Group | None, other: Group | None) -> float | None:
    """SM clock of ``other`` against ``first`` in percent, or None where either does not say."""
    before, after = (_clock(side) for side in (first, other))
    return None if before is None or after is None else 100.0 * (after / before - 1.0)


def _clock(side: Group | None) -> float | None:
    known = [launch.values.get("sm_clock_hz", 0.0) for launch in side.subjects] if side else []
    known = [value for value in known if value > 0]
    return statistics.fmean(known) if known else None


def incomparable(first: Group | None, other: Group) -> str:
    """Why differences to ``other`` are not tested against noise, or nothing: another GPU, another
    ncu."""
    if first is None:
        return ""
    gpus = [_listed({launch.device for launch in side.subjects}) for side in (first, other)]
    if gpus[0] != gpus[1]:
        return f"different GPU, {gpus[1]} against {gpus[0]}: differences also reflect the machines"
    releases = [{_release(launch.ncu_version) for launch in side.subjects} - {""} for side in (first, other)]
    if all(releases) and releases[0] != releases[1]:
        return (
            f"different ncu, {_listed(releases[1])} against {_listed(releases[0])}: counters may be defined differently"
        )
    return ""


def _release(version: str) -> str:
    match = re.search(r"\d+", version)
    return match.group() if match else ""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names - {""})) or "unknown"


def notes_on(
    sides: Sequence[Group | None], merged: Mapping[str, set[str]], barred: Sequence[str], measured: bool
) -> Iterator[str]:
    """Sentences on one comparison; sides are named by their letters. ``measured``: accounts are
    measured on all of them."""
    first = sides[0]
    if first is None:
        return
    for index, side in enumerate(sides):
        if index == 0:
            continue
        if side is None:
            yield f"{letter(index)}: no launch of this kernel"
            continue
        yield from (f"{letter(index)}: {text}" for text in _differences(first, side))
        if barred[index]:
            yield f"{letter(index)}: {barred[index]}"
    yield from (f"{letter(index)}: {doubt}" for index, side in enumerate(sides) if side for doubt in _doubts(side))
    for coarse, finer in merged.items():
        lacking = [letter(i) for i, side in enumerate(sides) if side and _holds(side, coarse)]
        if len(lacking) < sum(1 for side in sides if side):
            split = ", ".join(part for part in PARTS if part in finer)
            yield f"{', '.join(lacking)} cannot split {coarse}: on all sides it includes {split}"
    ablated = [letter(i) for i, side in enumerate(sides) if side and any(launch.measured for launch in side.subjects)]
    if measured:
        yield "accounts are measured by ablation; the remainder is neither work nor a removed part"
    elif ablated:
        yield f"accounts are estimates on all sides, because only {', '.join(ablated)} was measured by ablation"
    if without := [
        letter(i) for i, side in enumerate(sides) if side and not any(launch.account for launch in side.subjects)
    ]:
        yield f"{', '.join(without)}: no account, because the report has no utilization of any unit"
    if len(first.subjects) < 2:
        yield f"{letter(0)} is a single launch: without repeats, differences are not tested against noise"


def _holds(side: Group, coarse: str) -> bool:
    return any(coarse in {*launch.verdict.merged, *(launch.measured or ())} for launch in side.subjects)


def _doubts(side: Group) -> list[str]:
    return list(dict.fromkeys(doubt for launch in side.subjects for doubt in launch.verdict.doubts))


def _differences(first: Group, other: Group) -> Iterator[str]:
    """In what else than the measurement two groups differ."""
    before, after = first.first, other.first
    if before.kernel != after.kernel:
        yield f"another kernel, {after.kernel} against {before.kernel}"
    if before.shape != after.shape:
        yield f"another problem, {after.shape} against {before.shape}"
    elif (before.grid, before.block) != (after.grid, after.block):
        yield f"launched as {after.grid} × {after.block} against {before.grid} × {before.block}"
    units = [launch.verdict.unit for launch in (before, after)]
    if units[0] != units[1] and all(units):
        yield f"its account counts another unit as busy, {units[1]} against {units[0]}"
    clock = clock_change_pct(first, other)
    if clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
        yield (
            f"the SM clock differs by {clock:+.1f} %, so times also reflect the clocks; cycles do not, "
            "except for memory"
        )
    if {(launch.key, launch.launch) for launch in first.subjects} & {
        (launch.key, launch.launch) for launch in other.subjects
    }:
        yield f"the same measurement as {letter(0)}"
