"""Prints accounts: a table of many launches, or of the parts of each, their inputs, and accounts of
recordings without counters."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.changes.change import MEASURED, TRITON, places
from ncubble.analysis.diagnosis.groups import LaunchGroup
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.analysis.diagnosis.words import (
    cause_words,
    change_words,
    differs,
    kind_words,
    measured_sentence,
    sentence,
    try_command,
    without_change,
)
from ncubble.analysis.report.launch_key import LONGEST_NAME, telling_dims
from ncubble.cli.terminal import TIED, cut, printable, tied, wrapped
from ncubble.errors import NcubbleError
from ncubble.text.values import UnitStep, bar_of, fixed, location, scaled

if TYPE_CHECKING:  # imports pandas, which printing a remembered verdict does without
    from ncubble.analysis.account.explain import Explanation, PartExplained, Term
    from ncubble.analysis.details.coarse import CoarseVerdict
    from ncubble.analysis.model.depths import Depths
    from ncubble.api.reporting import LaunchReport

IN_FULL = 3
"""Up to this many launches are shown in full by default."""
SMALL_PCT, LEAST_PCT, LEAST_TERM_PCT = 0.5, 0.05, 0.005
"""Smaller parts, parts of an explanation, and terms of such a part are omitted, never in JSON."""
TOGETHER = "together"
"""Shown for values that were measured for several parts at once."""
BAR_CELLS = {104: 24, 80: 10}
"""Cells of the account's bar by minimum terminal width; narrower terminals show no bar."""
NAME_CELLS, VERDICT_CELLS = 24, 21
"""Minimum width of names beside a bar, and of the verdict that makes a name fold."""
FIGURES = {"time": 8, "% time": 6, "busy %": 9, "DRAM %": 6}
"""Widths of the number columns."""
_TIMES = (UnitStep(1e6, 1e6, ".3f", "ms"), UnitStep(0.0, 1e3, ".1f", "µs"))
_WORDS = re.compile(r"\s*\S+")
_PIECES = re.compile(r"\s*[^\s_,:<>()-]*(?:[_,:<>()-]+|$)")
"""Pieces of a word and the space before it, up to each mark that allows a line break."""


def print_report(found: LaunchReport, details: bool = False) -> None:
    """Print launches, then recordings without counters, to stdout; what could not be read to
    stderr."""
    out = Console(highlight=False)
    launches = found.launches
    if details or len(launches) <= IN_FULL:
        labels = full_labels([launch.estimate for launch in launches])
        for launch, label in zip(found.first, labels, strict=False):
            print_launch(out, launch.estimate, label, launch.ablation)
            if depths := (found.depths or {}).get(launch):
                print_depths(out, depths)
            if explanation := (found.explanations or {}).get(launch):
                print_explanation(out, explanation, launch.estimate.unit or "")
    else:
        print_summary(out, *found.rows)
    if found.traces:
        print_coarse(out, found.traces, details)
    err = Console(stderr=True, highlight=False)
    for failure in found.errors:
        text = "\n  remedy: ".join(map(printable, failure.error.split("\n  remedy: ")))
        err.print(Text(f"ncubble: {text}", style="red"), soft_wrap=True)


# Words of a launch


def title(launch: LaunchVerdict, label: str) -> Text:
    """``label`` and, if different, the kernel's function."""
    label, kernel = (cut(printable(name), LONGEST_NAME) for name in (label, launch.kernel))
    text = Text(label, style="bold")
    return text if label.partition(" ")[0] == kernel else text.append(f" {kernel}", style="not bold")


def verdict_words(launch: LaunchVerdict) -> Text:
    """The cause in words, with the kind of the first change, and the measurement, if any."""
    text = Text(cause_words(launch), style="bold")
    if kind := kind_words(launch):
        text.append(f" ({kind})", style="not bold")
    if launch.cause in launch.measured:
        text.append(", measured", style="not bold")
    return text


