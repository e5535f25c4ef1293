"""Text from reports in Markdown, HTML and SARIF, escaped so that it is never markup.

SARIF 2.1.0 (OASIS): findings at source lines, as code hosts and editors read them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ncubble import __version__

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
SARIF_MARK = '"name": "ncubble"'
"""Head of every document, by which its files are recognized."""
LEVELS = ("error", "warning", "note")


LONGEST = 4000
"""Maximum characters of a text that is shown, beyond any line that ncubble itself writes."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str) -> str:
    """``text`` on one line, every control, bidirectional or unencodable character replaced by
    U+FFFD, and cut to LONGEST."""
    one_line = " ".join(text.split())
    one_line = one_line if len(one_line) <= LONGEST else f"{one_line[: LONGEST - 1]}…"
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one_line)


def csv_cell(value: object) -> object:
    """``value`` for a CSV file: text that a spreadsheet would run as a formula gets an apostrophe,
    which it shows as text."""
    text = value.replace("\0", "") if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text


def escape(text: str) -> str:
    """``text`` escaped for Markdown and HTML: all markup characters become entities."""
    return "".join(f"&#{ord(char)};" if char in "\\`*_{}[]()<>#+!|~&$:@\"'" else char for char in printable(text))


def code(text: str) -> str:
    """Like ``escape``, in a code element: prevents links and mentions."""
    return f"<code>{escape(text)}</code>"


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


def sarif_text(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    """Findings as a SARIF document. ``rules``: a sentence for each rule; those without a finding
    are left out. Names from reports are data: nothing of them is markup or a path outside the
    repository."""
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
    return json.dumps({"version": "2.1.0", "runs": [run], "$schema": SARIF_SCHEMA}, indent=1, ensure_ascii=False) + "\n"


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
