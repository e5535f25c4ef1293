"""Scores held-out launches, only from a clean commit, and logs each scoring."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.validation.page import Result, rounded
from benchmarks.validation.render import print_tables
from benchmarks.validation.truth.score import score_truth
from benchmarks.validation.truth.views import truth_notes, truth_tables
from ncubble import __version__
from ncubble.cli.terminal import emit_json
from ncubble.errors import UsageError
from ncubble.profiling.provenance import git_state

LOG = "scorings.jsonl"


def log_scoring(folder: Path, split: str, as_json: bool) -> None:
    """Score one side of the store, append a line to ``scorings.jsonl`` in ``folder``, and print.

    Raises UsageError for a tree with changes, or without a checkout.
    """
    state = git_state(Path(__file__).parent)
    if not state:
        raise UsageError(
            f"--{split}: this ncubble does not run from a checkout", "score from a checkout of the repository"
        )
    if state["dirty"]:
        raise UsageError(f"--{split}: the checkout has uncommitted changes", "commit them, then score")
    result = score_truth(folder, split)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line(result, str(state["sha"]))) + "\n")
    if as_json:
        emit_json(result)
    else:
        print_tables(truth_tables(result), truth_notes(result))


def line(result: Result, commit: str) -> dict[str, Any]:
    """The log entry of a scoring."""
    score, depth = result["scores"]["all"], result["depth"]
    figures = {
        "launches": score["launches"],
        "account_mean": score["account"]["mean_abs"],
        "account_worst": score["account"]["worst_abs"],
        "first_right_pct": score["first_right_pct"],
        **{name: score[name] for name in ("first_enough_pct", "first_least_pct", "first_copies_pct")},
        "gain_mean": score["gains"]["mean_abs"],
        "gain_median": score["gains"]["median_abs"],
        "depth_mean": depth["mean_abs"],
        "depth_worst": depth["worst"] and depth["worst"]["error"],
        "depth_regret_pct": depth["regret_mean_pct"],
        "depth_regret_worst_pct": depth["regret_worst_pct"],
        "no_gain_promised_pct": depth["no_gain_promised_pct"],
        "intervals_hold_pct": depth["inside_pct"],
    }
    told: dict[str, Any] = rounded(figures)
    scored = datetime.now(UTC).isoformat(timespec="seconds")
    return {"scored": scored, "split": result["split"], "commit": commit, "version": __version__, **told}
