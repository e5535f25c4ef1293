"""What keeps the dashboard between one browser and this process: headers, trusted hosts, honest
status codes.

No address names a file: pages are found in a table, launches and uploads in lists, and static files
below their own folders. What is read at all is what was named on the command line and what lies
below it; links to folders are not followed there, and no request can make a link.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from dash.exceptions import DependencyException
from flask import Flask, Response, request

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LARGEST_BODY_B = 32 << 20
"""Maximum size of a request; larger ones are refused before they are received."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_PAGES = ("/", "/<path:path>")
"""Routing rules that return the document for all pages, whatever the path."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def trusted_hosts(host: str, extra: Iterable[str] = ()) -> list[str]:
    """Names of hosts that are answered; every other one gets 400, so that a rebound DNS name
    reaches nothing."""
    named = [*([host] if not _is_wildcard(host) else []), *extra]
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


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def content_policy(script_hashes: Sequence[str], *scripts: str) -> str:
    """A policy under which the page loads from its own origin only and runs no script within
    documents but ``scripts`` and those with a known hash.

    Styles need ``unsafe-inline``: plotly and the table set them from script.
    """
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    known = [*script_hashes, *(f"'sha256-{digest}'" for digest in digests)]
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {' '.join(known)}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def from_elsewhere(site: str | None, origin: str | None, host: str) -> bool:
    """Whether a request was caused by a page of another origin, by its ``Sec-Fetch-Site``,
    ``Origin`` and ``Host``.

    What is no browser sends neither of the first two.
    """
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def protect(server: Flask, policy: str, hosts: list[str], exists: Callable[[str], bool]) -> None:
    """Add the headers to every response, refuse foreign hosts and what other origins send, and
    answer 404 for pages that ``exists`` denies."""
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY_B

    @server.before_request
    def refuse_others() -> Response | None:
        if host_name(request.host) not in hosts:  # Flask's own comparison supports neither IPv6 nor capitals
            return Response("Refused: unknown host name; allow it with --trust NAME.\n", 400, mimetype="text/plain")
        if request.method in _SAFE:
            return None
        asked = request.headers
        if from_elsewhere(asked.get("Sec-Fetch-Site"), asked.get("Origin"), request.host):
            return Response("Refused: the request comes from a page of another origin.\n", 403, mimetype="text/plain")
        return None

    @server.errorhandler(DependencyException)
    def no_such_script(_: DependencyException) -> Response:
        return Response("Not found.\n", 404, mimetype="text/plain")

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers.update(_HEADERS)
        rule = request.url_rule.rule if request.url_rule else ""
        if response.status_code == 200 and rule in _PAGES and not exists(request.path):
            response.status_code = 404
        return response
