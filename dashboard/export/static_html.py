"""A page's component tree as static HTML: what a server would draw, in a file that needs none.

Only tags and attributes that are named here come through, and every text is escaped. What works
with a server alone (inputs, buttons, stores, polls) is left out; a figure becomes its data, which
the file's own script draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from dash.development.base_component import Component
from plotly.basedatatypes import BaseFigure
from plotly.io.json import to_json_plotly

from ncubble.dashboard.export.tables import grid_table

LIVE = "live-only"
"""The class of elements that only work with a server: hints about dragging, input fields."""
_WORD = re.compile(r"\w+")
TAGS = frozenset(
    _WORD.findall(
        "abbr article aside b br caption cite code col colgroup dd del details dfn div dl dt em figcaption figure"
        " footer h1 h2 h3 h4 h5 h6 header hr i ins kbd li main mark nav ol p pre q s samp section small span strong sub"
        " summary sup table tbody td tfoot th thead time tr u ul var wbr"
    )
)
VOID = frozenset(("br", "col", "hr", "wbr"))
GONE = frozenset(
    _WORD.findall(
        "Store Interval Location Input Dropdown RadioItems Checklist Slider RangeSlider Upload Download Clipboard"
        " Tooltip DatePickerRange DatePickerSingle Button Dialog Iframe Script Style Link Img Select Option Textarea"
        " Video Audio Embed ObjectEl Base Meta Geolocation ConfirmDialog ConfirmDialogProvider Label"
    )
)
"""Components that are dropped. ``Link`` and ``Textarea`` mean those of ``html``; those of ``dcc``
are kept."""
EMPTIED = frozenset(("nav", "ul", "ol", "li", "p", "span", "div", "details"))
"""Elements that are dropped if all their content was dropped."""
ATTRIBUTES = {
    "className": "class",
    "title": "title",
    "role": "role",
    "lang": "lang",
    "scope": "scope",
    "colSpan": "colspan",
    "rowSpan": "rowspan",
    "tabIndex": "tabindex",
    "dateTime": "datetime",
}
REFERENCES = ("aria-labelledby", "aria-describedby", "aria-controls")
"""Attributes that hold ids, which get a prefix in the file."""
FLAGS = ("open", "hidden", "reversed")
_NAME = re.compile(r"[A-Za-z][\w-]*")
_STYLE = re.compile(r"[\w\s#%.,()+*/'\"-]*")
_UNSAFE_STYLE = re.compile(r"url|expression|image|import", re.IGNORECASE)


@dataclass
class Context:
    """What one rendering knows beside the tree.

    ``anchors`` maps addresses of the dashboard (``/kernel/KEY/0``) to ids in the file; links to
    others become text. ``prefix`` keeps ids of several pages apart; ``late`` gives what a callback
    would put below the component of an id. ``grouped`` is for one page among others: its named
    sections are groups, for landmarks of one name must be unique.
    """

    anchors: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    late: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    grouped: bool = False
    drawn: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StaticFigure:
    """A figure of a page: its name, what it shows in words, and data and layout without a
    template."""

    name: str
    label: str
    figure: dict[str, Any]


def render(tree: Any, context: Context | None = None) -> str:
    """The tree as HTML; unknown components give way to their children."""
    known = context or Context()
    known.drawn.update({drawn.name: drawn.figure for drawn in figures(tree, known.late)})
    return _any(tree, known)


def figures(tree: Any, late: Mapping[str, Callable[[], Any]] | None = None) -> list[StaticFigure]:
    """Every figure of a page that ``components.figure`` made, in order, those that come ``late``
    included."""
    drawings, label = [], ""
    for node in _walk(tree, late or {}):
        if getattr(node, "role", None) == "figure":
            label = str(_given(node).get("aria-label", ""))
        name, drawn = _part_of(node, "drawn"), getattr(node, "data", None)
        if name and isinstance(drawn, Mapping) and "layout" in drawn:
            drawings.append(StaticFigure(name, label, dict(drawn)))
    return drawings


def _given(node: Component) -> dict[str, Any]:
    """What a component was made with, by name."""
    props: dict[str, Any] = node.to_plotly_json()["props"]  # type: ignore[no-untyped-call]
    return props


def _walk(node: Any, late: Mapping[str, Callable[[], Any]]) -> Iterator[Component]:
    if isinstance(node, list | tuple):
        for child in node:
            yield from _walk(child, late)
    elif isinstance(node, Component):
        yield node
        yield from _walk(_children(node, late), late)


def _children(node: Component, late: Mapping[str, Callable[[], Any]]) -> Any:
    name = getattr(node, "id", None)
    return late[name]() if isinstance(name, str) and name in late else getattr(node, "children", None)


def _part_of(node: Component, kind: str) -> str:
    """The figure's name, where ``node`` is its store (``drawn``) or its graph (``figure``)."""
    name = getattr(node, "id", None)
    return str(name.get("name", "")) if isinstance(name, dict) and name.get("type") == kind else ""


