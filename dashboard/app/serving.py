"""What keeps the dashboard between one browser and this process: who is answered, with which
headers, and the server itself.

No address names a file: pages are found in a table, launches and uploads in lists, and static files
below their own folders. What is read at all is what was named on the command line and what lies
below it; links to folders are not followed there, and no request can make a link.

Every local user can connect to a port of this machine, so the address alone is no secret: with a
token, nothing is answered without it, neither pages nor callbacks, downloads or scripts. Whoever
knows the token in the printed address gets a cookie in its place.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
import ipaddress
import logging
import resource
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_type_hints
from urllib.parse import quote, unquote_plus, urlsplit

import msgspec
from dash import Dash
from dash.exceptions import DependencyException
from flask import Flask, Response, request
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server
from werkzeug.exceptions import BadRequest

from ncubble.dashboard.pages import uploads
from ncubble.errors import UsageError

HOST = "127.0.0.1"
LOOPBACK = ("localhost", HOST, "::1")
LARGEST_BODY_B = 32 << 20
"""Maximum size of a request but for uploads; larger ones are refused before they are received."""
QUERY = "token"
CALLBACKS = "/_dash-update-component"
_SAFE = ("GET", "HEAD", "OPTIONS")
_PAGES = ("/", "/<path:path>")
"""Routing rules that return the document for all pages, whatever the path."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REFUSAL = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><title>403 · ncubble</title></head><body>
<h1>This address lacks its token</h1>
<p>Only the person who started this dashboard can open it. Use the address that <code>ncubble dashboard</code>
printed in the terminal; it ends in <code>?token=…</code></p>
</body></html>
"""


# --- Who is answered ---


def protect(
    server: Flask, policy: str, hosts: Sequence[str], exists: Callable[[str], bool], token: str | None = None
) -> None:
    """Have ``server`` refuse foreign hosts and what other origins send, answer 403 to every request
    that carries neither ``token`` nor its cookie and 404 for pages that ``exists`` denies, and add
    the headers to every response."""
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY_B

    @server.before_request
    def refuse_others() -> Response | None:
        if host_name(request.host) not in hosts:  # Flask's own comparison supports neither IPv6 nor capitals
            return _text(400, "Refused: unknown host name; allow it with --trust NAME.\n")
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if request.method not in _SAFE and from_elsewhere(site, origin, request.host):
            return _text(403, "Refused: the request comes from a page of another origin.\n")
        return None if token is None else _admitted(token)

    @server.errorhandler(DependencyException)
    def no_such_script(_: DependencyException) -> Response:
        return _text(404, "Not found.\n")

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers.update(_HEADERS)
        rule = request.url_rule.rule if request.url_rule else ""
        if response.status_code == 200 and rule in _PAGES and not exists(request.path):
            response.status_code = 404
        return response


def _text(status: int, text: str) -> Response:
    return Response(text, status, mimetype="text/plain")


def trusted_hosts(host: str, extra: Iterable[str] = ()) -> list[str]:
    """Names of hosts that are answered; every other one gets 400, so that a rebound DNS name
    reaches nothing."""
    try:
        wildcard = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        wildcard = False
    named = [*([] if wildcard else [host]), *extra]
    return list(dict.fromkeys([*LOOPBACK, *map(host_name, named)]))


def host_name(host: str) -> str:
    """The name in a ``Host`` header as names are compared: lower case, without port and brackets;
    empty for no name."""
    bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    try:
        name = urlsplit(f"//{bare}").hostname or ""
        return str(ipaddress.ip_address(name)) if ":" in name else name.encode("idna").decode()
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def from_elsewhere(site: str | None, origin: str | None, host: str) -> bool:
    """Whether a request was caused by a page of another origin, by its ``Sec-Fetch-Site``,
    ``Origin`` and ``Host``. What is no browser sends neither of the first two."""
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def content_policy(script_hashes: Sequence[str], *scripts: str) -> str:
    """A policy under which the page loads from its own origin only and runs no script within
    documents but ``scripts`` and those with a known hash.

    Styles need ``unsafe-inline``: plotly and the table set them from script.
    """
    allowed = " ".join([*script_hashes, *map(script_hash, scripts)])
    return (
        f"default-src 'none'; script-src 'self' {allowed}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def script_hash(script: str) -> str:
    """The source of a policy that allows this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


# --- The token ---


def new_token() -> str:
    """A random token of 256 bits, as it stands in an address."""
    return secrets.token_urlsafe(32)


