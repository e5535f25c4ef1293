"""Text that can be sent: names of files and manifests may hold what no UTF-8 is."""

from __future__ import annotations

from typing import Any


def utf8(value: Any) -> Any:
    """``value`` with every text in it as UTF-8 can hold it: lone surrogates become ``?``.

    Python has them stand for bytes of a file's name, and JSON may spell them. Goes into lists,
    tuples and dicts; anything else stays as it is.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {utf8(key): utf8(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(utf8(member) for member in value)
    return value
