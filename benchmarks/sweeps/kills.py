"""Kill sweeps, their workers and their jobs at random instants, and see whether the store lost or
gained anything.

    python -m benchmarks.sweeps.kills [--count 20] [--jobs 12] [--seed 1] [--json]

Each trial runs ``ncubble sweep --retry-failed`` on one store with two workers, and sends SIGKILL to
the command, to a worker or to the child process of a job, at an instant drawn from the time that a
whole sweep takes. Where the command was killed, all that it had started must be gone within ten
seconds. Then the store is opened: every record must be readable, every run whole, and none of those
that were there before may have changed. In the end one more sweep must find or measure every job,
and measure none that was there. Jobs are played by ``tests/data/stub_sweep.py``: no GPU is needed.
Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ncubble.profiling import orphans
from ncubble.profiling.runs import Run, find_runs
from ncubble.profiling.sweeps.store import Store
from tests.helpers.sweep_runs import CHILD, DATA, Stub, records_of

COMMAND = f"from ncubble.api import sweeping; sweeping.CHILD = {CHILD!r}; from ncubble.cli.main import main; main()"
GONE_S = 10.0


class Trials:
    """One store, killed at again and again."""

    def __init__(self, folder: Path, jobs: int, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.folder, self.jobs = folder / "store", jobs
        self.stub = Stub(folder)
        self.stub.behave(dict.fromkeys(range(1, jobs + 1), "wait0.6"))
        self.fell: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.known: dict[str, str] = {}

    def start(self) -> subprocess.Popen[bytes]:
        line = ["sweep", "saxpy", "--catalog", str(DATA / "catalog"), "-g", f"n=1:{self.jobs}", "--gpus", "GPU-1,GPU-2"]
        more = ["--retry-failed", "--out", str(self.folder), "--json"]
        silent = subprocess.DEVNULL
        return subprocess.Popen([sys.executable, "-P", "-c", COMMAND, *line, *more], stdout=silent, stderr=silent)

    def kill(self, number: int, takes: float) -> None:
        """One trial; adds to ``fell`` and ``wrong``."""
        target = self.rng.choice(["command", "worker", "job"])
        with self.start() as process:
            struck, at = False, time.monotonic() + self.rng.random() * takes
            while not struck and process.poll() is None:
                time.sleep(0.01)
                struck = time.monotonic() > at and self._strike(target, process.pid)
            if struck and target != "command":
                process.wait()
        self.fell[f"{target}{'' if struck else ', too late'}"] += 1
        self.wrong += [f"kill {number} ({target}): {text}" for text in self._look()]

    def _strike(self, target: str, pid: int) -> bool:
        if target == "command":
            found = [pid]
        elif target == "job":
            found = [one for one, _ in orphans.marked()]
        else:
            found = [int(own.partition("-")[0]) for _, own in orphans.marked() if not own.startswith(f"{pid}-")]
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(found), signal.SIGKILL)
        return True

    def _look(self) -> Iterator[str]:
        deadline = time.monotonic() + GONE_S
        while list(orphans.marked()) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from (f"process {pid} of job {own} stays" for pid, own in orphans.marked())
        found: dict[str, str] = {}
        with Store(self.folder) as store:
            for record in records_of(store):
                found[record.key] = record.state
                if record.state == "ok" and not (self.folder / str(record.run)).is_dir():
                    yield f"{record.run} is recorded and not there"
        hashes = {}
        for path in find_runs([self.folder]):
            run = Run.load(path)
            hashes[path.name] = hashlib.sha256(run.report.read_bytes()).hexdigest()
            if run.manifest.report["sha256"] != hashes[path.name]:
                yield f"{path.name} is not whole"
        yield from (f"{name} changed or is gone" for name in self.known if self.known[name] != hashes.get(name))
        self.known = hashes

    def finish(self) -> None:
        """The last sweep: it measures what is missing, and no more."""
        with Store(self.folder):
            held = len(self.known)
        (self.stub.folder / "log").write_text("")
        with self.start() as process:
            code = process.wait()
        measured = len(self.stub.begun)
        if code or held + measured != self.jobs or len(list(find_runs([self.folder]))) != self.jobs:
            self.wrong.append(f"the last sweep ended with {code}: {held} were there, it measured {measured}")
        self.wrong += list(self._look())


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill sweeps at random instants and check the store")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    begun, rounds, kept = time.monotonic(), 0, 0
    fell: Counter[str] = Counter()
    wrong: list[str] = []
    while sum(fell.values()) < given.count:
        with tempfile.TemporaryDirectory() as folder:
            trials = Trials(Path(folder), given.jobs, given.seed + rounds)
            for number in range(min(4, given.count - sum(fell.values()))):
                trials.kill(number, 6.0)
            trials.finish()
            rounds, kept = rounds + 1, kept + given.jobs
            fell, wrong = fell + trials.fell, wrong + trials.wrong
    result = {
        "kills": given.count,
        "seed": given.seed,
        "stores": rounds,
        "jobs": kept,
        "fell": dict(fell),
        "wrong": wrong,
    }
    for line in [json.dumps(result, indent=1)] if given.json else [f"{key:6} {value}" for key, value in result.items()]:
        print(line)
    print(f"{given.count} kills in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
