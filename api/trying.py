"""Changes that are made and timed: of a Triton launch in any program, of a kernel of the catalog,
or of a program that is built anew for each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ncubble.analysis.changes.change import KINDS, ORDERS, Change, kind_of_constant, value_of
from ncubble.analysis.changes.search import ROUNDS, Check, Knob, Refusal, Search
from ncubble.analysis.changes.tried import NOT_COMPARED, SCHEMA, Built, Settings, Tried, TriedChange, Value
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.report.launch_key import base_name
from ncubble.analysis.report.report import Report
from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.streams.work import work_of
from ncubble.api.reports import ReportPath, as_path
from ncubble.api.subjects import as_pairs, chosen_subject
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run import trials
from ncubble.kernels.run.device import DeviceFacts
from ncubble.kernels.run.session import KernelRequest
from ncubble.kernels.run.space import space_of
from ncubble.kernels.run.trials import Trial
from ncubble.kernels.run.verify import fresh_seed
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import Parameter
from ncubble.profiling.driver import Device
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.profiling.recorders import ncu, streams, triton
from ncubble.profiling.recorders.triton import LaunchLostError, TritonLaunch
from ncubble.profiling.session import Observer, ProgramEnd, Session, run_folder
from ncubble.profiling.subject import Subject
from ncubble.records import JsonObject

if TYPE_CHECKING:
    import pandas as pd

BUDGET_S = 120.0
ANSWER_S = 600.0
"""Time limit of the process that measures kernels of the catalog, for one answer."""
BUILD_S = 600.0
PER_ROUND = 6
"""Timed launches of a kernel of the catalog in one round."""
PROGRAM_ROUNDS = 5
"""Most runs of a program for each of its variants."""
TRIES = 4
"""Most runs of a Triton program, of which some end with a setting that faults."""
INTERRUPTED = "interrupted"
UNCHANGED = "the launch changed no byte of its tensors, as one before it left the same: wrong results would not show"
FLOAT64, ITS_OWN = "the float64 reference", "the program's own results"
UNREACHABLE = (
    "kernels of torch.compile, CUDA graphs and ahead-of-time code are not launched by Triton's runtime: "
    "run the program without them, or name what varies: --vary"
)
STAGES = (1, 2, 3, 4, 5, 6)
MOST_WARPS = 16
LEAST_TILE, MOST_TILE = 16, 1024
SPILLED_B = 4
"""Triton counts spilled registers, of 4 bytes each."""
_BRACES = re.compile(r"\{([A-Za-z_]\w*)\}")


def triton_knobs(facts: Mapping[str, Any]) -> list[Knob]:
    """What may be tried of a Triton launch: its depth, its warps, and constants that are named like
    tiles, groups or splits. Sizes of tiles that the grid would have to follow are left out where
    it does not."""
    stages, warps = int(facts["num_stages"]), int(facts["num_warps"])
    knobs = [Knob("num_stages", "stages", tuple(sorted({*STAGES, stages, stages + 1})))] if facts["loops"] else []
    near = {count for count in (warps // 4, warps // 2, warps, 2 * warps, 4 * warps) if 1 <= count <= MOST_WARPS}
    knobs.append(Knob("num_warps", "warps", tuple(sorted(near))))
    for name, value in facts["constants"].items():
        kind = kind_of_constant(name, value)
        if kind == "cta_order":
            knobs.append(Knob(name, kind, tuple(sorted({*ORDERS, value}))))
        elif kind == "ctas" and facts["grid_follows"]:
            knobs.append(Knob(name, kind, tuple(sorted({max(1, value // 2), value, value * 2}))))
        elif kind and kind != "ctas" and (facts["grid_follows"] or kind == "tile_k"):
            sizes = {
                size for size in (value // 2, value, 2 * value) if LEAST_TILE <= size <= MOST_TILE or size == value
            }
            knobs.append(Knob(name, kind, tuple(sorted(sizes))))
    return [knob for knob in knobs if len(knob.values) > 1]


def kind_of_parameter(parameter: Parameter) -> str:
    """The kind of change that a parameter of a catalog or own kernel makes."""
    return parameter.change or kind_of_name(parameter.name)


def kind_of_name(name: str) -> str:
    """The kind of change that a name stands for; itself where it is none that is known.

    >>> [kind_of_name(name) for name in ("STAGES", "num_warps", "tile_n", "BK", "unroll")]
    ['stages', 'warps', 'tile_n', 'tile_k', 'unroll']
    """
    plain = name.lower().removeprefix("num_")
    if plain in KINDS:
        return plain
    return kind_of_constant(name, 64) or plain


@dataclass
class TritonBench:
    """A launch that waits in its program. ``turn`` is held while the GPU works."""

    launch: TritonLaunch
    knobs: Sequence[Knob]
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    base: Settings = field(init=False)
    sm_mhz: int = 0
    most_rounds: int = ROUNDS

    def __post_init__(self) -> None:
        facts = self.launch.facts
        present = {**facts["constants"], "num_stages": facts["num_stages"], "num_warps": facts["num_warps"]}
        self.base = {knob.name: present[knob.name] for knob in self.knobs}

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """See ``Bench``."""
        answer = self._ask(do="compile", settings=[dict(one) for one in variants])
        return [
            Refusal(one["refused"]) if "refused" in one
            else Built(one["registers"], SPILLED_B * one["spilled"], one["shared_B"])
            for one in answer["compiled"]
        ]  # fmt: skip

    def _ask(self, **request: Any) -> dict[str, Any]:
        answer = self.launch.ask(**request)
        if "refused" in answer:
            raise MeasurementError(f"the launch cannot be made again: {answer['refused']}", "try another launch")
        return answer

    def check(self, settings: Settings) -> Check | Refusal:
        """See ``Bench``."""
        with self.turn:
            answer = self.launch.ask(do="check", changed=dict(settings))
        if "refused" in answer:
            return Refusal(answer["refused"])
        return Check(answer["difference"], "it writes beyond its tensors" if answer["overrun"] else "")

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """See ``Bench``."""
        with self.turn:
            answer = self._ask(do="time", settings=[dict(one) for one in variants], rounds=rounds)
        self.sm_mhz = answer["sm_mhz"]
        times: list[list[float]] = answer["times_us"]
        return times


# A kernel of the catalog.


@dataclass
class CatalogBench:
    """Configurations of one kernel, built, verified and timed in a process of their own."""

    request: KernelRequest
    catalog: Path | None
    base: Settings = field(init=False)
    knobs: Sequence[Knob] = field(init=False)
    sm_mhz: int = 0
    most_rounds: int = ROUNDS
    seed: int = field(default_factory=fresh_seed)

    def __post_init__(self) -> None:
        self._process = ServingProcess("ncubble.api.kernels", own_group=True)
        members = self._ask("device")["device"]
        self.device = DeviceFacts(**{**members, "compute_capability": tuple(members["compute_capability"])})
        self._space = space_of(
            find_spec(self.request.name, self.catalog), self.request.shape, self.request.parameters, self.device
        )
        start = self._space.start.parameters
        self.base = {axis.name: start[axis.name] for axis in self._space.axes}
        self.knobs = [Knob(axis.name, kind_of_parameter(axis), tuple(axis.choices)) for axis in self._space.axes]

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """See ``Bench``. What is valid is built when it is checked."""
        return [Built() if self._space.case(one) else Refusal("it is no valid configuration") for one in variants]

    def check(self, settings: Settings) -> Check | Refusal:
        """See ``Bench``."""
        try:
            trial = Trial(**self._ask("measure", [self._of(settings)])["trial"])
        except MeasurementError as error:
            self.close()  # a fault stays with its process
            return Refusal(error.message.partition("\n")[0])
        if trial.outcome in (trials.REFUSED, trials.FAILED):
            return Refusal(trial.why)
        shared = trial.build.get("smem_static_B", 0) + trial.build.get("smem_dynamic_B", 0)
        built = Built(trial.build.get("registers"), trial.build.get("spill_B"), shared)
        self.sm_mhz = trial.sm_mhz or self.sm_mhz
        return Check(None, trial.why if trial.outcome == trials.WRONG else "", built)

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """See ``Bench``."""
        times: list[list[float]] = self._ask("turns", [self._of(one) for one in variants], rounds)["times_us"]
        return times

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _of(self, settings: Settings) -> Case:
        case = self._space.case(settings)
        if case is None:
            raise UsageError(f"{dict(settings)}: no valid configuration", "name another")
        return case

    def _ask(self, do: str, cases: Sequence[Case] = (), rounds: int = 1) -> JsonObject:
        request = {
            **{"do": do, "kernel": self.request.name, "catalog": str(self.catalog.resolve()) if self.catalog else ""},
            **{
                "shape": dict(self.request.shape),
                "seed": self.seed,
                "iterations": PER_ROUND * rounds,
                "rounds": rounds,
            },
            "parameters": [dict(case.parameters) for case in cases],
        }
        try:
            answered = self._process.ask(request, ANSWER_S)
        except ServerDiedError as error:
            how = f"gave no answer within {ANSWER_S:.0f} s" if error.expired else f"ended with {error}"
            raise MeasurementError(f"the process that measures {how}", "leave this configuration out") from error
        if "error" in answered:
            raise MeasurementError(answered["error"], answered["remedy"])
        return answered


# A program that is built anew for each.


@dataclass(frozen=True)
class Variation:
    """``values`` of names in braces, as ``NAME=1,2,3`` says: the first one is the base. They are
    replaced in ``build`` and in the program's command line, and stand in its environment."""

    values: Mapping[str, tuple[Value, ...]]
    build: str = ""

    @classmethod
    def parse(cls, texts: Sequence[str], build: str = "") -> Variation:
        """Raises UsageError for what is not ``NAME=VALUE,VALUE``."""
        values: dict[str, tuple[Value, ...]] = {}
        for text in texts:
            name, _, rest = text.partition("=")
            values_of = (int(item) if item.isdecimal() else item for item in rest.split(",") if item)
            several = tuple(dict.fromkeys(values_of))
            if not name.isidentifier() or len(several) < 2 or name in values:
                raise UsageError(f"--vary {text}: not NAME=VALUE,VALUE,…", "give a name once, with two or more values")
            values[name] = several
        return cls(values, build)

    def replaced(self, argv: Sequence[str], settings: Settings, out: Path) -> list[str]:
        """A command line with the names in braces replaced; no others are."""
        names = {"OUT": str(out), **{name: str(value) for name, value in settings.items()}}
        return [_BRACES.sub(lambda match: names.get(match[1], match[0]), text) for text in argv]


