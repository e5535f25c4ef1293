"""Parsed JSON and TOML as typed values, by msgspec; errors name the field and its value."""

from __future__ import annotations

import json
import re
from functools import reduce
from operator import getitem
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, TypeVar

import msgspec

from ncubble.errors import ReportError
from ncubble.store import draft_of

T = TypeVar("T")
JsonObject = dict[str, Any]
"""An object of JSON whose members no type describes."""
LARGEST = 1e18
"""Maximum number in a file: no measurement is larger, and its square is still finite."""
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Percentage = Annotated[float, msgspec.Meta(ge=0, le=100)]
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_LONGEST = 40
_CONVERTING = Lock()  # msgspec crashes where two threads are the first to use one type


class WrongFieldError(ValueError):
    """A value has the wrong type for its field. ``field`` is its path, ``what`` the rest of the
    sentence."""

    def __init__(self, field: str, what: str) -> None:
        self.field, self.what = field, what
        super().__init__(f"{f'field {field!r}' if field else 'the file'} {what}")


def typed(raw: Any, kind: type[T], within: str = "") -> T:
    """``raw`` converted to ``kind``: a dataclass, or any other type that msgspec supports.
    ``within`` prefixes field paths. Raises WrongFieldError for the first value that is of another
    type, out of bounds, or missing.
    """
    try:
        with _CONVERTING:
            return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        wanted, _, path = str(error).partition(" - at `$")
        keys = _keys(raw, kind, path)
        names = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        value = repr(reduce(getitem, keys, raw))
        shown = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
        what = wanted[0].lower() + wanted[1:]
        if not what.startswith("object missing"):
            what = f"is {shown}: {what}"
        raise WrongFieldError(f"{within}{''.join(names)}".removeprefix("."), what) from None


def read_record(path: Path, kind: type[T], schema: int, what: str, remedy: str, largest_b: int = 8 << 20) -> T | None:
    """What ``write_record`` wrote to ``path``; None where nothing is. Members that ``kind`` lacks
    are left out; NaN of older files is None. Raises ReportError for a file that is not ``what``.
    """
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > largest_b:
            raise ValueError(f"it is larger than {largest_b >> 10:,} KiB")
        members = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: None)
        if not isinstance(members, dict) or members.pop("schema", None) != schema:
            raise ValueError(f"schema {schema} is wanted")
        return typed(members, kind)
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not {what} ({error})", remedy) from error


def write_record(path: Path, record: Any, schema: int) -> None:
    """Write a record as JSON, in place of an older one, whole or not at all; raises OSError."""
    text = json.dumps({"schema": schema, **msgspec.to_builtins(record)}, indent=1, ensure_ascii=False)
    with draft_of(path) as draft:
        draft.write_text(f"{text}\n", encoding="utf-8")


def _keys(raw: Any, kind: type[Any], path: str) -> list[Any]:
    """The keys on the ``path`` of an error. msgspec writes ``[...]`` for that of a mapping: the one
    by which it fails alone is meant."""
    keys: list[Any] = []
    for name, index in _STEP.findall(path):
        if index == "...":
            keys.append(next(key for key in reduce(getitem, keys, raw) if _fails(_only(raw, keys, key), kind, path)))
        else:
            keys.append(name or int(index))
    return keys


def _only(raw: Any, keys: list[Any], kept: Any) -> Any:
    """``raw`` with only ``kept`` in the mapping at ``keys``."""
    if not keys:
        return {kept: raw[kept]}
    copied = raw.copy()
    copied[keys[0]] = _only(raw[keys[0]], keys[1:], kept)
    return copied


def _fails(raw: Any, kind: type[Any], path: str) -> bool:
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        return str(error).endswith(path)
    return False
