"""Scores what ncubble says against what was measured, from recordings; no GPU needed.

    python -m benchmarks.validation [NAME…]                       # scores: all, or some
    python -m benchmarks.validation NAME --write docs/validation   # JSON and tables of the page
    python -m benchmarks.validation NAME --folder OUT --measure    # measure again on this machine's GPU, into OUT
    python -m benchmarks.validation truth|changes --frozen | --fresh # held-out launches, from a clean checkout; logged
    python -m benchmarks.validation field DIR                      # public reports, fetched to DIR

``account``: where the time went, against kernels that were built without one part of their work.
``diagnosis``: first changes and gains, against planted losses, and launches that were labelled by experiment.
``prediction``: other depths, against sweeps that were measured after the prediction was written.
``truth``: all of these, against parts removed from the machine code of launches of any origin.
``changes``: what a report says to change, against changes that were made and timed.
``waste``: first changes, against kernels planted with waste and kernels that look like them.
``field``: first changes, against what public reports should get.

A missed target is shown, and is no error: exit code 0. Exit code 3: nothing could be scored or measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.validation import account, changes, diagnosis, measure, page, prediction, truth, waste
from benchmarks.validation.page import Result, Table
from benchmarks.validation.store import LAST_DRAWN
from ncubble.cli.terminal import emit_json
from ncubble.errors import NcubbleError, UsageError
from ncubble.recordings import VALIDATION

FIELD = "field"


@dataclass(frozen=True)
class Validation:
    """``score`` reads a folder of recordings, which ``measure`` makes; everything else shows what it found."""

    score: Callable[[Path], dict[str, Any]]
    tables: Callable[[Result], list[Table]]
    notes: Callable[[Result], list[str]]
    measure: Callable[[Path], None] | None


VALIDATIONS = {
    "account": Validation(
        account.score_account, account.account_tables, account.account_notes, measure.measure_account
    ),
    "diagnosis": Validation(
        diagnosis.score_diagnosis, diagnosis.diagnosis_tables, diagnosis.diagnosis_notes, measure.measure_diagnosis
    ),
    "prediction": Validation(
        *(prediction.score_prediction, prediction.prediction_tables, prediction.prediction_notes),
        measure.measure_prediction,
    ),
    "truth": Validation(truth.score_truth, truth.truth_tables, truth.truth_notes, None),
    "changes": Validation(changes.score_changes, changes.changes_tables, changes.changes_notes, None),
    "waste": Validation(waste.score_waste, waste.waste_tables, waste.waste_notes, measure.measure_waste),
    FIELD: Validation(waste.score_field, waste.waste_tables, waste.waste_notes, None),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.validation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(VALIDATIONS)} (default: all recorded)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="recordings (default: those of this checkout)")
    parser.add_argument("--measure", action="store_true", help="measure again on this machine's GPU, into --folder")
    parser.add_argument("--write", type=Path, metavar="DIR", help="update the page in DIR: JSON and tables")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each validation")
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--frozen", action="store_true", help="score the frozen launches of truth or changes; never tune on them"
    )
    side.add_argument("--fresh", action="store_true", help="the same of those that were drawn last")
    given = parser.parse_args(argv)
    if given.names[:1] == [FIELD] and len(given.names) == 2:
        given.folder = Path(given.names.pop())
    if unknown := set(given.names) - set(VALIDATIONS):
        parser.error(f"there is no validation {', '.join(sorted(unknown))}; there are {', '.join(VALIDATIONS)}")
    names = given.names or [name for name in VALIDATIONS if (given.folder or VALIDATION / name).is_dir()]
    frozen, fresh = (changes.FROZEN, changes.LAST_DRAWN) if names == ["changes"] else ("frozen", LAST_DRAWN)
    split = frozen if given.frozen else fresh if given.fresh else ""
    if given.folder and len(names) > 1:
        parser.error("--folder is of one validation: name it")
    if split and names not in (["truth"], ["changes"]):
        parser.error("--frozen and --fresh are sides of truth and of changes: name it alone")
    try:
        for name in names:
            validate(name, given, split)
    except NcubbleError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def validate(name: str, given: argparse.Namespace, split: str) -> None:
    """Score one validation and print it; measure first and write the page afterwards where that is asked for."""
    place, validation = given.folder or VALIDATION / name, VALIDATIONS[name]
    if given.measure:
        if given.folder is None:
            raise UsageError(
                "--measure needs a folder", f"python -m benchmarks.validation {name} --folder OUT --measure"
            )
        if validation.measure is None:
            raise UsageError(f"{name} is not measured here", "python -m benchmarks.truth measures its launches")
        validation.measure(place)
    if split:
        sided = changes if name == "changes" else truth
        score = changes.score_changes if name == "changes" else truth.score_truth
        result = truth.log_scoring(place, split, score, sided.line)
    else:
        result = validation.score(place)
    tables, notes = validation.tables(result), validation.notes(result)
    if given.json:
        emit_json(result)
    else:
        page.print_tables(tables, notes)
    if given.write is not None and not split:
        page.write(given.write, result, page.blocks(result, tables, notes))


if __name__ == "__main__":
    sys.exit(main())