def figures(verdict: LaunchVerdict, time_ns: float, total_ns: float) -> dict[str, str]:
    """The texts of ``FIGURES``; how busy the bounding unit was has its name, unless it is the tensor
    pipe."""
    unit = "" if verdict.unit == "tensor" else f"{verdict.unit} "
    account = verdict.account
    return {
        "time": duration(verdict.duration_ns),
        "% time": share(time_ns, total_ns),
        "busy %": f"{unit}{account['tensor_busy'] + account['unit_busy']:.1f}" if account else "–",
        "DRAM %": fixed(verdict.dram_pct, 1, "–"),
    }


def duration(ns: float | None) -> str:
    """In ms or µs."""
    return scaled(ns, _TIMES, "–")


def share(time_ns: float, total_ns: float) -> str:
    """Percent of the whole time."""
    return fixed(100.0 * time_ns / total_ns, 1) if total_ns else "–"


def short_labels(launches: Sequence[LaunchVerdict]) -> list[str]:
    """A name for each launch, without the values that most launches of its kernel have. Those that
    this does not tell apart are named as by ``full_labels``. Labels that are no kernel with parameters
    stay as they are."""
    parsed = [_parameters(launch.label) for launch in launches]
    count = Counter(name for name, _ in parsed)
    sharing = Counter((name, *pair) for name, values in parsed for pair in values.items())
    kept = [
        [name, *(f"{key}={value}" for key, value in values.items() if 2 * sharing[name, key, value] <= count[name])]
        for name, values in parsed
    ]
    return full_labels(launches, [" ".join(words) for words in kept])


def full_labels(launches: Sequence[LaunchVerdict], names: Sequence[str] | None = None) -> list[str]:
    """The label of each launch, or its name among ``names``; behind those of several launches the
    dimensions in which they differ, and behind those of several reports the end of the path that no
    other of them has."""
    names = names or [launch.label for launch in launches]
    shapes = [[f"{key}={value}" for key, value in launch.shape.items()] for launch in launches]
    names = [f"{name} {dims}".rstrip() for name, dims in zip(names, telling_dims(names, shapes), strict=True)]
    reports: defaultdict[str, set[str]] = defaultdict(set)
    for name, launch in zip(names, launches, strict=True):
        reports[name].add(launch.report)
    ends = {name: _ends(paths) for name, paths in reports.items() if len(paths) > 1}
    pairs = zip(names, launches, strict=True)
    return [f"{name} ({ends[name][launch.report]})" if name in ends else name for name, launch in pairs]


def _ends(paths: set[str]) -> dict[str, str]:
    """The shortest ends of ``paths`` that are all different."""
    ends = ({path: "/".join(Path(path).parts[-size:]) for path in paths} for size in range(1, 99))
    return next((found for found in ends if len(set(found.values())) == len(paths)), {path: path for path in paths})


def _parameters(label: str) -> tuple[str, dict[str, str]]:
    """The kernel's name and its parameters; the whole label and none where it is not made of
    these."""
    name, *words = label.split(" ")
    pairs = [word.partition("=") for word in words]
    known = all(key and equals for key, equals, _ in pairs)
    return (name, {key: value for key, _, value in pairs}) if known else (label, {})


def folded(text: Text, cells: int) -> Text:
    """``text`` in lines of at most ``cells``, broken after words; longer words are broken after
    ``_`` or another mark."""
    breaks, used = [], 0
    for start, size in _pieces(text.plain, cells):
        if used and used + size > cells:
            breaks.append(start)
            used = 0
        used += size
    lines = text.divide(breaks)
    for line in lines[1:]:
        stripped = len(line.plain) - len(line.plain.lstrip())
        line.plain, line.spans = line.plain[stripped:], [span.move(-stripped) for span in line.spans]
    return Text("\n").join(lines)


def _pieces(text: str, cells: int) -> Iterator[tuple[int, int]]:
    """Start of each unbreakable piece, and its length including the space before it."""
    for word in _WORDS.finditer(text):
        parts = _PIECES.finditer(word[0]) if len(word[0].lstrip()) > cells else [re.match(r"(?s).*", word[0])]
        yield from ((word.start() + part.start(), len(part[0])) for part in parts if part and part[0])


# Many launches


