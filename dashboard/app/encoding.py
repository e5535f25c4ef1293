"""JSON of layouts and of answers to callbacks, in one pass.

Dash has plotly copy the whole page into plain dictionaries before it is written, one attribute of a
component at a time: a third of the server's time for a page.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
from dash import _callback
from dash.development.base_component import Component
from plotly.io.json import to_json_plotly

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def to_json(value: Any) -> str:
    """JSON of components, figures and plain values; what is not a number is null. Falls back to
    plotly's for values that it alone knows."""
    try:
        return orjson.dumps(value, _plain, _OPTIONS).decode()
    except TypeError:
        return str(to_json_plotly(value))


def install() -> None:
    """Have Dash write the answers of callbacks by ``to_json``: it has no setting for that."""
    _callback.to_json = to_json  # type: ignore[attr-defined]


def _plain(value: Any) -> Any:
    if not isinstance(value, Component):
        return value.to_plotly_json() if hasattr(value, "to_plotly_json") else _refused(value)
    names, starts = _properties(type(value), tuple(value._prop_names))
    props = {name: given for name, given in vars(value).items() if name in names or name.startswith(starts)}
    return {"props": props, "type": value._type, "namespace": value._namespace}


def _refused(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON")


@cache
def _properties(kind: type[Component], names: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The properties of a component by name, and how the names of its other ones begin."""
    return frozenset(names), tuple(getattr(kind, "_valid_wildcard_attributes", None) or ("data-", "aria-"))
