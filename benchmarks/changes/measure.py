"""Measures the changes of all bases, and profiles them.

    python -m benchmarks.changes.measure OUT [--set SET] [--families REGEX] [--seconds S] [--workers N]

``--set``: ``first``, ``second`` (families that were added later, and kernels of the catalog),
``library`` (kernels of public libraries, see ``library.py``) or ``cutlass`` (``cutlass.py``); default:
the first two. What OUT has already is not measured again, and what S seconds do not suffice for is left
to another call. Programs of several families compile at a time; measuring and profiling take turns on
the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.changes import cutlass, plan
from benchmarks.changes.families import FAMILIES, MORE
from benchmarks.changes.library import ENTRIES
from benchmarks.changes.turn import Turn
from ncubble.analysis.changes.change import KINDS
from ncubble.analysis.changes.search import TIME_UP, Check, Refusal, Search
from ncubble.analysis.changes.tried import LEFT, Built, Settings, Tried
from ncubble.api.subjects import catalog_subject
from ncubble.api.trying import CatalogBench, TritonBench, triton_knobs
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.kernels.build import arch_for, build
from ncubble.kernels.run.session import KernelRequest
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import ncu, triton
from ncubble.profiling.recorders.triton import LaunchLostError
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject

BUDGET_S = 400.0
"""Of one base."""
DRAW_S = 100.0
"""Of one kernel of a library."""
BASES = ".bases"
"""How a file ends that holds the bases of a library's kernel."""
LAUNCHES = ".launches"
"""How a file ends that tells a program what to launch."""
Launch = tuple[str, str, dict[str, Any]]
"""Family, base, settings."""
PER_RUN = 30
"""Launches of a profiled program."""
START_S, PROFILE_S = 12.0, 1.8
"""Seconds to start a profiled program, and for each of its launches: an H100 took 8 to 10 and 1.0 to 1.7."""
LAST_S = START_S + PROFILE_S * PER_RUN + 25.0
"""Measuring ends so long before the time is up: what was measured last is profiled then."""


@dataclass(frozen=True)
class Desk:
    """Where results go, and until when new work begins (``time.monotonic``)."""

    out: Path
    end: float

    @property
    def turn(self) -> Turn:
        """The GPU."""
        return Turn(self.turn_file)

    @property
    def turn_file(self) -> Path:
        return self.out / ".turn"

    def budget_s(self) -> float:
        return min(BUDGET_S, self.end - LAST_S - time.monotonic())

    def measured(self, name: str) -> dict[str, Any]:
        """Bases of a family that were measured."""
        path = self.out / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return found

    @property
    def builds(self) -> Path:
        """Where kernels of CUTLASS are built."""
        return self.out / cutlass.BUILDS

    def bases(self, name: str) -> dict[str, dict[str, int]]:
        """Bases of a family; of a library's kernel those that were drawn, none where that failed."""
        if name not in ENTRIES:
            return plan.bases(name)
        path = self.out / f"{name}{BASES}"
        found: dict[str, dict[str, int]] = (
            json.loads(path.read_text(encoding="utf-8"))["bases"] if path.is_file() else {}
        )
        return found

    def keep(self, name: str, base: str, search: Search, about: Mapping[str, str], seconds: float) -> None:
        """Add a base, without a round that the time cut."""
        cut = search.rounds and any(change.outcome == LEFT for change in search.rounds[-1].changes)
        if rounds := search.rounds[:-1] if cut else search.rounds:
            tried = Tried(**about, rounds=rounds, seconds=round(seconds, 1), stopped=search.stopped)
            whole = {**self.measured(name), base: asdict(tried)}
            draft = self.out / f".{name}.draft"
            draft.write_text(json.dumps(whole) + "\n", encoding="utf-8")
            draft.rename(self.out / f"{name}.json")


