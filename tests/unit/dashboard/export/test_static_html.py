"""The renderer of exported files: what comes through, what does not, and that text never becomes
markup."""

from __future__ import annotations

import json
import re

import pytest
from dash import dcc, html
from dash_ag_grid import AgGrid

from ncubble.dashboard.export.static_html import LIVE, Context, data, figures, render
from ncubble.dashboard.ui.components import aria, card, figure, meter, table
from ncubble.dashboard.ui.figures import Figure

HOSTILE = "</script><img src=x onerror=\"alert('1')\"> &amp;"


def test_text_is_escaped_in_children_and_attributes() -> None:
    made = render(html.P([HOSTILE, html.Code(HOSTILE)], title=HOSTILE, **aria(label=HOSTILE)))
    assert "<img" not in made and "</script>" not in made
    assert made.count("&lt;img src=x onerror=&quot;alert(&#x27;1&#x27;)&quot;&gt; &amp;amp;") == 4


def test_known_elements_keep_class_style_scope_and_flags() -> None:
    made = render(html.Details([html.Summary("more"), meter(25)], open=True, className="note"))
    assert made.startswith('<details class="note" open><summary>more</summary>')
    assert '<span style="width:25.0%;background:var(--accent)"></span>' in made
    assert '<th class="" scope="col">' not in render(table(["A"], [["1"]], "said"))
    assert render(html.Br()) == "<br>"


@pytest.mark.parametrize("value", ["url(http://x)", "red;background:url(x)", "expression(1)", 'a"b<c>', "im\\port"])
def test_styles_that_could_load_or_break_out_are_dropped(value: str) -> None:
    assert render(html.Span("x", style={"background": value, "borderLeftColor": "#fff"})) in (
        '<span style="border-left-color:#fff">x</span>',
    )


@pytest.mark.parametrize(
    "gone",
    [
        dcc.Store(id="a", data={"x": 1}),
        dcc.Interval(id="b"),
        dcc.Input(id="c", value="text"),
        html.Button("Press", n_clicks=0),
        html.Script("alert(1)"),
        html.Iframe(srcDoc="<b>x</b>"),
        html.Label("From", htmlFor="c"),
        html.Div("drag a range", className=f"hint {LIVE}"),
        html.Nav([dcc.Link("back", href="/", className="button")]),
        html.Ul([html.Li(dcc.Link("other", href="/kernel/0/1", className="button small"))]),
        html.Details([html.Summary("others"), html.Ul([html.Li(html.Button("x"))])]),
        None,
        True,
    ],
)
def test_what_needs_a_server_leaves_nothing_behind(gone: object) -> None:
    assert render(gone) == ""


def test_unknown_components_give_way_to_their_children() -> None:
    assert render(dcc.Loading(html.B("x"))) == "<b>x</b>"
    assert render(dcc.Markdown("**x** <i>", dangerously_allow_html=True)) == "**x** &lt;i&gt;"
    assert render([html.I("a"), 3, 2.5, None]) == "<i>a</i>32.5"


def test_events_and_unknown_attributes_do_not_come_through() -> None:
    node = html.Div("x", accessKey="k", contentEditable="true", **{"data-x": "1"})
    assert render(node) == "<div>x</div>"


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", "http://example.com/", "data:text/html,x", "//x", "/kernel/1/1"]
)
def test_addresses_outside_the_file_become_text(href: str) -> None:
    assert render(html.A("there", href=href)) == "<span>there</span>"
    assert render(dcc.Link("there", href=href)) == "<span>there</span>"


def test_addresses_of_the_file_become_anchors_and_ids_get_the_prefix_of_their_page() -> None:
    known = Context({"/kernel/0a/1": "launch-0a-1"}, prefix="p-")
    assert render(dcc.Link("next", href="/kernel/0a/1", className="button"), known) == (
        '<a href="#launch-0a-1" class="button">next</a>'
    )
    tree = html.Div([html.A("go", href="#stalls"), html.H2("S", id="stalls"), html.P("t", **aria(labelledby="stalls"))])
    made = render(tree, known)
    assert 'href="#p-stalls"' in made and 'id="p-stalls"' in made and 'aria-labelledby="p-stalls"' in made


