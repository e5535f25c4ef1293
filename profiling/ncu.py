"""Nsight Compute as a program: finding it, composing its argv, parsing its output while it runs,
telling its failures apart, and reading a fresh report back. Nothing here profiles.

ncu marks its lines ``==PROF==``, ``==WARNING==`` and ``==ERROR==`` and mixes them with the
program's. A progress line grows while a kernel is replayed: ``==PROF== Profiling "name" - 3:
0%....50%....100% - 10 passes``. The index may lack (ncu 2025.3.1 writes ``Profiling "name":
0%...``); launches are then counted, and a line that ends one is read once, when it is whole. Where
the application is replayed, it says ``Application replay pass 2`` of a launch in each run.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncubble.chips import Version, parse_version
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling import failures
from ncubble.profiling.failures import NcuFailedError
from ncubble.profiling.metrics.metrics import MetricSelection
from ncubble.profiling.processes import LineSplitter, Stream
from ncubble.text.values import expression

_MARK = re.compile(r"==(PROF|WARNING|ERROR)== ?")
_PROFILING = re.compile(r'Profiling "(?P<kernel>.*)"(?: - (?P<index>\d+)(?: \(\d+/\d+\))?)?:(?P<progress>.*)')
_PASSES = re.compile(r"(\d+) pass(?:es)?\b|replay pass (\d+)")  # replayed by the application: the last one yet
_AVAILABLE = re.compile(r"\s*\d+\.\s+(\S.*)")
_TAIL_LINES = 40
_STREAMS: tuple[Stream, ...] = ("stderr", "stdout")


@dataclass(frozen=True)
class ReplayedLaunch:
    """One profiled launch. ``passes`` is None until ncu reports it."""

    kernel: str
    index: int
    percent: int
    passes: int | None


@dataclass
class NcuLog:
    """The state after everything fed so far. ``on_launch`` is called for each change of a launch,
    ``on_output`` for each line of the program.
    """

    on_launch: Callable[[ReplayedLaunch], None] = lambda launch: None
    on_output: Callable[[Stream, str], None] = lambda stream, line: None
    launches: dict[int, ReplayedLaunch] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    available: list[str] = field(default_factory=list)
    report: str = ""
    tail: dict[Stream, deque[str]] = field(
        default_factory=lambda: {"stdout": deque(maxlen=_TAIL_LINES), "stderr": deque(maxlen=_TAIL_LINES)}
    )
    _lines: LineSplitter = field(init=False)
    _listing: bool = False

    def __post_init__(self) -> None:
        self._lines = LineSplitter(lambda stream, line: self._line(stream, line.rstrip("\r")))

    @property
    def profiled(self) -> list[ReplayedLaunch]:
        """Launches that were profiled to the end, in order."""
        return [launch for _, launch in sorted(self.launches.items()) if launch.passes is not None]

    @property
    def last_words(self) -> list[str]:
        """The end of the program's stderr, or of its stdout where stderr is silent."""
        spoken = ([line for line in self.tail[name] if line.strip()] for name in _STREAMS)
        return next((lines[-12:] for lines in spoken if lines), [])

    def feed(self, stream: Stream, text: str) -> None:
        """Process the next piece of output, split anywhere."""
        self._lines(stream, text)
        rest = self._lines.rest[stream]
        if "==PROF== Profiling" in rest and not _PASSES.search(rest):
            self._progress(rest)

    def close(self) -> None:
        """Process the remaining output without a line end."""
        self._lines.close()

    def _line(self, stream: Stream, line: str) -> None:
        mark = _MARK.search(line)
        if mark is None:
            self._program_line(stream, line)
            return
        if mark.start():
            self._program_line(stream, line[: mark.start()])
        message = line[mark.end() :].strip()
        self._listing = False
        if mark[1] == "ERROR":
            self.errors.append(message)
        elif mark[1] == "WARNING":
            self.warnings.append(message)
        elif message.startswith("Report:"):
            self.report = message.removeprefix("Report:").strip()
        else:
            self._progress(line)

    def _program_line(self, stream: Stream, line: str) -> None:
        if line.strip() == "Available Kernels:":
            self._listing = True
            return
        listed = _AVAILABLE.fullmatch(line) if self._listing else None
        if listed:
            self.available.append(listed[1].strip())
            return
        self.tail[stream].append(line)
        self.on_output(stream, line)

    def _progress(self, line: str) -> None:
        match = _PROFILING.search(line)
        if not match:
            return
        passes = _PASSES.search(match["progress"])
        run = int(passes[2] or 0) if passes else 0
        before = sum(one.passes == run for one in self.launches.values()) if run else len(self.profiled)
        launch = ReplayedLaunch(
            kernel=match["kernel"],
            index=int(match["index"] or before),
            percent=_percent(match["progress"]),
            passes=int(passes[1] or passes[2]) if passes else None,
        )
        if self.launches.get(launch.index) != launch:
            self.launches[launch.index] = launch
            self.on_launch(launch)


