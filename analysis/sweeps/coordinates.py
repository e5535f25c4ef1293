"""Where a launch stands among those of its kernel: its parameters and dimensions, or what its
report tells of them.

A run of the catalog, or of a program that writes facts of its launches, names parameters and shape.
Of any other launch the arguments of its template are the parameters, with its block; the threads of
all CTAs stand for its shape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

Row = Mapping[str, Any]
PARAMETER, GEOMETRY, SHAPE, CODE = "parameter", "launch", "shape", "code"
LONGEST = 60
"""Maximum length of a shown name or value; longer ones end in a hash to stay distinct."""
LONG_ARGUMENT = 32
"""Longer template arguments are types, not varied values."""
MOST_ARGUMENTS = 24
"""A template with more arguments than this counts as a single coordinate."""
_CAST = re.compile(r"^\((?:unsigned )?(?:int|bool|long|short|char)\)(?=-?\d)")
_EXTENT = re.compile(r"grid ([\d,]+) × block ([\d,]+)")


@dataclass(frozen=True)
class Coordinate:
    """``kind``: a parameter of the kernel or its template, how it was launched, a dimension of its
    problem, or another code, which is told apart and never swept."""

    kind: str
    name: str
    value: str


def source_of(row: Row) -> str:
    """What ``coordinates`` follow from: equal texts, equal coordinates."""
    facts = (row.get("parameters"), row.get("dims"))
    return str(facts) if any(facts) else f"{row.get('kernel')}\n{row.get('demangled')}\n{row.get('shape')}"


def coordinates(row: Row) -> tuple[Coordinate, ...]:
    """The coordinates of one launch, each name once, in order of kind and name."""
    parameters, dims = row.get("parameters") or {}, row.get("dims") or {}
    if parameters or dims:
        places = [Coordinate(PARAMETER, _text(name), _text(value)) for name, value in parameters.items()]
        places += [Coordinate(SHAPE, _dimension(name, parameters), _text(value)) for name, value in dims.items()]
    else:
        places = [*_template(row), *_geometry(row)]
    return tuple(sorted({place.name: place for place in places}.values(), key=lambda place: (place.kind, place.name)))


def _dimension(name: Any, parameters: Mapping[str, Any]) -> str:
    return f"{_text(name)} (shape)" if name in parameters else _text(name)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]} {sha256(text.encode()).hexdigest()[:8]}"


def alike(places: Sequence[Coordinate]) -> Coordinate | None:
    """All dimensions as one, ``k=m=n``, where there are several and they are equal; else None."""
    shape = [place for place in places if place.kind == SHAPE]
    if len(shape) < 2 or len({place.value for place in shape}) > 1:
        return None
    return Coordinate(SHAPE, "=".join(place.name for place in shape), shape[0].value)


def _template(row: Row) -> list[Coordinate]:
    arguments = template_arguments(str(row.get("demangled") or ""), str(row.get("kernel") or ""))
    if len(arguments) > MOST_ARGUMENTS:
        return [Coordinate(CODE, "template", _text(", ".join(arguments)))]
    return [
        Coordinate(CODE if len(argument) > LONG_ARGUMENT else PARAMETER, f"template argument {index}", _text(argument))
        for index, argument in enumerate(arguments, 1)
    ]


def template_arguments(demangled: str, kernel: str) -> list[str]:
    """``["128", "float"]`` of ``void space::gemm<(int)128, float>(float*)`` for the kernel
    ``gemm``; else empty."""
    at = demangled.find(f"{kernel}<") if kernel else -1
    if at < 0:
        return []
    arguments, depth, start = [], 0, at + len(kernel) + 1
    for index in range(start, len(demangled)):
        sign = demangled[index]
        if depth == 0 and sign in ",>":
            arguments.append(_CAST.sub("", demangled[start:index].strip()))
            start = index + 1
            if sign == ">":
                return arguments
        depth += (sign in "<([") - (sign in ">)]")
    return []


def _geometry(row: Row) -> list[Coordinate]:
    """The block, and the threads of all CTAs: blocks of other sizes that do the same work in all
    are a sweep."""
    extents = _EXTENT.fullmatch(str(row.get("shape") or ""))
    if extents is None:
        return []
    grid, block = ([int(part) for part in extents[index].split(",") if part] for index in (1, 2))
    while len(block) > 1 and block[-1] == 1:
        block.pop()
    size = _text("x".join(str(part) for part in block))
    return [
        Coordinate(GEOMETRY, "block", size),
        Coordinate(SHAPE, "total threads", _text(math.prod(grid) * math.prod(block))),
    ]
