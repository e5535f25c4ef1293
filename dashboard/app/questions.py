"""What the browser asks of callbacks is looked at before Dash takes it apart: what no page sends
gets 400.

Without this, Dash fails at the first key that is missing: 500, and a traceback in the log for
everyone who asks so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash
from flask import Response, request

ADDRESS = "/_dash-update-component"


def refuse_strange(app: Dash) -> None:
    """Have ``app`` answer 400 to questions that none of its callbacks can take. Other origins are
    refused before."""
    answer = app.server.view_functions[ADDRESS]

    def look(**parts: Any) -> Any:
        if not sound(request.get_json(), app.callback_map):
            return Response("Refused: no callback of this server takes this.\n", 400, mimetype="text/plain")
        return answer(**parts)

    app.server.view_functions[ADDRESS] = look


def sound(body: Any, callbacks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a question names a callback of the server and has as many inputs, states and outputs
    as that takes."""
    output = body.get("output") if isinstance(body, dict) else None
    known = callbacks.get(output) if isinstance(output, str) else None
    if known is None or "callback" not in known:
        return False
    changed, outputs = body.get("changedPropIds", []), body.get("outputs", [])
    return (
        _fits(body.get("inputs", []), known["inputs"])
        and _fits(body.get("state", []), known["state"])
        and all(_named(one) for one in (outputs if isinstance(outputs, list) else [outputs]))
        and isinstance(changed, list)
        and all(isinstance(one, str) for one in changed)
    )


def _fits(given: Any, taken: Any) -> bool:
    """Whether there is one entry for each that is taken."""
    return isinstance(given, list) and len(given) == len(taken) and all(_named(one) for one in given)


def _named(one: Any) -> bool:
    """Whether this names a property of a component, or is a list of such, as for a pattern of
    ids."""
    if isinstance(one, list):
        return all(isinstance(single, dict) and _named(single) for single in one)
    if not isinstance(one, dict) or not isinstance(one.get("property"), str):
        return False
    name = one.get("id")
    flat = isinstance(name, dict) and not any(isinstance(value, list | dict) for value in name.values())
    return flat or isinstance(name, str)
