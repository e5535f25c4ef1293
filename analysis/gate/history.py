"""The history of checks: one line of JSON for each, in the file ``history.jsonl`` of a folder.

A check adds its line under a lock, so that two at once lose nothing. A writer that is killed loses
its own line at most: the next one begins a new line behind what it left. Lines that are damaged, or
of a newer schema, are named and left alone; a check that occurs twice is read once, so that
histories are joined by ``cat``.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ncubble import __version__
from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.verdicts import FAILED, GateResult, KernelVerdict, MetricVerdict, rank_of
from ncubble.analysis.report.launch_key import slug
from ncubble.profiling.provenance import git_state
from ncubble.records import Number
from ncubble.store import make_ignored, open_lock_file, sync
from ncubble.text.values import cut, short_name

FILE = "history.jsonl"
SCHEMA = 3
LONGEST = 2000
"""Maximum length of a reason, note or error."""
MOST_B = 64 << 20
"""Bytes that are read, the newest: some thousand checks of twenty kernels."""
MOST_PROBLEMS = 20
MOST_CHECKS = 200
"""Maximum checks drawn or searched per kernel, the newest: more could not be distinguished."""
NO_KERNEL = "no kernel checked"
NAME = r"(?=.{1,120}$)[a-z0-9]+(?:-[a-z0-9]+)*"
"""Pattern of names of kernels and GPU models in an address."""
_ORDER = {metric.name: place for place, metric in enumerate(METRICS)}
_RESTORE = "delete it, or restore it from a copy"


class KeptMetric(Struct, frozen=True, omit_defaults=True):
    """One metric of one kernel in a check; ``name`` is empty where nothing could be judged.

    ``mean``, ``sd``, ``n`` and ``values`` are of the repeats, in the metric's unit. ``threshold``
    is the value beyond which it fails, with what the SM clock may explain; ``decision_pct`` the
    loss beyond which it fails without.
    """

    name: str = ""
    counter: str = ""
    unit: str = ""
    better: str = ""
    gated: bool = False
    verdict: str = ""
    reason: str = ""
    mean: Number | None = None
    sd: Number | None = None
    n: int = 0
    values: tuple[Number, ...] = ()
    baseline_mean: Number | None = None
    baseline_sd: Number | None = None
    baseline_n: int = 0
    limit_pct: Number | None = None
    decision_pct: Number | None = None
    threshold: Number | None = None
    detectable_pct: Number | None = None
    change_pct: Number | None = None
    loss_pct: Number | None = None
    p_value: Number | None = None


class KeptKernel(Struct, frozen=True, omit_defaults=True):
    """One kernel in a check. ``id`` and ``key`` are ``KernelKey.slug`` and ``canonical``, which
    holds parameters and shape; ``measured`` is the start of the newest run, ``git_sha`` of the runs
    (several are joined by a comma), ``gpu`` holds UUIDs, ``reports`` content hashes."""

    id: str = ""
    key: str = ""
    label: str = ""
    kernel: str = ""
    device: str = ""
    compute_capability: str = ""
    verdict: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    measured: str = ""
    git_sha: str = ""
    git_dirty: bool | None = None
    ncu_version: str = ""
    driver: str = ""
    gpu: tuple[str, ...] = ()
    sm_clock_hz: Number | None = None
    reports: tuple[str, ...] = ()
    baseline_recorded: str = ""
    baseline_path: str = ""
    metrics: tuple[KeptMetric, ...] = ()


class KeptCheck(Struct, frozen=True, omit_defaults=True):
    """A check. ``check`` names it, and begins with its time; ``sha`` is of the repository in which
    it ran, ``paths`` what was checked, ``errors`` inputs that could not be read."""

    schema: int
    check: str
    checked: datetime
    verdict: str
    exit_code: int
    errors: tuple[str, ...] = ()
    sha: str = ""
    paths: tuple[str, ...] = ()
    ncubble: str = ""
    kernels: tuple[KeptKernel, ...] = ()


class Point(NamedTuple):
    """One metric of one kernel in one check."""

    check: KeptCheck
    kernel: KeptKernel
    metric: KeptMetric

    @property
    def sha(self) -> str:
        """The commit of the runs, else that of the repository in which they were checked."""
        return self.kernel.git_sha or self.check.sha

    @property
    def verdict(self) -> str:
        """That of the metric, else of the kernel."""
        return self.metric.verdict or self.kernel.verdict

    @property
    def reason(self) -> str:
        """Why the verdict is no number; empty where it is one."""
        return self.metric.reason or (self.kernel.reason if self.verdict != "info" else "")


@dataclass(frozen=True)
class Problem:
    """What could not be read: its name in the folder, why, and what to do about it."""

    name: str
    error: str
    remedy: str = ""


@dataclass(frozen=True, eq=False)
class CheckedKernel:
    """One kernel with its parameters on one GPU model: the points of all its checks, the oldest
    first. ``kernel`` and ``gpu`` are its names in an address."""

    kernel: str
    gpu: str
    points: list[Point]

    @property
    def last(self) -> Point:
        """The last point: it names kernel, GPU model, commit and verdict of the last check."""
        return self.points[-1]

    @property
    def label(self) -> str:
        """The kernel with its parameters, for people."""
        return short_name(self.last.kernel.label, 200) or NO_KERNEL

    @property
    def device(self) -> str:
        """The GPU model; empty where none ran."""
        return self.last.kernel.device[:100]

    @property
    def verdict(self) -> str:
        """That of the last check."""
        return self.last.kernel.verdict

    @cached_property
    def verdicts(self) -> list[str]:
        """Those of all checks."""
        return [kernel.verdict for kernel in {point.check.check: point.kernel for point in self.points}.values()]

    @property
    def recent(self) -> list[Point]:
        """The points of the last ``MOST_CHECKS`` checks."""
        checks = set(list(dict.fromkeys(point.check.check for point in self.points))[-MOST_CHECKS:])
        return [point for point in self.points if point.check.check in checks]

    @cached_property
    def decided(self) -> KeptMetric:
        """The metric that decided the last check; without a name where no number did."""
        gated = (point.metric for point in self.points if point.check is self.last.check and point.metric.gated)
        return min(
            gated, key=lambda metric: (rank_of(metric.verdict), _ORDER.get(metric.name, 9)), default=KeptMetric()
        )


@dataclass(frozen=True, eq=False)
class History:
    """What a folder holds: ``checks``, the oldest first. ``left_out`` counts older ones that were
    not read. ``token`` changes whenever the file does."""

    folder: Path
    checks: tuple[KeptCheck, ...] = ()
    problems: tuple[Problem, ...] = ()
    left_out: int = 0
    token: str = ""

    def points(self) -> Iterator[Point]:
        """All metrics of all kernels. A kernel that was judged by no metric, and a check without
        any kernel, have one point: nothing that was tried is missing."""
        for check in self.checks:
            for kernel in check.kernels or (KeptKernel(verdict=check.verdict, reason="no kernel was checked"),):
                for metric in kernel.metrics or (KeptMetric(),):
                    yield Point(check, kernel, metric)

    @cached_property
    def kernels(self) -> list[CheckedKernel]:
        """All kernels, those that failed first, then those checked last."""
        groups: dict[tuple[str, str], list[Point]] = {}
        for point in self.points():
            own = point.kernel.id
            name = own if re.fullmatch(NAME, own) else f"x{sha256(own.encode()).hexdigest()[:12]}"
            groups.setdefault((name, slug(point.kernel.device)), []).append(point)
        found = [CheckedKernel(*names, points) for names, points in groups.items()]
        return sorted(
            found, key=lambda one: (one.verdict not in FAILED, -one.last.check.checked.timestamp(), one.label)
        )

    def find(self, kernel: str, gpu: str) -> CheckedKernel | None:
        """The kernel of an address. Without a GPU model, the first of that kernel."""
        named = (item for item in self.kernels if item.kernel == kernel and (not gpu or item.gpu == gpu))
        return next(named, None) if kernel else None


def metrics_of(points: Iterable[Point]) -> list[str]:
    """The metrics of points: gated ones first, then in the order of the gate's table."""
    gated: dict[str, bool] = {}
    for point in points:
        if point.metric.name:
            gated[point.metric.name] = gated.get(point.metric.name, False) or point.metric.gated
    return sorted(gated, key=lambda name: (not gated[name], _ORDER.get(name, 99), name))


