"""Rules of the gate in one small language, and which of them hold for a kernel.

    tensor_elapsed_pct 1%       relative: a loss of 1 % of the baseline's mean must not pass
    tensor_elapsed_pct >= 50    absolute: the mean of the repeats is at least 50
    cycles <= 2.1e6            absolute: the mean of the repeats is at most 2.1 million
    data_wait +2               growth: this part of the bubble account takes at most 2 points more of the time
    data_wait <= 10            absolute limit of a part, in percent of the elapsed cycles
    cycles off                 nothing of this metric is judged: earlier rules and its ordinary limit are dropped

The command line (``--rule``), the table ``[tool.ncubble.gate]`` and the pytest marker share it.
``rule_verdicts`` holds measurements to absolute limits and to limits of growth, ``noise`` to
relative ones. Pure functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.gate.metrics import METRICS, GateMetric
from ncubble.errors import UsageError
from ncubble.text.remedies import nearest
from ncubble.text.values import cut

_LONGEST = 200
_SIGNS = {">=": "at_least", "<=": "at_most", "+": "growth", None: "relative"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_EXAMPLES = "write 'cycles 2%', 'tensor_elapsed_pct >= 50', 'data_wait <= 10', 'data_wait +2' or 'cycles off'"
_RULE = re.compile(r"(?P<name>[^\s<>=+%]+)\s*(?P<sign>>=|<=|\+)?\s*(?P<value>[^\s%]*)\s*(?P<percent>%?)")


@dataclass(frozen=True)
class GateRule:
    """One rule. ``metric`` is a metric of the gate or a part of the account. ``kind`` is
    ``relative``, ``at_least``, ``at_most``, ``growth`` or ``off``; ``value`` is percent of the
    baseline's mean (``relative``), points of the kernel's time (``growth``), the metric's own unit,
    or 0 (``off``)."""

    metric: str
    kind: str
    value: float = 0.0

    @property
    def text(self) -> str:
        """The rule as ``parse`` reads it."""
        number = repr(float(self.value)).removesuffix(".0")
        forms = {"off": "off", "relative": f"{number}%", "growth": f"+{number}"}
        forms |= {"at_least": f">= {number}", "at_most": f"<= {number}"}
        return f"{self.metric} {forms[self.kind]}"

    @property
    def absolute(self) -> bool:
        """Whether it needs no baseline."""
        return self.kind in ("at_least", "at_most")

    @property
    def of_part(self) -> bool:
        """Whether a part of the bubble account is limited, and no metric."""
        return self.metric in PARTS


@dataclass(frozen=True)
class _Limited:
    """What can be limited. ``better`` as in GateMetric; an absolute limit lies in ``lowest ..
    highest``."""

    name: str
    better: str
    lowest: float
    highest: float
    part: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of rules that make sense."""
        absolute = {"higher": ("at_least",), "lower": ("at_most",)}.get(self.better, ("at_least", "at_most"))
        first = "growth" if self.part else "relative"
        wanted = self.better == "lower" if self.part else self.better != "neutral"
        return (*((first,) if wanted else ()), *absolute, "off")

    @property
    def remedy(self) -> str:
        """The forms that a rule may have."""
        value = {"relative": 2.0, "growth": 2.0, "at_least": 50.0, "at_most": 50.0 if self.highest == 100 else 2.1e6}
        return "write " + " or ".join(f"'{GateRule(self.name, kind, value.get(kind, 0)).text}'" for kind in self.kinds)


_LIMITED = {
    **{
        metric.name: _Limited(
            metric.name, metric.better, metric.lowest, 100.0 if metric.unit == "%" else metric.highest
        )
        for metric in METRICS
    },
    **{part: _Limited(part, "higher" if part in WORK else "lower", 0.0, 100.0, part=True) for part in PARTS},
}


def parse(text: str) -> GateRule:
    """The rule that ``text`` says. Raises UsageError that names what is wrong and what can be
    written instead."""
    match = _RULE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    quoted = _quoted(text)
    if match is None:
        raise UsageError(f"limit {quoted}: not a rule", _EXAMPLES)
    limited = _limited(match["name"], quoted)
    sign, value, percent = match["sign"], match["value"], bool(match["percent"])
    if not sign and value == "off" and not percent:
        return GateRule(limited.name, "off")
    kind = _SIGNS[sign]
    if wrong := _senseless(limited, kind, percent):
        raise UsageError(f"limit {quoted}: {wrong}", limited.remedy)
    return GateRule(limited.name, kind, _value(value, kind, limited, quoted))


def parse_all(texts: Iterable[str]) -> tuple[GateRule, ...]:
    """The rules that ``texts`` say, in order. Raises UsageError for the first wrong one."""
    return tuple(parse(text) for text in texts)


