"""Measures the launches of the plan on this machine's GPU.

    python -m benchmarks.truth OUT [--seconds 540] [--only REGEX] [--processes 12]

Run in the repository; call it again until it ends with 0. Launches that are there, or in the store,
are not measured again (``--again``: those in the store are). Some are recorded at once, each by a
program of its own, and then measured. Only one measurement uses the GPU at a time; while it does,
reports of others are read and variants of their code are made; so no ``seconds`` are kept.
No measurement begins after ``--seconds``. For each launch OUT/GPU/NAME gets the run directory of
``ncubble ablate`` and ``truth.json``: ``name``, ``family``, ``kind``, ``split``, ``stages``,
``gpu``. OUT/GPU/failed.json says why others have none. CUTLASS is measured where OUT/cutlass_gemms
is: see ``cutlass_gemms.cu``. Put the result into the store with ``python -m benchmarks.truth.pack
OUT``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock

from benchmarks.truth import plan
from benchmarks.truth.plan import TOLD, Family, PlannedLaunch
from benchmarks.validation.store import rows_of
from ncubble.analysis.ablation.experiment import AblationSettings
from ncubble.api.ablating import measure
from ncubble.api.subjects import catalog_subject
from ncubble.errors import NcubbleError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.driver import describe
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import capsules
from ncubble.profiling.recorders.capsules import SOURCE
from ncubble.profiling.recorders.injection import injection
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject
from ncubble.recordings import VALIDATION

FAILED = "failed.json"
BATCH, AT_ONCE = 24, 3
RECORD_S = 150.0


@dataclass(frozen=True)
class Wanted:
    """A launch to be measured, and its program."""

    family: Family
    launch: PlannedLaunch
    program: list[str]
    kernel: str

    @classmethod
    def of(cls, family: Family, launch: PlannedLaunch, out: Path) -> Wanted:
        """Raises NcubbleError where there is no such program."""
        if argv := plan.argv(launch, family):
            if family.kind == "cutlass":
                argv[0] = str((out / plan.CUTLASS).absolute())
            return cls(family, launch, argv, launch.kernel)
        parameters = [f"{name}={value}" for name, value in launch.options.items() if name not in "mnk"]
        shape = ",".join(f"{name}={launch.options[name]}" for name in "mnk" if name in launch.options)
        subject = catalog_subject(launch.program, parameters, shape)
        return cls(family, launch, list(subject.argv), subject.function)


class Measuring:
    """One call: what is there, what failed, and when to stop."""

    def __init__(self, out: Path, until: float, again: bool) -> None:
        self.out, self.until = out, until
        name = describe().name
        self.gpu = next(
            (model.lower() for model in ("H200", "H100") if model in name), re.sub(r"\W+", "-", name.lower())
        )
        self.folder = out / self.gpu
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / FAILED
        self.failed: dict[str, str] = json.loads(log.read_text(encoding="utf-8")) if log.is_file() else {}
        self.sides, self.turn = plan.splits(plan.families()), Lock()
        places = () if again else VALIDATION.glob(f"truth/*/{self.gpu}")
        self.known = {str(row["name"]) for place in places for row in rows_of(place)}

    def missing(self, only: str) -> Iterator[Wanted]:
        """What is neither measured nor failed, in the order of the plan."""
        for family in plan.every_family():
            for launch in family.launches:
                place = self.folder / launch.name
                if launch.name in {*self.failed, *self.known} or place.exists() or not re.search(only, launch.name):
                    continue
                if family.kind != "cutlass" or (self.out / plan.CUTLASS).is_file():
                    yield Wanted.of(family, launch, self.out)

    def batch(self, wanted: Sequence[Wanted], processes: int) -> None:
        """Record some launches at once, and measure them one by one."""
        work = Path(mkdtemp(prefix="truth-"))
        try:
            with ThreadPoolExecutor(processes) as pool:
                recorded = list(pool.map(lambda one: self._record(one, work / one.launch.name), wanted))
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda one, capsule: self._measure(one, capsule, work), wanted, recorded))
        finally:
            shutil.rmtree(work)
            log = json.dumps(self.failed, indent=1, sort_keys=True)
            (self.folder / FAILED).write_text(f"{log}\n", encoding="utf-8")

    def _record(self, wanted: Wanted, folder: Path) -> Capsule | None:
        folder.mkdir()
        said: list[str] = []
        heard = Observer(output=lambda stream, text: said.append(text))
        session = Session(Subject(wanted.program), folder / "run", timeout_s=RECORD_S, observer=heard)
        try:
            return capsules.record(session, Filters(wanted.kernel, count=1), folder).capsules[0]
        except NcubbleError as error:
            last = "".join(said).strip().splitlines()[-3:]
            self.failed[wanted.launch.name] = f"{error.message}; it said: {' | '.join(last)}"
        except Exception as error:  # one launch must not cost the others
            self.failed[wanted.launch.name] = f"{type(error).__name__}: {error}"
        return None

    def _measure(self, wanted: Wanted, capsule: Capsule | None, work: Path) -> None:
        if capsule is None or time.monotonic() > self.until:
            return
        begin, name, family = time.monotonic(), wanted.launch.name, wanted.family
        session = Session(Subject(wanted.program), self.folder / name, turn=self.turn)
        members = {"name": name, "family": family.name, "kind": family.kind, "split": self.sides[family.name]}
        told = {**members, "stages": wanted.launch.stages, "gpu": self.gpu}
        try:
            with session.open():
                settings = AblationSettings(slack=False, short=False, turn=self.turn)
                ablation = replace(measure(session, capsule, settings), seconds={})  # they hold the waiting for a turn
                ablation.save(session.folder)
                (session.folder / TOLD).write_text(json.dumps(told) + "\n", encoding="utf-8")
        except Exception as error:  # one launch must not cost the others
            self.failed[name] = error.message if isinstance(error, NcubbleError) else f"{type(error).__name__}: {error}"
            sys.stdout.write(f"{name}: {self.failed[name]}\n")
            return
        shutil.rmtree(capsule.folder)
        first = ablation.first_cause
        words = f"{first.part} {first.measured:.1f}" if first else "nothing"
        failed = sum(variant.status != "ok" for variant in ablation.variants)
        sys.stdout.write(
            f"{name}: {time.monotonic() - begin:.1f} s, {words}{f', {failed} variants failed' if failed else ''}\n"
        )
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin no measurement after so many")
    parser.add_argument("--only", default="", metavar="REGEX", help="over the names of launches")
    parser.add_argument("--again", action="store_true", help="also what is in the store")
    parser.add_argument("--processes", type=int, default=12, help="programs that are recorded at once")
    given = parser.parse_args()
    measuring = Measuring(given.out, time.monotonic() + given.seconds, given.again)
    injection(SOURCE)  # built once, before many want it
    missing = list(measuring.missing(given.only))
    for first in range(0, len(missing), BATCH):
        wanted = missing[first : first + BATCH]
        if time.monotonic() > measuring.until:
            break
        begin = time.monotonic()
        measuring.batch(wanted, given.processes)
        sys.stdout.write(f"{len(wanted)} launches in {time.monotonic() - begin:.0f} s\n")
    left = list(measuring.missing(given.only))
    sys.stdout.write(f"{len(left)} to do, {len(measuring.failed)} failed: {json.dumps(measuring.failed, indent=1)}\n")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