def of_metric(points: Iterable[Point], metric: str) -> list[Point]:
    """One point per check: that of ``metric``, or the one that says why nothing was judged."""
    chosen = (point for point in points if point.metric.name in (metric, ""))
    return list({point.check.check: point for point in chosen}.values())


def kept(
    result: GateResult, paths: Sequence[str] = (), sha: str = "", version: str = "", checked: datetime | None = None
) -> KeptCheck:
    """A check as it is kept. ``sha`` of the repository around the working directory, ``version`` of
    ncubble, ``checked``: now if it is not given."""
    time = checked or datetime.now(UTC)
    return KeptCheck(
        schema=SCHEMA,
        check=f"{time.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(6)}",
        checked=time,
        verdict=result.verdict,
        exit_code=result.exit_code,
        errors=tuple(cut(f"{file}: {error}", LONGEST) for file, error in result.errors),
        sha=sha,
        paths=tuple(paths),
        ncubble=version,
        kernels=tuple(map(_kernel, result.kernels)),
    )


def _kernel(kernel: KernelVerdict) -> KeptKernel:
    group, baseline = kernel.repeats, kernel.baseline
    key = group.key if group else baseline.key if baseline else None
    named: dict[str, Any] = {}
    if key:
        named = {"id": key.slug, "key": key.canonical, "kernel": key.kernel}
    if group:
        shas = sorted({str(commit["sha"]) for commit in group.commits if commit.get("sha")})
        named |= {
            "compute_capability": group.compute_capability,
            "git_sha": ", ".join(shas),
            "git_dirty": any(commit.get("dirty") for commit in group.commits) if shas else None,
            "measured": max(group.started, default=""),
            "ncu_version": ", ".join(sorted(group.ncu_versions)),
            "driver": ", ".join(sorted(group.drivers)),
            "gpu": tuple(sorted(group.gpus)),
            "sm_clock_hz": fmean(group.clocks_hz) if group.clocks_hz else None,
            "reports": tuple(report["key"][:16] for report in group.reports),
        }
    if baseline:
        named |= {"baseline_recorded": baseline.recorded, "baseline_path": baseline.path}
    return KeptKernel(
        label=kernel.label,
        device=kernel.device,
        verdict=kernel.verdict,
        reason=cut(kernel.reason, LONGEST),
        notes=tuple(cut(note, LONGEST) for note in (*kernel.suspicions, *kernel.notes)),
        metrics=tuple(map(_metric, kernel.metrics)),
        **named,
    )


