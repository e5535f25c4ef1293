"""What keeps the dashboard between one browser and this process: headers, trusted hosts, honest status codes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence

from flask import Flask, Response, request

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_PAGE = re.compile(r"^/(?!_|assets/)[^.]*$")


def trusted_hosts(host: str, extra: Iterable[str] = ()) -> list[str]:
    """Host headers that are answered; every other one gets 400, so that a rebound DNS name reaches nothing."""
    return list(dict.fromkeys([*LOOPBACK, *([host] if not _is_wildcard(host) else []), *extra]))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def content_policy(script_hashes: Sequence[str]) -> str:
    """A policy under which the page loads from its own origin only and runs no script but those with a known hash.

    Styles need ``unsafe-inline``: plotly and the table set them from script.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {' '.join(script_hashes)}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def protect(server: Flask, policy: str, hosts: list[str], exists: Callable[[str], bool]) -> None:
    """Add the headers to every response, refuse foreign hosts, and answer 404 for pages that ``exists`` denies."""
    server.config["TRUSTED_HOSTS"] = hosts
    server.config["MAX_CONTENT_LENGTH"] = 32 * 1024 * 1024

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        if response.status_code == 200 and _PAGE.match(request.path) and not exists(request.path):
            response.status_code = 404
        return response