def print_summary(out: Console, groups: Sequence[LaunchGroup], rest: Sequence[LaunchGroup] = ()) -> None:
    """A row for each of ``groups``, and one for all of ``rest`` together."""
    everything = [*groups, *rest]
    launches = [launch for group in everything for launch in group.launches]
    total = sum(group.time_ns for group in everything)
    plain = out.no_color or not out.is_terminal
    length = next((cells for least, cells in BAR_CELLS.items() if out.width >= least), 0)
    shared, wide = len(launches) > len(everything), out.width >= max(BAR_CELLS)
    columns = [name for name in FIGURES if (shared or name != "% time") and (wide or name != "DRAM %")]
    taken = sum(FIGURES[name] + 2 for name in columns) + (length + 2 if length else 0)
    verdicts = [verdict_words(group.verdict) for group in groups]
    widest = max((len(words.plain) for words in verdicts), default=0)
    least = NAME_CELLS if length else 0
    cells = max(least or 12, out.width - taken - min(max(widest, len("verdict")), VERDICT_CELLS) - 2)
    names = short_labels([group.verdict for group in everything])
    of_report = Counter(group.verdict.report for group in everything)
    heads = [folded(_head(group, name, of_report), cells) for group, name in zip(groups, names, strict=False)]
    used = max((len(line) for head in heads for line in head.plain.splitlines()), default=0)

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False, pad_edge=False)
    table.add_column("kernel", overflow="fold", min_width=least or None)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    if length:
        table.add_column("account", no_wrap=True)
    room = out.width - max(used, least) - 2 - taken
    table.add_column("verdict", overflow="fold", max_width=max(room, len("verdict")))
    for group, head, words in zip(groups, heads, verdicts, strict=True):
        known, account = figures(group.verdict, group.time_ns, total), group.verdict.account
        stacked = stacked_bar(account, length, plain) if account else Text("–", style="dim")
        table.add_row(head, *(known[name] for name in columns), *([stacked] if length else []), words)
    if rest:
        spent, hidden = sum(group.time_ns for group in rest), sum(len(group.launches) for group in rest)
        more = f"and {len(rest)} more kernel{'s' if len(rest) != 1 else ''}"
        more += f" ({hidden} launches)" if hidden != len(rest) else ""
        table.add_row(Text(more, style="dim"), duration(spent or None), *([share(spent, total)] if shared else []))
    out.print(table)
    if length:
        accounts = (group.verdict.account or {} for group in groups)
        out.print(
            _legend({part for one in accounts for part, pct in one.items() if pct >= SMALL_PCT}, plain, out.width)
        )
    for launch, label in zip(launches, full_labels(launches), strict=True):
        for doubt in launch.doubts:
            out.print(title(launch, label).append(f" #{launch.launch}: {printable(doubt)}", style="red not bold"))
    estimated = "estimated " if any(launch.measured for launch in launches) else ""
    of_kernels = f" of {len(everything)} kernels" if shared else ""
    what = f"{estimated}accounts in % of elapsed SM cycles, each sums to 100"
    more = "; --limit N for more rows" if rest else ""
    text = f"{len(launches)} launches{of_kernels}; {what}; --details shows lines and shared parameters{more}"
    out.print(Text(text, style="dim"))


def _head(group: LaunchGroup, name: str, of_report: Counter[str]) -> Text:
    """The kernel's name, and the number of launches, or the launch number in a report of several."""
    verdict, count = group.verdict, len(group.launches)
    several = f" #{verdict.launch}" if of_report[verdict.report] > 1 else ""
    return title(verdict, name).append(f" ×{count}" if count > 1 else several, style="dim")


def stacked_bar(account: Mapping[str, float], width: int, plain: bool = False) -> Text:
    """All parts in ``width`` cells, by largest remainder. Work is solid, bubbles shaded, or letters
    if ``plain``."""
    exact = {part: pct / 100 * width for part, pct in account.items()}
    cells = {part: int(size) for part, size in exact.items()}
    for part in sorted(exact, key=lambda name: cells[name] - exact[name])[: width - sum(cells.values())]:
        cells[part] += 1
    return Text.assemble(*((_glyph(part, plain) * size, colour(part)) for part, size in cells.items()))


def _glyph(part: str, plain: bool) -> str:
    """A cell of the stacked bar. Without colour each bubble has a letter of its own."""
    if part in WORK or plain:
        return PARTS[part].letter if part in PARTS else "?"
    return "▒"