def _metric(metric: MetricVerdict) -> KeptMetric:
    before, test = metric.baseline, metric.comparison
    mean, sd = mean_sd(metric.now) if metric.now else (math.nan, math.nan)
    base_mean, base_sd = mean_sd(before.measured)
    names = ("decision_pct", "detectable_pct", "change_pct", "loss_pct", "p_value")
    numbers = {name: getattr(test, name) for name in names if test is not None}
    numbers |= {"mean": mean, "sd": sd, "baseline_mean": base_mean, "baseline_sd": base_sd}
    if before.gated:
        numbers["limit_pct"] = metric.limit_pct
    if before.gated and test is not None:
        loss = test.threshold_pct / 100 * abs(base_mean)
        numbers["threshold"] = base_mean - loss if before.better == "higher" else base_mean + loss
    return KeptMetric(
        name=metric.name,
        counter=before.counter,
        unit=before.unit,
        better=before.better,
        gated=before.gated,
        verdict=metric.verdict,
        reason=cut(metric.reason, LONGEST),
        n=len(metric.now),
        values=tuple(value for value in metric.now if math.isfinite(value)),
        baseline_n=len(before.measured),
        **{name: value for name, value in numbers.items() if math.isfinite(value)},
    )


def keep(folder: Path, result: GateResult, paths: Sequence[str], root: Path) -> Path:
    """``append`` the result of a check of ``paths`` that ran in ``root``."""
    return append(folder, kept(result, paths, str(git_state(root).get("sha") or ""), __version__))


