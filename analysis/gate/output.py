"""A check as JSON, JUnit XML and Markdown. Pure functions of a ``GateResult``; names of kernels are
text, never markup.

JSON (``schema`` 1)::

    {"schema", "verdict", "exit_code", "counts": {verdict: number of kernels},
     "kernels": [{"label", "device", "verdict", "reason", "baseline": path or null, "launches", "notes": [text],
                  "suspicious": [{"path", "launch", "contradictions": [text]}],
                  "metrics": [{"name", "counter", "unit", "better", "gated", "verdict", "reason", "limit_pct",
                               "baseline": {"n", "mean", "sd"}, "now": {"n", "mean", "sd"},
                               "change_pct", "loss_pct", "decision_pct", "threshold_pct", "detectable_pct",
                               "p_value", "clock_pct", "other_gpu"}],
                  "limits": [{"limit", "verdict", "value", "reason"}],
                  "moved": [{"part", "points", "file", "line", "text", "place_points"}]}],
     "errors": [{"file", "error"}], "unmeasured": [label], "unrecorded": [label], "notes": [text]}

The meaning of verdicts and limits is told in ``verdicts`` and ``noise``. A number that does not
exist is null.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from ncubble.analysis.gate.accounts import Move, sentence
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.rule_verdicts import RuleVerdict
from ncubble.analysis.gate.verdicts import FAILED, GateResult, KernelVerdict, MetricVerdict
from ncubble.text.markup import code, escape, printable
from ncubble.text.values import significant

MARKDOWN_MARK = "<!-- ncubble check -->"
FEW = 3
"""So many kernels without a baseline are still shown each; of more, as many are named: the first
check of a project meets dozens."""
JUNIT_MARK = '<testsuites name="ncubble check"'
_COMPARISON = (
    "change_pct",
    "loss_pct",
    "decision_pct",
    "threshold_pct",
    "detectable_pct",
    "p_value",
    "clock_pct",
    "other_gpu",
)
_HEADLINES = {
    "pass": "passed",
    "improved": "passed, and improved: record new baselines to keep the gain",
    "regressed": "failed: regression",
    "limit_broken": "failed: limit broken",
    "not_comparable": "could not compare everything",
    "nothing_measured": "nothing measured",
}


def headline(result: GateResult) -> str:
    """The gate's verdict in a few words."""
    return (
        f"{_HEADLINES[result.verdict]} ({len(result.kernels)} kernel{'s' if len(result.kernels) != 1 else ''} checked)"
    )


def number(value: float) -> str:
    """A mean for people: four significant digits, or all digits of a large count."""
    return significant(value, "–", ",")


def cells(metric: MetricVerdict) -> tuple[str, str, str, str]:
    """Baseline, now, change and the change that fails, as texts. The last is empty for metrics that
    are not gated."""
    before, after = mean_sd(metric.baseline.measured)[0], mean_sd(metric.now)[0] if metric.now else math.nan
    result = metric.comparison
    if result is None:
        return number(before), number(after), "–", "–"
    sign = "-" if metric.baseline.better == "higher" else "+"
    limit = "" if metric.verdict == "info" else f"{sign}{result.threshold_pct:.2f} %"
    if sign == "-" and result.threshold_pct >= 100:
        limit = "never"
    return number(before), number(after), f"{result.change_pct:+.2f} %", limit


def as_json(result: GateResult) -> dict[str, Any]:
    """The object that ``ncubble check --json`` prints; see the module's docstring."""
    return {
        "schema": 1,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "counts": dict(Counter(kernel.verdict for kernel in result.kernels)),
        "kernels": [_kernel_json(kernel) for kernel in result.kernels],
        "errors": [{"file": file, "error": error} for file, error in result.errors],
        "unmeasured": list(result.unmeasured),
        "unrecorded": list(result.unrecorded),
        "notes": list(result.notes),
    }