def _limited(name: str, quoted: str) -> _Limited:
    if name in _LIMITED:
        return _LIMITED[name]
    counter = next((metric.name for metric in METRICS if name in metric.counters), None)
    hint = f"; nearest: {counter}" if counter else nearest(name, _LIMITED)
    raise UsageError(
        f"limit {quoted}: there is no metric or account part called {_quoted(name)}{hint}",
        f"metrics: {', '.join(known.name for known in METRICS)}; parts: {', '.join(PARTS)}",
    )


def _senseless(limited: _Limited, kind: str, percent: bool) -> str:
    """Why a rule of this kind makes no sense; empty where it does."""
    if kind == "relative" and not percent:
        return "neither a sign nor a percentage"
    if kind not in limited.kinds:
        if kind == "growth" and not limited.part:
            return "growth in points is for parts of the bubble account"
        if kind == "relative" and limited.part:
            return "a part of the bubble account is limited in points of the time, not in percent of itself"
        if kind == "relative":
            return f"{limited.name} has no better direction, so there is no loss"
        better = {"higher": "more", "lower": "less"}[limited.better]
        ceiling = {"growth": "a limit of its growth", "at_least": "a floor", "at_most": "a ceiling"}[kind]
        return f"{better} is better for {limited.name}: {ceiling} makes no sense"
    if percent and kind == "growth":
        return "growth is given in points of the time, without %"
    return f"{limited.name} is not a percentage" if percent and kind != "relative" and limited.highest != 100 else ""


def _value(text: str, kind: str, limited: _Limited, quoted: str) -> float:
    if not _NUMBER.fullmatch(text):
        lacks = f"{_quoted(text)} is not a number" if text else "the number is missing"
        raise UsageError(f"limit {quoted}: {lacks}", limited.remedy)
    value, wrong = float(text), ""
    if not math.isfinite(value):
        wrong = f"{text} is not finite"
    elif kind in ("relative", "growth"):
        if not 0 < value < 100:
            wrong = f"not a {'percentage' if kind == 'relative' else 'number of points'} between 0 and 100"
    elif not limited.lowest <= value <= limited.highest:
        wrong = f"{limited.name} can only lie between {limited.lowest:g} and {limited.highest:g}"
    elif value == (limited.lowest if kind == "at_least" else limited.highest):
        wrong = "it can never fail"
    if wrong:
        raise UsageError(f"limit {quoted}: {wrong}", limited.remedy)
    return value + 0.0  # no negative zero


def _quoted(text: str, most: int = 80) -> str:
    """``text`` in quotes on one line, cut where it is long."""
    return repr(cut(text, most))


@dataclass(frozen=True)
class Override:
    """Rules for kernels whose label or full name matches ``match``, a regular expression that is
    searched. Raises UsageError if it is none."""

    match: str
    rules: tuple[GateRule, ...]

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(
                f"match {_quoted(self.match)}: not a regular expression ({error})", "escape special characters with \\"
            ) from error

    def matches(self, label: str, kernel: str = "") -> bool:
        """Whether these rules hold for a kernel."""
        return bool(re.search(self.match, label) or re.search(self.match, kernel))


@dataclass(frozen=True)
class GateRules:
    """All rules of a check: ``default`` for every kernel, then ``overrides`` in order."""

    default: tuple[GateRule, ...] = ()
    overrides: tuple[Override, ...] = ()

    def of(self, label: str, kernel: str = "") -> dict[str, tuple[GateRule, ...]]:
        """The rules for a kernel by metric. A later rule replaces earlier ones of the same metric
        and kind; ``off`` drops all earlier ones of its metric, and a relative limit ends it.

        ``label`` is ``KernelKey.label``, ``kernel`` the full name. Metrics without a rule are
        absent: their ordinary limit holds (``relative_pct``).
        """
        rules = [*self.default]
        for override in self.overrides:
            rules += override.rules if override.matches(label, kernel) else ()
        by_metric: dict[str, dict[str, GateRule]] = {}
        for rule in rules:
            by_kind = by_metric.setdefault(rule.metric, {})
            if rule.kind == "off":
                by_kind.clear()
            elif rule.kind == "relative":
                by_kind.pop("off", None)
            by_kind[rule.kind] = rule
        return {metric: tuple(by_kind.values()) for metric, by_kind in by_metric.items()}

    def plus(self, rules: Iterable[GateRule]) -> GateRules:
        """These rules, and ``rules`` as the last word for every kernel: those of the command
        line."""
        added = tuple(rules)
        return replace(self, overrides=(*self.overrides, Override("", added))) if added else self

    def unused(self, names: Iterable[str]) -> tuple[str, ...]:
        """``match`` of every override that matches none of the labels and full names: its kernel
        may be renamed."""
        known = list(names)
        return tuple(item.match for item in self.overrides if item.match and not any(map(item.matches, known)))


def relative_pct(metric: GateMetric, rules: Mapping[str, tuple[GateRule, ...]]) -> float | None:
    """The relative limit in percent that holds for ``metric``: its rule's, else the table's; None
    where it is off."""
    kinds = {rule.kind: rule.value for rule in rules.get(metric.name, ())}
    return None if "off" in kinds else kinds.get("relative", metric.limit_pct)
