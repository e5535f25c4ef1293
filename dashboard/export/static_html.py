"""A page's component tree as static HTML: what a server would draw, in a file that needs none.

Only tags and attributes that are named here come through, and every text is escaped. What works
with a server alone (inputs, buttons, stores, polls) is left out; a figure becomes its data, which
the file's own script draws.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from dash.development.base_component import Component
from plotly.io.json import to_json_plotly

from ncubble.text.values import NOT_COLLECTED

LIVE = "live-only"
"""The class of elements that only work with a server: hints about dragging, input fields."""
_TAGS = (
    "abbr article aside b br caption code dd details div dl dt em footer h1 h2 h3 h4 h5 h6 header hr i kbd li main nav"
    " ol p pre section small span strong sub summary sup table tbody td tfoot th thead tr ul"
)
TAGS = frozenset(_TAGS.split())
"""Elements that come through. Others are dropped; components that are no elements give way to their
children."""
VOID = ("br", "hr")
EMPTIED = ("nav", "ul", "ol", "li", "p", "span", "div", "details")
"""Elements that are dropped if all their content was dropped."""
ATTRIBUTES = ("className", "title", "role", "lang", "scope", "colSpan", "rowSpan", "tabIndex")
REFERENCES = ("aria-labelledby", "aria-describedby", "aria-controls")
"""Attributes that hold ids, which get a prefix in the file."""
FLAGS = ("open", "hidden")
MOST_ROWS = 5000
"""Maximum rows of a table: browsers scroll longer ones badly. It says how many are left out."""
_NAME = re.compile(r"[A-Za-z][\w-]*")
_STYLE = re.compile(r"[\w\s#%.,()+*/'\"-]*")
_UNSAFE_STYLE = re.compile(r"url|expression|image|import", re.IGNORECASE)
_SHOWN = re.compile(r"params\.data\.(\w+)")
Late = Mapping[str, Callable[[], Any]]
"""What a callback would put below the component of an id."""


@dataclass
class Context:
    """What one rendering knows beside the tree.

    ``anchors`` maps addresses of the dashboard (``/kernel/KEY/0``) to ids in the file; links to
    others become text. ``prefix`` keeps ids of several pages apart. ``grouped`` is for one page
    among others: its named sections are groups, for landmarks of one name must be unique.
    """

    anchors: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    late: Late = field(default_factory=dict)
    grouped: bool = False
    drawn: dict[str, Any] = field(default_factory=dict)


def render(tree: Any, context: Context | None = None) -> str:
    """The tree as HTML."""
    known = context or Context()
    known.drawn.update(figures(tree, known.late))
    return _any(tree, known)


def figures(tree: Any, late: Late) -> dict[str, dict[str, Any]]:
    """Data and layout of every figure of a page that ``components.figure`` made, by name, those
    that come ``late`` included."""
    drawings = {}
    for node in _walk(tree, late):
        name, drawn = _part_of(node, "drawn"), getattr(node, "data", None)
        if name and isinstance(drawn, Mapping) and "layout" in drawn:
            drawings[name] = dict(drawn)
    return drawings


def data(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element or begin
    another."""
    return str(to_json_plotly(value)).translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"})


def _walk(node: Any, late: Late) -> Iterator[Component]:
    if isinstance(node, list | tuple):
        for child in node:
            yield from _walk(child, late)
    elif isinstance(node, Component):
        yield node
        yield from _walk(_children(node, late), late)


def _children(node: Component, late: Late) -> Any:
    name = getattr(node, "id", None)
    return late[name]() if isinstance(name, str) and name in late else getattr(node, "children", None)


def _part_of(node: Component, kind: str) -> str:
    """The figure's name, where ``node`` is its store (``drawn``) or its graph (``figure``)."""
    name = getattr(node, "id", None)
    return str(name.get("name", "")) if isinstance(name, dict) and name.get("type") == kind else ""


def _given(node: Component) -> dict[str, Any]:
    """What a component was made with, by name."""
    props: dict[str, Any] = node.to_plotly_json()["props"]  # type: ignore[no-untyped-call]
    return props


def _any(node: Any, context: Context) -> str:
    if node is None or isinstance(node, bool):
        return ""
    if isinstance(node, list | tuple):
        return "".join(_any(child, context) for child in node)
    return _component(node, context) if isinstance(node, Component) else escape(str(node))


def _component(node: Component, context: Context) -> str:
    tag, element = node._type.lower(), node._namespace == "dash_html_components"
    if LIVE in _classes(node):
        return ""
    if special := _SPECIAL.get((node._namespace, node._type)):
        return special(node, context)
    if element and tag not in TAGS:
        return ""
    inside = _any(_children(node, context.late), context)
    if not element:
        return inside
    emptied = tag in EMPTIED and not inside and getattr(node, "children", None)
    if emptied or (tag == "details" and inside.endswith("</summary>")):
        return ""
    given = attributes(node, context.prefix)
    if context.grouped and tag in ("section", "nav") and " aria-label=" in given and " role=" not in given:
        return f'<div role="group"{given}>{inside}</div>'
    return f"<{tag}{given}>" if tag in VOID else f"<{tag}{given}>{inside}</{tag}>"


def _classes(node: Component) -> list[str]:
    return str(getattr(node, "className", None) or "").split()


