"""Baselines that replace others: each keeps what it replaced, and why. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.noise.noise import mean_sd
from ncubble.errors import UsageError

LONGEST = 500
"""Maximum length of a reason."""


def check_reason(because: str) -> None:
    """Raise UsageError unless ``because`` says something, on one line."""
    if not because.strip() or len(because) > LONGEST or not because.isprintable():
        raise UsageError(
            f"--because {because[:60]!r}: not one line of 1 to {LONGEST} characters",
            "explain for reviewers why the new values are right",
        )


def replaced(old: Baseline, new: Baseline, because: str) -> Baseline:
    """``new`` with what ``old`` said at the head of its history. Raises UsageError for another
    kernel or GPU model."""
    if (old.device.name, old.key.canonical) != (new.device.name, new.key.canonical):
        raise UsageError(
            (
                f"{old.path or old.place}: a baseline of {old.key.label} on {old.device.name}, but the runs "
                f"are of {new.key.label} on {new.device.name}"
            ),
            "name the folder of baselines: each kernel selects its own file",
        )
    return replace(new, history=(entry(old, because, new.recorded), *old.history))


def entry(old: Baseline, because: str, when: str) -> dict[str, Any]:
    """What stays of a baseline that is replaced: the means of its metrics with deviation and
    number, and the reason."""
    means: dict[str, list[float | int | None]] = {}
    for name, metric in old.metrics.items():
        mean, sd = mean_sd(metric.measured)
        means[name] = [mean, sd if len(metric.measured) > 1 else None, len(metric.measured)]
    return {
        "replaced": when,
        "because": because,
        "recorded": old.recorded,
        "git": str(old.git.get("sha") or ""),
        "ncu_version": old.ncu_version,
        "driver": old.device.driver,
        "mean_sd_n": means,
    }


def change_words(item: Baseline) -> str:
    """``: tensor_elapsed_pct +2.41 %, cycles -2.30 %`` of an updated baseline against the one
    before; else nothing."""
    if not item.history:
        return ""
    before = item.history[0].get("mean_sd_n", {})
    changes = []
    for name, metric in item.metrics.items():
        old = before.get(name)
        if metric.gated and isinstance(old, list) and old and isinstance(old[0], (int, float)) and old[0]:
            changes.append(f"{name} {(mean_sd(metric.measured)[0] / old[0] - 1) * 100:+.2f} %")
    return f": {', '.join(changes)}" if changes else ""
