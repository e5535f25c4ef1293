"""Table of the parts of one launch: estimated and, if the launch was ablated, measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.cli.terminal import cut, printable
from ncubble.text.values import fixed

GAP = 2
SMALL_PCT = 0.5
"""Smaller parts are omitted here, never in JSON."""
TOGETHER = "together"
"""Shown for values that were measured for several parts at once."""
MEASURED_HEADS = ("% of time", "est.", "measured", "", "")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def parts_table(launch: LaunchVerdict, account: Mapping[str, float], width: int, ablation: Ablation | None) -> Table:
    """A row per non-small part of ``account``: percent, a bar, its hottest line; with ``ablation``
    also the measured value, and parts that were only measured."""
    length = 30 if width >= 110 else 16
    table, room = _frame(length, width, ablation is not None)
    places = {cause.cause: cause.where for cause in launch.causes}
    measured = {name: part for part in ablation.removed_parts for name in part.names} if ablation else {}
    rest = 0.0
    for part in dict.fromkeys([*account, *measured]):
        pct, known = account.get(part), measured.get(part)
        if (pct or 0.0) < SMALL_PCT and (known is None or abs(known.measured) < SMALL_PCT):
            rest += pct or 0.0
            continue
        name = f"{launch.unit} busy" if part == "unit_busy" else part.replace("_", " ")
        where = _place(places[part][0], room) if places.get(part) else ""
        finer = launch.merged.get(part)
        note = Text(f"holds {', '.join(finer)}", style="dim") if finer else Text(where, style="cyan")
        estimate = Text(fixed(pct, 1, "–"), style="dim" if known else "")
        beside = [_measured(known)] if ablation else []
        table.add_row(name, estimate, *beside, bar(pct or 0.0, length, colour(part)), note)
    if rest >= 0.05:
        table.add_row("the rest", f"{rest:.1f}")
    for joint in ablation.removed_parts if ablation else []:
        if len(joint.names) > 1:
            names = " + ".join(name.replace("_", " ") for name in joint.names)
            table.add_row(TOGETHER, fixed(joint.estimated, 1, "–"), _value(joint), "", Text(names, style="dim"))
    return table


def _frame(length: int, width: int, with_measured: bool) -> tuple[Table, int]:
    """A table without rows, and the cells of its last column."""
    columns = [11, 5, *([len(MEASURED_HEADS[2])] if with_measured else []), length]
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=with_measured, header_style="dim")
    heads = iter(MEASURED_HEADS if with_measured else [""] * 4)
    for column, cells in enumerate(columns):
        justify = "right" if 0 < column < len(columns) - 1 else "left"
        table.add_column(next(heads), justify=justify, no_wrap=True, width=cells)  # type: ignore[arg-type]
    room = max(20, width - sum(columns) - len(columns) - 1)
    table.add_column(width=room, overflow="ellipsis", no_wrap=True)
    return table, room


def _measured(part: MeasuredPart | None) -> Text:
    if part is None:
        return Text("")
    return _value(part) if len(part.names) == 1 else Text(TOGETHER, style="dim")


def _value(part: MeasuredPart) -> Text:
    return Text(fixed(part.measured, 1, "–"), style="bold")


def bar(pct: float, width: int, style: str) -> Text:
    """``pct`` of 100 as a bar of at most ``width`` cells, to the eighth of a cell."""
    eighths = round(pct / 100 * width * 8)
    return Text("█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else ""), style=style)


def colour(part: str) -> str:
    """The colour of a part, as the dashboard has it."""
    return PARTS[part].color if part in PARTS else "#808890"


def _place(place: Place, room: int) -> str:
    """Line, instruction and share in ``room`` cells. The instruction is cut first: it stands in the
    dashboard in full, and the line and the share say where to look, and whether."""
    line = printable(f"{Path(place.file).name}:{place.line}") if place.file else ""
    share = f"({place.pct:.1f} %)"
    sass = cut(printable(place.sass), room - sum(len(text) + GAP for text in (line, share) if text))
    line = cut(line, room - len(share) - GAP)
    return (" " * GAP).join(filter(None, (line, sass, share)))