def attributes(node: Component, prefix: str = "") -> str:
    """The attributes of a component that come through, each with a space before it."""
    given = _given(node)
    kept = {"id": prefix + given["id"]} if isinstance(given.get("id"), str) else {}
    for name, value in given.items():
        if name in ATTRIBUTES and isinstance(value, str | int) and value != "":
            kept["class" if name == "className" else name.lower()] = str(value)
        elif name in REFERENCES:
            kept[name] = " ".join(prefix + target for target in str(value).split())
        elif name.startswith("aria-") and _NAME.fullmatch(name):
            kept[name] = str(value)
    if style := _style(given.get("style")):
        kept["style"] = style
    return _written(kept) + "".join(f" {name}" for name in FLAGS if given.get(name))


def _written(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())


def _style(given: Any) -> str:
    """Inline styles: plain values only, nothing that could load."""
    parts = []
    for name, value in (given or {}).items():
        text = str(value)
        if _NAME.fullmatch(name.lstrip("-")) and _STYLE.fullmatch(text) and not _UNSAFE_STYLE.search(text):
            plain = name if name.startswith("--") else re.sub(r"[A-Z]", lambda capital: f"-{capital[0].lower()}", name)
            parts.append(f"{plain}:{text}")
    return ";".join(parts)


def _link(node: Component, context: Context) -> str:
    """An address that the file holds becomes an anchor; of the others a button goes and a link in a
    text stays text."""
    href = str(getattr(node, "href", None) or "")
    inside = _any(getattr(node, "children", None), context)
    target = context.prefix + href[1:] if href.startswith("#") else context.anchors.get(href, "")
    if target:
        return f'<a href="#{escape(target)}"{attributes(node, context.prefix)}>{inside}</a>'
    return "" if "button" in _classes(node) else f"<span>{inside}</span>"


def _graph(node: Component, context: Context) -> str:
    given = context.drawn.get(_part_of(node, "figure")) or getattr(node, "figure", None)
    if not given:
        return ""
    spec = {"data": given.get("data"), "layout": given.get("layout"), "config": getattr(node, "config", None)}
    return f'<div class="plot"></div><script type="application/json">{data(spec)}</script>'


def _button(node: Component, context: Context) -> str:
    """Two kinds of buttons work without a server: those that save a figure, and those that lead to
    a section."""
    given = _given(node)
    if "data-anchor" in given:
        target = escape(context.prefix + str(given["data-anchor"]))
        return f'<a href="#{target}">{_any(given.get("children"), context)}</a>'
    if not {"data-figure", "data-format"} <= given.keys():
        return ""
    kept = {"type": "button", "class": str(given.get("className") or "")}
    names = ("data-figure", "data-format", "aria-label", "title")
    kept |= {name: str(given[name]) for name in names if name in given}
    return f"<button{_written(kept)}>{escape(str(given.get('children') or ''))}</button>"


def _text_area(node: Component, context: Context) -> str:
    return f'<pre class="markdown-text" tabindex="0">{escape(str(getattr(node, "value", None) or ""))}</pre>'


def _grid(node: Component, context: Context) -> str:
    """An ag-grid as a table: columns that are shown and hold plain values, in order."""
    rows: Sequence[Mapping[str, Any]] = getattr(node, "rowData", None) or []
    some, left = rows[:MOST_ROWS], len(rows) - MOST_ROWS
    columns = [
        column
        for column in _flat(getattr(node, "columnDefs", None) or [])
        if column.get("field") and not column.get("hide")
        if not any(isinstance(row.get(column["field"]), dict | list | tuple) for row in some)
    ]
    head = "".join(
        f'<th scope="col"{" class=num" if column.get("type") in ("rightAligned", "numericColumn") else ""}>'
        f"{escape(str(column.get('headerName') or column['field']))}</th>"
        for column in columns
    )
    body = "".join(f"<tr>{''.join(_cell(column, row) for column in columns)}</tr>" for row in some)
    more = f'<p class="hint">{left} more rows are not in this file.</p>' if left > 0 else ""
    table = f'<table class="plain filterable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="table-scroll grid-table">{table}</div>{more}'


def _flat(columns: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Columns without their groups."""
    return [leaf for column in columns for leaf in (_flat(column["children"]) if column.get("children") else [column])]


def _cell(column: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The cell of a column: what it shows (another field of the row where the column says so, or
    digits that fit), and what it says on hover where that is something else."""
    value, kind, formatter = row.get(column["field"]), column.get("cellClass"), column.get("valueFormatter")
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return f'<td class="missing">{NOT_COLLECTED}</td>'
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    other = _SHOWN.fullmatch(formatter.get("function", "")) if isinstance(formatter, Mapping) else None
    if other and row.get(other[1]) is not None:
        shown = str(row[other[1]])
    else:
        shown = (f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.6g}") if is_number else str(value)
    hover = str(row.get(column.get("tooltipField") or column["field"]))
    names = " ".join([*([kind] if isinstance(kind, str) else []), *(["num"] if is_number else [])])
    kept = ({"class": names} if names else {}) | (
        {"title": hover} if "tooltipField" in column and hover != shown else {}
    )
    return f"<td{_written(kept)}>{escape(shown)}</td>"


_SPECIAL: dict[tuple[str, str], Callable[[Component, Context], str]] = {
    ("dash_core_components", "Link"): _link,
    ("dash_html_components", "A"): _link,
    ("dash_core_components", "Graph"): _graph,
    ("dash_core_components", "Textarea"): _text_area,
    ("dash_html_components", "Button"): _button,
    ("dash_ag_grid", "AgGrid"): _grid,
}
