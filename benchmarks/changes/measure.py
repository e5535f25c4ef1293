"""Measures the changes of all bases, and profiles them.

    python -m benchmarks.changes.measure OUT [--families REGEX] [--workers N]   # changes
    python -m benchmarks.changes.measure OUT --drawn                            # of more bases to learn from
    python -m benchmarks.changes.measure OUT --profile                          # then reports of the bases

What OUT has already is not measured again. Programs of several families compile at a time, one of
them uses the GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.changes import plan
from benchmarks.changes.families import BY_NAME, FAMILIES
from ncubble.analysis.changes.search import Search
from ncubble.analysis.changes.tried import Tried
from ncubble.api.trying import TritonBench, triton_knobs
from ncubble.errors import NcubbleError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import ncu, triton
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject

TURN = threading.Lock()
FIRST = {family.name for family in FAMILIES}
BUDGET_S = 400.0
PER_RUN = 18
"""Launches of a profiled program."""


def measure(out: Path, name: str, drawn: bool = False) -> None:
    """Write ``NAME.json``: what the changes of each base gained."""
    target, scratch = out / f"{name}.json", out / f".{name}"
    if target.is_file():
        return
    known = bases_of(name, drawn)
    bases = list(known)
    tried: dict[str, Tried] = {}

    def serve(launch: triton.TritonLaunch) -> None:
        now = {**launch.facts["constants"], **{key: launch.facts[key] for key in ("num_stages", "num_warps")}}
        base = next(base for base in bases if base not in tried and known[base].items() <= now.items())
        begun = time.monotonic()
        bench = TritonBench(launch, triton_knobs(launch.facts), TURN)
        search = Search(base == plan.FAIR, BUDGET_S, spilling=True)
        search.run(bench)
        tried[base] = Tried(
            kernel=launch.facts["kernel"],
            language="triton",
            device=launch.facts["device"],
            compared="the program's own results",
            rounds=search.rounds,
            seconds=round(time.monotonic() - begun, 1),
            stopped=search.stopped,
        )

    shutil.rmtree(scratch, ignore_errors=True)
    log = (out / f"{name}.log").open("w", encoding="utf-8")
    argv = [sys.executable, "-m", "benchmarks.changes.programs", name, "--drawn" if drawn else "--bases"]
    with log:
        session = Session(Subject(argv, name), scratch, timeout_s=900.0)
        with session.open():
            recording = triton.record(session, Filters(count=len(bases)), serve)
            log.write(f"{recording}\n")
    shutil.rmtree(scratch, ignore_errors=True)
    target.write_text(json.dumps({base: asdict(one) for base, one in tried.items()}) + "\n", encoding="utf-8")


def bases_of(name: str, drawn: bool) -> dict[str, dict[str, int]]:
    """Bases of a family, or those that were drawn later."""
    return plan.drawn(BY_NAME[name]) if drawn else plan.bases(BY_NAME[name])


def functions() -> str:
    """A pattern for the kernels of all families."""
    from triton.runtime.jit import JITFunction

    from benchmarks.changes import kernels

    return f"^({'|'.join(name for name, value in vars(kernels).items() if isinstance(value, JITFunction))})$"


def profile(out: Path) -> None:
    """Reports of the bases, several in a run: ``profiled/N`` with ``launches.json``."""
    metas: list[tuple[str, str, dict[str, int]]] = []
    for name in sorted(BY_NAME):
        path = out / f"{name}.json"
        if not path.is_file():
            continue
        measured = json.loads(path.read_text(encoding="utf-8"))
        for base, one in measured.items():
            meta = dict(BY_NAME[name].fair)
            known = {**plan.bases(BY_NAME[name]), **plan.drawn(BY_NAME[name])}
            metas.append((name, base, {**known[base], **one["rounds"][0]["settings"]}))
            if base == plan.FAIR and len(one["rounds"]) > 1:
                metas.append((name, plan.WELL, {**meta, **one["rounds"][-1]["settings"]}))
    for number in range(0, len(metas), PER_RUN):
        folder = out / "profiled" / f"{number // PER_RUN:02}"
        if folder.is_dir():
            continue
        part = metas[number : number + PER_RUN]
        plan_file = out / f"launches-{number // PER_RUN:02}.json"
        plan_file.write_text(json.dumps(part), encoding="utf-8")
        argv = [sys.executable, "-m", "benchmarks.changes.programs", "--launches", str(plan_file)]
        folder.parent.mkdir(exist_ok=True)
        session = Session(Subject(argv, "bases"), folder, timeout_s=500.0)
        try:
            with session.open():
                ncu.record(session, ncu.NcuSettings(filters=Filters(functions())))
            shutil.move(plan_file, folder / "launches.json")
        except NcubbleError as error:
            sys.stderr.write(f"{folder}: {error.message}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--families", default="")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--drawn", action="store_true", help="bases that were drawn later, to learn from")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.profile:
        profile(given.out)
        return 0
    sides = plan.split()
    names = [
        name for name in sorted(BY_NAME)
        if re.search(given.families, name) and (sides[name] == "learn" if given.drawn else name in FIRST)
    ]  # fmt: skip

    def one(name: str) -> None:
        begun = time.monotonic()
        try:
            measure(given.out, name, given.drawn)
        except Exception as error:  # the others go on
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
        sys.stderr.write(f"{name}: {time.monotonic() - begun:.0f} s\n")

    with ThreadPoolExecutor(given.workers) as pool:
        list(pool.map(one, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
