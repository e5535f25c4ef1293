"""Generated blocks of the docs, between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``, and what they are made
of: tables, printed commands, recorded launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ncubble.analysis.diagnosis.results import report_json
from ncubble.cli.main import app
from ncubble.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
RUNS = Path("recordings/h200")
CHANGED = Path("recordings/h100")
WIDTH = 100


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first and last are aligned right."""
    rule = ["---", *("---:" for _ in header[1:-1]), "---"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def fill(text: str, contents: Mapping[str, str]) -> str:
    """``text`` with every block between its markers. Raises UsageError where a pair of markers is not there once."""
    for name, block in contents.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        head, opened, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not opened or not closed or begin in tail or end in tail:
            raise UsageError(
                f"block {name!r}: its markers are missing or repeated", f"write {begin.strip()} and {end} exactly once"
            )
        text = f"{head}{begin}{block}\n{end}{tail}"
    return text


def printed(*words: str, last: int | None = None) -> str:
    """What ``ncubble WORDS`` prints at a width of 100: its lines up to ``last``."""
    with chdir(REPOSITORY):  # FORCE_COLOR would colour what no terminal reads
        done = CliRunner(env={"COLUMNS": str(WIDTH), "FORCE_COLOR": None}).invoke(app, words, catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(f"ncubble {' '.join(words)} ended with {done.exit_code}: {done.output}")
    lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    cut = [] if last is None else ["…"]
    return "\n".join(["```text", f"$ ncubble {' '.join(words)}", *lines[:last], *cut, "```"])


def launches(kernel: str) -> list[dict[str, Any]]:
    """The verdicts of all recorded runs of one kernel, in the order of their folders."""
    result = report_json([path for root in (RUNS, CHANGED) if (path := REPOSITORY / root / kernel).is_dir()])
    if result["errors"] or not result["launches"]:
        raise SystemExit(f"{RUNS / kernel}: {result['errors'] or 'no launches'}")
    return list(result["launches"])


def verdict_of(launch: dict[str, Any]) -> str:
    """Cause and kind of the first change of a launch, for a table."""
    kind = next((change["kind"] for change in launch["changes"]), launch["cause"])
    return f"`{launch['cause']}`" + (f" (`{kind}`)" if kind != launch["cause"] else "")
