"""Conditions of ``ncubble query``: a small language, parsed into Arrow expressions. Nothing is
evaluated as code.

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | COLUMN test
    test       = ("<" | "<=" | ">" | ">=" | "=" | "==" | "!=") VALUE
               | ["not"] "in" "(" VALUE {"," VALUE} ")"
               | "is" ["not"] "null"
               | ("contains" | "like") TEXT

VALUE is a number, a text in single or double quotes, or a bare word. Words of the language may be
in either case. A comparison with a column that is null is false, as is its ``not``: ask for ``is
null``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ncubble.errors import UsageError
from ncubble.text.values import current_name

LONGEST = 10_000
DEEPEST = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))"
    r"|(?P<word>[A-Za-z_][\w.:/-]*)|(?P<mark><=|>=|==|!=|[<>=(),]))"
)
_EQUAL = ("=", "==")
_COMPARE = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "=": "__eq__", "==": "__eq__", "!=": "__ne__"}


def parse(condition: str, schema: pa.Schema) -> pc.Expression:
    """The condition as an Arrow expression over the columns of ``schema``. Raises UsageError that
    shows the place."""
    if len(condition) > LONGEST:
        raise UsageError(f"--where: longer than {LONGEST} characters", "shorten it")
    parser = _Parser(condition, schema)
    expression = parser.condition(0)
    if parser.kind:
        raise parser.wrong("the end, `and` or `or`")
    return expression


def column_of(name: str, schema: pa.Schema) -> pa.Field:
    """The column of this name, or of what it is called now; raises UsageError with the nearest
    ones."""
    if name not in schema.names:
        name = current_name(name)
    if name not in schema.names:
        near = difflib.get_close_matches(name, schema.names, 3, 0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"columns: {', '.join(schema.names)}"
        raise UsageError(f"unknown column {name!r}", hint)
    return schema.field(name)


class _Parser:
    """Recursive descent, one token ahead: ``kind`` and ``value`` are of the next one, "" at the
    end."""

    def __init__(self, source: str, schema: pa.Schema) -> None:
        self.source, self.schema = source, schema
        self.at = self.start = 0
        self.kind = self.value = ""
        self.compared: list[tuple[str, str]] = []
        self.advance()

    def advance(self) -> str:
        """Step over the next token; returns it."""
        value = self.value
        rest = self.source[self.at :]
        self.start = self.at + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self.kind = self.value = ""
            return value
        match = _TOKEN.match(self.source, self.at)
        if not match:
            raise self.wrong("a column, a value or an operator")
        self.kind, self.at = str(match.lastgroup), match.end()
        self.value = match[self.kind]
        return value

    def wrong(self, expected: str) -> UsageError:
        """What to say of the next token."""
        here = f"{self.source[: self.start]}»{self.source[self.start :]}"
        return UsageError(
            f"--where: expected {expected} at » in: {here}",
            'for example: tensor_elapsed_pct < 50 and cause = "copy_cost"',
        )

    def takes(self, *words: str) -> str:
        """Step over the next token if it is one of ``words``; returns it, or ""."""
        word = self.value.lower() if self.kind in ("word", "mark") else ""
        if word and word in words:
            self.advance()
            return word
        return ""

    def needs(self, mark: str) -> None:
        if not self.takes(mark):
            raise self.wrong(f"`{mark}`")

    def condition(self, depth: int) -> pc.Expression:
        expression = self.all_of(depth)
        while self.takes("or"):
            expression = expression | self.all_of(depth)
        return expression

    def all_of(self, depth: int) -> pc.Expression:
        expression = self.one(depth)
        while self.takes("and"):
            expression = expression & self.one(depth)
        return expression

    def one(self, depth: int) -> pc.Expression:
        if depth > DEEPEST:
            raise UsageError(f"--where: nested deeper than {DEEPEST}", "simplify it")
        if self.takes("not"):
            return ~self.one(depth + 1)
        if self.takes("("):
            expression = self.condition(depth + 1)
            self.needs(")")
            return expression
        if self.kind != "word":
            raise self.wrong("a column")
        return self.test(column_of(self.advance(), self.schema))

    def test(self, column: pa.Field) -> pc.Expression:
        field = pc.field(column.name)
        if mark := self.takes(*_COMPARE):
            value = self.literal(column)
            if mark in _EQUAL:
                self.compared.append((column.name, value))
            expression: pc.Expression = getattr(field, _COMPARE[mark])(pa.scalar(value))
            return expression
        if self.takes("is"):
            absent = not self.takes("not")
            self.needs("null")
            return field.is_null() if absent else field.is_valid()
        inverted = bool(self.takes("not"))
        if self.takes("in"):
            expression = field.isin(self.listed(column))
            return ~expression & field.is_valid() if inverted else expression
        if not inverted and self.takes("contains", "like"):
            return self.contained(column)
        raise self.wrong("`in`" if inverted else "an operator such as <, =, `in`, `contains` or `is null`")

    def contained(self, column: pa.Field) -> pc.Expression:
        if not _is_text(column):
            raise UsageError(f"--where: {column.name} is not text", "compare it with <, <=, =, >=, >")
        value = str(self.literal(column))
        return pc.match_substring(pc.field(column.name), value, ignore_case=True)

    def listed(self, column: pa.Field) -> pa.Array:
        self.needs("(")
        values: list[Any] = [self.literal(column)]
        while self.takes(","):
            values.append(self.literal(column))
        self.needs(")")
        self.compared += [(column.name, value) for value in values]
        return pa.array(values)

    def literal(self, column: pa.Field) -> Any:
        """The next value, as the column has it."""
        kind = self.kind
        if kind not in ("text", "number", "word"):
            raise self.wrong("a value")
        raw = self.value[1:-1] if kind == "text" else self.value
        value = _as(column, raw, kind)
        if value is None:
            raise self.wrong(f"a value of {column.name} ({_value_words(column)})")
        self.advance()
        return value


def compared_texts(conditions: Sequence[str], schema: pa.Schema) -> list[tuple[str, str]]:
    """Columns of text, each with a value that a condition asks to be equal. Raises UsageError as
    ``parse`` does."""
    pairs: list[tuple[str, str]] = []
    for condition in conditions:
        parser = _Parser(condition, schema)
        parser.condition(0)
        pairs += parser.compared
    return [(name, value) for name, value in dict.fromkeys(pairs) if _is_text(schema.field(name))]


def _is_text(column: pa.Field) -> bool:
    return bool(pa.types.is_string(column.type))


def _value_words(column: pa.Field) -> str:
    return "a text" if _is_text(column) else "true or false" if pa.types.is_boolean(column.type) else "a number"


def _as(column: pa.Field, raw: str, kind: str) -> Any:
    if _is_text(column):
        return raw
    if pa.types.is_boolean(column.type):
        return {"true": True, "false": False}.get(raw.lower()) if kind == "word" else None
    if kind != "number" or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    return float(raw) if pa.types.is_floating(column.type) or "." in raw or "e" in raw.lower() else int(raw)


def parse_all(conditions: Sequence[str], schema: pa.Schema) -> pc.Expression | None:
    """All of several conditions; None for none."""
    expression: pc.Expression | None = None
    for condition in conditions:
        parsed = parse(condition, schema)
        expression = parsed if expression is None else expression & parsed
    return expression
