"""Claims as data, and their verdicts, computed from measured values.

``claims.toml`` holds a table per claim: ``id``, ``seed``, ``claim``, ``kind``, and

- for ``measured`` and ``static`` ones ``rules``: what must hold of measured values for the claim to
  be true, such as ``"overlap.async_both < overlap.async_serial * 0.8"``. All hold: true; none:
  false; some: partly. ``shown``: a format string over measured values. ``note``: what the
  figures mean, in a sentence; the page shows it where the verdict is not true.
- for those that are ``not testable`` the ``reason``.
"""

from __future__ import annotations

import operator
import re
import string
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FILE = Path(__file__).resolve().with_name("claims.toml")
KINDS = ("measured", "static", "not testable")
TRUE, FALSE, PARTLY, NOT_TESTABLE, NOT_MEASURED = "true", "false", "partly", "not testable", "not measured"
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_RULE = re.compile(r"(\w+)\.(\w+) (<=|>=|<|>|==|!=) (?:(\w+)\.([A-Za-z_]\w*)(?: \* ([\d.]+))?|(-?[\d.]+|true|false))")

Results = Mapping[str, Mapping[str, Any]]  # measurement -> {"values": {…}} or {"failed": reason}


@dataclass(frozen=True)
class Claim:
    """A statement of a seed document in our words, and how it is decided."""

    id: str
    seed: str
    claim: str
    kind: str
    rules: tuple[str, ...] = ()
    shown: str = ""
    note: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.id}: kind {self.kind!r} is none of {KINDS}")
        if self.kind == "not testable":
            if not self.reason or self.rules:
                raise ValueError(f"{self.id}: what is not testable has a reason and no rules")
            return
        if not self.rules or not self.shown:
            raise ValueError(f"{self.id}: rules or shown are missing")
        for rule in self.rules:
            if not _RULE.fullmatch(rule):
                raise ValueError(f"{self.id}: {rule!r} is no rule")

    @property
    def used(self) -> set[tuple[str, str]]:
        """(measurement, key) of everything that rules and ``shown`` refer to."""
        found: set[tuple[str, str]] = set()
        for rule in self.rules:
            left, key, _, other, other_key, _, _ = _parts(rule)
            found.add((left, key))
            if other:
                found.add((other, other_key))
        return found | placeholders(self.shown) | placeholders(self.note)

    @property
    def measurements(self) -> set[str]:
        """Names of the measurements that the claim needs."""
        return {name for name, _ in self.used}


def placeholders(text: str) -> set[tuple[str, str]]:
    """(measurement, key) of all that a format string refers to."""
    fields = (field for _, field, _, _ in string.Formatter().parse(text) if field)
    return {(name, key) for name, _, key in (field.partition(".") for field in fields)}


def load(path: Path = FILE) -> list[Claim]:
    """All claims in the order of the file. Raises ValueError for one that is not well formed, or an
    id used twice."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    claims = [Claim(**{**entry, "rules": tuple(entry.get("rules", ()))}) for entry in entries]
    ids = [claim.id for claim in claims]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ValueError(f"ids used twice: {twice}")
    return claims


def verdict(claim: Claim, results: Results) -> str:
    """true, false, partly, not testable; or not measured, where a measurement is missing or
    failed."""
    if claim.kind == "not testable":
        return NOT_TESTABLE
    if failure(claim, results):
        return NOT_MEASURED
    holding = [holds(rule, results) for rule in claim.rules]
    return TRUE if all(holding) else PARTLY if any(holding) else FALSE


def failure(claim: Claim, results: Results) -> str:
    """Why the claim has no figures; empty if it has."""
    for name in sorted(claim.measurements):
        if "values" not in results.get(name, {}):
            return f"{name}: {results.get(name, {}).get('failed', 'not measured')}"
    missing = [f"{name}.{key}" for name, key in sorted(claim.used) if results[name]["values"].get(key) is None]
    return f"no value of {', '.join(missing)}" if missing else ""


def holds(rule: str, results: Results) -> bool:
    """Whether one rule holds."""
    name, key, comparison, other, other_key, factor, bound = _parts(rule)
    left = results[name]["values"][key]
    right = results[other]["values"][other_key] if other else _literal(bound)
    if factor:
        right = right * float(factor)
    return _OPERATORS[comparison](left, right)


def shown(claim: Claim, results: Results) -> str:
    """The measured figures of a claim, in words."""
    return filled(claim.shown, results)


def note(claim: Claim, results: Results) -> str:
    """What the figures mean."""
    return filled(claim.note, results)


def filled(text: str, results: Results) -> str:
    """A format string over measured values."""
    spaces = {name: SimpleNamespace(**_worded(entry["values"])) for name, entry in results.items() if "values" in entry}
    return text.format(**spaces)


def _worded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Truth values as a reader says them."""
    return {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in values.items()}


def _parts(rule: str) -> tuple[str, str, str, str | None, str, str | None, str]:
    match = _RULE.fullmatch(rule)
    if match is None:
        raise ValueError(f"{rule!r} is no rule")
    return match.groups()  # type: ignore[return-value]


def _literal(text: str) -> float | bool:
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else float(text)  # type: ignore[return-value]
