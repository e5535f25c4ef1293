"""What came of gates as one Markdown table: candidate against baseline, with limits and
verdicts."""

from __future__ import annotations

import math

from ncubble.kernels.gates.acceptance import AcceptanceOutcome

HEADER = ("", "baseline", "candidate", "change", "limit", "verdict")
Row = tuple[str, ...]


def compare_markdown(outcome: AcceptanceOutcome) -> str:
    """The table under a heading that names kernel, paths, device and shape; ends with a line on the
    target."""
    gates, device = outcome.gates, next(iter(outcome.facts.values()))["device"]
    settings = {path: " ".join(f"{key}={value}" for key, value in gates.paths[path].items()) for path in gates.paths}
    sizes = ", ".join(f"{key}={value}" for key, value in gates.shapes[gates.timed].items())
    text = (
        f"{device['name']}, driver {device['driver']}. Baseline: `{settings['baseline']}`; candidate: "
        f"`{settings['candidate']}`. Times: {gates.iterations} launches each at {gates.timed} ({sizes})."
    )
    rows: list[Row] = [HEADER, ("---", "---:", "---:", "---:", "---:", "---")]
    rows += [*_correctness(outcome), *_resources(outcome), *_times(outcome), *_counters(outcome)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# {outcome.name}: candidate against baseline\n\n{text}\n\n{table}\n\n{_verdict(outcome)}\n"


def _verdict(outcome: AcceptanceOutcome) -> str:
    gain, target = outcome.gain_pct, outcome.gates.target_gain_pct
    verdict = "passed" if outcome.to_json()["passed"] else "failed"
    if outcome.untimed:
        times = f"Times are not judged: {outcome.untimed}."
    elif gain is None:
        return "**Overall: failed.** Not timed, because a path gives wrong results."
    else:
        met = "met" if outcome.target_met else "missed"
        times = f"{gain:+.1f} % of the baseline's median time saved; the target of {target:g} % is {met}."
    text = f"**Overall: {verdict}.** {times}"
    why = outcome.counters.unmeasured
    return f"{text} Counters were not measured: {why}." if why else text


def _correctness(outcome: AcceptanceOutcome) -> list[Row]:
    gates, verdict = outcome.gates, _word(outcome.correct)
    by_path = [[check for check in outcome.checks if check.path == path] for path in gates.paths]
    passed = [f"{sum(check.passed for check in checks)} of {len(checks)}" for checks in by_path]
    errors = [max(check.verification.max_abs_error for check in checks) for checks in by_path]
    bad = [max(check.verification.bad_pct for check in checks) for checks in by_path]
    return [
        ("verifications passed", *passed, "", "all", verdict),
        ("largest error", *(_number(error, ".2g") for error in errors), "", f"{gates.max_abs_error:g}", verdict),
        ("max. bad elements, %", *(_number(pct, ".3g") for pct in bad), "", f"{gates.max_bad_pct:g}", verdict),
    ]


def _resources(outcome: AcceptanceOutcome) -> list[Row]:
    """A row for each resource, its limit, and whether every path stays within it; none where no
    path was timed."""
    gates = outcome.gates
    by_path = {item.path: item for item in outcome.resources}
    paths = [by_path[path] for path in gates.paths]
    values = {
        "registers per thread": [str(item.registers) for item in paths],
        "bytes spilled per thread": ["n/a" if item.spill_B is None else str(item.spill_B) for item in paths],
        "shared memory per CTA, KiB": [f"{item.smem_B / 1024:.1f}" for item in paths],
        "occupancy (CTAs per SM)": [f"{item.occupancy_pct:.1f} % ({item.ctas_per_sm})" for item in paths],
    }
    limits = (
        str(gates.max_registers),
        str(gates.max_spill_B),
        f"{gates.max_smem_B / 1024:g}",
        f">= {gates.min_occupancy_pct:g} %",
    )
    within = zip(*(item.within(gates) for item in paths), strict=True)
    return [
        (name, *texts, "", limit, _word(all(good)))
        for (name, texts), limit, good in zip(values.items(), limits, within, strict=True)
    ]


def _times(outcome: AcceptanceOutcome) -> list[Row]:
    target, met = f"-{outcome.gates.target_gain_pct:g} %", outcome.target_met
    verdict = "" if met is None else _word(met)
    rows = []
    for name in ("p50", "p90", "mean", "std"):
        values = [getattr(outcome.timings.get(path), f"{name}_us", math.nan) for path in outcome.gates.paths]
        change = _number(100.0 * (values[1] / values[0] - 1.0), "+.1f", " %") if values[0] and name != "std" else ""
        judged = (target, verdict) if name == "p50" else ("", "")
        rows.append((f"{name}, µs", *(_number(value, ".2f") for value in values), change, *judged))
    return rows


def _counters(outcome: AcceptanceOutcome) -> list[Row]:
    """A row for each counter, with the way that it has to go; not measured where it could not be
    read."""
    if outcome.counters.unmeasured:
        return [(gate.name, "n/a", "n/a", "", gate.wanted, "not measured") for gate in outcome.gates.counters]
    return [
        (
            check.gate.name,
            *(f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in (check.baseline, check.candidate)),
            "" if check.change_pct is None else f"{check.change_pct:+.1f} %",
            check.gate.wanted,
            _word(check.passed),
        )
        for check in outcome.counters.checks
    ]


def _word(good: bool) -> str:
    return "ok" if good else "FAILED"


def _number(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if math.isfinite(value) else "n/a"
