"""The tables of the Program page: kernels with links to their pages, NVTX ranges, what helps."""

from __future__ import annotations

from collections.abc import Mapping

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.program.account import BETWEEN, INSIDE, KernelTime, ProgramAccount
from ncubble.analysis.program.output import TimeRow, kernel_rows, part_fix, part_words, range_rows, rest_of
from ncubble.analysis.program.tree import style_of
from ncubble.dashboard.pages.addresses import KernelAddress
from ncubble.dashboard.ui.components import Child, absent, card, swatch, table
from ncubble.text.values import duration, percent, short_name

LEAST_PCT = 0.05
"""Smaller losses get no row."""
MOST_ROWS = 200
"""Maximum rows for kernels and ranges."""
_SHARES = ("of the span", "tensor work", "other work", "lost inside")
_KERNELS = ("kernel", "grid", "launches", "time", "median", *_SHARES, "mostly")
_RANGES = ("NVTX range", "time", *_SHARES, "lost between", "mostly")
_LOSSES = ("lost to", "where", "time", "of the span", "what helps")


def kernels_card(account: ProgramAccount, ids: Mapping[str, str]) -> Component:
    """A row for each kernel. ``ids``: of launches in the store, by the address of their verdict."""
    rows = kernel_rows(account)
    cells = [
        _kernel_cells(account.names[kernel.kernel], kernel, row, ids)
        for kernel, row in zip(account.kernels[:MOST_ROWS], rows, strict=False)
    ]
    if rest := rest_of(rows[MOST_ROWS:]):
        cells.append([rest.name, "", f"{rest.launches:,}", duration(rest.ns), "", *_shares(rest), ""])
    hint = f"profiled kernels make up {percent(account.covered_pct)} of the time of all kernels"
    return card("Kernels", [table(_KERNELS, cells, "Kernels by time", range(2, 9))], hint)


def _kernel_cells(name: str, kernel: KernelTime, row: TimeRow, ids: Mapping[str, str]) -> list[Child]:
    name = short_name(name, 60)
    launch = ids.get(kernel.verdict.address) if kernel.verdict else None
    link: Child = dcc.Link(name, href=KernelAddress().of_launch(launch)) if launch else name
    first = html.Span([link], title=kernel.kernel.name[:2000])
    mostly: Child = row.worst if kernel.verdict else html.Span(kernel.lacking, className="missing")
    grid = kernel.kernel.grid or absent("not recorded")
    return [first, grid, f"{row.launches:,}", duration(row.ns), duration(kernel.median_ns), *_shares(row), mostly]


def _shares(row: TimeRow) -> list[Child]:
    return [_share(pct) for pct in (row.pct, row.tensor, row.work, row.inside)]


def _share(pct: float) -> Child:
    return percent(pct) if pct else "–"


def ranges_card(account: ProgramAccount) -> Component | None:
    """A row for each NVTX range; nothing where none was recorded."""
    rows = range_rows(account)
    if not rows:
        return None
    rest = rest_of(rows[MOST_ROWS:])
    cells = [
        [
            short_name(row.name, 80),
            duration(row.ns),
            *_shares(row),
            _share(row.between),
            row.worst,
        ]
        for row in [*rows[:MOST_ROWS], *([rest] if rest else [])]
    ]
    return card("NVTX ranges", [table(_RANGES, cells, "NVTX ranges by time", range(1, 7))], "innermost ranges")


def losses_card(account: ProgramAccount) -> Component:
    """Everything that is lost, most first, with what helps."""
    every = [part for part in account.parts if part.kind in (INSIDE, BETWEEN)]
    lost = sorted((part for part in every if account.pct(part.ns) >= LEAST_PCT), key=lambda part: -part.ns)
    rows = [
        [
            html.Span([swatch(style_of(part).color, style_of(part).hatch), part_words(part)], className="loss"),
            "inside kernels" if part.kind == INSIDE else "between kernels",
            duration(part.ns),
            percent(account.pct(part.ns)),
            part_fix(part),
        ]
        for part in lost
    ]
    return card("Lost time", [table(_LOSSES, rows, "Losses by time", (2, 3))])