@dataclass
class VaryBench:
    """A program that is built and run anew for each variant, and whose kernels CUPTI times."""

    session: Session
    filters: Filters
    variation: Variation
    base: Settings = field(init=False)
    knobs: Sequence[Knob] = field(init=False)
    sm_mhz: int = 0
    most_rounds: int = PROGRAM_ROUNDS

    def __post_init__(self) -> None:
        values = self.variation.values
        self.base = {name: several[0] for name, several in values.items()}
        self.knobs = [Knob(name, kind_of_name(name), several) for name, several in values.items()]
        self._runs = 0

    def folder(self, settings: Settings) -> Path:
        """Where a variant is built."""
        told = json.dumps(dict(settings), sort_keys=True)
        return self.session.work / "variants" / hashlib.sha256(told.encode()).hexdigest()[:16]

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """See ``Bench``."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(self._built, variants))

    def _built(self, settings: Settings) -> Built | Refusal:
        folder = self.folder(settings)
        if folder.exists() or not self.variation.build:
            folder.mkdir(parents=True, exist_ok=True)
            return Built()
        folder.mkdir(parents=True)
        argv = self.variation.replaced(shlex.split(self.variation.build), settings, folder)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=BUILD_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(folder)
            return Refusal(f"{argv[0]}: {error}")
        if done.returncode:
            shutil.rmtree(folder)
            lines = (done.stderr or done.stdout).strip().splitlines()
            return Refusal(f"{argv[0]} failed: {lines[-1] if lines else done.returncode}")
        return Built()

    def check(self, settings: Settings) -> Check | Refusal:
        """See ``Bench``: results are not compared."""
        try:
            self._run(settings)
        except (MeasurementError, UsageError) as error:
            return Refusal(error.message)
        return Check()

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """See ``Bench``: a run of the program for each time."""
        turns = [[self._run(one) for one in variants] for _ in range(rounds)]
        return [list(times) for times in zip(*turns, strict=True)]

    def _run(self, settings: Settings) -> float:
        """Median time of the chosen launches of one run, in microseconds."""
        self._runs += 1
        subject = self.session.subject
        argv = self.variation.replaced(subject.argv, settings, self.folder(settings))
        raw = self.session.work / f"run-{self._runs}"
        raw.mkdir()
        program, env = streams.prepared(argv, raw, streams.StreamSettings())
        env |= {name: str(value) for name, value in settings.items()}
        end = self.session.run(program, env)
        if end.failure:
            raise MeasurementError(end.failure, "run it by hand")
        recording = stream_records.read_raw(raw)
        shutil.rmtree(raw)
        times = self._times(work_of(recording.rows))
        if not times:
            raise MeasurementError(f"no kernel matches {self.filters}", "list its kernels with `ncubble streams`")
        return median(times)

    def _times(self, work: pd.DataFrame) -> list[float]:
        kernels = work[work["kind"] == "kernel"]
        chosen = [self.filters.chooses(name, base_name(name)) for name in kernels["name"]]
        spans = (kernels["end_ns"] - kernels["start_ns"])[chosen].to_list()
        last = None if self.filters.count is None else self.filters.skip + self.filters.count
        return [span / 1e3 for span in spans[self.filters.skip : last]]


# The verb.


@dataclass(frozen=True)
class TriedRun:
    """A run directory with what was tried. ``predicted``: what its report says of changes, empty
    where it could not be profiled."""

    path: Path
    tried: Tried
    predicted: list[Change]

    def predicted_of(self, change: TriedChange) -> Change | None:
        """The prediction for a change that was made."""
        alike = (one for one in self.predicted if one.kind == change.kind)
        return next((one for one in alike if value_of(one.after, change.before) == change.after), None)

    def to_json(self) -> JsonObject:
        """The object of ``ncubble try --json``."""
        predicted = [change.to_json() for change in self.predicted]
        return {"schema": SCHEMA, "run": str(self.path), **asdict(self.tried), "predicted": predicted}


def try_changes(
    program: Sequence[ReportPath] | str,
    *,
    parameters: Mapping[str, Any] | Sequence[str] = (),
    catalog: ReportPath | None = None,
    kernel: str = "",
    skip: int = 0,
    without: str | None = None,
    vary: Sequence[str] = (),
    build: str = "",
    repeat: bool = False,
    budget_s: float = BUDGET_S,
    out: ReportPath | None = None,
    force: bool = False,
    timeout_s: float | None = None,
    observer: Observer | None = None,
) -> TriedRun:
    """Make all single changes of a kernel, time them in turns with it, and keep a run directory.

    ``program``: a list, the program and its arguments, of which the Triton launch that ``kernel``
    and ``without`` (regular expressions) and ``skip`` select is tried; or the name of a catalog
    kernel, with ``parameters`` (a mapping, or ``NAME=VALUE`` each) and ``catalog``. ``vary``:
    ``NAME=VALUE,VALUE`` replaced in ``build`` and the program, whose kernels are timed by CUPTI
    then. ``repeat``: the best change becomes the base, until none gains; the best three are kept in
    ``elites.json``. ``budget_s``: seconds after which nothing new begins.

    Raises UsageError for a wrong request, and MeasurementError where nothing can be measured;
    nothing is kept then.
    """
    observer, place = observer or Observer(), as_path(catalog)
    if build and not vary:
        raise UsageError("--build needs --vary", "name what varies: --vary STAGES=2,3,4")
    if vary and isinstance(program, str):
        raise UsageError("--vary is for programs", "a catalog kernel's parameters are all tried")
    settings = as_pairs(parameters) if isinstance(parameters, Mapping) else list(parameters)
    words = None if isinstance(program, str) else [str(word) for word in program]
    if words and vary:  # the program may be built only then
        subject = Subject(words, Path(words[0]).name)
    else:
        subject = chosen_subject(words, program if isinstance(program, str) else None, settings, place)
    session = Session(subject, run_folder(as_path(out), f"try-{subject.label}"), force, timeout_s, observer)
    session.require_gpu()
    filters = Filters(kernel, skip=skip, count=1, without=without)
    search = Search(repeat, budget_s, doing=observer.doing)
    with session.open():
        begun = time.monotonic()
        if isinstance(program, str):
            request = KernelRequest.parse(program, settings, place)
            tried = _tried_kernel(CatalogBench(request, place), search)
        elif vary:
            filters = replace(filters, count=None)
            tried = _tried_program(VaryBench(session, filters, Variation.parse(vary, build)), search)
        else:
            tried = _tried_triton(session, filters, search)
        tried = replace(tried, seconds=round(time.monotonic() - begun, 1), stopped=search.stopped)
        tried.save(session.folder)
        if repeat:
            tried.save_elites(session.folder)
        known = not vary and search.stopped != INTERRUPTED
        predicted = _predicted(session, filters, isinstance(program, str)) if known else []
    return TriedRun(session.out, tried, predicted)


@contextmanager
def _keeping_rounds(search: Search) -> Iterator[None]:
    """Ctrl-C ends the block, but loses nothing that was timed."""
    try:
        yield
    except KeyboardInterrupt:
        search.keep_open_round()
        if not search.rounds:
            raise
        search.stopped = INTERRUPTED


def _tried_kernel(bench: CatalogBench, search: Search) -> Tried:
    try:
        with _keeping_rounds(search):
            search.run(bench)
    finally:
        bench.close()
    name = bench.request.name
    return Tried(kernel=name, language="catalog", device=bench.device.name, compared=FLOAT64, rounds=search.rounds)


def _tried_program(bench: VaryBench, search: Search) -> Tried:
    with _keeping_rounds(search):
        search.run(bench)
    device = bench.session.gpu
    name = device.name if isinstance(device, Device) else ""
    kernel = bench.filters.kernel or bench.session.subject.label
    return Tried(kernel=kernel, language="program", device=name, compared=NOT_COMPARED, rounds=search.rounds)


def _tried_triton(session: Session, filters: Filters, search: Search) -> Tried:
    """Try the launch of a Triton program; where it ends meanwhile, run the program once more
    without the settings that ended it."""
    facts: dict[str, Any] = {}

    def serve(launch: TritonLaunch) -> None:
        facts.update(launch.facts)
        search.run(TritonBench(launch, triton_knobs(launch.facts)))

    recording = triton.TritonRecording(ProgramEnd(0, 0.0), served=1)
    for attempt in range(TRIES):
        try:
            with _keeping_rounds(search):
                recording = triton.record(session, filters, serve)
            break
        except LaunchLostError:
            lost = search.current
            if lost is None or lost == search.base or attempt + 1 == TRIES:
                raise
            search.lost.append(lost)
            session.observer.say(f"note: the program ended with {dict(lost)}: it runs again without")
    if not recording.served:
        why = "; ".join(dict.fromkeys(recording.refused)) or recording.end.failure or "it launched no matching one"
        raise MeasurementError(f"no Triton launch was tried: {why}", UNREACHABLE)
    notes = [f"the program itself: {recording.end.failure}"] if recording.end.failure else []
    notes += [] if facts["changed"] else [UNCHANGED]
    compared = ITS_OWN if facts["changed"] else NOT_COMPARED
    return Tried(
        kernel=facts["kernel"], language="triton", device=facts["device"], compared=compared,
        rounds=search.rounds, notes=notes,
    )  # fmt: skip


def _predicted(session: Session, filters: Filters, of_catalog: bool) -> list[Change]:
    """What a profile of the base says of changes; none, and a note, where it cannot be profiled."""
    session.observer.doing("profiling the base")
    try:
        if of_catalog:
            ncu.record(session, ncu.NcuSettings())
        else:
            triton.profile(session, filters)
        session.close()
        return launch_verdict(Report.open(session.folder).launch(0)).changes
    except NcubbleError as error:
        session.note(f"not profiled: {error.message}")
        session.observer.say(f"note: not profiled, so nothing is predicted: {error.message}")
        return []
