"""Links that stand for choices: the state of a page lies in its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.text.values import short_name

MOST_CHOICES = 24


def choice(text: str, href: str, current: bool) -> Component:
    """A link that stands for a choice; the one in use says so."""
    said: dict[str, Any] = {"aria-current": "true"} if current else {}
    name = f"button small {'current' if current else ''}".strip()
    return html.Span(dcc.Link(short_name(text, 40), href=href, className=name), **said)


def choices(name: str, links: Sequence[tuple[str, str, bool]]) -> Component:
    """One line of a definition list: a name, and (text, address, in use) of each choice."""
    cells = [choice(text, href, current) for text, href, current in links[:MOST_CHOICES]]
    if len(links) > MOST_CHOICES:
        cells.append(html.Span(f"{len(links) - MOST_CHOICES} more", className="hint"))
    return html.Div([html.Dt(name), html.Dd(cells)])
