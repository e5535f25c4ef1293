"""What ncubble takes from the start of its process to its end, against what NVIDIA's reader takes alone.

    python -m benchmarks.reports.speed [--turns 3] [--only REGEX]    # a minute a turn

Each line is a command, measured in turns with what it is compared with (``bare.py``): the smallest of its times, as
what else runs on the machine only adds; processor time of all its processes; and both as ratios, beside the ratio of
processor times that docs/validation/robustness.md has. The reports: *library*, 19 full launches of libraries' kernels;
*sweep*, six full launches of the recordings; and all of ``recordings/h200``. ``python -c pass`` says how fast the
machine is: no figure is a test.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reports.compose import compose, plain_bytes
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import FULL, ROOT

LIBRARY = ROOT.parent / "validation" / "diagnosis" / "foreign" / "base" / "library" / "report.ncu-repz"
ENTRY = "import sys; from ncubble.cli.main import main; sys.exit(main(sys.argv[1:]))"
LOAD = "import ncubble, sys; ncubble.load(sys.argv[1])"
BARE = str(Path(__file__).with_name("bare.py"))
PUBLISHED = {
    "library, nothing known": 1.00,
    "library, its code known": 0.63,
    "sweep, nothing known": 7.8,
    "sweep, its code known": 5.9,
    "load, nothing known": 1.03,
    "ingest, nothing known": 1.9,
}
"""Ratios of processor time to that of the bare reader."""
PR_SET_CHILD_SUBREAPER = 36
"""Of ``prctl`` (Linux): processes whose parent has ended become children of this one, and count, too."""
SETTLED_S = 3.5
"""A file that was just written is not remembered by its time stamps (``ncubble.analysis.report.container``)."""
Took = tuple[float, float]
"""Seconds of wall and of processor time."""


def took(*argvs: Sequence[str], cache: Path) -> Took:
    """What ``python ARGV`` takes, several at the same time, with the cache of ncubble at ``cache``."""
    environment = os.environ | {"NCUBBLE_CACHE": str(cache)}
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = [subprocess.Popen([sys.executable, *argv], env=environment, stdout=subprocess.DEVNULL) for argv in argvs]
    if any(process.wait() for process in running):
        raise SystemExit(f"failed: {argvs}")
    ended = time.perf_counter()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@dataclass(frozen=True)
class Line:
    """A command, and what it is compared with (name of another line); ``prepared`` makes the cache that it finds."""

    name: str
    argvs: Sequence[Sequence[str]]
    against: str = ""
    prepared: Callable[[Path], object] = lambda cache: shutil.rmtree(cache, ignore_errors=True)


def known(cache: Path) -> None:
    """All is known."""


def code_known(cache: Path) -> None:
    """Only machine code is known, from another report."""
    for part in cache.glob("reports/*/*"):
        if part.name != "listings":
            shutil.rmtree(part)


def lines(folder: Path) -> Iterator[Line]:
    """All commands, in the order in which they take turns; reports are written into ``folder``."""
    library, sweep = folder / "library.ncu-rep", folder / "sweep.ncu-rep"
    library.write_bytes(plain_bytes(LIBRARY))
    sweep.write_bytes(compose([Run.load(one).report for one in find_runs([FULL])], 6))
    many = [str(Run.load(one).report) for one in find_runs([ROOT])]
    time.sleep(SETTLED_S)
    yield Line("python -c pass", [["-c", "pass"]])
    yield Line("ncubble --help", [["-c", ENTRY, "--help"]])
    for report, bare in ((library, "tables"), (sweep, "scalars")):
        name, shown = report.stem, [["-c", ENTRY, "report", str(report)]]
        yield Line(f"{name}, bare {bare}", [[BARE, bare, str(report)]])
        yield Line(f"{name}, nothing known", shown, f"{name}, bare {bare}")
        yield Line(f"{name}, its code known", shown, f"{name}, bare {bare}", code_known)
        yield Line(f"{name}, again", shown, "", known)
    yield Line("h200, bare tables", [[BARE, "tables", *many[::2]], [BARE, "tables", *many[1::2]]])
    yield Line("load, nothing known", [["-c", LOAD, str(ROOT)]], "h200, bare tables")
    ingested = ["-c", ENTRY, "ingest", str(ROOT), "--out", str(folder / "dataset")]
    yield Line("ingest, nothing known", [ingested], "h200, bare tables")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", metavar="REGEX", help="lines whose name matches, and those before them")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    found: dict[str, list[Took]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = [line for line in lines(folder) if re.search(given.only, line.name)]
        for _ in range(given.turns):
            for line in wanted:
                line.prepared(folder / "cache")
                shutil.rmtree(folder / "dataset", ignore_errors=True)
                found[line.name].append(took(*line.argvs, cache=folder / "cache"))
    print(f"{'':28} {'wall s':>7} {'CPU s':>7} {'ratios':>13}   published")
    for line in wanted:
        best, whole = _smallest(found[line.name]), _smallest(found.get(line.against, []))
        ratios = "".join(f"{one / other:6.2f}×" for one, other in zip(best, whole, strict=True)) if any(whole) else ""
        published = f"{PUBLISHED[line.name]:.2f}×" if line.name in PUBLISHED else ""
        print(f"{line.name:28} {best[0]:7.2f} {best[1]:7.2f} {ratios:>13}   {published:>9}")
    return 0


def _smallest(times: Sequence[Took]) -> Took:
    return min((wall for wall, _ in times), default=0.0), min((used for _, used in times), default=0.0)


if __name__ == "__main__":
    sys.exit(main())
