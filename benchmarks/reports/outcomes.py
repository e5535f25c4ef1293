"""The outcomes of a fuzz as counts, shares and Markdown tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = ("detected", "labelled", "same", "silent", "crashed", "hung")
BARE = ("raises", "crashes", "hangs", "no launches", "same", "different")


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant, in the words of ``fuzz_reports``.

    ``bare_changed`` are the digests of the bare reader that differ, ``sections`` show something
    else, ``visible`` are those of them that do so at three digits.
    """

    number: int
    source: str
    kind: str
    flips: int
    packed: bool
    bare: str
    bare_changed: list[str]
    ours: str
    why: str = ""
    sections: list[str] = field(default_factory=list)
    visible: list[str] = field(default_factory=list)


def passed(outcomes: Iterable[Outcome]) -> bool:
    """No crash, no hang, every truncation detected."""
    return not any(
        one.ours in ("crashed", "hung") or (one.kind == "truncate" and one.ours != "detected") for one in outcomes
    )


def group(one: Outcome) -> str:
    """The row of a mutant: its kind, of a flip with the number of bytes, and whether the zstd form
    was damaged."""
    if one.packed:
        return f"{one.kind}, in the zstd form"
    return f"flip of {one.flips}" if one.kind == "flip" else one.kind


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by kind, the share of wrong values that is caught, reasons, and every silent
    mutant."""
    names = sorted({group(one) for one in outcomes}, key=_order)
    kinds = {name: [one for one in outcomes if group(one) == name] for name in names}
    flips = [one for one in outcomes if one.kind == "flip"]
    return {
        "kinds": {name: row(some) for name, some in kinds.items()},
        "flips": row(flips),
        "all": row(outcomes),
        "reasons": dict(Counter(reason(one.why) for one in outcomes if one.ours == "detected").most_common()),
        "shown_differently": dict(Counter(s for one in outcomes if one.ours == "silent" for s in one.sections)),
        "crashed": [one.why for one in outcomes if one.ours in ("crashed", "hung")][:10],
    }


def row(some: Sequence[Outcome]) -> dict[str, Any]:
    """Counts of one group of mutants.

    ``wrong``: the bare reader opens the mutant without complaint but differently. ``matters``: of
    these, and of the mutants that show something else with us, those that change a shown value for
    certain: the ones that are detected where the bare reader loses launches or names, the labelled
    and the silent ones. A detected mutant of which only scalars or instances differ may or may not
    change what is shown: it counts neither way.
    """
    ours = Counter(one.ours for one in some)
    wrong = [one for one in some if one.bare == "different"]
    lost = sum(one.ours == "detected" and bool({"launches", "names"} & set(one.bare_changed)) for one in wrong)
    matters = lost + ours["labelled"] + ours["silent"]
    return {
        "mutants": len(some),
        "bare": {name: n for name in BARE if (n := sum(one.bare == name for one in some))},
        "ours": {name: ours[name] for name in OURS if ours[name]},
        "wrong": len(wrong),
        "wrong_ours": dict(Counter(one.ours for one in wrong)),
        "matters": matters,
        "caught": lost + ours["labelled"],
        "silent": ours["silent"],
        "visible": sum(one.ours == "silent" and bool(one.visible) for one in some),
    }


def reason(why: str) -> str:
    """An error without its numbers and names, so that equal ones can be counted."""
    text = why.splitlines()[0].removeprefix("FILE: ")
    return re.sub(r"\([^)]*(?:0x|byte|not|line).*\)|'[^']*'|\d[\d.e+-]*|\b[0-9a-f]{8}\b", "…", text)[:100]


def _order(name: str) -> tuple[int, int, str]:
    digits = re.sub(r"\D", "", name.split(",")[0])
    return (int(", in" in name), int(digits or 0), name)


def markdown(facts: dict[str, Any], found: dict[str, Any]) -> str:
    """The tables of a summary, for people and for the docs."""
    whole, flips = found["all"], found["flips"]
    lines = [
        f"{facts['count']} mutants of {facts['reports']} reports, seed {facts['seed']}.",
        "",
        "| damage | mutants | bare reader: complains | no launches | as intact | wrong | ncubble: detected | labelled |"
        " as intact | silent | of those, to the eye | caught |",
        "| --- |" + " ---: |" * 11,
        *(_line(name, one) for name, one in found["kinds"].items()),
        _line("**all flips**", flips),
        _line("**all**", whole),
        "",
        f"- Crashes and hangs of ncubble: {whole['ours'].get('crashed', 0) + whole['ours'].get('hung', 0)}.",
        f"- The bare reader gives wrong values without a word for {whole['wrong']} mutants. ncubble: "
        + ", ".join(f"{n} {name}" for name, n in sorted(whole["wrong_ours"].items(), key=lambda item: -item[1]))
        + ".",
        f"- Flips that change a shown value: {flips['matters']}; detected or labelled: {flips['caught']}"
        f" ({_share(flips)}); neither: {flips['silent']} ({flips['visible']} to the eye), which is"
        f" {100 * flips['silent'] / max(flips['mutants'], 1):.1f} % of all flips. Of the caught,"
        f" {flips['caught'] - flips['ours'].get('labelled', 0)} lose a launch or its name and are refused;"
        f" {flips['ours'].get('labelled', 0)} open and carry a label.",
        "",
        "| why detected | mutants |",
        "| --- | ---: |",
        *(f"| {why} | {n} |" for why, n in found["reasons"].items()),
        "",
        "| what the silent ones show differently | mutants |",
        "| --- | ---: |",
        *(f"| {title} | {n} |" for title, n in found["shown_differently"].items()),
    ]
    return "\n".join(lines)


def _line(name: str, one: dict[str, Any]) -> str:
    bare, ours = one["bare"], one["ours"]
    complains = sum(bare.get(key, 0) for key in ("raises", "crashes", "hangs"))
    cells = [
        *(name, one["mutants"], complains, bare.get("no launches", 0), bare.get("same", 0), bare.get("different", 0)),
        *(ours.get("detected", 0), ours.get("labelled", 0), ours.get("same", 0), ours.get("silent", 0)),
        *(one["visible"], _share(one)),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _share(one: dict[str, Any]) -> str:
    return f"{100 * one['caught'] / one['matters']:.0f} %" if one["matters"] else ""
