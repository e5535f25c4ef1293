"""A check as SARIF: regressions are errors at the line that moved, what could not be judged is a
warning, gains are notes."""

from __future__ import annotations

from ncubble.analysis.gate.check.result import GateResult
from ncubble.analysis.gate.output.annotations import Locate, annotations_of, stated
from ncubble.text.markup import Finding, sarif_text

RULES = {
    "regression": "A kernel is slower, or uses the hardware less, than its baseline.",
    "suspicious": "A launch has contradictory values.",
    "not-judged": "A kernel could not be compared with its baseline.",
    "unreadable": "A report could not be read.",
    "gain": "A kernel is better than its baseline; record a new baseline.",
}
_LEVELS = {"error": "error", "warning": "warning", "notice": "note"}
_TITLES = {"suspicious": "suspicious", "could not read": "unreadable", "gain": "gain", "regression": "regression"}


def sarif(result: GateResult, locate: Locate = stated) -> str:
    """The document of a check. ``locate``: see ``annotations.marks``."""
    findings = [
        Finding(
            rule=_TITLES.get(item.title.removeprefix("ncubble: "), "not-judged"),
            level=_LEVELS[item.kind],
            message=item.message,
            subject=item.name or "ncubble",
            file=item.file,
            line=item.line,
        )
        for item in annotations_of(result, locate)
    ]
    return sarif_text(findings, RULES)