def _legend(parts: set[str], plain: bool, width: int) -> Text:
    """The glyphs of ``parts`` and their names, each pair on one line."""
    text, used = Text(), 0
    for part, style in PARTS.items():
        if part not in parts:
            continue
        cells = len(style.label) + 2
        gap = "   " if used else ""
        if used and used + len(gap) + cells > width:
            gap, used = "\n", 0
        text.append(f"{gap}{_glyph(part, plain)} ", style=style.color).append(style.label, style="dim")
        used += cells + (len(gap) if gap != "\n" else 0)
    return text


# One launch

CHANGES = 3
"""Changes of a launch that are shown; --json has all."""


def print_launch(out: Console, launch: LaunchVerdict, label: str, ablation: Ablation | None = None) -> None:
    """Print one launch in full under ``label``: verdict, a bar per part with its hottest line,
    results of ``ablation``, and notes."""
    clock = f" at {launch.sm_clock_hz / 1e9:.2f} GHz" if launch.sm_clock_hz else ""
    facts = [
        printable(launch.device or "device not known"),
        f"launch {launch.launch}",
        duration(launch.duration_ns) + clock,
        f"tensor {fixed(launch.tensor_elapsed_pct, 1, '–')} %",
        f"DRAM {fixed(launch.dram_pct, 1, '–')} %",
    ]
    head, known = title(launch, label), f"  {' · '.join(facts)}"
    fits = len(head.plain) + len(known) <= out.width
    out.print(head.append(known, style="dim not bold") if fits else head)
    if not fits:
        _print_wrapped(out, printable(known))
    shown = as_measured(launch, ablation)
    out.print(Text("→ ").append_text(verdict_words(shown)))
    for number, (rank, change) in enumerate(zip(places(shown.changes), shown.changes[:CHANGES], strict=False), 1):
        style = "bold" if rank == 1 and not change.blocked else "dim" if change.blocked or not change.known else ""
        tied = f" (too close to {rank} to tell which gains more)" if rank < number else ""
        _print_wrapped(out, f"  {number}. {printable(change_words(change))}{tied}", style)
    if not shown.changes:
        _print_wrapped(out, f"  {printable(sentence(shown))}")
        _print_wrapped(out, f"  {without_change(shown)}", "")
    for place in [place for place in shown.places if place.text][:1]:
        _print_wrapped(out, f"  it waits at {location(place.file, place.line)}: {printable(place.text)}")
    if command := _try_command(shown):
        out.print(Text(f"  try them: {printable(command)}"), soft_wrap=True)
    if ablation:
        style = "bold yellow" if differs(launch, ablation) else "bold"
        _print_wrapped(out, printable(measured_sentence(launch, ablation)), style)
    if launch.account:
        out.print(_parts_table(launch, launch.account, out.width, ablation))
    for warning in launch.warnings:
        doubt = warning in launch.doubts
        _print_wrapped(out, printable(warning) if doubt else f"note: {printable(warning)}", "red" if doubt else "dim")
    out.print()


def _try_command(launch: LaunchVerdict) -> str:
    """The command that makes the changes of a launch and times them; empty where there is none."""
    from ncubble.profiling.runs import Run

    if not any(change.kind in TRITON and not change.blocked and change.basis != MEASURED for change in launch.changes):
        return ""
    try:
        return try_command(launch, Run.load(Path(launch.report)).manifest.argv)
    except NcubbleError:
        return ""