def _any(node: Any, context: Context) -> str:
    if node is None or isinstance(node, bool):
        return ""
    if isinstance(node, list | tuple):
        return "".join(_any(child, context) for child in node)
    return _component(node, context) if isinstance(node, Component) else escape(str(node), quote=True)


def _component(node: Component, context: Context) -> str:
    kind, space = node._type, node._namespace
    if LIVE in _classes(node):
        return ""
    if special := _SPECIAL.get((space, kind)):
        return special(node, context)
    if kind in GONE:
        return ""
    inside = _any(_children(node, context.late), context)
    tag = kind.lower()
    return _element(tag, node, inside, context) if space == "dash_html_components" and tag in TAGS else inside


def _classes(node: Component) -> list[str]:
    return str(getattr(node, "className", None) or "").split()


def _element(tag: str, node: Component, inside: str, context: Context) -> str:
    if tag in EMPTIED and not inside and getattr(node, "children", None):
        return ""
    if tag == "details" and inside.endswith("</summary>"):
        return ""
    given = attributes(node, context.prefix)
    if context.grouped and tag in ("section", "nav") and " aria-label=" in given and " role=" not in given:
        return f'<div role="group"{given}>{inside}</div>'
    opened = f"<{tag}{given}>"
    return opened if tag in VOID else f"{opened}{inside}</{tag}>"


def attributes(node: Component, prefix: str = "") -> str:
    """The attributes of a component that come through, each with a space before it."""
    given = _given(node)
    kept = {"id": prefix + given["id"]} if isinstance(given.get("id"), str) else {}
    for name, value in given.items():
        if name in ATTRIBUTES and isinstance(value, str | int) and value != "":
            kept[ATTRIBUTES[name]] = str(value)
        elif name in REFERENCES:
            kept[name] = " ".join(prefix + target for target in str(value).split())
        elif name.startswith("aria-") and _NAME.fullmatch(name):
            kept[name] = str(value)
    if style := _style(given.get("style")):
        kept["style"] = style
    return _written(kept) + "".join(f" {name}" for name in FLAGS if given.get(name))


def _written(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value, quote=True)}"' for name, value in values.items())


def _style(given: Any) -> str:
    """Inline styles: plain values only, nothing that could load."""
    parts = []
    for name, value in (given or {}).items():
        text = str(value)
        if not _NAME.fullmatch(name.lstrip("-")) or not _STYLE.fullmatch(text) or _UNSAFE_STYLE.search(text):
            continue
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
        return f'<a href="#{escape(target, quote=True)}"{attributes(node, context.prefix)}>{inside}</a>'
    return "" if "button" in _classes(node) else f"<span>{inside}</span>"


def _graph(node: Component, context: Context) -> str:
    given = context.drawn.get(_part_of(node, "figure")) or getattr(node, "figure", None)
    if isinstance(given, BaseFigure):
        given = given.to_plotly_json()
    if not given:
        return ""
    spec = {"data": given.get("data"), "layout": given.get("layout"), "config": getattr(node, "config", None)}
    return f'<div class="plot"></div><script type="application/json">{data(spec)}</script>'


def data(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element or begin
    another."""
    text = str(to_json_plotly(value))
    return text.translate(
        {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}
    )


def _button(node: Component, context: Context) -> str:
    """Two kinds of buttons work without a server: those that save a figure, and those that lead to
    a section."""
    given = _given(node)
    if "data-anchor" in given:
        target = escape(context.prefix + str(given["data-anchor"]), quote=True)
        return f'<a href="#{target}">{_any(given.get("children"), context)}</a>'
    if not {"data-figure", "data-format"} <= given.keys():
        return ""
    names = ("data-figure", "data-format", "aria-label", "title")
    kept = {"type": "button", "class": str(given.get("className") or "")}
    kept |= {name: str(given[name]) for name in names if name in given}
    return f"<button{_written(kept)}>{escape(str(given.get('children') or ''))}</button>"


def _text_area(node: Component, context: Context) -> str:
    return f'<pre class="markdown-text" tabindex="0">{escape(str(getattr(node, "value", None) or ""))}</pre>'


def _grid(node: Component, context: Context) -> str:
    columns: Sequence[Mapping[str, Any]] = getattr(node, "columnDefs", None) or []
    return grid_table(columns, getattr(node, "rowData", None) or [])


_SPECIAL: dict[tuple[str, str], Callable[[Component, Context], str]] = {
    ("dash_core_components", "Link"): _link,
    ("dash_html_components", "A"): _link,
    ("dash_core_components", "Graph"): _graph,
    ("dash_core_components", "Textarea"): _text_area,
    ("dash_html_components", "Button"): _button,
    ("dash_ag_grid", "AgGrid"): _grid,
}