def cookie_name(host: str) -> str:
    """The name of the cookie for a ``Host``: browsers send cookies to all ports of a host, so each
    port has its own."""
    return f"ncubble-{urlsplit(f'//{host}').port or 80}"


def _admitted(token: str) -> Response | None:
    """None for a request that has the cookie. A GET with the token in its address is redirected to
    the same address without it, and sets the cookie; anything else gets 403."""
    parameters = request.query_string.decode("latin-1").split("&")
    given = [each.partition("=")[2] for each in parameters if each.partition("=")[0] == QUERY]
    address = _own_address("&".join(each for each in parameters if each.partition("=")[0] != QUERY))
    in_address = bool(given) and request.method in ("GET", "HEAD")
    name = cookie_name(request.host)
    known = _same(request.cookies.get(name, ""), token)
    if known and not in_address:
        return None
    if known or (in_address and _same(unquote_plus(given[0]), token)):
        answer = Response(status=303, headers={"Location": address, "Cache-Control": "no-store"})
        if not known:
            answer.set_cookie(name, token, httponly=True, samesite="Strict")
        return answer
    refused = Response(_REFUSAL, 403, mimetype="text/html", headers={"Cache-Control": "no-store"})
    # Browsers withhold the cookie where a link of another site leads here: the page then loads
    # itself once more, by a request that comes from this site.
    followed = request.headers.get("Sec-Fetch-Dest") == "document" and request.method == "GET"
    if followed and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        refused.headers["Refresh"] = f"0;url={address}"
    return refused


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _own_address(query: str) -> str:
    """This address with another query. One slash at its start: two would name another host."""
    path = "/" + quote(request.path.lstrip("/"))
    return f"{path}?{query}" if query else path


# --- What callbacks are asked ---


class Part(msgspec.Struct):
    """A property of a component in a question to a callback."""

    id: str | dict[str, str | int | float | bool | None]
    property: str
    value: Any = None


Parts = list[Part | list[Part]]
"""Properties; a list of such stands for a pattern of ids."""


class Question(msgspec.Struct):
    """What the browser asks of a callback. Without this type, Dash fails at the first key that is
    missing, and a callback at the first value of another type: 500, and a traceback in the log for
    everyone who asks so."""

    output: str
    inputs: Parts = []
    state: Parts = []
    outputs: Part | list[Part] = []
    changed: list[str] = msgspec.field(name="changedPropIds", default_factory=list)


_QUESTION = msgspec.json.Decoder(Question)


def refuse_strange(app: Dash) -> None:
    """Have ``app`` answer 400 to questions that none of its callbacks can take, so that a 500
    remains what it is: an error of ours."""
    answer = app.server.view_functions[CALLBACKS]

    def look(**parts: Any) -> Any:
        try:
            fits = _fits(_QUESTION.decode(request.get_data()), app.callback_map)
            request.get_json()  # as Dash will read it: it gives up at fewer levels
        except (ValueError, OverflowError, RecursionError, BadRequest):
            fits = False
        return answer(**parts) if fits else _text(400, "Refused: this server has no such callback.\n")

    app.server.view_functions[CALLBACKS] = look


