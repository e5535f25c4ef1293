"""The bubble account for a person: one table of all launches, or one of the parts of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.parts import JOINED, PARTS, WORK
from ncubble.analysis.diagnosis.diseases import fix_of
from ncubble.analysis.diagnosis.measured import as_measured, differs, measured_sentence
from ncubble.analysis.diagnosis.results import ReportResult
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import named_cause
from ncubble.cli.commands.report.explanation import print_explanation
from ncubble.cli.commands.report.parts import SMALL_PCT, colour, parts_table
from ncubble.cli.labels import full_labels, short_labels
from ncubble.cli.render import printable
from ncubble.text.values import UnitStep, fixed, scaled

IN_FULL = 3
"""Up to this many launches are shown in full without being asked."""
BAR_CELLS = {104: 24, 80: 10}
"""Cells of the account's bar in the table, by the least width of the terminal; below, names matter more."""
NAME_CELLS = 24
"""Least width of the names of runs, where there is a bar beside them."""


def print_result(result: ReportResult, details: bool = False) -> None:
    """Print verdicts of reports: launches to stdout, files that could not be read to stderr."""
    out, launches = Console(highlight=False), result.verdicts
    if details or len(launches) <= IN_FULL:
        beside = zip_longest(launches, full_labels(launches), result.explanations, result.ablations)
        for launch, label, explanation, ablation in beside:
            print_launch(out, launch, label, ablation)
            if explanation:
                print_explanation(out, explanation, launch.unit or "", launch.account or {})
    else:
        print_summary(out, [as_measured(*pair) for pair in zip_longest(launches, result.ablations)])
    err = Console(stderr=True, highlight=False)
    for failure in result.errors:
        lines = failure.error.split("\n  remedy: ")
        text = "\n  remedy: ".join(printable(line) for line in lines)
        err.print(Text(f"ncubble: {text}", style="red"), soft_wrap=True)