def _kernel_json(kernel: KernelVerdict) -> dict[str, Any]:
    path = kernel.baseline.path if kernel.baseline else None
    return {
        "label": kernel.label,
        "device": kernel.device,
        "verdict": kernel.verdict,
        "reason": kernel.reason,
        "baseline": str(path) if path else None,
        "launches": kernel.launches,
        "notes": list(kernel.notes),
        "suspicious": [asdict(launch) for launch in kernel.suspicious],
        "metrics": [_metric_json(metric) for metric in kernel.metrics],
        "limits": [
            {"limit": rule.rule.text, "verdict": rule.verdict, "value": rule.value, "reason": rule.reason}
            for rule in kernel.rules
        ],
        "moved": [_move_json(move) for move in kernel.moved],
    }


def _move_json(move: Move) -> dict[str, Any]:
    place = move.place
    where = {"text": place.text, "place_points": place.pct} if place else {"text": "", "place_points": None}
    return {"part": move.part, "points": move.points, "file": move.file, "line": move.line, **where}


def rows(kernel: KernelVerdict) -> list[tuple[str, ...]]:
    """Of each metric and each limit that was asked for its name, baseline, now, change, what fails,
    and verdict."""
    metrics: list[tuple[str, ...]] = [(item.name, *cells(item), item.verdict) for item in kernel.metrics]
    return metrics + [(rule.rule.metric, *_rule_cells(rule), rule.verdict) for rule in kernel.rules]


def _rule_cells(rule: RuleVerdict) -> tuple[str, str, str, str]:
    """What ``cells`` gives for a metric, of a limit."""
    value = "–" if rule.value is None else number(rule.value)
    if rule.rule.kind == "growth":
        beyond = f"+{rule.comparison.threshold_pct:.2f} points" if rule.comparison else "–"
        return "", "", "–" if rule.value is None else f"{_signed(rule.value)} points", beyond
    sign = {"at_least": "< ", "at_most": "> "}.get(rule.rule.kind, "")
    return "", value, "", f"{sign}{number(rule.rule.value)}" if sign else "–"


def _signed(value: float) -> str:
    """With its sign, and never ``-0.00``."""
    return f"{round(value, 2) + 0.0:+.2f}"


def _metric_json(metric: MetricVerdict) -> dict[str, Any]:
    before = metric.baseline
    test = {name: getattr(metric.comparison, name) if metric.comparison else None for name in _COMPARISON}
    return {
        "name": metric.name,
        "counter": before.counter,
        "unit": before.unit,
        "better": before.better,
        "gated": before.gated,
        "verdict": metric.verdict,
        "reason": metric.reason,
        "limit_pct": metric.limit_pct,
        "baseline": _summary(before.measured),
        "now": _summary(metric.now),
        **test,
    }


def _summary(values: Sequence[float]) -> dict[str, Any]:
    mean, sd = mean_sd(values) if values else (math.nan, math.nan)
    return {"n": len(values), **{key: x if math.isfinite(x) else None for key, x in (("mean", mean), ("sd", sd))}}


def junit(result: GateResult) -> str:
    """JUnit XML: one test case per kernel and gated metric; what could not be judged is an error,
    never a pass."""
    root = ET.Element("testsuites", name="ncubble check")
    suite = ET.SubElement(root, "testsuite", name="ncubble check")
    for kernel in result.kernels:
        gated = [metric for metric in kernel.metrics if metric.verdict != "info"]
        cause = "".join(f"; {text}" for text in [*map(sentence, kernel.moved[:1]), kernel.reason] if text)
        for metric in gated:
            more = cause if metric.verdict == "regressed" else ""
            words = f"{metric.verdict}: {metric.reason or numbers(metric)}{more}"
            _case(suite, kernel.label, metric.name, metric.verdict, words)
        for rule in kernel.rules:
            words = rule.reason or f"{rule.verdict}: {rule.rule.text}: {' '.join(_rule_cells(rule)[1:3]).strip()}"
            _case(suite, kernel.label, rule.rule.text, rule.verdict, words)
        verdicts = {metric.verdict for metric in gated} | {rule.verdict for rule in kernel.rules}
        if kernel.verdict not in verdicts:
            _case(suite, kernel.label, "baseline", kernel.verdict, explained(kernel))
        elif kernel.suspicions:
            _case(suite, kernel.label, "suspicious", "pass", explained(kernel))
    for file, error in result.errors:
        _case(suite, "inputs", file, "unreadable", error)
    if not len(suite):
        _case(suite, "ncubble check", "launches", "nothing_measured", "no kernel was checked")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, classname: str, name: str, verdict: str, message: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=printable(classname), name=printable(name), time="0")
    if verdict in ("pass", "improved"):
        ET.SubElement(case, "system-out").text = printable(message)
        return
    kind = "failure" if verdict in FAILED else "error"
    ET.SubElement(case, kind, type=verdict, message=printable(message))


