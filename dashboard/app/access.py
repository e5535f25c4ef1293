"""Who may look: whoever knows the token in the printed address, and then has the cookie that it is
exchanged for.

Every local user can connect to a port of this machine, so the address alone is no secret. Nothing
is answered without the token, neither pages nor callbacks, downloads or scripts.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import quote, unquote_plus, urlsplit

from flask import Flask, Response, request

QUERY = "token"
_COOKIE = "ncubble"
_REFUSAL = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><title>403 · ncubble</title></head><body>
<h1>This address lacks its token</h1>
<p>Only the person who started this dashboard can open it. Use the address that <code>ncubble dashboard</code>
printed in the terminal; it ends in <code>?token=…</code></p>
</body></html>
"""


def new_token() -> str:
    """A random token of 256 bits, as it stands in an address."""
    return secrets.token_urlsafe(32)


def cookie_name(host: str) -> str:
    """The name of the cookie for a ``Host``: browsers send cookies to all ports of a host, so each
    port has its own."""
    return f"{_COOKIE}-{urlsplit(f'//{host}').port or 80}"


def guard(server: Flask, token: str) -> None:
    """Have ``server`` answer 403 to every request that carries neither ``token`` nor its cookie.

    A GET with the token is redirected to the same address without it, and sets the cookie.
    """

    @server.before_request
    def admit() -> Response | None:
        name, rest = cookie_name(request.host), _other_parameters()
        asks_with_token = request.method in ("GET", "HEAD") and rest != _query()
        if _same(request.cookies.get(name, ""), token):
            return _moved(rest) if asks_with_token else None
        if not (asks_with_token and _same(_given(), token)):
            return _refusal()
        answer = _moved(rest)
        answer.set_cookie(name, token, httponly=True, samesite="Strict")
        return answer


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _query() -> str:
    return request.query_string.decode("latin-1")


def _is_token(parameter: str) -> bool:
    return parameter.partition("=")[0] == QUERY


def _given() -> str:
    """The token in the address; empty where there is none."""
    given = (parameter for parameter in _query().split("&") if _is_token(parameter))
    return unquote_plus(next(given, "").partition("=")[2])


def _other_parameters() -> str:
    return "&".join(parameter for parameter in _query().split("&") if not _is_token(parameter))


def _address(query: str) -> str:
    """This address with another query. One slash at its start: two would name another host."""
    path = "/" + quote(request.path.lstrip("/"))
    return f"{path}?{query}" if query else path


def _moved(query: str) -> Response:
    return Response(status=303, headers={"Location": _address(query), "Cache-Control": "no-store"})


def _refusal() -> Response:
    """403. Browsers withhold the cookie where a link of another site leads here, so the page then
    loads itself once more: that request comes from this site."""
    answer = Response(_REFUSAL, 403, mimetype="text/html", headers={"Cache-Control": "no-store"})
    followed = request.headers.get("Sec-Fetch-Dest") == "document" and request.method == "GET"
    if followed and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        answer.headers["Refresh"] = f"0;url={_address(_other_parameters())}"
    return answer
