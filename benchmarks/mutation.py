"""Which small mistakes in core modules the unit tests would notice: mutation testing by cosmic-ray.

    pip install -e '.[dev,mutation]'
    python -m benchmarks.mutation [MODULE …] [--sample 40] [--seed 1] [--jobs 2] [--json FILE]

Of all mutants that cosmic-ray can make of a module (comparisons, operators, constants, conditions),
``--sample`` are drawn and put, one at a time, into a copy of the checkout, where the tests of the
module run. Mutants of annotations are left out: nothing reads them when the program runs. A mutant
*survives* if all its tests pass; ``equivalent_mutants.toml`` names those that were read and
change nothing that a user would call wrong. Ends with 1 where fewer than 90 % of the others are noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult

from benchmarks.harness.command import REPOSITORY

ROOMS = ("analysis", "cli", "dashboard", "kernels", "profiling", "recordings")
TARGET = 0.9
TIME_LIMIT_S = 600
_UNIT = "tests/unit"
TESTS = {
    "analysis/account/account.py": ("analysis/account/test_account.py", "analysis/account/test_lacking.py"),
    "analysis/account/stalls.py": (
        "analysis/account/test_stalls.py",
        "analysis/account/test_overlap.py",
        "ncubble/sass/test_bystanders.py",
    ),
    "analysis/gate/noise.py": ("analysis/gate/test_noise.py",),
    "analysis/gate/check.py": ("analysis/gate/test_check.py",),
    "analysis/gate/rule_verdicts.py": ("analysis/gate/test_rules.py", "analysis/gate/test_check.py"),
    "analysis/report/container.py": ("analysis/report/test_container.py",),
    "analysis/model/predict.py": ("analysis/model/test_predict_by_hand.py", "analysis/model/test_predict.py"),
    "kernels/spec/case.py": ("kernels/spec",),
    "profiling/ncu.py": ("profiling/ncu",),
    "dashboard/app/security.py": ("dashboard/app/test_security.py", "dashboard/app"),
}
"""Core modules, and those of their tests below ``tests/unit`` that take seconds: others may notice a
mutant that these let pass, so the counts are lower bounds. The quickest come first."""
EQUIVALENT = {
    f"{module}: {change}"
    for module, reasons in tomllib.loads((Path(__file__).parent / "equivalent_mutants.toml").read_text("utf-8")).items()
    for change in reasons
}
"""Survivors that no test should notice, ``FILE: REMOVED LINE -> ADDED LINE``; the file says why."""


@dataclass(frozen=True)
class Fate:
    """What became of one mutant; ``change`` is the line it changes, before and after."""

    module: str
    line: int
    change: str
    noticed: bool

    @property
    def name(self) -> str:
        return f"{self.module}: {self.change}"


def fates(module: str, sample: int, seed: int) -> list[Fate]:
    """Makes mutants of a module in a copy of the checkout, and runs its tests on each."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        _copy(copy)
        config, session = copy / "mutation.toml", copy / "mutation.sqlite"
        config.write_text(_config(module, TIME_LIMIT_S))
        begun = time.monotonic()
        _run(copy, "baseline", config)
        config.write_text(_config(module, 10 + 3 * (time.monotonic() - begun)))
        _run(copy, "init", config, session)
        with use_db(str(session), WorkDB.Mode.open) as work:
            _leave(work, copy / module, sample, random.Random(f"{seed}/{module}"))  # noqa: S311
        _run(copy, "exec", config, session)
        with use_db(str(session), WorkDB.Mode.open) as work:
            return list(_read(work))


def _copy(target: Path) -> None:
    """The tracked files. Links put the rooms inside the package: the copy hides what is
    installed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, target / name)
    for room in ROOMS:
        (target / "ncubble" / room).symlink_to(target / room)


def _config(module: str, limit_s: float) -> str:
    tests = [f"{_UNIT}/{name}" for name in TESTS[module]]
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return f"""[cosmic-ray]
module-path = "{module}"
timeout = {limit_s:.0f}
excluded-modules = []
test-command = {json.dumps(shlex.join(command))}
[cosmic-ray.distributor]
name = "local"
"""


def _run(copy: Path, verb: str, *arguments: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "NCUBBLE_CACHE": str(copy / ".cache")}
    argv = [sys.executable, "-m", "cosmic_ray.cli", verb, *arguments]
    done = subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cosmic-ray {verb} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _leave(work: WorkDB, path: Path, sample: int, rng: random.Random) -> None:
    """Skips all mutants but ``sample`` of those outside annotations."""
    spans = list(_annotations(ast.parse(path.read_text(encoding="utf-8"))))
    items = sorted(work.pending_work_items, key=lambda item: repr(item.mutations))
    useful = [item for item in items if not any(_within(item.mutations[0], span) for span in spans)]
    chosen = {item.job_id for item in rng.sample(useful, min(sample, len(useful)))}
    for item in items:
        if item.job_id not in chosen:
            work.set_result(item.job_id, WorkResult(WorkerOutcome.SKIPPED))


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if (found := getattr(node, name, None)) is not None:
                yield found


def _within(mutation: MutationSpec, span: ast.expr) -> bool:
    begin, end = (span.lineno, span.col_offset), (span.end_lineno or span.lineno, span.end_col_offset or 0)
    return begin <= tuple(mutation.start_pos) <= end


def _read(work: WorkDB) -> Iterator[Fate]:
    results = dict(work.results)
    for item in work.work_items:
        result = results[item.job_id]
        if result.worker_outcome == WorkerOutcome.SKIPPED:
            continue
        mutation = item.mutations[0]
        changed = [
            line for line in (result.diff or "").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        words = " -> ".join(" ".join(line[1:].split()) for line in changed)
        noticed = result.test_outcome != TestOutcome.SURVIVED
        yield Fate(str(mutation.module_path), mutation.start_pos[0], words, noticed)


def table(found: Sequence[Fate]) -> str:
    """Counts by module, then the survivors."""
    rows = ["| module | mutants | noticed | equivalent | survived |", "| --- | ---: | ---: | ---: | ---: |"]
    for module in dict.fromkeys(fate.module for fate in found):
        own = [fate for fate in found if fate.module == module]
        same = sum(not fate.noticed and fate.name in EQUIVALENT for fate in own)
        noticed = sum(fate.noticed for fate in own)
        rows.append(f"| `{module}` | {len(own)} | {noticed} | {same} | {len(own) - noticed - same} |")
    return "\n".join([*rows, "", *(f"- {fate.module}:{fate.line}: {fate.change}" for fate in survivors(found))])


def survivors(found: Sequence[Fate]) -> list[Fate]:
    return [fate for fate in found if not fate.noticed and fate.name not in EQUIVALENT]


def main() -> int:
    parser = argparse.ArgumentParser(description="Which mutants of core modules the unit tests notice")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a path of the list (else all)")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the fate of every mutant there")
    given = parser.parse_args()
    with ThreadPoolExecutor(given.jobs) as pool:
        waiting = [pool.submit(fates, module, given.sample, given.seed) for module in given.modules or TESTS]
        found = []
        for job in waiting:
            found += job.result()
            print(found[-1].module, "done", file=sys.stderr)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps([asdict(fate) for fate in found], indent=1) + "\n")
    counted = [fate for fate in found if fate.noticed or fate.name not in EQUIVALENT]
    return 0 if len(survivors(found)) <= (1 - TARGET) * len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