def print_summary(out: Console, launches: list[LaunchVerdict]) -> None:
    """One row per launch, with its account as a stacked bar."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False, pad_edge=False)
    several = Counter(launch.report for launch in launches)
    plain = out.no_color or not out.is_terminal
    length = next((cells for least, cells in BAR_CELLS.items() if out.width >= least), 0)
    names = short_labels(launches)
    wide = out.width >= max(BAR_CELLS)
    least = min(NAME_CELLS, max(map(len, names))) if length else None
    table.add_column("kernel", overflow="fold", min_width=least)
    for name in ("time", "busy %", "DRAM %") if wide else ("time", "busy %"):
        table.add_column(name, justify="right", no_wrap=True)
    if length:
        table.add_column("account", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for launch, name in zip(launches, names, strict=True):
        title = _title(launch, name).append(f" #{launch.launch}" if several[launch.report] > 1 else "", style="dim")
        cells: list[Text | str] = [title, _duration(launch.duration_ns), _busy(launch)]
        if length:
            bar = stacked_bar(launch.account, length, plain) if launch.account else Text("–", style="dim")
            cells += [fixed(launch.dram_pct, 1, "–"), bar] if wide else [bar]
        table.add_row(*cells, _verdict(launch))
    out.print(table)
    if length:
        shown = (launch.account or {} for launch in launches)
        out.print(_legend({part for account in shown for part, pct in account.items() if pct >= SMALL_PCT}, plain))
    for launch, label in zip(launches, full_labels(launches), strict=True):
        for doubt in launch.doubts:
            out.print(_title(launch, label).append(f" #{launch.launch}: {printable(doubt)}", style="red not bold"))
    estimated = "estimated " if any(cause.measured for launch in launches for cause in launch.causes) else ""
    out.print(
        Text(
            f"{len(launches)} launches; {estimated}accounts in % of elapsed SM cycles, each sums to 100; "
            "--details for lines and the parameters that most runs share",
            style="dim",
        )
    )


def print_launch(out: Console, launch: LaunchVerdict, label: str, ablation: Ablation | None = None) -> None:
    """One launch in full under ``label``: verdict, a bar for each part with its hottest line, what ``ablation``
    measured, and what else to know."""
    facts = [
        printable(launch.device or "device not known"),
        f"launch {launch.launch}",
        _duration(launch.duration_ns) + _clock(launch.sm_clock_hz),
        f"tensor {fixed(launch.tensor_elapsed_pct, 1, '–')} %",
        f"DRAM {fixed(launch.dram_pct, 1, '–')} %",
    ]
    out.print(_title(launch, label).append("  " + " · ".join(facts), style="dim not bold"))
    shown = as_measured(launch, ablation)
    out.print(Text("→ ").append_text(_verdict(shown)).append(f": {_remedy(shown)}", style="not bold"))
    if ablation:
        style = "bold yellow" if differs(launch, ablation) else "bold"
        out.print(Text(printable(measured_sentence(launch, ablation)), style=style))
    if launch.account:
        out.print(parts_table(launch, launch.account, out.width, ablation))
    for warning in launch.warnings:
        doubt = warning in launch.doubts
        out.print(Text(printable(warning) if doubt else f"note: {printable(warning)}", style="red" if doubt else "dim"))
    out.print()


def _remedy(launch: LaunchVerdict) -> str:
    """What to do about the verdict, and what that gains, where a prediction has been tried."""
    first = launch.causes[0] if launch.causes else None
    if first is None or first.cause != launch.cause:
        return fix_of(launch.cause, launch.disease)
    gain = first.predicted_gain_pct
    return first.fix + (f" (gains about {gain:.0f} % of the time)" if gain is not None else "")


def stacked_bar(account: Mapping[str, float], width: int, plain: bool = False) -> Text:
    """All parts in ``width`` cells, by largest remainder. Work is solid, bubbles shaded, or letters if ``plain``."""
    exact = {part: pct / 100 * width for part, pct in account.items()}
    cells = {part: int(size) for part, size in exact.items()}
    for part in sorted(exact, key=lambda name: cells[name] - exact[name])[: width - sum(cells.values())]:
        cells[part] += 1
    text = Text()
    for part, size in cells.items():
        text.append(_glyph(part, plain) * size, style=colour(part))
    return text


def _glyph(part: str, plain: bool) -> str:
    """A cell of the stacked bar. Without colour each bubble has a letter of its own."""
    if part in WORK or plain:
        return PARTS[part].letter if part in PARTS else "?"
    return "▒"


def _legend(parts: set[str], plain: bool) -> Text:
    text = Text()
    for part, style in PARTS.items():
        if part in parts:
            text.append(f"{_glyph(part, plain)} ", style=style.color).append(f"{style.label}   ", style="dim")
    return text


def _title(launch: LaunchVerdict, label: str) -> Text:
    """``label`` and, where it says more, the kernel's function."""
    label, kernel = printable(label), printable(launch.kernel)
    title = Text(label, style="bold")
    return title if label.partition(" ")[0] == kernel else title.append(f" {kernel}", style="not bold")


def _verdict(launch: LaunchVerdict) -> Text:
    text = Text(_words(launch.cause), style="bold")
    if launch.disease:
        text.append(f" ({launch.disease.replace('_', ' ')})", style="not bold")
    if launch.cause == "no_tensor_work" and launch.causes:
        text.append(f", {_words(launch.causes[0].cause)}", style="not bold")
    if (named := named_cause(launch)) and named.measured:
        text.append(", measured", style="not bold")
    return text


def _words(cause: str) -> str:
    return cause.replace("_", " ").replace(JOINED, " and ")


def _busy(launch: LaunchVerdict) -> str:
    if not launch.account:
        return "–"
    unit = "" if launch.unit == "tensor" else f"{launch.unit} "
    return f"{unit}{launch.account['tensor_busy'] + launch.account['unit_busy']:.1f}"


_TIMES = (UnitStep(1e6, 1e6, ".3f", "ms"), UnitStep(0.0, 1e3, ".1f", "µs"))


def _duration(ns: float | None) -> str:
    return scaled(ns, _TIMES, "–")


def _clock(hz: float | None) -> str:
    return f" at {hz / 1e9:.2f} GHz" if hz else ""