def _parts_table(launch: LaunchVerdict, account: Mapping[str, float], width: int, ablation: Ablation | None) -> Table:
    """A row per non-small part of ``account``: percent, a bar, its hottest line; with ``ablation``
    also the measured value, and parts that were only measured."""
    length = 30 if width >= 110 else 16
    heads = {"% of time": 11, "est.": 5, "measured": 8, " ": length} if ablation else {"a": 11, "b": 5, "c": length}
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=ablation is not None, header_style="dim")
    for number, (head, cells) in enumerate(heads.items()):
        justify = "right" if 0 < number < len(heads) - 1 else "left"
        table.add_column(head, justify=justify, no_wrap=True, width=cells)  # type: ignore[arg-type]
    room = max(20, width - sum(heads.values()) - len(heads) - 1)
    table.add_column(width=room, overflow="ellipsis", no_wrap=True)
    measured = {name: part for part in ablation.removed_parts for name in part.names} if ablation else {}
    rest = 0.0
    for part in dict.fromkeys([*account, *measured]):
        pct, known = account.get(part), measured.get(part)
        if (pct or 0.0) < SMALL_PCT and (known is None or abs(known.measured) < SMALL_PCT):
            rest += pct or 0.0
            continue
        name = f"{launch.unit} busy" if part == "unit_busy" else part.replace("_", " ")
        where = Text(place_text(launch.where[part][0], room) if part in launch.where else "", style="cyan")
        finer = launch.merged.get(part)
        note = Text(f"holds {', '.join(finer)}", style="dim") if finer else where
        estimate = Text(fixed(pct, 1, "–"), style="dim" if known else "")
        table.add_row(name, estimate, *_measured(known, ablation), bar(pct or 0.0, length, colour(part)), note)
    if rest >= 0.05:
        table.add_row("the rest", f"{rest:.1f}")
    for joint in ablation.removed_parts if ablation else []:
        if len(joint.names) > 1:
            names = " + ".join(name.replace("_", " ") for name in joint.names)
            value = Text(fixed(joint.measured, 1, "–"), style="bold")
            table.add_row(TOGETHER, fixed(joint.estimated, 1, "–"), value, "", Text(names, style="dim"))
    return table


def _measured(part: MeasuredPart | None, ablation: Ablation | None) -> list[Text]:
    """The cell of a measured value, where there is an ablation."""
    if ablation is None or part is None:
        return [Text("")] if ablation else []
    own = len(part.names) == 1
    return [Text(fixed(part.measured, 1, "–") if own else TOGETHER, style="bold" if own else "dim")]


def bar(pct: float, width: int, style: str) -> Text:
    """``pct`` of 100 as a bar of at most ``width`` cells, to the eighth of a cell."""
    return Text(bar_of(pct / 100 * width), style=style)


def colour(part: str) -> str:
    """The colour of a part, as the dashboard has it."""
    return PARTS[part].color if part in PARTS else "#808890"


def place_text(place: Place, room: int, gap: int = 2) -> str:
    """Line, instruction and share in ``room`` cells. The instruction is cut first: it stands in the
    dashboard in full, and the line and the share say where to look, and whether."""
    line = printable(f"{Path(place.file).name}:{place.line}") if place.file else ""
    pct = f"({place.pct:.1f} %)"
    sass = cut(printable(place.sass), room - sum(len(text) + gap for text in (line, pct) if text))
    line = cut(line, room - len(pct) - gap)
    return (" " * gap).join(filter(None, (line, sass, pct)))


# Other depths of its pipeline

WIDE = 100
DEPTH_CELLS = (30, 16)
"""Cells of a bar in a terminal of at least ``WIDE`` columns, and in a narrower one."""
_SOURCES = {"manifest": "from its manifest", "sass": "from its code", "given": "as given"}


def print_depths(out: Console, depths: Depths) -> None:
    """Print the busy share and the cycles at each depth, and what they rest on. A depth that the
    report does not identify says so in the notes."""
    if any(depths.predicted.values()):
        present = f"now {depths.stages}, {_SOURCES[depths.stages_from or '']}"
        out.print(Text("other depths", style="bold").append(f"  {present}", style="dim not bold"))
        out.print(_depth_table(depths, DEPTH_CELLS[out.width < WIDE]))
    for note in depths.notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))
    out.print()


