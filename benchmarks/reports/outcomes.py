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
    else, ``visible`` are those of them that do so at three digits. ``where`` is the damaged field;
    ``causes`` are other named causes than of the intact report, without a label.
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
    where: str = ""
    causes: str = ""


def passed(outcomes: Iterable[Outcome]) -> bool:
    """No crash, no hang, no other cause without a label, every truncation detected."""
    return not any(
        mutant.ours in ("crashed", "hung")
        or (mutant.where and mutant.causes)
        or (mutant.kind == "truncate" and mutant.ours != "detected")
        for mutant in outcomes
    )


def group(mutant: Outcome) -> str:
    """The row of a mutant: its kind, of a flip with the number of bytes, and whether the zstd form
    was damaged."""
    if mutant.packed:
        return f"{mutant.kind}, in the zstd form"
    return f"flip of {mutant.flips}" if mutant.kind == "flip" else mutant.kind


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by kind, the share of wrong values that is caught, reasons, and every silent
    mutant."""
    names = sorted({group(mutant) for mutant in outcomes}, key=_order)
    kinds = {name: [mutant for mutant in outcomes if group(mutant) == name] for name in names}
    flips = [mutant for mutant in outcomes if mutant.kind == "flip"]
    return {
        "kinds": {name: row(some) for name, some in kinds.items()},
        "flips": row(flips),
        "fields": row([mutant for mutant in outcomes if mutant.where and mutant.kind != "number"]),
        "all": row(outcomes),
        "reasons": dict(Counter(reason(mutant.why) for mutant in outcomes if mutant.ours == "detected").most_common()),
        "shown_differently": dict(
            Counter(s for mutant in outcomes if mutant.ours == "silent" for s in mutant.sections)
        ),
        "causes": [mutant.causes for mutant in outcomes if mutant.causes],
        "silent": [
            {"where": mutant.where, "kind": mutant.kind, "sections": mutant.sections}
            for mutant in sorted(outcomes, key=lambda mutant: (mutant.where, mutant.kind))
            if mutant.where and mutant.ours == "silent"
        ],
        "crashed": [mutant.why for mutant in outcomes if mutant.ours in ("crashed", "hung")][:10],
    }


def row(some: Sequence[Outcome]) -> dict[str, Any]:
    """Counts of one group of mutants.

    ``wrong``: the bare reader opens the mutant without complaint but differently. ``matters``: of
    these, and of the mutants that show something else with us, those that change a shown value for
    certain: the ones that are detected where the bare reader loses launches or names, the labelled
    and the silent ones. A detected mutant of which only scalars or instances differ may or may not
    change what is shown: it counts neither way.
    """
    ours = Counter(mutant.ours for mutant in some)
    wrong = [mutant for mutant in some if mutant.bare == "different"]
    lost = sum(mutant.ours == "detected" and bool({"launches", "names"} & set(mutant.bare_changed)) for mutant in wrong)
    matters = lost + ours["labelled"] + ours["silent"]
    return {
        "mutants": len(some),
        "bare": {name: n for name in BARE if (n := sum(mutant.bare == name for mutant in some))},
        "ours": {name: ours[name] for name in OURS if ours[name]},
        "wrong": len(wrong),
        "wrong_ours": dict(Counter(mutant.ours for mutant in wrong)),
        "matters": matters,
        "caught": lost + ours["labelled"],
        "silent": ours["silent"],
        "visible": sum(mutant.ours == "silent" and bool(mutant.visible) for mutant in some),
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
    whole = found["all"]
    lines = [
        f"{facts['count']} mutants of {facts['reports']} reports, seed {facts['seed']}.",
        "",
        "| damage | mutants | bare reader: complains | no launches | as intact | wrong | ncubble: detected | labelled |"
        " as intact | silent | of those, to the eye | caught |",
        "| --- |" + " ---: |" * 11,
        *(_line(name, kind) for name, kind in found["kinds"].items()),
        *([_line("**all flips**", found["flips"])] if found["flips"]["mutants"] else []),
        _line("**all**", whole),
        "",
        f"- Crashes and hangs of ncubble: {whole['ours'].get('crashed', 0) + whole['ours'].get('hung', 0)}.",
        f"- Other causes named without a label: {len(found['causes'])}.",
        f"- The bare reader gives wrong values without a word for {whole['wrong']} mutants. ncubble: "
        + ", ".join(f"{n} {name}" for name, n in sorted(whole["wrong_ours"].items(), key=lambda item: -item[1]))
        + ".",
        *_shares(found),
        "",
        *_counted("why detected", found["reasons"]),
        "",
        *_counted("what the silent ones show differently", found["shown_differently"]),
    ]
    if found["silent"]:
        lines += ["", *_silent_fields(found["silent"])]
    return "\n".join(lines)


def _shares(found: dict[str, Any]) -> list[str]:
    """Of flips, or of the draws of fields."""
    flips, fields = found["flips"], found["fields"]
    if flips["mutants"]:
        return [
            f"- Flips that change a shown value: {flips['matters']}; detected or labelled: {flips['caught']}"
            f" ({_share(flips)}); neither: {flips['silent']} ({flips['visible']} to the eye), which is"
            f" {100 * flips['silent'] / flips['mutants']:.1f} % of all flips. Of the caught,"
            f" {flips['caught'] - flips['ours'].get('labelled', 0)} lose a launch or its name and are refused;"
            f" {flips['ours'].get('labelled', 0)} open and carry a label."
        ]
    numbers = found["kinds"].get("number", {"mutants": 0, "silent": 0})
    return [
        f"- Draws but for numbers changed in place: {fields['mutants']}; silent: {fields['silent']}"
        f" ({100 * fields['silent'] / max(fields['mutants'], 1):.2f} %). Numbers changed in place:"
        f" {numbers['mutants']}; silent: {numbers['silent']}."
    ]


def _counted(title: str, counts: dict[str, int]) -> list[str]:
    return [f"| {title} | mutants |", "| --- | ---: |", *(f"| {name} | {n} |" for name, n in counts.items())]


def _silent_fields(silent: list[dict[str, Any]]) -> list[str]:
    rows = ["| silent: field | damage | what is shown differently |", "| --- | --- | --- |"]
    return rows + [f"| `{mutant['where']}` | {mutant['kind']} | {', '.join(mutant['sections'])} |" for mutant in silent]


def _line(name: str, kind: dict[str, Any]) -> str:
    bare, ours = kind["bare"], kind["ours"]
    complains = sum(bare.get(key, 0) for key in ("raises", "crashes", "hangs"))
    cells = [
        *(name, kind["mutants"], complains, bare.get("no launches", 0), bare.get("same", 0), bare.get("different", 0)),
        *(ours.get("detected", 0), ours.get("labelled", 0), ours.get("same", 0), ours.get("silent", 0)),
        *(kind["visible"], _share(kind)),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _share(kind: dict[str, Any]) -> str:
    return f"{100 * kind['caught'] / kind['matters']:.0f} %" if kind["matters"] else ""
