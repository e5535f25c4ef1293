"""What the browser asks of callbacks is looked at before Dash takes it apart: what no page sends
gets 400.

Without this, Dash fails at the first key that is missing, and a callback at the first value of
another type: 500, and a traceback in the log for everyone who asks so. The types are those of the
callback's parameters, so a 500 remains what it is: an error of ours.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec
import orjson
from dash import Dash
from flask import Response, request
from werkzeug.exceptions import BadRequest

ADDRESS = "/_dash-update-component"


def refuse_strange(app: Dash) -> None:
    """Have ``app`` answer 400 to questions that none of its callbacks can take. Other origins are
    refused before."""
    answer = app.server.view_functions[ADDRESS]

    def look(**parts: Any) -> Any:
        if not sound(_body(), app.callback_map):
            return Response("Refused: this server has no such callback.\n", 400, mimetype="text/plain")
        return answer(**parts)

    app.server.view_functions[ADDRESS] = look


def _body() -> Any:
    """The JSON of the request as Dash will read it; None for any other text, also where only Dash's
    parser would take it: NaN, lone surrogates, hundreds of levels."""
    try:
        orjson.loads(request.get_data())
        return request.get_json()
    except (ValueError, RecursionError, BadRequest):
        return None


def sound(body: Any, callbacks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a question names a callback of the server, and has inputs, states and outputs of the
    names and types that it takes."""
    output = body.get("output") if isinstance(body, dict) else None
    if not isinstance(output, str) or "callback" not in callbacks.get(output, {}):
        return False
    known = callbacks[output]
    changed, outputs = body.get("changedPropIds", []), body.get("outputs", [])
    inputs, state = body.get("inputs", []), body.get("state", [])
    return (
        _fits(inputs, known["inputs"])
        and _fits(state, known["state"])
        and _names(outputs, output)
        and isinstance(changed, list)
        and all(isinstance(each, str) for each in changed)
        and _typed([*inputs, *state], known["callback"])
    )


def _fits(given: Any, taken: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each that is taken is given, in order; ids of patterns may have any parts."""
    return (
        isinstance(given, list)
        and len(given) == len(taken)
        and all(map(_named, given))
        and all(_is(each, wanted) for each, wanted in zip(given, taken, strict=True))
    )


def _names(outputs: Any, output: str) -> bool:
    """Whether there is one named property for each of ``output``, the name of the callback."""
    if not output.startswith(".."):
        return isinstance(outputs, dict) and _named(outputs)
    return isinstance(outputs, list) and len(outputs) == output.count("...") + 1 and all(map(_named, outputs))


def _is(given: Any, wanted: Mapping[str, Any]) -> bool:
    if wanted["id"].startswith("{"):
        return not isinstance(given, dict) or isinstance(given["id"], dict)
    return isinstance(given, dict) and (given["id"], given["property"]) == (wanted["id"], wanted["property"])


def _typed(given: Sequence[Any], callback: Callable[..., Any]) -> bool:
    """Whether the values are of the types of the callback's parameters; those of patterns are
    lists."""
    values = [
        each.get("value") if isinstance(each, dict) else [single.get("value") for single in each] for each in given
    ]
    try:
        for value, kind in zip(values, _kinds(callback), strict=True):
            msgspec.convert(value, kind)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


@cache
def _kinds(callback: Callable[..., Any]) -> list[Any]:
    """The types of the parameters of what Dash has wrapped."""
    function = inspect.unwrap(callback)
    hints = get_type_hints(function)
    return [hints[name] for name in inspect.signature(function).parameters]


def _named(question: Any) -> bool:
    """Whether this names a property of a component, or is a list of such, as for a pattern of
    ids."""
    if isinstance(question, list):
        return all(isinstance(single, dict) and _named(single) for single in question)
    if not isinstance(question, dict) or not isinstance(question.get("property"), str):
        return False
    name = question.get("id")
    flat = isinstance(name, dict) and not any(isinstance(value, list | dict) for value in name.values())
    return flat or isinstance(name, str)