def _depth_table(depths: Depths, cells: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("depth", "busy %", "from – to", "cycles", "against now"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    present = depths.predicted.get(depths.stages or 0)
    for depth, predicted in depths.predicted.items():
        if predicted is None:
            table.add_row(str(depth), *[Text("–", style="dim")] * 4, Text("see notes", style="dim"))
            continue
        now = depth == depths.stages
        interval = Text("measured", style="dim") if now else f"{predicted.low:.1f} – {predicted.high:.1f}"
        change = "" if now or not present else f"{100 * (predicted.cycles / present.cycles - 1):+.1f} %"
        length = bar(predicted.tensor_elapsed_pct, cells, colour("tensor_busy"))
        row = (str(depth), f"{predicted.tensor_elapsed_pct:.1f}", interval, f"{predicted.cycles:,.0f}", change, length)
        table.add_row(*row, style="bold" if now else "")
    return table


# The inputs of an account


def print_explanation(out: Console, explanation: Explanation, unit: str) -> None:
    """Print the parts of a launch in the account's order, a line per part and per term; ``unit`` is
    the busy unit. Missing inputs are in the launch's notes."""
    formulas: dict[str, str] = {}
    for part in explanation.parts:
        if part.pct >= LEAST_PCT:
            name = f"{unit} busy" if part.part == "unit_busy" else part.part.replace("_", " ")
            _print_part(out, part, name, formulas.get(part.formula, ""))
            formulas.setdefault(part.formula, name)
    if borders := explanation.timeline:
        names = {"start at": "start_ns", "ramp ends": "ramp_end_ns", "tail starts": "tail_start_ns", "end": "end_ns"}
        edges = ", ".join(f"{name} {getattr(borders, key) / 1e3:,.1f}" for name, key in names.items())
        dips = ", ".join(f"{begin / 1e3:,.1f}–{end / 1e3:,.1f}" for begin, end in borders.dips) or "none"
        without = "" if borders.with_ctas else "; SMs with a CTA were not sampled"
        level = f"series {borders.series}, steady level {borders.steady_pct:.1f} %"
        _print_wrapped(out, f"timeline in µs: {level}; {edges}; dips {dips}{without}")
    if explanation.samples:
        _print_wrapped(out, _samples(explanation.samples))
        _print_wrapped(out, _load(explanation.load, unit))
    out.print()


def _print_wrapped(out: Console, text: str, style: str = "dim") -> None:
    """Print ``text``, in which no line ends between a number and its percent sign, within an
    interval, or behind ``=``."""
    for line in wrapped(re.sub(r"(?<=\d) (%|to (?=\d))| = ", lambda found: tied(found[0]), text), out.width):
        out.print(Text(line.replace(TIED, " "), style=style))


def _print_part(out: Console, part: PartExplained, name: str, like: str) -> None:
    """``like``: an earlier part with the same formula, if any."""
    formula = f"as {like}" if like else part.formula
    out.print(Text(f"{name} {part.pct:.2f} %", style="bold").append(f" = {formula}", style="not bold"))
    if part.inputs:
        inputs = "; ".join(f"{what} = {_amount(value)}" for what, value in part.inputs.items())
        _print_wrapped(out, f"  {printable(inputs)}")
    terms = [term for term in part.terms if term.pct >= LEAST_TERM_PCT]
    for term in terms if len(terms) > 1 or any(term.sass for term in terms) else []:
        out.print(_term(term, out.width), no_wrap=True, overflow="ellipsis", crop=True)


def _term(term: Term, width: int) -> Text:
    """A term on one line; of an instruction with its two most frequent stall reasons."""
    text = Text(f"{term.pct:7.2f}  ")
    if term.sass is None:
        return text.append(printable(term.what))
    place = f"{Path(term.file).name}:{term.line}  " if term.file and term.line else ""
    why = ", ".join(f"{reason} {count:.0f}" for reason, count in list(term.reasons.items())[:2])
    why += f", {len(term.reasons) - 2} more" if len(term.reasons) > 2 else ""
    room = max(20, width - len(text.plain) - len(place) - len(why) - 3)
    sass = printable(term.sass)
    sass = sass if len(sass) <= room else sass[: room - 1] + "…"
    return text.append(printable(place), style="cyan").append(f"{sass}  ").append(why, style="dim")


_LOADS = {
    "busy": "{unit} busy",
    "copies": "load/store unit with cp.async",
    "reads": "load/store unit with shared loads",
    "data_pipe": "data stage of L1 and shared memory",
    "boxes": "TMA",
}


def _load(load: Mapping[str, float], unit: str) -> str:
    """Load of an SM while it has CTAs, by which samples are split and weighted."""
    shares = [f"{what.format(unit=unit)} {100 * load[name]:.1f} %" for name, what in _LOADS.items() if name in load]
    ctas = f"with {load['resident']:.3g} CTAs at a time" if "resident" in load else "while it has CTAs"
    return f"load of an SM {ctas}, of its cycles: {', '.join(shares) or 'not known'}"


_WITHOUT_SHARE = {"unit": "at work", "aside": "beside the critical path"}


def _samples(samples: Mapping[str, float]) -> str:
    """Most samples first, those without a share of idle time last."""
    known = sorted(((name, count) for name, count in samples.items() if count), key=lambda one: -one[1])
    counts = [f"{name.replace('_', ' ')} {count:,.0f}" for name, count in known if name not in _WITHOUT_SHARE]
    others = [f"{_WITHOUT_SHARE[name]} {count:,.0f}" for name, count in known if name in _WITHOUT_SHARE]
    rest = f"; without a share of idle time: {', '.join(others)}" if others else ""
    return f"warp samples: {', '.join(counts) or 'none'}{rest}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


# Recordings without counters


def print_coarse(out: Console, verdicts: Sequence[CoarseVerdict], details: bool) -> None:
    """Accounts of warps and streams, labelled as such: a few in full, many as a table."""
    if details or len(verdicts) <= IN_FULL:
        for verdict in verdicts:
            _print_coarse(out, verdict)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for number, head in enumerate(("without counters", "source", "time", "work %", "largest bubble")):
        table.add_column(head, justify="right" if number in (2, 3) else "left", no_wrap=number != 0)
    for verdict in verdicts:
        first = verdict.causes[0] if verdict.causes else None
        largest = f"{_coarse_words(first.cause)} {first.pct:.1f} %" if first else "none"
        work = fixed(verdict.work_pct, 1)
        table.add_row(printable(verdict.label), verdict.source, duration(verdict.duration_ns), work, largest)
    out.print(table)
    text = "computed from recordings, not from counters; --details lists what they cannot show"
    out.print(Text(text, style="yellow"))


def _coarse_words(part: str) -> str:
    """A part of an account, or a cause of idle streams, in words."""
    from ncubble.analysis.streams.work import CAUSES

    return CAUSES[part].title if part in CAUSES else part.replace("_", " ")


def _print_coarse(out: Console, verdict: CoarseVerdict) -> None:
    from ncubble.analysis.details.coarse import STREAMS, WORK_PARTS

    facts = [printable(verdict.device or "device not known"), verdict.recorded, duration(verdict.duration_ns)]
    out.print(Text(printable(verdict.label), style="bold").append("  " + " · ".join(facts), style="dim not bold"))
    whole = "time of the recorded program" if verdict.source == STREAMS else "time of the recorded SMs"
    out.print(Text(f"source: {verdict.source}, no counters; % of the {whole}", style="yellow"))
    words, fix = "no large bubble", f"work takes {fixed(verdict.work_pct, 1)} % of the time"
    if verdict.cause != "none":
        words, fix = _coarse_words(verdict.cause), verdict.causes[0].fix
    out.print(Text("→ ").append(words, style="bold").append(f": {fix}", style="not bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    bounds = (verdict.at_least, verdict.at_most)
    heads = ("part", "%", "range") if all(bounds) else ("part", "%")
    for head in heads:
        table.add_column(head, justify="left" if head == "part" else "right", no_wrap=True)
    table.add_column("", width=16, no_wrap=True)
    table.add_column("", overflow="fold")
    rest = 0.0
    for part, pct in verdict.account.items():
        spread = [reading[part] for reading in bounds if reading] if all(bounds) else []
        if max(pct, *spread, 0.0) < SMALL_PCT:
            rest += pct
            continue
        held = ", ".join(map(_coarse_words, verdict.merged.get(part, ())))
        note = Text(f"holds {held}" if held else "", style="dim")
        between = [f"{min(spread):.1f}..{max(spread):.1f}"] if spread else []
        style = colour("unit_busy" if part in WORK_PARTS else part)
        table.add_row(_coarse_words(part), fixed(pct, 1), *between, bar(pct, 16, style), note)
    if rest >= 0.05:
        table.add_row("the rest", fixed(rest, 1))
    out.print(table)
    out.print(Text(f"not visible in it: {'; '.join(verdict.cannot_tell)}", style="dim"))
    for text in verdict.notes:
        out.print(Text(f"note: {printable(text)}", style="dim"))
    out.print()
