"""Causes of lost time as SARIF, at the waiting source lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ncubble.analysis.account.parts import CAUSES, part_label
from ncubble.analysis.diagnosis.diseases import disease_words, fix_of
from ncubble.analysis.diagnosis.groups import LaunchGroup
from ncubble.analysis.diagnosis.verdict import Cause, Place
from ncubble.analysis.diagnosis.words import saving
from ncubble.text.markup import Finding, sarif_text

LEAST_PCT = 5.0
"""Causes that cost less, in percent of the time, are no findings."""
Locate = Callable[[Place], tuple[str, int]]


def report_sarif(groups: Sequence[LaunchGroup], locate: Locate) -> str:
    """The document of verdicts: the first cause of a kernel is a warning, others are notes.
    ``locate``: path in the repository and line of a place; an empty path if uncertain."""
    findings = [finding for group in groups for finding in _of(group, locate)]
    rules = {name: f"{part_label(name)}: {fix_of(name, None)}" for name in {one.rule: None for one in findings}}
    return sarif_text(findings, rules)


def _of(group: LaunchGroup, locate: Locate) -> Iterator[Finding]:
    verdict = group.verdict
    for cause in verdict.causes:
        if cause.pct < LEAST_PCT or cause.cause not in CAUSES:
            continue
        places = (locate(place) for place in cause.where)
        file, line = next((place for place in places if place[0]), ("", 0))
        level = "warning" if cause.cause == verdict.cause else "note"
        several = len(group.launches) > 1  # causes are those of one launch, the typical one
        name = (verdict.label or verdict.kernel) + (f", launch {verdict.launch}" if several else "")
        yield Finding(cause.cause, level, f"{name}: {_words(cause)}", verdict.kernel, file, line)


def _words(cause: Cause) -> str:
    finer = f" ({disease_words(cause.disease)})" if cause.disease else ""
    how = "measured" if cause.measured else "estimated"
    gain = f"; removing it {saving(cause)}" if cause.predicted_gain_pct else ""
    return f"{part_label(cause.cause)}{finer} takes {cause.pct:.1f} % of the cycles ({how}){gain}. {cause.fix}"
