"""The part of plotly.js that figures use."""

import re
from pathlib import Path

import plotly.graph_objects as go
import plotly.offline
import pytest
from plotly.basedatatypes import BaseTraceType

from ncubble import dashboard
from ncubble.dashboard.ui.plotly_js import KINDS, plotly_js, reduced

HELPERS = (
    "var R=(e,t)=>()=>{try{return t||e((t={exports:{}}).exports,t),t.exports}catch(r){throw r}};"
    "var M=(e,t,r)=>()=>{if(r)throw r[0];return e&&(t=e(e=0)),t};"
)
BAR = 'var bar=R((e,t)=>{t.exports={moduleType:"trace",name:"bar",plot:axes()}});'
ICICLE = 'var $i=R((e,t)=>{"use strict";t.exports={moduleType:"trace",name:"icicle",plot:(shade(),hue)}});'
MAP = 'var map=R((e,t)=>{t.exports={moduleType:"trace",name:"map",plot:tiles()}});'
TILES = "var tiles=R(e=>{e.zoom=1});"
AXES = "var axes=R(e=>{e.ticks=10});"
COLORS = "var dull=R(()=>{});function hue(){return 1}var shade=M(()=>{hue()});"
LIST = "var all=R((e,t)=>{core().register([bar(),map(),$i()]);t.exports=1});return all();"


def test_a_module_stays_where_a_kept_kind_needs_it() -> None:
    whole = HELPERS + ";".join(("", BAR, ICICLE, MAP, TILES, AXES, COLORS, LIST)).replace(";;", ";")
    left = reduced(whole)
    assert all(text in left for text in (HELPERS, BAR, ICICLE, AXES, COLORS, "register([bar(),$i()])"))
    assert MAP not in left and TILES not in left


def test_what_begins_like_a_module_within_one_stays_with_it() -> None:
    nested = "var axes=R(e=>{e.a=()=>{1;var b=R(e=>{2});b()}});"
    left = reduced(HELPERS + ";".join(("", BAR, ICICLE, MAP, nested, LIST)).replace(";;", ";"))
    assert nested in left and MAP not in left


@pytest.mark.parametrize("without", [HELPERS, ICICLE, "register"])
def test_another_bundle_stays_whole(without: str) -> None:
    other = (HELPERS + BAR + ICICLE + MAP + LIST).replace(without, "")
    assert reduced(other) == other


def test_plotly_js_becomes_a_third_and_keeps_its_licence() -> None:
    whole, left = plotly.offline.get_plotlyjs(), plotly_js()
    assert len(left) < 0.33 * len(whole)
    assert left[:150] == whole[:150] and left[-1500:] == whole[-1500:]


def test_every_kind_of_trace_that_we_draw_is_kept() -> None:
    sources = [path.read_text() for path in Path(dashboard.__path__[0]).rglob("*.py")]
    classes = {name: getattr(go, name) for name in dir(go)}
    kinds = {name.lower() for name, one in classes.items() if BaseTraceType in getattr(one, "__mro__", ())}
    drawn = {kind for text in sources for kind in re.findall(r'"type": "(\w+)"', text)}
    assert drawn & kinds == {"scatter", *KINDS}