def _fits(asked: Question, callbacks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a question names a callback of the server, and has inputs, states and outputs of the
    names that it takes. Raises ValueError for a value of another type than the parameter of the
    callback."""
    known = callbacks.get(asked.output, {})
    if "callback" not in known:
        return False
    several = asked.output.count("...") + 1 if asked.output.startswith("..") else 0
    if several != (len(asked.outputs) if isinstance(asked.outputs, list) else 0):
        return False
    for given, taken in ((asked.inputs, known["inputs"]), (asked.state, known["state"])):
        if len(given) != len(taken) or not all(map(_is, given, taken)):
            return False
    for part, kind in zip([*asked.inputs, *asked.state], _kinds(known["callback"]), strict=True):
        msgspec.convert([each.value for each in part] if isinstance(part, list) else part.value, kind)
    return True


def _is(given: Part | list[Part], wanted: Mapping[str, Any]) -> bool:
    """Whether this is the property that a callback takes; ids of patterns may have any parts."""
    if wanted["id"].startswith("{"):
        return isinstance(given, list) or isinstance(given.id, dict)
    return isinstance(given, Part) and (given.id, given.property) == (wanted["id"], wanted["property"])


@cache
def _kinds(callback: Callable[..., Any]) -> list[Any]:
    """The types of the parameters of what Dash has wrapped."""
    function = inspect.unwrap(callback)
    hints = get_type_hints(function)
    return [hints[name] for name in inspect.signature(function).parameters]


# --- The server ---

POLL_S = 0.5
"""How often an idle server checks whether it should stop."""
RECEIVE_B = 128 << 10
"""Bytes read from a socket at a time: waitress' default of 8 KiB more than doubles the CPU time of
an upload."""
MOST_CONNECTIONS, SPARE_FILES = 1000, 200
"""Maximum connections, and files reserved for reports: beyond the limit of the process, every
accept fails."""
SWITCH_S = 0.001
"""How long a thread that computes may keep others waiting, which mostly pass an answer on."""
UNFINISHED_S = 20
"""An idle connection is closed after this many seconds, unless it waits for an answer."""


class Server:
    """A server that is bound: ``url`` says where, ``run`` blocks and answers, ``close`` ends it
    from any thread."""

    def __init__(self, app: Dash, host: str, port: int, threads: int = 8) -> None:
        """Bind ``host``:``port`` (0: any free port). Raises UsageError where the address is taken
        or not ours."""
        host = host.strip("[]")
        self._sockets: dict[int, Any] = {}
        self._stop, self._ended = threading.Event(), threading.Event()
        self._running = False
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(100, files - SPARE_FILES)
        try:
            bound = create_server(
                app.server,
                map=self._sockets,
                host=host,
                port=port,
                threads=threads,
                ident="ncubble",
                max_request_body_size=LARGEST_BODY_B + 1,
                recv_bytes=RECEIVE_B,
                connection_limit=min(MOST_CONNECTIONS, spare),
                channel_timeout=UNFINISHED_S,
                cleanup_interval=UNFINISHED_S // 4,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot listen on {host}:{port} ({reason})", "choose another --port or --host") from error
        for socket in self._sockets.values():
            socket.channel_class = type("Channel", (HTTPChannel,), {"parser_class": _parser(app.server)})
        self._dispatcher = bound.task_dispatcher
        listening = getattr(bound, "effective_listen", None) or [(bound.effective_host, bound.effective_port)]
        self.port = int(listening[0][1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def run(self) -> None:
        """Answer requests until ``close`` is called or the user interrupts; the port is free again
        afterwards."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._running = True
        try:
            while not self._stop.is_set():
                wasyncore.loop(timeout=POLL_S, use_poll=True, map=self._sockets, count=1)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setswitchinterval(before)
            self._release()

    def close(self) -> None:
        """Stop answering and give the port back; waits until a running server has done so."""
        self._stop.set()
        if self._running:
            self._ended.wait(10 * POLL_S)
        else:
            self._release()

    def _release(self) -> None:
        self._dispatcher.shutdown()
        wasyncore.close_all(self._sockets, ignore_all=True)
        self._ended.set()


def _parser(server: Flask) -> type[HTTPRequestParser]:
    """A parser of requests that receives uploads beyond the limit of all others: by their address
    and token, before any of their body."""

    class Parser(HTTPRequestParser):  # type: ignore[misc]
        adj: Any

        def parse_header(self, header_plus: bytes) -> None:
            super().parse_header(header_plus)
            largest = uploads.largest_body(server, self.path, self.headers.get(uploads.HEADER, ""))
            if largest > LARGEST_BODY_B:
                self.adj = copy(self.adj)
                self.adj.max_request_body_size = largest + 1

    return Parser


# --- The log ---

MOST, WINDOW_S = 50, 600.0
"""Maximum messages per time window (a traceback is one); further messages are only counted."""


@dataclass
class RateLimit:
    """A filter for handlers that lets ``most`` messages pass in ``window_s``, so that a log stays
    small however many requests go wrong; the first one after that says how many were left out."""

    most: int = MOST
    window_s: float = WINDOW_S
    _began: float = field(default_factory=time.monotonic)
    _seen: int = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a message. Handlers of several threads ask under their own locks: a
        count may be off by a few."""
        if (now := time.monotonic()) - self._began > self.window_s:
            left_out, self._began, self._seen = max(0, self._seen - self.most), now, 0
            if left_out:
                record.msg, record.args = f"{record.getMessage()} ({left_out} earlier messages were left out)", ()
        self._seen += 1
        return self._seen <= self.most


def limit_log() -> None:
    """Limit what this process writes of ncubble, and of libraries that have no handler."""
    limit = RateLimit()
    for handler in (*logging.getLogger("ncubble").handlers, logging.lastResort):
        if handler is not None:
            handler.addFilter(limit)
