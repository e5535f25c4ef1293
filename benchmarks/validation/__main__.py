"""Scores what ncubble says against what was measured, from recordings; no GPU needed.

    python -m benchmarks.validation [NAME…]                       # scores: all four, or some
    python -m benchmarks.validation NAME --write docs/validation   # JSON, tables and plots of the page
    python -m benchmarks.validation NAME --folder OUT --measure    # measure again on this machine's GPU, into OUT
    python -m benchmarks.validation truth --frozen | --fresh       # held-out launches, from a clean checkout; logged

``account``: where the time went, against kernels that were built without one part of their work.
``diagnosis``: causes and gains, against planted diseases, and launches that were labelled by experiment.
``prediction``: other depths, against sweeps that were measured after the prediction was written.
``truth``: all of these, against parts removed from the machine code of launches of any origin.

A missed target is shown, and is no error: exit code 0. Exit code 3: nothing could be scored or measured.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.validation import page, plots
from benchmarks.validation.render import print_tables
from benchmarks.validation.truth.log import log_scoring
from benchmarks.validation.truth.store import LAST_DRAWN
from benchmarks.validation.validations import VALIDATIONS
from ncubble.analysis.account.parts import part_color
from ncubble.cli.terminal import emit_json
from ncubble.errors import NcubbleError, UsageError
from ncubble.recordings import VALIDATION

MEASURED = ("account", "diagnosis", "prediction")
"""Validations with a module ``measure``; ``benchmarks/truth`` measures the launches of ``truth``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.validation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(VALIDATIONS)} (default: all)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="recordings (default: those of this checkout)")
    parser.add_argument("--measure", action="store_true", help="measure again on this machine's GPU, into --folder")
    parser.add_argument("--write", type=Path, metavar="DIR", help="update the page in DIR: JSON, tables and plots")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each validation")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--frozen", action="store_true", help="score the frozen launches of truth; never tune on them")
    side.add_argument("--fresh", action="store_true", help="score the launches of truth that were drawn last")
    given = parser.parse_args(argv)
    if unknown := set(given.names) - set(VALIDATIONS):
        parser.error(f"there is no validation {', '.join(sorted(unknown))}; there are {', '.join(VALIDATIONS)}")
    names = given.names or list(VALIDATIONS)
    if given.folder and len(names) > 1:
        parser.error("--folder is of one validation: name it")
    try:
        if given.frozen or given.fresh:
            if names != ["truth"]:
                parser.error("--frozen and --fresh are sides of truth: name it alone")
            log_scoring(given.folder or VALIDATION / "truth", "frozen" if given.frozen else LAST_DRAWN, given.json)
            return 0
        for name in names:
            validate(name, given.folder, given.measure, given.write, given.json)
    except NcubbleError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def validate(name: str, folder: Path | None, measure: bool, write: Path | None, as_json: bool) -> None:
    """Score one validation and print it; measure first and write the page afterwards where that is asked for."""
    place = folder or VALIDATION / name
    if measure:
        if folder is None:
            raise UsageError(
                "--measure needs a folder", f"python -m benchmarks.validation {name} --folder OUT --measure"
            )
        if name not in MEASURED:
            raise UsageError(f"{name} is not measured here", "python -m benchmarks.truth measures its launches")
        importlib.import_module(f"benchmarks.validation.{name}.measure").measure(place)
    validation = VALIDATIONS[name]
    result = validation.score(place)
    tables, notes = validation.tables(result), validation.notes(result)
    if as_json:
        emit_json(result)
    else:
        print_tables(tables, notes)
    if write is not None:
        figures = validation.plots(result, part_color)
        page.write(write, result, page.blocks(result, tables, notes))
        plots.save(figures, write)


if __name__ == "__main__":
    sys.exit(main())
