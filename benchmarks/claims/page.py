"""docs/claims.md, from claims and measurements alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims.rules import (
    FALSE,
    NOT_MEASURED,
    NOT_TESTABLE,
    PARTLY,
    TRUE,
    Claim,
    Results,
    failure,
    filled,
    note,
    placeholders,
    shown,
    verdict,
)

SEEDS = {
    "000": "Asynchronous pipelines (A100/Hopper)",
    "001": "Asynchronous copy (cp.async/TMA)",
    "002": "cp.async in the FP8 SDPA Stage-C WMMA kernel",
    "003": "Inter-kernel pipelining, synchronization, stream-ordered allocation",
    "004": "TMA/async memory integration",
}
VERDICTS = (TRUE, PARTLY, FALSE, NOT_TESTABLE, NOT_MEASURED)


def line(claim: Claim, results: Results) -> str:
    """One claim for the terminal."""
    found = verdict(claim, results)
    if found == NOT_TESTABLE:
        said = claim.reason
    elif found == NOT_MEASURED:
        said = failure(claim, results)
    else:
        said = shown(claim, results)
    return f"{found:12} {claim.id:30} {said}"


def page(claims: Sequence[Claim], measured: Mapping[str, Any]) -> str:
    """The whole document. ``measured``: what ``claims/__main__.py --measure`` wrote."""
    results: Results = measured["measurements"]
    parts = [
        HEAD.format(**{key: measured.get(key) or "unknown" for key in ("device", "driver", "nvcc", "ncu", "date")})
    ]
    parts.append(summary(claims, results))
    for seed, title in SEEDS.items():
        chosen = [claim for claim in claims if claim.seed == seed]
        parts.append(f"## {seed}: {title}\n\n{seed_table(chosen, results)}")
    parts += ["## The three questions of 000", questions(results)]
    return "\n\n".join(parts) + "\n"


HEAD = """# Claims, measured

Every testable claim of five documents on asynchronous pipelines, with a verdict that is computed from measurements by
rules ([claims.toml](../benchmarks/claims/claims.toml)). Measured on an {device} (driver {driver}, nvcc {nvcc}, ncu
{ncu}) on {date}; a row names another GPU. Generated:

    python -m benchmarks.claims --measure docs/validation/claims.json   # with a GPU, nvcc and ncu
    python -m benchmarks.claims --write                                 # this page, anywhere
    python -m benchmarks.claims --list                                  # the id of each claim
    python -m benchmarks.claims --only 000-n-is-pending-groups          # one claim: its values and its verdict

*True*: all rules of a claim hold; *false*: none; *partly*: some. *Hidden*, *no*, *same*: within 5 %; *faster*,
*better*: by 2 %; *about*: within a quarter; *overlap*: half of what could be hidden. A target that is exceeded is
reached. A gain of 10 % is a tenth more speed."""


def summary(claims: Sequence[Claim], results: Results) -> str:
    """Verdicts by document."""
    used = [name for name in VERDICTS if any(verdict(claim, results) == name for claim in claims)]
    rows = []
    for seed, title in SEEDS.items():
        counted = Counter(verdict(claim, results) for claim in claims if claim.seed == seed)
        rows.append([f"{seed}: {title}", *(str(counted[name]) for name in used), str(sum(counted.values()))])
    whole = Counter(verdict(claim, results) for claim in claims)
    rows.append(["all", *(str(whole[name]) for name in used), str(len(claims))])
    return table(["document", *used, "claims"], rows, right=True)


def seed_table(claims: Sequence[Claim], results: Results) -> str:
    """The claims of one document."""
    return table(["claim", "verdict", "measured"], [_row(claim, results) for claim in claims])


def _row(claim: Claim, results: Results) -> list[str]:
    found = verdict(claim, results)
    if found == NOT_TESTABLE:
        return [claim.claim, found, claim.reason]
    if found == NOT_MEASURED:
        return [claim.claim, found, failure(claim, results)]
    further = "" if found == TRUE else note(claim, results)
    told = shown(claim, results) + (f". *{_sentence(further)}*" if further else "")
    return [claim.claim, f"**{found}**", told + _elsewhere(claim, results)]


def _elsewhere(claim: Claim, results: Results) -> str:
    """The other GPUs on which measurements of a claim were taken."""
    devices = {device for name in claim.measurements if (device := results[name].get("device"))}
    return f" ({', '.join(sorted(devices))})" if devices else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: bool = False) -> str:
    """A Markdown table; ``right`` aligns all columns but the first."""
    rule = ["---", *("---:" if right else "---" for _ in header[1:])]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *cells))


QUESTIONS = Path(__file__).with_name("questions.md").read_text(encoding="utf-8")
"""What the documents ask, answered with measured values: a template."""
NEEDED = {name for name, _ in placeholders(QUESTIONS)}
"""Measurements that the answers need."""


def questions(results: Results) -> str:
    """The answers; of one whose measurements are missing, the question alone."""
    parts = QUESTIONS.strip().split("\n\n### ")
    return "\n\n".join(("" if part is parts[0] else "### ") + _answer(part, results) for part in parts)


def _answer(part: str, results: Results) -> str:
    known = all("values" in results.get(name, {}) for name, _ in placeholders(part))
    return filled(part, results) if known else f"{part.partition(chr(10))[0]}\n\nNot measured."
