"""SARIF 2.1.0 (OASIS): findings at source lines, as code hosts and editors read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ncubble import __version__
from ncubble.text.markdown import printable

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MARK = '"name": "ncubble"'
"""Head of every document, by which its files are recognized."""
LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One result. ``rule``: its key in the rules of the document. ``level``: one of LEVELS.
    ``file``: a path in the repository, or empty; ``line`` from 1, or 0. ``subject``: the kernel."""

    rule: str
    level: str
    message: str
    subject: str
    file: str = ""
    line: int = 0


def document(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    """The document as text. ``rules``: a sentence for each rule; those without a finding are left
    out. Names from reports are data: nothing of them is markup or a path outside the repository."""
    used = [name for name in rules if any(finding.rule == name for finding in findings)]
    driver = {
        "name": "ncubble",
        "version": __version__,
        "rules": [{"id": name, "shortDescription": {"text": rules[name]}} for name in used],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, used.index(finding.rule)) for finding in findings],
    }
    return json.dumps({"version": "2.1.0", "runs": [run], "$schema": SCHEMA}, indent=1, ensure_ascii=False) + "\n"


def _result(finding: Finding, index: int) -> dict[str, object]:
    location: dict[str, object] = {"logicalLocations": [{"name": printable(finding.subject), "kind": "function"}]}
    if finding.file:
        place: dict[str, object] = {"artifactLocation": {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        location["physicalLocation"] = place
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": printable(finding.message)},
        "locations": [location],
    }
