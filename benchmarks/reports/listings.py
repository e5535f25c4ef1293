"""Compare the text of every instruction with the native reader's, also where ncubble did not ask for it.

    python -m benchmarks.reports.listings [PATH…]

PATHs are run directories, report files or folders of them; without any, all recordings. Each report is read twice with
one folder of listings: the second time they are all known. Ends with 1 where a text differs.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from ncubble.analysis.report import native
from ncubble.analysis.report.container import Source
from ncubble.analysis.report.listings import Listings
from ncubble.errors import NcubbleError
from ncubble.profiling.metrics.generations import series_prefix
from ncubble.profiling.runs import Run, find_runs

ALL = Path(__file__).resolve().parents[2] / "recordings"


def compare(report: Path, kept: Path, counts: Counter[str], differing: list[str]) -> None:
    """Read ``report`` and count instructions, and those asked for; raises what reading it raises."""
    texts = Listings.texts

    def compared(self: Listings, name: str, addresses: Sequence[int], ask: Callable[[int], str]) -> list[str]:
        asked: list[int] = []
        found = texts(self, name, addresses, lambda pc: (asked.append(pc), ask(pc))[1])
        counts.update(instructions=len(addresses), asked=len(asked))
        for pc, text in zip(addresses, found, strict=True):
            if text != (right := ask(pc)):
                differing.append(f"{report}: {name} at {pc:#x}: {text!r} is {right!r}")
        return found

    launches = Source.of(report).frame.launches
    with (
        tempfile.TemporaryDirectory() as out,
        native.readable(report, Path(out)) as plain,
        patch.object(Listings, "texts", compared),
    ):
        native.extract(plain, ("details",), launches, 0, launches, series_prefix().pattern, str(kept))


def main(paths: Sequence[str]) -> int:
    """1 where a text differs."""
    differing: list[str] = []
    with tempfile.TemporaryDirectory() as kept:
        for which in ("first", "again"):
            counts: Counter[str] = Counter()
            for path in find_runs([Path(path) for path in paths] or [ALL]):
                try:
                    compare(Run.load(path).report, Path(kept), counts, differing)
                except (NcubbleError, ValueError) as error:
                    counts["reports that cannot be read"] += 1
                    print(f"{path}: {error}", file=sys.stderr)
            print(f"{which}: {dict(counts)}, {len(differing)} texts differ", flush=True)
    print(*differing[:20], sep="\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
