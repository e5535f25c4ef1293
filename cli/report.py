"""``ncubble report``: the bubble account of every launch, in the terminal or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR_WIDTH = 40


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    app.command("report")(report)


def report(
    paths: Annotated[
        list[Path], typer.Argument(help="Run directories, .ncu-rep or .ncu-repz files, or folders of them.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Causes to show per launch.")] = 2,
) -> None:
    """Show where the time of every launch went: the bubble account, its causes and their source lines."""
    from ncubble.cli.render import emit_json

    result = _load(paths)
    if json:
        emit_json(result)
    else:
        print_result(result, top)
    if result["errors"] or not result["launches"]:
        raise typer.Exit(3)


def print_report(paths: list[Path], top: int = 2) -> None:
    """Print the accounts of all reports at ``paths`` for a person."""
    print_result(_load(paths), top)


def _load(paths: list[Path]) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ncubble.analysis.report import open_reports
    from ncubble.analysis.verdict import as_json

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading reports", total=None)
        opened = open_reports(paths, lambda done, total: progress.update(task, completed=done, total=total))
    return as_json(*opened)


def print_result(result: dict[str, Any], top: int = 2) -> None:
    """Print a result of ``report_json``: one block per launch, then the files that could not be read."""
    from rich.console import Console

    out = Console(highlight=False)
    launches = result["launches"]
    for launch in launches:
        out.print(_block(launch, top))
    if launches:
        out.print(_legend(launches))
    err = Console(stderr=True, highlight=False)
    for failure in result["errors"]:
        err.print(f"ncubble: {failure['error']}", style="red", markup=False)


def _block(launch: dict[str, Any], top: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines: list[Text] = [_headline(launch)]
    if launch["account"]:
        lines.append(_bar(launch["account"]))
    lines.append(_verdict_line(launch))
    for number, cause in enumerate(launch["causes"][:top], 1):
        lines += _cause_lines(number, cause)
    lines += [Text(f"  note: {warning}", style="dim") for warning in launch["warnings"]]
    return Group(*lines, Text())


def _headline(launch: dict[str, Any]) -> Text:
    from rich.text import Text

    title = Text(launch["label"], style="bold")
    if launch["label"].split()[0] != launch["kernel"]:
        title.append(f"  {launch['kernel']}", style="not bold")
    facts = [
        launch["device"] or "device unknown",
        f"launch {launch['launch']}",
        _duration(launch["duration_ns"]),
        f"tensor {_percent(launch['tensor_active_pct'])}",
        f"DRAM {_percent(launch['dram_pct'])}",
    ]
    return title.append("   " + " · ".join(facts), style="dim not bold")


def _verdict_line(launch: dict[str, Any]) -> Text:
    from rich.text import Text

    from ncubble.analysis.diagnose import FIXES

    line = Text("  ").append(launch["cause"].replace("_", " "), style="bold")
    if launch["disease"]:
        line.append(f" ({launch['disease'].replace('_', ' ')})")
    known = {cause["cause"] for cause in launch["causes"]}
    if launch["cause"] not in known:
        line.append(f": {FIXES[launch['cause']]}")
    return line


def _cause_lines(number: int, cause: dict[str, Any]) -> list[Text]:
    from rich.text import Text

    name = (cause["disease"] or cause["cause"]).replace("_", " ")
    head = Text(f"  {number}. {cause['pct']:5.1f} %  {cause['cause'].replace('_', ' ')}")
    if cause["disease"]:
        head.append(f" ({name})")
    lines = [head.append(f"  → {cause['fix']}", style="dim")]
    if cause["where"]:
        place = cause["where"][0]
        where = f"{Path(place['file']).name}:{place['line']}  " if place["file"] else ""
        lines.append(Text(f"            {where}{place['sass']}  ({place['pct']:.1f} %)", style="cyan"))
    return lines


def _bar(account: dict[str, float]) -> Text:
    """Parts as a bar of ``BAR_WIDTH`` cells (largest remainder), then the parts of 1 % and more in words."""
    from rich.text import Text

    exact = {part: pct / 100 * BAR_WIDTH for part, pct in account.items()}
    cells = {part: int(width) for part, width in exact.items()}
    for part in sorted(exact, key=lambda name: cells[name] - exact[name])[: BAR_WIDTH - sum(cells.values())]:
        cells[part] += 1
    bar = Text("  ")
    for part, width in cells.items():
        bar.append(("█" if part.endswith("_busy") else "▓") * width, style=_colour(part))
    shown = [(part, pct) for part, pct in account.items() if pct >= 1.0]
    for part, pct in shown:
        bar.append("  ").append("■", style=_colour(part)).append(f" {part.replace('_', ' ')} {pct:.1f}")
    return bar


def _colour(part: str) -> str:
    from ncubble.dashboard.palette import PART_STYLES

    style = PART_STYLES.get(part)
    return style.color if style else "#808890"


def _legend(launches: list[dict[str, Any]]) -> Text:
    from rich.text import Text

    count = len(launches)
    return Text(
        f"{count} launch{'es' if count > 1 else ''}; parts in % of elapsed SM cycles, each account sums to 100",
        style="dim",
    )


def _duration(ns: float | None) -> str:
    if ns is None:
        return "duration not collected"
    return f"{ns / 1e6:.3f} ms" if ns >= 1e6 else f"{ns / 1e3:.1f} µs"


def _percent(value: float | None) -> str:
    return "not collected" if value is None else f"{value:.1f} %"