def test_buttons_that_lead_to_a_section_become_anchors() -> None:
    node = html.Button("Stalls <b>", **{"data-anchor": "stalls"})  # type: ignore[arg-type]
    assert render(node, Context(prefix="p-")) == '<a href="#p-stalls">Stalls &lt;b&gt;</a>'


def test_named_sections_of_one_page_among_others_are_groups() -> None:
    tree = html.Section("x", className="card", **aria(label="Verdict"))
    assert render(tree, Context(grouped=True)) == '<div role="group" class="card" aria-label="Verdict">x</div>'
    assert render(tree) == '<section class="card" aria-label="Verdict">x</section>'


def drawn(text: str = "x") -> Figure:
    return Figure([{"type": "bar", "x": [1, 2], "y": [text, "b"]}], {"height": 120})


def test_a_figure_becomes_its_place_its_data_and_its_buttons() -> None:
    made = render(card("Account", [figure("account", drawn(HOSTILE), "Said in words", tools=True)]))
    assert 'role="figure"' in made and 'aria-label="Said in words"' in made and "height:120px" in made
    assert made.count("</script>") == 1
    spec = json.loads(re.search(r'<script type="application/json">(.*)</script>', made)[1])  # type: ignore[index]
    assert spec["data"][0]["y"][0] == HOSTILE and spec["config"]["displayModeBar"] == "hover"
    assert re.findall(r'data-figure="account" data-format="(\w+)"', made) == ["png", "svg"]


def test_data_in_a_script_cannot_end_it() -> None:
    text = data({"a": "</script><!--<script>\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>\u2028&"}


def test_figures_are_found_with_their_words_those_that_come_late_included() -> None:
    calls = []

    def late() -> object:
        calls.append(1)
        return figure("stalls", drawn(), "late one")

    tree = html.Div([figure("account", drawn(), "first"), html.Div(id="later")])
    assert list(figures(tree, {"later": late})) == ["account", "stalls"]
    assert render(tree, Context(late={"later": late})).count('class="plot"') == 2
    assert calls


def test_a_grid_becomes_a_table_of_its_plain_columns() -> None:
    columns = [
        {"headerName": "group", "children": [{"field": "name", "headerName": HOSTILE}]},
        {"field": "value"},
        {"field": "hidden", "hide": True},
        {"field": "nested"},
    ]
    rows = [{"name": HOSTILE, "value": 1234.5678, "nested": [1]}, {"name": "b", "value": None, "nested": None}]
    made = render(AgGrid(columnDefs=columns, rowData=rows))
    assert "<img" not in made and made.count("<th ") == 2 and "filterable" in made
    assert '<td class="num">1,234.57</td>' in made and '<td class="missing">not collected</td>' in made
    assert render(AgGrid(columnDefs=columns)).count("<tr>") == 1


def test_a_grid_shows_values_in_words_and_says_the_exact_ones_on_hover() -> None:
    column = {"field": "raw", "valueFormatter": {"function": "params.data.value"}, "tooltipField": "exact"}
    rows = [{"raw": 1.755e9, "value": "1.755 GHz", "exact": HOSTILE}]
    made = render(AgGrid(columnDefs=[column, {"field": "value", "cellClass": "mono"}], rowData=rows))
    assert '<td class="num" title="&lt;/script&gt;&lt;img' in made and ">1.755 GHz</td>" in made
    assert '<td class="mono">1.755 GHz</td>' in made


def test_a_long_grid_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncubble.dashboard.export.static_html.MOST_ROWS", 2)
    made = render(AgGrid(columnDefs=[{"field": "a"}], rowData=[{"a": n} for n in range(5)]))
    assert made.count("<tr>") == 3 and "3 more rows are not in this file" in made


def test_text_to_copy_is_kept_as_it_stands() -> None:
    assert render(dcc.Textarea(value="| a |\n<b>")) == '<pre class="markdown-text" tabindex="0">| a |\n&lt;b&gt;</pre>'
