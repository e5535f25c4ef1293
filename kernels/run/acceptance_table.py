"""What came of gates as one Markdown table: candidate against baseline, with limits and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable

from ncubble.kernels.run.acceptance import AcceptanceCheck, GatesOutcome, PathResources
from ncubble.kernels.run.bench import Timing

HEADER = ("", "baseline", "candidate", "change", "limit", "verdict")
Row = tuple[str, ...]


def compare_markdown(outcome: GatesOutcome) -> str:
    """The table under a heading that names kernel, paths, device and shape; ends with a line on the target."""
    gates, device = outcome.gates, next(iter(outcome.facts.values()))["device"]
    settings = {path: " ".join(f"{key}={value}" for key, value in gates.paths[path].items()) for path in gates.paths}
    sizes = ", ".join(f"{key}={value}" for key, value in gates.shapes[gates.timed].items())
    text = (
        f"{device['name']}, driver {device['driver']}. Baseline: `{settings['baseline']}`; candidate: "
        f"`{settings['candidate']}`. Times: {gates.iterations} launches each at {gates.timed} ({sizes})."
    )
    rows: list[Row] = [HEADER, ("---", "---:", "---:", "---:", "---:", "---")]
    rows += [*_correctness(outcome), *_resources(outcome), *_times(outcome)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# {outcome.name}: candidate against baseline\n\n{text}\n\n{table}\n\n{_verdict(outcome)}\n"


def _verdict(outcome: GatesOutcome) -> str:
    gain, target = outcome.gain_pct, outcome.gates.target_gain_pct
    if gain is None:
        return "**Overall**: not timed, because a path is wrong."
    met = "met" if outcome.target_met else "missed"
    return f"**Overall**: {gain:+.1f} % of the baseline's median time saved; the target of {target:g} % is {met}."


def _correctness(outcome: GatesOutcome) -> list[Row]:
    gates = outcome.gates
    checks = {path: [check for check in outcome.checks if check.path == path] for path in gates.paths}

    def row(name: str, of: Callable[[list[AcceptanceCheck]], str], limit: str) -> Row:
        return (name, *(of(checks[path]) for path in gates.paths), "", limit, _word(outcome.correct))

    return [
        row("verifications passed", lambda found: f"{sum(check.passed for check in found)} of {len(found)}", "all"),
        row(
            "largest error",
            lambda found: _number(max(check.verification.max_abs_error for check in found), ".2g"),
            f"{gates.max_abs_error:g}",
        ),
        row(
            "bad elements, %, at most",
            lambda found: _number(max(check.verification.bad_pct for check in found), ".3g"),
            f"{gates.max_bad_pct:g}",
        ),
    ]


def _resources(outcome: GatesOutcome) -> list[Row]:
    gates, found = outcome.gates, {item.path: item for item in outcome.resources}

    def row(name: str, of: Callable[[PathResources], str], limit: str, good: Callable[[PathResources], bool]) -> Row:
        values = [of(found[path]) for path in gates.paths]
        return (name, *values, "", limit, _word(all(good(item) for item in found.values())))

    return [
        row(
            "registers per thread",
            lambda item: str(item.registers),
            str(gates.max_registers),
            lambda item: item.registers <= gates.max_registers,
        ),
        row(
            "bytes spilled per thread",
            lambda item: "n/a" if item.spill_B is None else str(item.spill_B),
            str(gates.max_spill_B),
            lambda item: item.spill_B is not None and item.spill_B <= gates.max_spill_B,
        ),
        row(
            "shared memory per CTA, KiB",
            lambda item: f"{item.smem_B / 1024:.1f}",
            f"{gates.max_smem_B / 1024:g}",
            lambda item: item.smem_B <= gates.max_smem_B,
        ),
        row(
            "occupancy (CTAs per SM)",
            lambda item: f"{item.occupancy_pct:.1f} % ({item.ctas_per_sm})",
            f">= {gates.min_occupancy_pct:g} %",
            lambda item: item.occupancy_pct >= gates.min_occupancy_pct,
        ),
    ]


def _times(outcome: GatesOutcome) -> list[Row]:
    target, met = f"-{outcome.gates.target_gain_pct:g} %", outcome.target_met
    verdict = "" if met is None else ("met" if met else "missed")
    kinds: dict[str, Callable[[Timing], float]] = {
        "p50": lambda time: time.p50_us,
        "p90": lambda time: time.p90_us,
        "mean": lambda time: time.mean_us,
        "std": lambda time: time.std_us,
    }
    rows = []
    for name, of in kinds.items():
        values = [of(outcome.timings[path]) if path in outcome.timings else math.nan for path in outcome.gates.paths]
        change = _number(100.0 * (values[1] / values[0] - 1.0), "+.1f", " %") if values[0] and name != "std" else ""
        judged = (target, verdict) if name == "p50" else ("", "")
        rows.append((f"{name}, µs", *(_number(value, ".2f") for value in values), change, *judged))
    return rows


def _word(good: bool) -> str:
    return "ok" if good else "FAILED"


def _number(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if math.isfinite(value) else "n/a"