def numbers(metric: MetricVerdict) -> str:
    """``cycles 500,000 -> 537,000 cycle (+7.40 %, fails beyond +1.22 %)``."""
    before, now, change, limit = cells(metric)
    beyond = f", fails beyond {limit}" if limit and limit != "–" else ""
    return f"{metric.name} {before} -> {now} {metric.baseline.unit} ({change}{beyond})"


def markdown(result: GateResult) -> str:
    """A comment for a merge request: headline, one table, and a list of what could not be
    judged."""
    lines = [MARKDOWN_MARK, f"### ncubble check {escape(headline(result))}", ""]
    kernels = shown_kernels(result)
    if kernels:
        lines += [
            "| kernel | metric | baseline | now | change | fails beyond | verdict |",
            "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        ]
        for kernel in kernels:
            shown = rows(kernel) or [(*["–"] * 5, kernel.verdict)]
            lines += [_markdown_row(kernel, texts, verdict) for *texts, verdict in shown]
        lines.append("")
    for kernel in kernels:
        lines += [f"- {code(kernel.label)}: {escape(text)}" for text in remarks(kernel)]
    lines += [f"- could not read {code(file)}: {escape(error)}" for file, error in result.errors]
    lines += [f"- not measured: {code(label)}" for label in result.unmeasured]
    lines += [f"- {escape(text)}" for text in unrecorded_lines(result)]
    lines += [f"- {escape(note)}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_row(kernel: KernelVerdict, texts: Sequence[str], verdict: str) -> str:
    words = verdict.replace("_", " ")
    shown = words if verdict in ("pass", "info") else f"**{words}**"
    return f"| {' | '.join([code(kernel.label), *map(escape, texts), shown])} |"


def explained(kernel: KernelVerdict) -> str:
    """The reason of a kernel's verdict, with why launches are suspicious."""
    return "; ".join([*([kernel.reason] if kernel.reason else []), *kernel.suspicions])


def remarks(kernel: KernelVerdict) -> list[str]:
    """What is to be said of a kernel beside its numbers: what moved, why it could not be judged,
    suspicious launches and notes."""
    reason = [kernel.reason] if kernel.reason else []
    return [*map(sentence, kernel.moved), *reason, *kernel.suspicions, *kernel.notes]


def shown_kernels(result: GateResult) -> list[KernelVerdict]:
    """The kernels that get rows of their own."""
    folded = _folded(result)
    return [kernel for kernel in result.kernels if kernel not in folded]


def unrecorded_lines(result: GateResult) -> list[str]:
    """A sentence on the kernels that get no row, and one on those that ``--allow-new`` accepts."""
    lines = []
    if folded := _folded(result):
        unread = " among what could be read" if any(kernel.unread for kernel in folded) else ""
        remedy = "" if unread else "; record them with `ncubble baseline`"
        names = _named([kernel.label for kernel in folded])
        lines.append(f"{len(folded)} kernels have no baseline{unread}: {names}{remedy}")
    if result.unrecorded:
        lines.append(f"without baseline: {_named(result.unrecorded)}")
    return lines


def _folded(result: GateResult) -> list[KernelVerdict]:
    kernels = [kernel for kernel in result.kernels if kernel.unrecorded]
    return kernels if len(kernels) > FEW else []


def _named(labels: Sequence[str]) -> str:
    """``a; b; c; and 58 more``; all where there is only one more."""
    rest = len(labels) - FEW
    return "; ".join(labels if rest <= 1 else [*labels[:FEW], f"and {rest} more"])
