"""What stands above the table: what the listed launches lose, how many they are, and in which
order."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.launches.headline import headline
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.listing import RowList, listing
from ncubble.dashboard.pages.overview.query import order
from ncubble.dashboard.pages.overview.table import LaunchTable
from ncubble.dashboard.ui.components import aria, counted

PLACES = ("claim", "place", "more", "order", "matches")
"""Elements of the page that follow the table; ``assets/overview.js`` writes what an answer brings
of them."""


def head_words(table: LaunchTable, address: OverviewAddress) -> dict[str, str]:
    """The text of each of ``PLACES``, remembered with the table."""
    listed = listing(table, address)
    if not listed.words:
        found = headline(table.losses(), listed.selection.indices)
        listed.words |= {
            "claim": found.claim,
            "place": found.place,
            "more": " ".join(part for part in (found.tensor, found.doubt) if part),
            "order": order_words(table, address),
            "matches": matches(listed, table, found.kernels),
        }
    return listed.words


def headline_card(table: LaunchTable, address: OverviewAddress) -> Component:
    """The loss of what is listed, in the largest letters of the page."""
    words = head_words(table, address)
    line = [
        html.Strong(words["claim"], id="headline-claim"),
        html.Span(words["place"], id="headline-place"),
    ]
    parts = [html.P(line, className="headline-line"), html.P(words["more"], id="headline-more", className="hint")]
    return html.Section(parts, className="headline", **aria(label="What the listed launches lose"))


def order_words(table: LaunchTable, address: OverviewAddress) -> str:
    """How the table is sorted."""
    sort = order(table, address)
    if not sort:
        first = "" if address.group == "none" else "kernels of the tensor pipe first, then "
        return f"{first}most recoverable idle time first"
    columns = table.columns
    ends = {True: ("largest first", "Z to A"), False: ("smallest first", "A to Z")}
    words = [f"{columns[name].name}, {ends[down][0 if columns[name].numeric else 1]}" for name, down in sort]
    return f"by {', then '.join(words)}"


def matches(listed: RowList, table: LaunchTable, kernels: int) -> str:
    """``2 kernels, 9 launches``, or how many of all are listed."""
    count, total = len(listed.selection), len(table)
    launches = counted(count, "launch", "launches") if count == total else f"{count:,} of {total:,} launches"
    return f"{counted(kernels, 'kernel')}, {launches}"
