"""Kill ``ncubble report`` and ``ncubble profile`` at random instants and see whether anything
stored was harmed.

    python -m benchmarks.profiling.kills [--count 50] [--seed 1] [--json]

Each trial starts one of the two on a folder of runs, sends SIGKILL to its process group at an
instant drawn from the time that it takes uninterrupted, from its start or from its first file on,
and opens the store again: every run must be whole and the one it was, every value the same, what
was cut off must be named, and nothing of the dead process may stay. ncu is played by
``tests/data/fake_ncu.py``: no GPU is needed. ``fell`` counts where the kills fell. Ends with 1 if
anything was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness.command import NCUBBLE, REPOSITORY
from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.report import cache as home
from ncubble.analysis.report.report import open_reports
from ncubble.profiling.recorders.ncu import profile
from ncubble.profiling.runs import UNFINISHED, Run, find_runs
from ncubble.profiling.scratch import cut_off
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject
from ncubble.recordings import ROOT

FAKE = REPOSITORY / "tests" / "data" / "fake_ncu.py"
QUIET = [sys.executable, "-c", "pass"]
HURRIED = 2 / 3
"""Share of the kills that wait for the first file to be written: half of the time goes into
starting Python."""
RECORDED = ("async_copy_tma/default", "tiled_matmul/default")


@contextmanager
def noted() -> Iterator[list[str]]:
    """What the rooms log meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("ncubble")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """One command in a process group of its own."""
    silent = subprocess.DEVNULL
    return subprocess.Popen([*NCUBBLE, *arguments], stdout=silent, stderr=silent, start_new_session=True)


def shown(folder: Path) -> list[dict[str, Any]]:
    """What a new process would show of every run that can be read, as JSON."""
    home._usable.cache_clear()
    result = judge_all(*open_reports([folder])).to_json()
    assert result["errors"] == [], result["errors"]
    launches: list[dict[str, Any]] = json.loads(json.dumps(result["launches"]))
    return launches


def settle(left: list[Path]) -> None:
    """Wait, for a second at most, until the locks are free: a child of the dead process that was
    forked and has not started its program yet holds them for a moment more."""
    deadline = time.monotonic() + 1.0
    while not all(cut_off(folder) for folder in left) and time.monotonic() < deadline:
        time.sleep(0.01)


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file of every run."""
    files = [path for run in find_runs([folder]) for path in run.iterdir()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


class Trials:
    """A folder of recorded runs to read, one to profile into, and what was found wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.read, self.written = folder / "recorded", folder / "runs"
        for name in RECORDED:
            shutil.copytree(ROOT / name, self.read / name)
        tool = folder / "ncu"
        tool.write_text(f"#!{sys.executable}\n{FAKE.read_text(encoding='utf-8')}")
        tool.chmod(0o755)
        os.environ |= {"NCUBBLE_NCU": str(tool), "NCUBBLE_CACHE": str(folder / "cache")}
        self.reports = folder / "cache" / "reports"
        self.expected = shown(self.read)
        profile(Session(Subject(QUIET), self.written / "kept"))
        self.kept = contents(self.written)
        self.fell: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.takes = {"report": self._timed("report"), "profile": self._timed("profile")}

    def _reading(self) -> subprocess.Popen[bytes]:
        shutil.rmtree(self.reports, ignore_errors=True)
        return start("report", "--json", str(self.read))

    def _profiling(self) -> subprocess.Popen[bytes]:
        """Every other one replaces a run."""
        shutil.rmtree(self.written / "new", ignore_errors=True)
        if self.rng.random() < 0.5:
            shutil.copytree(self.written / "kept", self.written / "new")
        return start("profile", "--force", "--out", str(self.written / "new"), "--", *QUIET)

    def _begin(self, name: str) -> subprocess.Popen[bytes]:
        return self._reading() if name == "report" else self._profiling()

    def _await_first_file(self, name: str, process: subprocess.Popen[bytes]) -> None:
        pattern, folder = (home.UNFINISHED, self.reports) if name == "report" else (UNFINISHED, self.written)
        while process.poll() is None and not list(folder.glob(f"{pattern}*")):
            time.sleep(0.001)

    def _timed(self, name: str) -> tuple[float, float]:
        """Seconds from the start, and from the first file, to the end."""
        begun, process = time.monotonic(), self._begin(name)
        self._await_first_file(name, process)
        first = time.monotonic()
        assert process.wait() == 0
        return time.monotonic() - begun, time.monotonic() - first

    def kill(self, number: int) -> None:
        """One trial; adds to ``fell`` and ``wrong``."""
        name = self.rng.choice(list(self.takes))
        process, hurried = self._begin(name), self.rng.random() < HURRIED
        if hurried:
            self._await_first_file(name, process)
        time.sleep(self.rng.random() * self.takes[name][hurried])
        over = process.poll() is not None
        if not over:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        problems = self._reopen_reports() if name == "report" else self._reopen_runs()
        where, *wrong = problems
        self.fell[f"{name}, {'over' if over else where}"] += 1
        self.wrong += [f"kill {number} ({name}): {text}" for text in wrong]

    def _reopen_reports(self) -> Iterator[str]:
        """Where the kill fell, then all that is wrong after the cache was opened again."""
        names = {Run.load(path).manifest.report["sha256"]: str(path) for path in find_runs([self.read])}
        left = [path for path in self.reports.glob(f"{home.UNFINISHED}*") if any(path.glob("work/*"))]
        settle(left)
        cut = [names[path.name] for folder in left for path in folder.glob("work/*")]
        yield "while reading" if cut else "before or after reading"
        with noted() as said:
            if shown(self.read) != self.expected:
                yield "other values"
        yield from (f"{path} not named" for path in cut if not any(f"reading of {path}" in line for line in said))
        if len(said) != len(cut):
            yield f"{len(cut)} readings were cut off, but said was {said}"
        yield from (f"{path} stays" for path in self.reports.glob(f"{home.UNFINISHED}*"))

    def _reopen_runs(self) -> Iterator[str]:
        left = [path for path in self.written.glob(f"{UNFINISHED}*") if (path / "work" / "run").exists()]
        settle(left)
        new = self.written / "new"
        yield f"while profiling, run {'present' if new.exists() else 'absent'}" if left else "before or after profiling"
        with noted() as reading:
            found = contents(self.written)
        with noted() as said:
            profile(Session(Subject(QUIET), self.written / "next"))
        shutil.rmtree(self.written / "next")
        if self.kept.items() - contents(self.written).items():
            yield "the run beside it changed"
        if new.exists():
            yield from self._half(new, found)
        for lines in (reading, said):
            if len(lines) != len(left) or not all(f"{new} was interrupted" in line for line in lines):
                yield f"{len(left)} profilings were cut off, but said was {lines}"
        yield from (f"{path} stays" for path in self.written.glob(f"{UNFINISHED}*"))

    def _half(self, new: Path, found: dict[str, str]) -> Iterator[str]:
        run = Run.load(new)
        if run.manifest.report.get("sha256") != found[str(run.report)] or run.manifest.outcome != "ok":
            yield "a run that is not whole"
        if {path.name for path in new.iterdir()} != {"run.json", run.report.name}:
            yield "two runs in one directory"


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill ncubble at random instants and check what is stored")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(Path(folder), given.seed)
        for number in range(given.count):
            trials.kill(number)
    result = {"kills": given.count, "seed": given.seed, "fell": dict(trials.fell), "wrong": trials.wrong}
    for line in [json.dumps(result, indent=1)] if given.json else [f"{key:6} {value}" for key, value in result.items()]:
        print(line)
    print(f"{given.count} kills in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 1 if trials.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
