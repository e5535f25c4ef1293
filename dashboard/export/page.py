"""One file that holds pages of the dashboard: styles, script and data inside, nothing to load.

A policy in the file allows the scripts that were put there, by their hashes, and nothing else: were
a name in a report to reach the page as markup after all, it could neither run nor fetch anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import plotly.offline
from dash import html
from dash.development.base_component import Component

from ncubble import __version__
from ncubble.dashboard.export.static_html import Context, data, render
from ncubble.dashboard.ui.themes import TEMPLATES

HERE = Path(__file__).resolve().parents[1]
THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class Section:
    """A page in the file: ``anchor`` is its id, ``name`` what its pictures are called after."""

    anchor: str
    name: str
    tree: Any
    context: Context = field(default_factory=Context)


def document(title: str, sections: Iterable[Section], head: Component | None = None, theme: str = "system") -> str:
    """The whole file. Equal input gives equal text: the time of writing is not in it."""
    pages = "".join(_article(section, back=head is not None) for section in sections)
    body = (
        f'{_topbar(theme)}<main id="page">{render(head) if head else ""}{pages}</main>'
        f'<script type="application/json" id="templates">{data(TEMPLATES)}</script>'
        f"{''.join(f'<script>{script}</script>' for script in scripts())}"
    )
    chosen = "" if theme == "system" else f' data-theme="{escape(theme, quote=True)}"'
    return (
        f'<!DOCTYPE html>\n<html lang="en"{chosen}><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(), quote=True)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="ncubble {__version__}">'
        f"<title>{escape(title)} · ncubble</title><style>{styles()}</style></head><body>{body}</body></html>\n"
    )


def policy() -> str:
    """What the file may do: run its own scripts, set styles, and draw pictures out of its own
    data."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts())
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def scripts() -> tuple[str, ...]:
    """plotly.js as plotly ships it, the buttons that save figures, and what draws the page. In this
    order."""
    own = (HERE / "assets" / "download.js", HERE / "static" / "export.js")
    return (plotly.offline.get_plotlyjs(), *(path.read_text(encoding="utf-8") for path in own))


@cache
def styles() -> str:
    """All styles of the app in the order in which it loads them, then those of exported files; the
    logo inside."""
    sheets = [*sorted((HERE / "assets").glob("*.css")), HERE / "static" / "export.css"]
    logo = base64.b64encode((HERE / "assets" / "icon.svg").read_bytes()).decode()
    text = "\n".join(path.read_text(encoding="utf-8") for path in sheets)
    return text.replace('url("icon.svg")', f'url("data:image/svg+xml;base64,{logo}")')


def _article(section: Section, back: bool) -> str:
    named = f'id="{escape(section.anchor, quote=True)}" data-page="{escape(section.name, quote=True)}"'
    link = '<a class="to-index" href="#index">to the table</a>' if back else ""
    return f'<article {named} class="exported">{link}{render(section.tree, section.context)}</article>'


def _topbar(theme: str) -> str:
    choices = "".join(
        f'<label><input type="radio" name="theme" value="{name}"{" checked" if name == theme else ""}> {name}</label>'
        for name in THEMES
    )
    brand = '<span class="brand"><span class="logo"></span>ncubble</span>'
    hint = "Figures need scripts; texts and tables are complete without them."
    return (
        f'<header class="topbar">{brand}<span class="loading-state" id="drawing-state">{hint}</span>'
        f'<div class="segments" role="radiogroup" aria-label="Colour theme">{choices}</div></header>'
    )


def index(rows: Sequence[tuple[str, Sequence[Any]]], names: Sequence[str], numeric: Collection[int] = ()) -> Component:
    """A table with one line per page: its anchor, and the cells; the first cell is the link."""
    kinds = ["num" if place in numeric else "" for place in range(len(names))]
    head = html.Tr([html.Th(name, scope="col", className=kind) for name, kind in zip(names, kinds, strict=True)])
    lines = []
    for anchor, cells in rows:
        first = html.Td(html.A(str(cells[0]), href=f"#{anchor}"))
        others = [html.Td(str(cell), className=kind) for cell, kind in zip(cells[1:], kinds[1:], strict=True)]
        lines.append(html.Tr([first, *others]))
    return html.Div(html.Table([html.Thead(head), html.Tbody(lines)], className="plain"), className="table-scroll")
