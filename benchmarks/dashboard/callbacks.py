"""Crafted requests to every callback and route of the running dashboard.

    python -m benchmarks.dashboard.callbacks [--count 2000] [--seed 1]

The real ``ncubble dashboard`` starts on some recorded runs. Questions to its callbacks, in the form
that its pages send, carry values that no page sends: wrong types, lone surrogates, numbers of 400
digits, texts of 31 MB, JSON that is 200,000 deep; others lack members or are no JSON. Routes get
such queries, offsets and sizes. Wanted: no answer of 5xx, none later than ``SLOWEST_S``, a log
below ``LOG_B``, and afterwards the same table of launches as before. Ends with 1 otherwise.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from benchmarks.harness.served import Served
from ncubble.recordings import LANES, ROOT

SLOWEST_S, LOG_B = 10.0, 200_000
UPDATE = "/_dash-update-component"
RUNS = ("tensor_core_gemm/stages2", "tiled_matmul/default", "triton_gemm/stages3")
DEEP, LARGE_B = 200_000, 31_000_000
_DIGITS = (3, 9, 18, 19, 20, 39, 308, 309, 400, 4299)
TEXTS = ("", "\0", "\ud800", "a\udfff/0", "<img src=x>", "/kernel/../../0", "/kernel/0123456789abcdef/9" + "9" * 400)
ADDRESSES = ("/", "/compare", "/sweep", "/timelines", "/checks", "/open", "/kernel/{id}", "/source/{id}")
NAMES = ("launch", "q", "sort", "filters", "x", "y", "size", "start", "end", "from", "to", "line", "baseline", "run")
ROUTES = (
    "/_launches/rows",
    "/_launches/launches.csv",
    "/_launches/launches.json",
    "/_source/{id}",
    "/upload",
    "/",
    "/compare",
    "/checks",
)


@dataclass(frozen=True)
class Crafted:
    """One request. ``what`` names it in a report of problems."""

    what: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def crafted(dependencies: Sequence[Mapping[str, Any]], ids: Sequence[str], count: int, seed: int) -> Iterator[Crafted]:
    """``count`` requests: every callback of ``dependencies`` (what Dash sends to browsers) in turn,
    every fourth request to a route. ``ids`` are launches that are there."""
    rng = random.Random(seed)  # noqa: S311 - the same requests in every run
    asked = [callback for callback in dependencies if not callback.get("clientside_function")]
    for number in range(count):
        if number % 4 == 3:
            yield _routed(rng, ids)
        else:
            yield _question(asked[number % len(asked)], rng, ids)


def large(dependencies: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> Iterator[Crafted]:
    """Requests that are large or deep, for each callback one of either kind."""
    rng = random.Random(0)  # noqa: S311
    for callback in dependencies:
        if not callback.get("clientside_function"):
            text = json.dumps(_shaped(callback, lambda: "VALUE"))
            deep, long = "[" * DEEP + "]" * DEEP, '"' + rng.choice("aé") * (LARGE_B // 2) + '"'
            for name, value in (("deep", deep), ("object", '{"a":' * DEEP + "1" + "}" * DEEP), ("long", long)):
                yield _post(f"{name} {callback['output']}", text.replace('"VALUE"', value, 1).encode())
    yield _post("deep body", b"[" * DEEP)
    yield _post("31 MB of nothing", b" " * LARGE_B)


def _post(what: str, body: bytes) -> Crafted:
    return Crafted(what, "POST", UPDATE, body, {"Content-Type": "application/json"})


def _question(callback: Mapping[str, Any], rng: random.Random, ids: Sequence[str]) -> Crafted:
    question = _shaped(callback, lambda: _strange(rng, ids))
    if rng.random() < 0.3:
        _damage(question, rng, ids)
    body = json.dumps(question).encode()
    if rng.random() < 0.05:
        body = rng.choice((body[: rng.randrange(len(body))], body.decode().encode("utf-16"), b"\xff\xfe" + body, b""))
    return _post(f"{callback['output']} {body[:300]!r}", body)


def _shaped(callback: Mapping[str, Any], value: Callable[[], Any]) -> dict[str, Any]:
    """A question as a page would send it, with other values."""
    names = [name.split("@")[0] for name in callback["output"].strip(".").split("...")]
    outputs = [_named(*name.rsplit(".", 1)) for name in names]
    inputs = [_named(part["id"], part["property"]) | {"value": value()} for part in callback["inputs"]]
    state = [_named(part["id"], part["property"]) | {"value": value()} for part in callback["state"]]
    many = callback["output"].startswith("..")
    changed = [f"{part['id']}.{part['property']}" for part in callback["inputs"][:1]]
    return {
        "output": callback["output"],
        "outputs": outputs if many else outputs[0],
        "inputs": inputs,
        "state": state,
        "changedPropIds": changed,
    }


def _named(name: str, member: str) -> dict[str, Any]:
    """A property as questions name it; parts of a pattern become values."""
    if not name.startswith("{"):
        return {"id": name, "property": member}
    parts = {key: "x" if isinstance(part, list) else part for key, part in json.loads(name).items()}
    return {"id": parts, "property": member}


def _strange(rng: random.Random, ids: Sequence[str]) -> Any:
    """A value that a page might send, or one that none sends."""
    number = 10 ** rng.choice(_DIGITS)
    choices: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.choice((True, False, 0, 1, -1, 0.5, 1e308, -1e308, float("nan"), float("inf"))),
        lambda: rng.choice((number, -number)),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(ids),
        lambda: _address(rng, ids),
        lambda: "?" + _query(rng, ids),
        lambda: "ab" * rng.choice((10, 1000, 100_000)),
        lambda: [_strange(rng, ids) for _ in range(rng.randrange(4))],
        lambda: {rng.choice((*NAMES, "points", "xaxis.range[0]", "\ud800")): _strange(rng, ids)},
        lambda: {"points": [{"customdata": _strange(rng, ids), "x": number}], "range": {"x": [0, number]}},
        lambda: {"version": _strange(rng, ids), "launches": _strange(rng, ids), "finished": "no"},
    ]
    return rng.choice(choices)()


def _address(rng: random.Random, ids: Sequence[str]) -> str:
    return rng.choice(ADDRESSES).format(id=rng.choice((rng.choice(ids), "0" * 16 + "/" + "9" * rng.choice(_DIGITS))))


def _query(rng: random.Random, ids: Sequence[str]) -> str:
    values = [
        rng.choice((*TEXTS, *ids, f"{10 ** rng.choice(_DIGITS)}", "-1", "nan", "[[", "(" * 200)) for _ in range(3)
    ]
    return "&".join(f"{rng.choice(NAMES)}={quote(value, errors='replace')}" for value in values)


def _damage(question: dict[str, Any], rng: random.Random, ids: Sequence[str]) -> None:
    """Remove, replace or add one member, at the top or in a part."""
    parts = [question, *question["inputs"], *question["state"]]
    part = rng.choice(parts)
    name = rng.choice(sorted(part))
    kind = rng.randrange(3)
    if kind == 0:
        del part[name]
    elif kind == 1:
        part[name] = _strange(rng, ids)
    else:
        part[rng.choice(("parsedChangedPropsIds", "background", "cancelJob", "job", "oldJob", "x"))] = _strange(
            rng, ids
        )


def _routed(rng: random.Random, ids: Sequence[str]) -> Crafted:
    path = rng.choice(ROUTES).format(id=rng.choice(ids))
    number = 10 ** rng.choice(_DIGITS)
    if rng.random() < 0.7:
        target = f"{path}?{_query(rng, ids)}&start={number}&end={number}&size={number}"
        return Crafted(f"GET {target[:300]}", "GET", target)
    target = f"/upload?{urlencode({'name': rng.choice(TEXTS)}, errors='replace')}"
    if rng.random() < 0.6:
        return Crafted(f"POST {target[:200]}", "POST", target, rng.choice((b"", b"x", b"NVR\0x", b"{}")))
    return Crafted("DELETE /upload/…", "DELETE", f"/upload/{number}")


def problems_of(requests: Iterator[Crafted], send: Callable[[Crafted], int]) -> tuple[Counter[int], list[str], float]:
    """How often each status was answered, what must not happen, and the slowest answer in s."""
    statuses, problems, slowest = Counter[int](), list[str](), 0.0
    for request in requests:
        began = time.monotonic()
        status = send(request)
        took = time.monotonic() - began
        slowest, statuses[status] = max(slowest, took), statuses[status] + 1
        if status >= 500 or took > SLOWEST_S:
            problems.append(f"{status} after {took:.2f} s: {request.what}")
    return statuses, problems, slowest


def _sender(served: Served) -> Callable[[Crafted], int]:
    token = json.loads(_answer(served, Crafted("", "GET", "/upload"), "")[1])["token"]
    return lambda request: _answer(served, request, token)[0]


def _answer(served: Served, request: Crafted, token: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(served.host, timeout=120)
    headers = {"Cookie": served.cookie, "X-Ncubble-Token": token, **request.headers}
    connection.request(request.method, request.path, request.body or None, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def main() -> int:
    parser = argparse.ArgumentParser(description="Crafted requests to every callback of the dashboard")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in RUNS:
            shutil.copytree(ROOT / run, folder / "runs" / run)
        shutil.copytree(LANES, folder / "runs" / "lanes")
        with Served(folder / "runs", folder, 3600.0) as served:
            served.wait(120)
            before = served.rows()
            ids = [str(row["id"]) for row in before]
            dependencies = json.loads(_answer(served, Crafted("", "GET", "/_dash-dependencies"), "")[1])
            send = _sender(served)
            statuses, problems, slowest = problems_of(crafted(dependencies, ids, given.count, given.seed), send)
            more, others, slowest_large = problems_of(large(dependencies, ids), send)
            problems += others + ([] if served.rows() == before else ["the table of launches is another one"])
        problems += served.problems
        log_b = served.log.stat().st_size
    problems += [f"the log has {log_b} B"] if log_b > LOG_B else []
    print(f"{given.count} crafted requests: {dict(sorted(statuses.items()))}, slowest {slowest:.2f} s")
    print(f"{sum(more.values())} large or deep ones: {dict(sorted(more.items()))}, slowest {slowest_large:.2f} s")
    print(f"log {log_b} B, {len(problems)} problems")
    print("\n".join(problems[:40]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