def append(folder: Path, check: KeptCheck) -> Path:
    """Add a check to the history in ``folder``; returns the file. Raises OSError, with nothing
    added, and MeasurementError for what is no file in its place."""
    make_ignored(folder)
    path = folder / FILE
    with _locked(open_lock_file(path, 0o644, "the history of checks"), fcntl.LOCK_EX) as number:
        size = os.fstat(number).st_size
        begun = b"\n" if size and os.pread(number, 1, size - 1) != b"\n" else b""
        try:
            with open(number, "r+b", closefd=False) as file:
                file.seek(size)
                file.write(begun + msgspec.json.encode(check) + b"\n")
            os.fsync(number)
        except OSError:
            os.ftruncate(number, size)
            raise
        sync(folder)
    return path


@contextmanager
def _locked(number: int, kind: int) -> Iterator[int]:
    """The open file ``number``, locked where the file system has locks, and closed in the end."""
    try:
        with suppress(OSError):
            fcntl.flock(number, kind)
        yield number
    finally:
        os.close(number)


_READING = Lock()
_known: dict[Path, History] = {}


def read(folder: Path) -> History:
    """What the folder holds now; a folder that is not there holds nothing. An unchanged one is read
    once a process."""
    with _READING:
        token = _token(folder)
        if (known := _known.get(folder)) is None or known.token != token:
            checks, problems, left_out = _lines(folder / FILE)
            once = {check.check: check for check in checks}.values()
            ordered = sorted(once, key=lambda check: (check.checked, check.check))
            known = _known[folder] = History(folder, tuple(ordered), tuple(problems), left_out, token)
        return known


def _token(folder: Path) -> str:
    """Changes with what ``read`` reads."""
    with suppress(OSError):
        seen = (folder / FILE).lstat()
        return f"{seen.st_ino} {seen.st_size} {seen.st_mtime_ns}"
    return ""


def _lines(path: Path) -> tuple[list[KeptCheck], list[Problem], int]:
    """The checks in a file, what is wrong with its lines, and how many older ones were not read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return [], [], 0
    except OSError as error:
        return [], [Problem(path.name, f"cannot be read ({error.strerror})", "replace it with a regular file")], 0
    try:
        with _locked(number, fcntl.LOCK_SH), open(number, "rb", closefd=False) as file:
            skipped = max(os.fstat(number).st_size - MOST_B, 0)
            left_out = sum(file.read(1 << 20).count(b"\n") for _ in range(skipped >> 20))
            left_out += file.read(skipped - file.tell()).count(b"\n") + (1 if skipped and file.readline() else 0)
            lines = file.read().split(b"\n")
    except OSError as error:
        return [], [Problem(path.name, f"cannot be read ({error.strerror})", "check its permissions")], 0
    checks, problems = [], []
    for place, line in enumerate(lines, left_out + 1):
        if line.strip():
            try:
                checks.append(_check(line))
            except ValueError as error:
                remedy = "upgrade ncubble" if "newer" in str(error) else _RESTORE
                problems.append(Problem(f"{path.name} line {place}", str(error)[:200], remedy))
    if len(problems) > MOST_PROBLEMS:
        rest = f"{len(problems) - MOST_PROBLEMS} more lines are damaged"
        problems[MOST_PROBLEMS:] = [Problem(path.name, rest, _RESTORE)]
    return checks, problems, left_out


class _Version(Struct):
    schema: int


_VERSION, _CHECK = msgspec.json.Decoder(_Version), msgspec.json.Decoder(KeptCheck)


def _check(line: bytes) -> KeptCheck:
    """The check of a line; raises ValueError."""
    try:
        if (schema := _VERSION.decode(line).schema) <= SCHEMA:
            return _CHECK.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"damaged: {error}") from None
    raise ValueError(f"schema {schema} is newer than {SCHEMA}")


def default_checks(paths: Iterable[Path], here: Path = Path()) -> Path:
    """Where results of checks are looked for: ``here/checks``.

    Where that is not there and all ``paths`` are recordings that are shipped, the shipped checks,
    if any are.
    """
    from ncubble import recordings

    own, shipped = here / "checks", recordings.CHECKS
    if own.is_dir() or not shipped.is_dir():
        return own
    ours, shown = Path(os.path.realpath(recordings.ROOT.parent)), [Path(os.path.realpath(path)) for path in paths]
    return shipped if shown and all(path.is_relative_to(ours) for path in shown) else own