def _percent(progress: str) -> int:
    """``"0%....50%.."`` → 70: a figure every fifty percent, a dot every ten between."""
    figures = list(re.finditer(r"(\d+)%", progress))
    if not figures:
        return 0
    return min(100, int(figures[-1][1]) + 10 * progress[figures[-1].end() :].split(" ")[0].count("."))


OLDEST = Version(2024, 1)  # the first with PM sampling sections
WAITING = (
    "(^|[ :])_?(nccl|nvshmem|multimem_|userbuffers_|cross_device_reduce_|(barrier|sync)[a-z_]*_on_stream_kernel"
    "|((fused|moe[a-z]*)_)?(allreduce|allgather|reducescatter)_[a-z_]*kernel|minimax_reduce_rms_"
    "|(moe|helix)(AllToAllKernel|A2A(Dispatch|Combine)Kernel))"
    "|([Oo]ne|[Tt]wo)_?[Ss]hot_?(prenorm_)?[Aa]ll_?[Rr]educe|(deep_ep|mscclpp|c10d::symmetric_memory)::"
)
"""Kernels that wait for other GPUs: of NCCL, NVSHMEM, Transformer Engine, DeepEP, MSCCL++ and
PyTorch's symmetric memory, and all-reduces of vLLM, SGLang, FlashInfer and TensorRT-LLM. Replayed
alone they never end. A POSIX expression, too. Searched in whole names: some are called ``dispatch``
and ``combine``, and only their namespace, or a parameter, tells what they are."""
_PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda-*/bin", "/opt/nvidia/nsight-compute/*", "/opt/cuda/bin")


@dataclass(frozen=True)
class Filters:
    """Which launches are profiled: all, where everything is left as it is.

    ``kernel`` is a regular expression searched in the demangled name, or, where it has ``^``, ``$``
    or a lookaround, in the function's base name. Kernels in which ``without`` is found are left
    out; None: ``WAITING``. ``nvtx`` is an NVTX include expression of ncu
    (``domain@range/``, ``range/``), ``skip`` and ``count`` refer to the launches that match. With
    ``window``, only launches between ``cuProfilerStart`` and ``cuProfilerStop`` count
    (``profiling.window``). ``symbols`` and ``invocation`` choose single launches: of each kernel
    with one of these mangled names, the n-th (from 1) of its name, grid, block and shared memory.
    A name that ends in ``*`` stands for all that begin like it.
    """

    kernel: str = ""
    nvtx: str = ""
    skip: int = 0
    count: int | None = None
    window: bool = False
    symbols: tuple[str, ...] = ()
    invocation: int = 0
    without: str | None = None

    def __post_init__(self) -> None:
        expression(self.kernel, f"--kernel {self.kernel!r}")
        expression(self.without or "", f"--without {self.without!r}")
        if self.skip < 0:
            raise UsageError(f"--skip {self.skip}: fewer than none", "give 0 or more")
        if bool(self.symbols) != bool(self.invocation) or (self.symbols and self.kernel):
            raise UsageError("symbols and an invocation go together, without a kernel regex", "give both or none")
        if self.count is not None and self.count < 1:
            raise UsageError(f"--count {self.count}: nothing would be profiled", "give 1 or more")

    @property
    def left_out(self) -> str:
        """The expression of kernels that are left out; empty: none are."""
        if self.without is not None:
            return self.without
        return "" if self.symbols or self.window else WAITING

    @property
    def names(self) -> str:
        """The one expression that ncu takes. It leaves out by a lookahead, as ``^(?!foo)`` in its
        manual (docs.nvidia.com/nsight-compute/NsightComputeCli, ``--kernel-id``)."""
        return f"^(?!.*(?:{self.left_out})).*(?:{self.kernel})" if self.left_out else self.kernel

    @property
    def name_base(self) -> str:
        """The one name that ncu searches. What matches the base name matches the demangled name,
        which contains it, unless the pattern depends on where the base name begins and ends."""
        return "function" if re.search(r"[\^$]|\(\?[=!<]", f"{self.kernel} {self.without or ''}") else "demangled"

    def chooses(self, name: str, function: str) -> bool:
        """Whether a kernel of this demangled name and base name counts: either may match."""

        def found(pattern: str) -> bool:
            return any(re.search(pattern, text) for text in (function, name))

        return found(self.kernel) and not (self.left_out and found(self.left_out))

    def of(self, function: str) -> Filters:
        """The same, of the kernels called ``function`` where none are named: these are wanted, also
        if they wait."""
        if self.kernel or self.symbols or not function:
            return self
        return replace(self, kernel=function, without=self.without or "")

    def variables(self, prefix: str, function: str) -> dict[str, str]:
        """The same for what runs in the program itself, as environment variables: ``function``
        where no kernel is named, one launch where no count is. Raises UsageError for what it cannot
        tell."""
        if self.nvtx or self.window:
            raise UsageError("launches are selected by --kernel, --skip and --count here", "omit --nvtx")
        named = self.of(function)
        chosen = {"KERNEL": named.kernel, "WITHOUT": named.left_out, "SKIP": self.skip, "COUNT": self.count or 1}
        return {f"{prefix}_{name}": str(value) for name, value in chosen.items()}

    def __str__(self) -> str:
        parts = {
            f"kernel regex {self.kernel!r}": self.kernel,
            f"without {self.without!r}": self.without,
            "without those that wait for other GPUs (--without '' profiles them, too)": self.left_out == WAITING,
            f"NVTX range {self.nvtx!r}": self.nvtx,
            f"skip {self.skip}": self.skip,
            f"count {self.count}": self.count,
            f"launch {self.invocation} of {len(self.symbols)} kernels": self.symbols,
            "inside the profiler window": self.window,
        }
        return ", ".join(text for text, given in parts.items() if given) or "(no filter)"


OPTIONS = {
    "section": ".+",
    "metrics": ".+",
    "replay-mode": "kernel|application",  # ranges have no account
    "cache-control": "all|none",
    "clock-control": "none|base",
    "pm-sampling-interval": "[0-9]+",
    "pm-sampling-max-passes": "[0-9]+",
}
"""Options of ncu that are passed on, and what they take. Without: caches are emptied before each
pass, so that passes agree, and clocks are left alone: a locked clock is not the user's clock."""
_DEFAULTS = {"replay-mode": "kernel", "clock-control": "none", "cache-control": "all"}


def require_options(options: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError for an option that is not passed on, or a value that it does not take."""
    for name, value in options:
        if name not in OPTIONS:
            raise UsageError(f"--ncu {name}: not an option that is passed on", f"use one of {', '.join(OPTIONS)}")
        if not re.fullmatch(OPTIONS[name], value):
            raise UsageError(f"--{name} {value!r}: unknown value", f"it takes {OPTIONS[name].replace('|', ' or ')}")


@dataclass(frozen=True)
class Ncu:
    """One installation of ncu."""

    path: str
    version: Version
    release: str  # as it names itself, for example 2025.3.1.0


def ncu_argv(
    ncu: str,
    report: Path,
    program: Sequence[str],
    selection: MetricSelection,
    filters: Filters | None = None,
    options: Sequence[tuple[str, str]] = (),
    section_folders: Sequence[Path] = (),
) -> list[str]:
    """The whole command line that profiles ``program`` into ``report`` (path without the suffix
    .ncu-rep). Pure.

    ncu expands %-macros in the report's path, so they are escaped. Raises UsageError where
    ``program`` is none.
    """
    filters = filters or Filters()
    if not program or program[0].startswith("-"):
        raise UsageError(f"not a program: {program[0] if program else ''!r}", "name the program to profile after --")
    single = _DEFAULTS | {name: value for name, value in options if name not in ("section", "metrics")}
    argv = [
        ncu,
        *("--config-file", "off"),
        *("--export", str(report).replace("%", "%%")),
        "--force-overwrite",
        *("--target-processes", "all"),
        *(word for name, value in single.items() for word in (f"--{name}", value)),
        *("--import-source", "yes" if selection.import_source else "no"),
    ]
    for folder in section_folders:
        argv += ["--section-folder", str(folder)]
    for name in selection.ncu_sets:
        argv += ["--set", name]
    for name in (*selection.sections, *(value for name, value in options if name == "section")):
        argv += ["--section", name]
    if selection.metrics:
        argv += ["--metrics", ",".join(selection.metrics)]
    argv += _filter_options(filters)
    return [*argv, *program]


def _filter_options(filters: Filters) -> Iterator[str]:
    if filters.names:
        yield from ("--kernel-name-base", filters.name_base)
        yield from ("--kernel-name", f"regex:{filters.names}")
    if filters.symbols:
        # Mangled names hold no colon, which parts the members of a kernel id, and tell instances
        # of one template apart.
        names = "|".join(
            f"{re.escape(name[:-1])}.*" if name.endswith("*") else re.escape(name) for name in filters.symbols
        )
        yield from ("--filter-mode", "per-launch-config")  # else launches of a name count, whatever their grids
        yield from ("--kernel-name-base", "mangled")
        yield from ("--kernel-id", f"::regex:^({names})$:{filters.invocation}")
    if filters.nvtx:
        yield "--nvtx"
        yield from ("--nvtx-include", filters.nvtx)
    if filters.skip:
        yield from ("--launch-skip", str(filters.skip))
    if filters.count is not None:
        yield from ("--launch-count", str(filters.count))
    if filters.window:
        yield from ("--profile-from-start", "off")


def find_ncu() -> Ncu:
    """The ncu named by NCUBBLE_NCU, else the first on PATH, else the newest in the usual places.

    Raises NcuMissingError or NcuUnusableError.
    """
    named = os.environ.get(failures.ENVIRONMENT)
    path = named or shutil.which("ncu") or _installed()
    if not path:
        raise failures.NcuMissingError(
            f"Nsight Compute's command line tool `ncu` was not found (looked in: {', '.join(['PATH', *_PLACES])})",
            "install it (`conda install -c conda-forge nsight-compute`, or the CUDA toolkit) and put it on PATH, or "
            f"name the executable in {failures.ENVIRONMENT}",
        )
    ncu = ncu_version(path)
    if ncu.version < OLDEST:
        remedy = f"install a newer Nsight Compute and put it first on PATH, or name it in {failures.ENVIRONMENT}"
        raise failures.NcuUnusableError(f"{path} is version {ncu.version}; {OLDEST} or newer is needed", remedy)
    return ncu


def _installed() -> str | None:
    executables = [
        candidate
        for pattern in _PLACES
        for candidate in Path("/").glob(f"{pattern.lstrip('/')}/ncu")
        if os.access(candidate, os.X_OK)
    ]
    return str(max(executables, key=lambda path: path.resolve())) if executables else None


def ncu_version(path: str) -> Ncu:
    """What ``ncu --version`` says; raises NcuUnusableError."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        if match := re.search(r"Version (\d+\.\d+[\d.]*)", output):
            return Ncu(path, parse_version(match[1]), match[1])
        raise ValueError(f"no version in what it says: {output[:200]!r}")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        remedy = f"reinstall Nsight Compute, or set {failures.ENVIRONMENT}"
        raise failures.NcuUnusableError(f"{path}: is not usable as ncu ({error})", remedy) from error


def failure(log: NcuLog, status: int, wanted: str) -> NcubbleError | None:
    """Why a finished run of ncu is a failure, most telling reason first, or None. ``wanted`` names
    the filters."""
    messages, errors = [*log.errors, *log.warnings], "; ".join(log.errors)
    text = "\n".join(messages)

    def said(*words: str) -> str:
        return next((error for error in log.errors if any(word in error.lower() for word in words)), "")

    if "ERR_NVGPUCTRPERM" in text:
        return failures.CounterPermissionError(failures.counter_permission())
    if message := next((message for message in messages if "nsight-compute-lock" in message), ""):
        return failures.MachineError(
            f"ncu cannot take its lock: {message}",
            "another user's ncu left /tmp/nsight-compute-lock behind: ask them to remove it, or set "
            "TMPDIR to a folder of your own, provided nobody else profiles this GPU meanwhile",
        )
    if message := said("concurrently collecting", "being used by another", "resourceunavailable"):
        remedy = (
            "stop the other profiler (DCGM: `dcgmi profiling --pause`; also other ncu, nsys, CUPTI users) and retry"
        )
        return failures.MachineError(f"another tool is reading the GPU's counters: {message}", remedy)
    if message := said("cuda driver", "librarynotloaded", "driver library", "not supported on device"):
        return failures.NoGpuError(message)
    if message := said(
        "failed to find", "unrecognised option", "unrecognized option", "for option", "did not match any"
    ):
        remedy = "`ncu --query-metrics` and `ncu --list-sections` show what this version supports"
        return failures.NcuRejectedError(f"ncu refused the request: {message}", remedy)
    if kernel := re.search(r'Failed to profile "(.*?)"', text):
        return failures.ReplayError(kernel[1], errors)
    if message := said("launchfailed"):
        last = log.launches[max(log.launches)].kernel if log.launches else "(not named)"
        remedy = "run the program under compute-sanitizer; if it passes there, the kernel cannot be replayed"
        return MeasurementError(f"kernel {last!r} failed on the GPU while it was profiled: {message}", remedy)
    if code := re.search(r"application returned an error code \((-?\d+)\)", text):
        return failures.ProgramFailedError(int(code[1]), log.last_words)
    if not log.profiled and not status:
        return failures.NoKernelError(wanted, log.available)
    if not log.profiled and not log.errors:
        return failures.ProgramFailedError(status, log.last_words)
    if status or log.errors:
        return failures.NcuFailedError(status, errors or "\n".join(log.last_words) or "no output")
    return None


_ABSENT = frozenset({"", "n/a", "nan", "(!) n/a", "(!) nan"})
_TIMEOUT_S = 600.0


def read_back(ncu: str, report: Path) -> list[dict[str, str]] | None:
    """The ``raw_page`` of ``report``, or None if ncu printed an unknown table. Raises
    NcuFailedError if ncu cannot read its own report.
    """
    argv = [ncu, "--config-file", "off", "--import", str(report), "--page", "raw", "--csv"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NcuFailedError(-1, f"reading back {report.name} took more than {_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise NcuFailedError(
            done.returncode, f"ncu cannot read the report it wrote: {done.stderr or done.stdout}".strip()
        )
    return raw_page(done.stdout)


def raw_page(text: str) -> list[dict[str, str]] | None:
    """The values of each launch by name, in ncu's raw page as CSV: a row of names that starts with
    ID, a row of units, then one row a launch. What has no value (n/a) is left out; None where there
    is no such table."""
    rows = list(csv.reader(text.splitlines()))
    start = next((number for number, row in enumerate(rows) if row and row[0] == "ID"), None)
    if start is None:
        return None
    names, launches = rows[start], [row for row in rows[start + 2 :] if len(row) == len(rows[start])]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value.strip().lower() not in _ABSENT}
        for row in launches
    ]
