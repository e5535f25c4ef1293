"""Explanation of the account that is shown: of samples (``account.explain``), or, where the loop of
the launch is simulated, of the simulation, with the samples that it starts from.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ncubble.analysis.account.account import account as sampled_account
from ncubble.analysis.account.explain import Explanation, PartExplained, Term
from ncubble.analysis.account.explain import explain as explain_samples
from ncubble.analysis.account.parts import WORK
from ncubble.analysis.model.account import LOOP, account
from ncubble.analysis.report.launch import Launch

SIMULATED = "simulated: cycles that vanish without it, shared with the other parts of the loop (Shapley value)"
REMAINING = "idle time that neither the simulated parts nor the others take"
SCALED = ", scaled to the time beside the simulated parts"


def explain(launch: Launch) -> Explanation:
    """Trace the account of one launch to the report's values, and to the simulation where there is
    one. Terms of simulated parts are the instructions with their samples, scaled to the part."""
    explained, shown = explain_samples(launch, sampled_account(launch)), account(launch)
    if shown is None or not shown.alone:
        return explained
    sampled = {one.part: one for one in explained.parts}
    parts = (_part(part, pct, sampled.get(part), shown.alone.get(part)) for part, pct in shown.parts.items())
    return replace(explained, parts=tuple(parts), simulated=True)


def _part(part: str, pct: float, sampled: PartExplained | None, alone: float | None) -> PartExplained:
    before = sampled.pct if sampled else 0.0
    if sampled and (part in WORK or math.isclose(before, pct, abs_tol=1e-9)):
        return sampled
    terms = tuple(_scaled(term, pct / before) for term in sampled.terms) if sampled and before > 0 else ()
    if not terms and pct > 0:
        terms = (Term("no samples", pct),)
    if part in LOOP:
        inputs = {"vanishes without it alone": alone or 0.0, "by samples": before}
        return PartExplained(part, pct, SIMULATED, inputs, terms)
    if part == "issue" and pct > before:
        return PartExplained(part, pct, REMAINING, {"by samples": before}, terms)
    formula, inputs = (sampled.formula, dict(sampled.inputs)) if sampled else ("", {})
    return PartExplained(part, pct, formula + SCALED, {**inputs, "before scaling": before}, terms)


def _scaled(term: Term, factor: float) -> Term:
    return replace(term, pct=term.pct * factor)
