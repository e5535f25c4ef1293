"""The codec of page addresses: a page declares the parameters of its query once, and reads and
writes it with them.

A page's address is a frozen dataclass below ``Address`` whose members are made by ``text``,
``flag``, ``choice``, ``number``, ``listed`` or ``parameter``. What a browser sends is checked here:
a value that its parameter does not take is left out, and everything is limited in length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlencode

LAUNCH_ID = r"[0-9a-f]{8,64}/\d{1,9}"
"""Pattern of the id of a launch: KEY/NUMBER."""


@dataclass(frozen=True)
class QueryParameter:
    """One parameter of a query.

    ``read`` takes its texts, at least one, and returns the value with the number of texts that were
    left out; the value None stands for the default. ``write`` takes the value and returns texts;
    empty ones are not written.
    """

    name: str
    read: Callable[[Sequence[str]], tuple[Any, int]]
    write: Callable[[Any], Iterable[str]]


@dataclass(frozen=True)
class Address:
    """What an address asks a page for. A subclass with a member ``dropped`` gets the names of
    parameters there, once for each part of a list that was left out."""

    PATH: ClassVar[str]
    LONGEST: ClassVar[int] = 4096
    """Maximum length of a query string."""

    @classmethod
    def parse(cls, search: str | None) -> Self:
        """The address with this query, with or without its question mark. Raises nothing."""
        query = parse_qs((search or "").removeprefix("?")[: cls.LONGEST])
        values: dict[str, Any] = {}
        dropped: list[str] = []
        for member, known in _parameters(cls):
            if known.name in query:
                value, left_out = known.read(query[known.name])
                dropped += [known.name] * left_out
                if value is not None:
                    values[member] = value
        if dropped and any(member.name == "dropped" for member in fields(cls)):
            values["dropped"] = tuple(dropped)
        return cls(**values)

    def query(self) -> str:
        """The query of this address with its question mark; empty where every member has its
        default."""
        pairs: list[tuple[str, str]] = []
        for member, known in _parameters(type(self)):
            value = getattr(self, member)
            if value != getattr(type(self), member, None):
                pairs += [(known.name, text) for text in known.write(value) if text]
        return f"?{urlencode(pairs, safe='/,:')}" if pairs else ""

    def href(self, **changes: Any) -> str:
        """The whole address, with some members changed."""
        return f"{self.PATH}{replace(self, **changes).query()}"

    def of_launch(self, launch: str) -> str:
        """The whole address on a page of single launches; ``launch`` is an id as in
        ``LAUNCH_ID``."""
        return f"{self.PATH}/{launch}{self.query()}"


def _parameters(address: type[Address]) -> Iterable[tuple[str, QueryParameter]]:
    return ((member.name, member.metadata["parameter"]) for member in fields(address) if "parameter" in member.metadata)


def parameter(name: str, default: Any, read: Callable[[str], Any], write: Callable[[Any], str] = str) -> Any:
    """A member of which a query holds one text, the last of several; ``read`` returns None for what
    is not taken."""
    known = QueryParameter(name, lambda texts: (read(texts[-1]), 0), lambda value: [write(value)])
    return field(default=default, metadata={"parameter": known})


def text(name: str, longest: int, *, cut: bool = True) -> Any:
    """A text. One that is too long is cut, or left out where ``cut`` is false."""
    return parameter(name, "", lambda given: given[:longest] if cut or len(given) <= longest else None)


def matching(name: str, pattern: str, default: str = "") -> Any:
    """A text that matches a whole pattern."""
    return parameter(name, default, lambda given: given if re.fullmatch(pattern, given) else None)


def choice(name: str, values: Sequence[str]) -> Any:
    """One of several texts; the first is the default."""
    return parameter(name, values[0], lambda given: given if given in values else None)


def flag(name: str, value: str = "1") -> Any:
    """True where the parameter has this value."""
    return parameter(name, False, lambda given: given == value, lambda _: value)


def number(name: str, digits: int) -> Any:
    """A whole number from 0 of at most so many digits, or None."""
    return parameter(name, None, lambda given: int(given) if re.fullmatch(f"[0-9]{{1,{digits}}}", given) else None)


def listed(name: str, read: Callable[[str], Any], most: int, write: Callable[[Any], str] = str) -> Any:
    """A tuple of at most ``most`` different values, each a parameter of the same name; ``read``
    returns None for what is not taken. What repeats is not counted as left out."""

    def read_all(texts: Sequence[str]) -> tuple[tuple[Any, ...], int]:
        values = [read(given) for given in texts]
        known = list(dict.fromkeys(value for value in values if value is not None))
        return tuple(known[:most]), values.count(None) + max(0, len(known) - most)

    known = QueryParameter(name, read_all, lambda values: map(write, values))
    return field(default=(), metadata={"parameter": known})