def draw(desk: Desk, name: str) -> str:
    """Launch a library's kernel, and keep its bases; returns what is to say of it."""
    path = desk.out / f"{name}{BASES}"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    argv = [sys.executable, "-m", "benchmarks.changes.programs", name, "--draw"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DRAW_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {DRAW_S:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"us"')]
    if lines:
        path.write_text(lines[-1] + "\n", encoding="utf-8")
    return "; ".join([*lines[-1:], *(done.stderr.strip().splitlines()[-1:] if done.returncode else [])])


def measure(desk: Desk, name: str) -> None:
    """Write ``NAME.json``: what the changes of each base gained."""
    if desk.budget_s() <= 0:
        return
    known = {base: meta for base, meta in desk.bases(name).items() if base not in desk.measured(name)}
    if not known:
        return
    if name.startswith(plan.CATALOG):
        _measure_catalog(desk, name, known)
    elif name in cutlass.PROBLEMS:
        _measure_cutlass(desk, name, known)
    else:
        _measure_triton(desk, name, known)


def _measure_triton(desk: Desk, name: str, known: Mapping[str, dict[str, int]]) -> None:
    waiting = dict(known)

    def serve(launch: triton.TritonLaunch) -> None:
        now = {**launch.facts["constants"], **{key: launch.facts[key] for key in ("num_stages", "num_warps")}}
        base = next(base for base, meta in waiting.items() if meta.items() <= now.items())
        del waiting[base]
        begun, budget = time.monotonic(), desk.budget_s()
        if budget <= 0:
            return
        search = Search(base == plan.FAIR, budget, spilling=True)
        try:
            search.run(TritonBench(launch, triton_knobs(launch.facts), desk.turn))
        except LaunchLostError:
            raise
        except MeasurementError as error:  # other bases can be measured
            sys.stderr.write(f"{name} {base}: {error.message}\n")
            return
        about = {
            **{"kernel": launch.facts["kernel"], "language": "triton", "device": launch.facts["device"]},
            "compared": "the program's own results",
        }
        desk.keep(name, base, search, about, time.monotonic() - begun)

    scratch, plan_file = desk.out / f".{name}", desk.out / f".{name}{LAUNCHES}"
    shutil.rmtree(scratch, ignore_errors=True)
    # Before these the program launches the fair base of a family once, to check it.
    filters = Filters(_only(name), count=len(known)) if name in ENTRIES else Filters(skip=1, count=len(known))
    plan_file.write_text(json.dumps([(name, base, meta) for base, meta in known.items()]), encoding="utf-8")
    argv = [sys.executable, "-m", "benchmarks.changes.programs", "--launches", str(plan_file)]
    with (desk.out / f"{name}.log").open("a", encoding="utf-8") as log:
        session = Session(Subject([*argv, "--turn", str(desk.turn_file)], name), scratch, timeout_s=900.0)
        with session.open():
            log.write(f"{triton.record(session, filters, serve)}\n")
    shutil.rmtree(scratch, ignore_errors=True)


class _CatalogTurns(CatalogBench):
    """Changes of known kinds to numbers of a catalog kernel. All are compiled at a time, and timed in turn
    with other families."""

    def __init__(self, name: str, settings: Mapping[str, int], desk: Desk) -> None:
        super().__init__(KernelRequest(name, settings), None)
        self._desk = desk
        self.knobs = [
            knob for knob in self.knobs if knob.kind in KINDS and all(isinstance(value, int) for value in knob.values)
        ]

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """See ``Bench``."""
        answers = super().build(variants)
        if self._space.start.spec.language == "cuda":
            valid = [one for one, answer in zip(variants, answers, strict=True) if isinstance(answer, Built)]
            with ThreadPoolExecutor() as pool:  # what cannot be built says so when it is checked
                wait([pool.submit(build, self._of(one), arch_for(*self.device.compute_capability)) for one in valid])
        return answers

    def check(self, settings: Settings) -> Check | Refusal:
        """See ``Bench``."""
        with self._desk.turn:
            return super().check(settings)

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """See ``Bench``."""
        with self._desk.turn:
            return super().time(variants, rounds)


def _measure_catalog(desk: Desk, name: str, known: Mapping[str, dict[str, int]]) -> None:
    kernel = name.removeprefix(plan.CATALOG)
    for base, settings in known.items():
        begun, budget = time.monotonic(), desk.budget_s()
        if budget <= 0:
            return
        search = Search(False, budget, spilling=True)
        bench = _CatalogTurns(kernel, settings, desk)
        try:
            search.run(bench)
        finally:
            bench.close()
        about = {
            **{"kernel": kernel, "language": "catalog", "device": bench.device.name},
            "compared": "the float64 reference",
        }
        desk.keep(name, base, search, about, time.monotonic() - begun)


def _measure_cutlass(desk: Desk, name: str, known: Mapping[str, dict[str, int]]) -> None:
    import torch

    for base, settings in known.items():
        begun, budget = time.monotonic(), desk.budget_s()
        if budget <= 0:
            return
        search = Search(False, budget, spilling=True)
        search.run(cutlass.CutlassBench(name, settings, desk.builds, desk.turn))
        about = {
            **{"kernel": cutlass.KERNEL, "language": "program", "device": torch.cuda.get_device_name()},
            "compared": "PyTorch's product",
        }
        desk.keep(name, base, search, about, time.monotonic() - begun)


def is_well(base: str, one: Mapping[str, Any]) -> bool:
    """Whether the last round of what was measured of a base is that of the well-tuned one."""
    return base == plan.FAIR and len(one["rounds"]) > 1 and one["stopped"] != TIME_UP


def _only(name: str) -> str:
    """A pattern for the kernel of a library, which launches others, too."""
    return f"^{ENTRIES[name].kernel}$"


def _functions(name: str) -> str:
    """A pattern for the kernels of all families of the set of this one."""
    if name in cutlass.PROBLEMS:
        return f"^{cutlass.KERNEL}$"
    from triton.runtime.jit import JITFunction

    from benchmarks.changes import kernels, second_kernels

    found = {**vars(kernels), **vars(second_kernels)}
    return f"^({'|'.join(name for name, value in found.items() if isinstance(value, JITFunction))})$"


def pending(desk: Desk, names: Sequence[str]) -> list[Launch]:
    """Bases that were measured, and not profiled yet: family, name, settings."""
    runs = (desk.out / "profiled").glob("*/launches.json")
    done = {(name, base) for run in runs for name, base, _ in json.loads(run.read_text(encoding="utf-8"))}
    found: list[Launch] = []
    for name in names:
        measured = desk.measured(name)
        known = desk.bases(name) if measured else {}
        for base, one in measured.items():
            found.append((name, base, {**known[base], **one["rounds"][0]["settings"]}))
            if is_well(base, one):
                found.append((name, plan.WELL, {**known[base], **one["rounds"][-1]["settings"]}))
    return [launch for launch in found if launch[:2] not in done]


def profile(desk: Desk, launches: Sequence[Launch]) -> None:
    """Reports of bases in one run, ``profiled/NAME`` with ``launches.json``; of the catalog, a run for each."""
    of_triton = [launch for launch in launches if not launch[0].startswith(plan.CATALOG)]
    for launch in launches:
        if launch not in of_triton:
            name, base, settings = launch
            subject = catalog_subject(name.removeprefix(plan.CATALOG), [f"{k}={v}" for k, v in settings.items()])
            _profiled(desk, f"{name}-{base}", [launch], subject, ncu.NcuSettings())
    if of_triton:
        name = "-".join(of_triton[0][:2])
        plan_file = desk.out / f".{name}{LAUNCHES}"
        plan_file.write_text(json.dumps(of_triton), encoding="utf-8")
        argv = [sys.executable, "-m", "benchmarks.changes.programs", "--launches", str(plan_file)]
        filters = Filters(window=True) if of_triton[0][0] in ENTRIES else Filters(_functions(of_triton[0][0]))
        _profiled(desk, name, of_triton, Subject(argv, "bases"), ncu.NcuSettings(filters=filters))


def _profiled(desk: Desk, name: str, launches: Sequence[Any], subject: Subject, settings: ncu.NcuSettings) -> None:
    folder = desk.out / "profiled" / name
    folder.parent.mkdir(exist_ok=True)
    made = desk.out / f".{name}.launched"
    made.unlink(missing_ok=True)
    session = Session(subject, folder, force=True, timeout_s=500.0, turn=desk.turn)
    try:
        with session.open():
            ncu.record(session, settings)
        text = made.read_text(encoding="utf-8") if made.is_file() else json.dumps(launches)
        (folder / "launches.json").write_text(text, encoding="utf-8")
    except NcubbleError as error:
        sys.stderr.write(f"{folder}: {error.message}\n")


def work(desk: Desk, names: Sequence[str], workers: int) -> None:
    """Measure families, several at a time, and profile what was measured as soon as it fills a run."""

    def one(name: str) -> None:
        begun = time.monotonic()
        try:
            measure(desk, name)
        except Exception as error:  # the others go on
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
        sys.stderr.write(f"{name}: {time.monotonic() - begun:.0f} s, {len(desk.measured(name))} bases\n")

    with ThreadPoolExecutor(workers) as pool:
        futures: list[Future[None]] = [pool.submit(one, name) for name in names]
        tried: set[tuple[str, str]] = set()
        while True:
            over = all(future.done() for future in futures)
            launches = [launch for launch in pending(desk, names) if launch[:2] not in tried]
            chosen = _that_fit(desk, launches)
            if over and not chosen:
                return
            if over or len(launches) >= PER_RUN:
                profile(desk, chosen)
                tried |= {launch[:2] for launch in chosen}
            else:
                time.sleep(1.0)


def _that_fit(desk: Desk, launches: Sequence[Launch]) -> list[Launch]:
    """As many as one run takes, and as can be profiled before the time is up."""
    chosen: list[Launch] = []
    left = desk.end - time.monotonic() - START_S
    for launch in launches[:PER_RUN]:
        left -= START_S if launch[0].startswith(plan.CATALOG) else PROFILE_S
        if left < 0:
            break
        chosen.append(launch)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=("first", "second", "library", "cutlass"), help="default: the first two")
    parser.add_argument("--families", default="", help="a regular expression")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new work begins after them")
    parser.add_argument("--workers", type=int, default=8)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    sets = {
        **{"first": [family.name for family in (*FAMILIES, *MORE)], "second": list(plan.second())},
        **{"library": list(plan.library()), "cutlass": list(cutlass.PROBLEMS)},
    }
    names = sets.get(given.set, [*sets["first"], *sets["second"]])
    desk = Desk(given.out.absolute(), time.monotonic() + given.seconds)
    names = [name for name in names if re.search(given.families, name)]
    drawn = [name for name in names if name in ENTRIES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # all before the first is timed, without turns
        for name, text in zip(drawn, pool.map(partial(draw, desk), drawn), strict=True):
            sys.stderr.write(f"{name}: {text.strip()}\n")
    if given.set == "cutlass":
        desk.builds.mkdir(exist_ok=True)
        cutlass.build_all(names, desk.builds)
    work(desk, names, given.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
