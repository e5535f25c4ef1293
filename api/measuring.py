"""Measures what a check judges: kernels of the catalog or a program, now, or in turns with another
revision.

Against a revision, A is that revision in a temporary worktree and B the working tree as it is,
uncommitted changes included. The repeats of A are the baseline in memory, those of B are judged.
Both are measured in the same minutes on the same GPU, so that no shift between machine starts,
clocks or drivers enters.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ncubble.analysis.gate.baseline import FEWEST_REPEATS, Baseline, record
from ncubble.analysis.gate.baseline_file import load_store
from ncubble.analysis.gate.repeats import collect
from ncubble.analysis.gate.settings import STORE, GateSettings
from ncubble.analysis.gate.verdicts import CheckOptions, KernelVerdict
from ncubble.api.subjects import as_pairs, catalog_subject
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling import revisions
from ncubble.profiling.driver import require_gpu
from ncubble.profiling.failures import of_subject
from ncubble.profiling.ncu import Filters
from ncubble.profiling.revisions import Checkout, RevisionSide
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.staging import default_out
from ncubble.profiling.subject import Subject
from ncubble.text.values import expression, file_name, some

ROUNDS = 3
"""Processes of each side of a comparison, unless ``rounds`` is set."""
_LIMIT_S = 900.0


@dataclass(frozen=True)
class CheckRequest:
    """What is checked.

    ``paths`` are runs, reports, or folders of them; with ``profile`` or ``against`` (a revision)
    they are kernels of the catalog, which are measured first, as ``program`` (an argv) is.
    ``settings`` are those of the project with the rules of this call. ``baseline``: a folder or
    file (None: the project's). ``kernel``: regular expression. ``require_all``: every baseline of
    this GPU must have been measured; with ``profile`` these are measured, and ``paths`` are runs of
    others. ``allow_new``: kernels may have no baseline. ``out``: folder for the runs.
    """

    paths: tuple[Path, ...] = ()
    settings: GateSettings = field(default_factory=GateSettings)
    baseline: Path | None = None
    kernel: str = ""
    require_all: bool = False
    allow_new: bool = False
    profile: bool = False
    program: tuple[str, ...] | None = None
    against: str = ""
    of_kernel: tuple[str, ...] = ()
    out: Path | None = None

    @property
    def measures(self) -> bool:
        """Whether something is measured now."""
        return self.profile or bool(self.against) or self.program is not None

    @property
    def store(self) -> Path:
        """Folder of baselines, or a file of one."""
        return self.baseline or self.settings.baselines or STORE

    @property
    def options(self) -> CheckOptions:
        """The options by which launches are judged."""
        settings = self.settings
        return CheckOptions(
            settings.rules,
            self.store.is_dir(),
            self.require_all,
            self.allow_new,
            settings.same_gpu,
            self.kernel,
            settings.allow_suspicious,
        )

    def validate(self) -> None:
        """Raise UsageError where the request contradicts itself, before anything is read or
        measured."""
        expression(self.kernel, f"--kernel {self.kernel!r}")
        of_kernel = {"-p": self.of_kernel}
        if not self.measures:
            _refuse(
                {**of_kernel, "--out": self.out},
                "is for what is measured now, but runs are read here",
                "to measure: `ncubble check --profile KERNEL`, `ncubble check -- CMD`, or --against REV",
            )
            if not self.paths:
                raise UsageError("nothing to check", "name runs or reports, or measure: --profile KERNEL, or -- CMD")
            _refuse_kernel_names(self.paths)
            return
        if self.against and self.baseline is not None:
            raise UsageError("--against and --baseline both say what to compare with", "give one of them")
        if self.profile and self.require_all and not self.against:
            given = {**of_kernel, "a program after --": self.program is not None}
            _refuse(given, "does not go with --profile --all", "baselines say what to measure")
        elif bool(self.paths) == (self.program is not None):
            raise UsageError("name either kernels of the catalog or a program after --", "see `ncubble check --help`")
        elif self.program is not None:
            _refuse(of_kernel, "is for kernels of the catalog", "pass it to the program, after --")
        elif len(self.paths) > 1:
            _refuse(of_kernel, f"is for one kernel, and {len(self.paths)} are named", "check them one by one")

    def stored(self) -> tuple[list[Baseline], list[tuple[str, str]]]:
        """The baselines, and (file, error) of those that are unreadable. Raises UsageError if there
        is no such place, unless absolute limits may be all there is."""
        if self.allow_new and self.baseline is None and not self.store.exists():
            return [], []
        baselines, broken = load_store(self.store)
        return baselines, [(str(self.store), f"{error.message} ({error.remedy})") for error in broken]


def _refuse(options: Mapping[str, object], why: str, remedy: str) -> None:
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} {why}", remedy)


def _refuse_kernel_names(paths: Sequence[Path]) -> None:
    """Of a name that is no path but a kernel, say how it is measured."""
    for path in paths:
        if len(path.parts) == 1 and not path.suffix and not path.exists():
            from ncubble.kernels.catalog.registry import catalog

            if str(path) in catalog():
                raise UsageError(
                    f"{path}: no such file or directory, but a kernel of the catalog",
                    f"to measure it now: `ncubble check --profile {path}`",
                )


@dataclass(frozen=True)
class CheckInputs:
    """What is to be judged, and what is known already.

    ``paths`` are runs; ``kernel`` the filter that is still to be applied to their launches;
    ``baselines`` replace those of the store if not None, and each of them must have been measured;
    ``alike``: a kernel whose grid or name changed is compared with the one that is left; ``judged``
    are kernels that needed no measurement.
    """

    paths: list[Path] = field(default_factory=list)
    kernel: str = ""
    baselines: list[Baseline] | None = None
    alike: bool = False
    errors: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    judged: list[KernelVerdict] = field(default_factory=list)

    def options(self, options: CheckOptions) -> CheckOptions:
        """``options`` as they are for what was measured: a filter that chose launches for ncu has
        done its work."""
        options = replace(options, kernel=self.kernel)
        if self.baselines is None:
            return options
        return replace(options, require_all=True, exact=options.exact and not self.alike)


def measure_now(request: CheckRequest, baselines: Sequence[Baseline], observer: Observer) -> CheckInputs:
    """Runs of the kernels or the program of ``request``; if it asks for all, of every kernel among
    ``baselines``.

    Raises UsageError, and the MeasurementErrors of ``profiling.failures``; nothing that was
    measured is kept then.
    """
    Filters(request.kernel)  # refuses what is no regular expression
    with _keeping() as kept:
        if request.program is None and request.require_all:
            return _measure_recorded(request, baselines, observer, kept)
        with of_subject():
            subjects = [_of_catalog(request, str(name), request.of_kernel) for name in request.paths]
            if request.program is not None:
                subjects = [Subject.of_program(request.program)]
            many = len(subjects) > 1
            return CheckInputs(
                [path for item in subjects for path in _rounds(request, item, observer, kept, request.kernel, many)]
            )


def _measure_recorded(
    request: CheckRequest, baselines: Sequence[Baseline], observer: Observer, kept: list[Path]
) -> CheckInputs:
    """Every kernel of the catalog that has a baseline on this GPU; runs of what else has one must
    be named."""
    from ncubble.kernels.catalog.registry import catalog

    device = require_gpu().name
    here = [item for item in baselines if item.device.name == device and re.search(request.kernel, item.key.label)]
    if not here:
        raise UsageError(f"--profile --all: no baseline of {device}", "record some with `ncubble baseline`")
    known = catalog(request.settings.catalog)
    inputs = CheckInputs(list(request.paths), request.kernel, here)
    for baseline in here:
        key = baseline.key
        if key.kernel not in known or key.nvtx or key.grid:
            inputs.notes.append(f"{key.label}: no kernel of the catalog, so its runs have to be named")
            continue
        try:
            with _keeping() as own, of_subject():
                subject = _of_catalog(request, key.kernel, as_pairs({**key.parameters, **key.shape}))
                inputs.paths.extend(_rounds(request, subject, observer, own, many=True))
            kept.extend(own)
        except NcubbleError as error:
            if not error.of_subject:
                raise
            inputs.errors.append((key.label, error.message))
    return inputs


def _of_catalog(request: CheckRequest, name: str, settings: Sequence[str]) -> Subject:
    return catalog_subject(name, settings, request.settings.catalog, request.settings.repeats)


def _rounds(
    request: CheckRequest, subject: Subject, observer: Observer, kept: list[Path], kernel: str = "", many: bool = False
) -> list[Path]:
    """The runs of one process after the other, in ``--out`` (of several kernels: below it) or a new
    folder."""
    if subject.note:
        observer.say(f"note: {subject.note}")
    out = request.out / file_name(subject.label) if request.out and many else request.out
    out = out or fresh(default_out(subject.label))
    count = request.settings.rounds or 1
    places = [out] if count == 1 else [out / str(number + 1) for number in range(count)]
    for place in places:
        _profile(request, subject, place, observer, kernel)
        kept.append(place)
    return places


def _profile(request: CheckRequest, subject: Subject, out: Path, observer: Observer, kernel: str) -> None:
    """One run of ``subject``, recorded at ``out``."""
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.recorders import ncu

    settings = request.settings
    chosen = (settings.nvtx, settings.skip, settings.count) if request.program is not None else ()
    session = Session(subject, out, timeout_s=settings.timeout, observer=observer)
    run = ncu.profile(session, ncu.NcuSettings(settings.sets or DEFAULT_SETS, filters=Filters(kernel, *chosen)))
    observer.say(f"{run.path}: {len(run.manifest.report['launches'])} launches")


@contextmanager
def _keeping() -> Iterator[list[Path]]:
    """Collects the runs that are made in the block; where it fails, they are removed with the
    folders left empty."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        folders = {parent for path in made for parent in list(path.parents)[:2]}
        for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        raise


def fresh(out: Path) -> Path:
    """``out``, or with a number behind it where that exists: two checks may begin in the same
    second."""
    names = (out, *(out.with_name(f"{out.name}-{number}") for number in range(2, 100)))
    return next((name for name in names if not name.exists()), out)


def measure_against(request: CheckRequest, observer: Observer) -> CheckInputs:
    """Runs of the working tree, with baselines made of runs of ``request.against``. Raises
    UsageError and MeasurementError; then neither runs nor the worktree are left."""
    from ncubble.profiling.ncu import find_ncu

    find_ncu()  # before anything is built
    checkout = revisions.checkout_of((request.program is None and request.settings.catalog) or Path.cwd())
    sha = checkout.resolve(request.against)
    folder = _folder(request, checkout)
    if not checkout.holds(sha, folder):
        remedy = "name a revision that has it, or measure with --profile"
        raise UsageError(f"{folder} is not in {request.against} ({sha[:7]})", remedy)
    with revisions.worktree(checkout, sha) as tree, _keeping() as kept:
        pair = revisions.sides(checkout, request.against, sha, tree, folder)
        comparison = _Comparison(request, observer, checkout, sha, pair, kept)
        if request.program is not None:
            comparison.measure_program(request.program)
        else:
            for name in request.paths:
                comparison.measure_kernel(str(name))
        return comparison.inputs


def _folder(request: CheckRequest, checkout: Checkout) -> Path:
    """Where in the tree the subject lies: the working directory of a program, the catalog of a
    kernel, or the root of ncubble's own."""
    if request.program is not None:
        return checkout.place_of(Path.cwd())
    if request.settings.catalog is not None:
        return checkout.place_of(request.settings.catalog)
    if not any((checkout.root / "kernels" / name).is_dir() for name in ("catalog", "specs")):  # specs: until 0.1
        raise UsageError(
            f"{checkout.root}: no checkout of ncubble, so there is no other revision of its kernels",
            "name the folder of your own kernels in the setting catalog, or a program after --",
        )
    return Path()


class _Comparison:
    """Both sides of a comparison, and what came of them so far: ``inputs``."""

    def __init__(
        self,
        request: CheckRequest,
        observer: Observer,
        checkout: Checkout,
        sha: str,
        pair: tuple[RevisionSide, RevisionSide],
        kept: list[Path],
    ) -> None:
        self.request, self.settings, self.observer = request, request.settings, observer
        self.checkout, self.sha, self.pair, self.kept = checkout, sha, pair, kept
        changes = [_listed(checkout.changed, "changed"), _listed(checkout.untracked, "untracked")]
        state = f"with {' and '.join(filter(None, changes))}" if any(changes) else "without uncommitted changes"
        compared = f"baseline: {pair[0].what}; now: the working tree at {checkout.sha[:7]} {state}"
        self.baselines: list[Baseline] = []
        self.inputs = CheckInputs(baselines=self.baselines, alike=True, notes=[compared])
        if checkout.sha == sha and not any(changes):
            self.inputs.notes.append("both sides are the same commit: any difference is noise")

    def measure_program(self, program: Sequence[str]) -> None:
        """Build and run a program in both trees."""
        command = self.settings.build
        revisions.refuse_fixed_paths(self.checkout.root, program, "--")
        revisions.refuse_fixed_paths(self.checkout.root, [command], "build")
        for side in self.pair:
            with _blame(side):
                if command:
                    self.observer.say(f"building {side.what}")
                    revisions.build(side, command, self.observer.output)
                revisions.require_program(side, program)
        self._judge(self._measure({side.name: (program, "") for side in self.pair}, Path(program[0]).name))

    def measure_kernel(self, name: str) -> None:
        """Measure a kernel of the catalog on both sides, unless A lacks it."""
        old, new = self.pair
        with _blame(new):  # first: what is wrong with the request is wrong here, too
            label, function = describe_side(self.request, new, name)
        try:
            _, before = describe_side(self.request, old, name)
        except UsageError as error:
            reason = f"{old.what} does not have it: {error.message}"
            self.inputs.judged.append(KernelVerdict(label, "", "not_comparable", reason))
            return
        once = ["--once", "--no-verify", "--launches", str(self.settings.repeats)]
        programs = {
            side.name: ([*_kernel_argv(self.request, side, name), *once], entry)
            for side, entry in ((old, before), (new, function))
        }
        self._judge(self._measure(programs, "-".join([name, *self.request.of_kernel]).replace("=", "")))

    def _measure(self, programs: Mapping[str, tuple[Sequence[str], str]], label: str) -> dict[str, list[Path]]:
        """The runs of both sides, by their names: ``out/a/1``, ``out/b/1``, …, each a process."""
        out = self.request.out / file_name(label) if self.request.out else None
        out = out or fresh(default_out(f"{label}-against-{self.sha[:7]}"))
        if out.exists():
            raise UsageError(f"{out} exists", "choose another --out")
        rounds = self.settings.rounds or ROUNDS
        runs: dict[str, list[Path]] = {side.name: [] for side in self.pair}
        for number, side in revisions.in_turns(self.pair, rounds):
            place, (argv, function) = out / side.name.lower() / str(number), programs[side.name]
            self.observer.say(f"round {number} of {rounds}, {side.name}: {side.what}")
            with _blame(side):
                subject = Subject(argv, function=function, place=side.place)
                _profile(self.request, subject, place, self.observer, self.request.kernel)
            self.kept.append(place)
            runs[side.name].append(place)
        self.observer.say(f"side by side: ncubble compare {out / 'a'} {out / 'b'}")
        return runs

    def _judge(self, runs: Mapping[str, list[Path]]) -> None:
        """Add B's runs to what is to be judged, with baselines of A's."""
        from ncubble.analysis.report.report import open_reports

        inputs, revision = self.inputs, self.pair[0].what
        before, failures = open_reports(runs["A"])
        inputs.errors.extend((str(failure.path), failure.error.message) for failure in failures)
        groups, notes = collect(before, by_nvtx=self.settings.by_nvtx)
        inputs.notes.extend(note for note in (_turns(len(runs["A"])), *notes) if note not in inputs.notes)
        inputs.paths.extend(runs["B"])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for group in groups:
            try:
                accepted = self.settings.allow_suspicious
                self.baselines.extend(record([group], now, FEWEST_REPEATS, allow_suspicious=accepted))
            except NcubbleError as error:
                inputs.errors.append((revision, error.message))
        after, _ = open_reports(runs["B"])
        builds = [report.run.manifest.build for report in after]
        if len({build.get("code_sha256") or build.get("cubin_sha256") for build in builds}) > 1:  # someone edits it
            inputs.errors.append(("the working tree", "it changed while it was measured: its runs hold several builds"))


def _listed(names: Sequence[str], what: str) -> str:
    """``2 changed files (a.cu, b.cu)``; empty where there are none."""
    return f"{len(names)} {what} file{'s' if len(names) > 1 else ''} ({some(names)})" if names else ""


def _turns(rounds: int) -> str:
    order = " ".join(side for number in range(rounds) for side in ("AB" if number % 2 == 0 else "BA"))
    processes = f"{rounds} processes" if rounds > 1 else "a process"
    return f"one GPU, {processes} of each side in turns ({order}; A is the baseline)"


def _blame(side: RevisionSide) -> AbstractContextManager[None]:
    """What fails in the working tree says something of it; what fails in the other revision says
    nothing."""
    return of_subject() if side.name == "B" else nullcontext()


def describe_side(request: CheckRequest, side: RevisionSide, name: str) -> tuple[str, str]:
    """Label and function of what ``side`` would launch: found out by a process of its own, since
    the kernels of two revisions cannot be loaded into one.

    Raises UsageError where it has no such kernel or not with these settings, MeasurementError where
    it cannot be described.
    """
    argv = [*_kernel_argv(request, side, name), "--describe"]
    env = {**os.environ, **side.place.env}
    try:
        done = subprocess.run(
            argv, cwd=side.folder, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(
            f"{side.what}: no answer within {_LIMIT_S:g} s", "launch it by hand to see why"
        ) from error
    if done.returncode == 0:
        described = json.loads(done.stdout.splitlines()[-1])
        return described["label"], described["function"]
    message, _, remedy = done.stderr.strip().removeprefix("ncubble.kernels: ").partition("\n  remedy: ")
    if done.returncode == UsageError.exit_code:
        raise UsageError(message, remedy)
    remedy = remedy or "launch the kernel of that side by hand to see why"
    raise MeasurementError(f"{side.what}: {message[-2000:]}", remedy)


def _kernel_argv(request: CheckRequest, side: RevisionSide, name: str) -> list[str]:
    """The program that knows the kernels of ``side`` (this ncubble with the side's catalog, or the
    side's ncubble), with the kernel, its settings and the folder that it is of."""
    own = request.settings.catalog is not None
    tree = [] if own else ["--tree", str(side.root)]
    module = [sys.executable, "-P", "-m", "ncubble.kernels.run.other_tree", *tree]
    from ncubble.kernels.catalog.registry import find_spec
    from ncubble.kernels.run.session import split

    parameters, shape = split(find_spec(name, request.settings.catalog), request.of_kernel)
    settings = [text for item in as_pairs(parameters) for text in ("-p", item)]
    settings += ["--shape", ",".join(as_pairs(shape))] if shape else []  # older revisions want it so
    return [*module, name, *settings, *(["--catalog", str(side.folder)] if own else [])]
