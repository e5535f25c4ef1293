"""What this machine has and lacks, by one check each, with remedies; and what each command can do.

Without permission for counters most commands still work: streams and traces need none, and
``ablate`` measures time instead of cycles.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from ncubble import toolkit
from ncubble.chips import Version, generation_of, parse_version
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.profiling import failures, ncu, processes
from ncubble.profiling.driver import DriverError, describe
from ncubble.profiling.failures import counter_permission
from ncubble.profiling.ncu import NcuLog
from ncubble.profiling.tiny import KERNEL
from ncubble.text.remedies import extras_command, pip_command

Works = Literal["yes", "partly", "no"]
READING = (
    *("report", "compare", "trend", "export", "dashboard", "demo"),
    *("baseline", "ingest", "query", "kernels"),
)
"""Commands that work on recorded runs."""


Status = Literal["ok", "missing", "wrong"]
Need = Literal["view", "profile", "kernels", "own", "streams", "sweeps", "agents"]
NEEDS: tuple[Need, ...] = get_args(Need)


@dataclass(frozen=True)
class DoctorCheck:
    """One finding. ``need``: what does not work without it: viewing runs, profiling, the catalog's
    kernels, building own kernels in any language, streams of Python programs, sweeps, or agents."""

    name: str
    need: Need
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class CommandReach:
    """Reach of commands here. ``how``: what works, or what is missing; ``fix``: how to make
    everything work. Both are empty if everything works."""

    commands: tuple[str, ...]
    works: Works
    how: str = ""
    fix: str = ""


@dataclass(frozen=True)
class _Rule:
    """Commands, their full and partial requirements, and what works with the latter. ``shows``:
    they show recorded runs again, wherever runs can be viewed."""

    commands: tuple[str, ...]
    whole: str
    part: str = ""
    how: str = ""
    shows: bool = False


_IN_TIME = "in time instead of cycles (--time), without estimates; needs nvdisasm and g++"
_RULES = (
    _Rule(READING, "view"),
    _Rule(("profile",), "profile"),
    _Rule(("mcp",), "agents"),
    _Rule(("check",), "profile", "view", "recorded reports only; no --profile or --against"),
    _Rule(("sweep",), "sweeps", "tuned", "on one GPU; several need the extra cluster"),
    _Rule(("ablate",), "profile", "gpu", _IN_TIME, True),
    _Rule(("program",), "profile", "gpu", "only the time between kernels, with --cover 0", True),
    _Rule(("try",), "tuned", "kernels", "without predictions from a profile"),
    _Rule(("trace",), "kernels", shows=True),
    _Rule(("streams",), "streams", "gpu", "programs without Python; needs g++", True),
    _Rule(("verify",), "kernels", "compile", "only with --compile-only, which needs no GPU"),
    _Rule(("bench",), "kernels"),
)


def _judged(rule: _Rule, lacking: Mapping[str, Sequence[DoctorCheck]]) -> CommandReach:
    checks = lacking[rule.whole]
    if not checks:
        return CommandReach(rule.commands, "yes")
    if rule.part and not lacking[rule.part]:
        return CommandReach(rule.commands, "partly", rule.how, checks[0].remedy)
    first = lacking[rule.part] if rule.part else checks
    if rule.shows and not lacking["view"]:
        return CommandReach(rule.commands, "partly", "recorded runs only", first[0].remedy)
    names = ", ".join(dict.fromkeys(check.name for check in first))
    return CommandReach(rule.commands, "no", f"needs {names}", first[0].remedy)


_WITH_GPU = ("kernels", "streams")

PROBE = [sys.executable, "-P", "-m", "ncubble.profiling.tiny"]  # profiled to try the counters; -P: not from the cwd
_PROBE_TIMEOUT_S = 120.0
_NUMPY_WITHOUT_ROW_STACK = Version(2, 5)  # numba-cuda 0.30 imports np.row_stack
_VIEW = (
    *("dash", "dash-ag-grid", "duckdb", "ml-dtypes", "msgspec", "ncu-report", "numpy", "orjson", "pandas"),
    *("plotly", "pyarrow", "rich", "scipy", "typer", "waitress", "zstandard"),
)
_GPU: dict[str, Need] = {
    "cuda-core": "kernels",
    "cupti-python": "streams",
    "numba-cuda": "kernels",
    "nvidia-ml-py": "kernels",
    "nvtx": "kernels",
}
_CLUSTER = ("cryptography", "dask", "distributed")
_RESTS_ON = {"sweeps": ("profile", "kernels"), "agents": ("view",)}
_DEVICE = "driver and GPU"
_COMPILERS = ("nvcc", "g++", "nvdisasm")


def examine() -> list[DoctorCheck]:
    """All checks, in the order in which problems should be fixed. Takes some seconds with a GPU."""
    gpu, tool = check_gpu(), check_ncu()
    counters = check_counters() if gpu.status == tool.status == "ok" else _untried_counters(gpu, tool)
    return [
        check_python(),
        *(check_package(name, "view") for name in _VIEW),
        gpu,
        tool,
        counters,
        *(check_package(name, need, "gpu", "nvcc") for name, need in _GPU.items()),
        check_numba(),
        check_compiler("nvcc", "install the CUDA toolkit (conda: cuda-nvcc), or set CUDA_HOME"),
        check_cxx(),
        replace(check_compiler("nvdisasm", "install the CUDA toolkit (conda: cuda-nvdisasm)"), need="own"),
        check_package("triton", "own", "triton"),
        *(check_package(name, "sweeps", "cluster") for name in _CLUSTER),
        check_package("mcp", "agents", "mcp"),
    ]


def as_json(checks: list[DoctorCheck]) -> dict[str, object]:
    """``{"schema": 1, "can": {"view", "profile", "kernels", "own", "streams", "sweeps", "agents"},
    "commands": [{"commands", "works", "how", "fix"}], "checks": […]}``."""
    return {
        "schema": 1,
        "can": {need: able(checks, need) for need in NEEDS},
        "commands": [asdict(row) for row in commands(checks)],
        "checks": [asdict(check) for check in checks],
    }


def able(checks: list[DoctorCheck], need: str) -> bool:
    """Whether all requirements of ``need`` are met. Kernels and streams require the GPU like
    profiling, own kernels the compilers, sweeps everything that profiling and kernels require,
    agents viewing."""
    return not lacking(checks, need)


def lacking(checks: list[DoctorCheck], need: str) -> list[DoctorCheck]:
    """The unmet requirements of ``need``."""
    more = [check for base in _RESTS_ON.get(need, ()) for check in lacking(checks, base)]
    names = (_DEVICE,) if need in _WITH_GPU else _COMPILERS if need == "own" else ()
    own = [check for check in checks if check.need == need or check.name in names]
    return list(dict.fromkeys([*more, *(check for check in own if check.status != "ok")]))


def commands(checks: list[DoctorCheck]) -> list[CommandReach]:
    """What works of every command here, and how to make the rest work."""
    wrong = [check for check in checks if check.status != "ok"]
    known: dict[str, Sequence[DoctorCheck]] = {need: lacking(checks, need) for need in NEEDS}
    known["gpu"] = [check for check in wrong if check.name == _DEVICE]
    known["compile"] = [check for check in wrong if check.name in _COMPILERS]
    known["tuned"] = [*known["kernels"], *known["profile"]]
    return [_judged(rule, known) for rule in _RULES]


def require_profiling(checks: list[DoctorCheck]) -> None:
    """Raise MeasurementError naming what profiling lacks, if anything."""
    if missing := lacking(checks, "profile"):
        names = ", ".join(check.name for check in missing)
        raise MeasurementError(f"this machine cannot profile: {names}", missing[0].remedy)


def require_counters() -> None:
    """Raise MeasurementError for what is known, without a try, to keep ncu from counting: no usable
    ncu, or no permission."""
    ncu.find_ncu()
    if (known := counter_permission()).refused:
        raise failures.CounterPermissionError(known)


def check_python() -> DoctorCheck:
    """Python 3.11 or newer."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return DoctorCheck(
        "python", "view", "ok" if sys.version_info >= (3, 11) else "wrong", version, "use Python 3.11 or newer"
    )


def check_package(name: str, need: Need, *extras: str) -> DoctorCheck:
    """Whether a Python package is installed, which comes with ``extras``; its version rules are
    pip's, not checked twice."""
    try:
        return DoctorCheck(name, need, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return DoctorCheck(name, need, "missing", "not installed", extras_command(*extras))


def check_numba(version: Callable[[str], str] = importlib.metadata.version) -> DoctorCheck:
    """numba-cuda against numpy: it needs a function that numpy 2.5 dropped."""
    name = "numba-cuda with numpy"
    try:
        numpy, numba = version("numpy"), version("numba-cuda")
    except importlib.metadata.PackageNotFoundError as error:
        return DoctorCheck(name, "kernels", "missing", f"{error.name} not installed", extras_command("gpu", "nvcc"))
    detail = f"numba-cuda {numba}, numpy {numpy}"
    if parse_version(numpy) >= _NUMPY_WITHOUT_ROW_STACK:
        return DoctorCheck(name, "kernels", "wrong", f"{detail}: its import fails", pip_command("numpy<2.5"))
    return DoctorCheck(name, "kernels", "ok", detail)


def check_gpu() -> DoctorCheck:
    """A driver, and a GPU that it shows."""
    try:
        gpu = describe()
    except DriverError as error:
        return DoctorCheck(_DEVICE, "profile", "missing", str(error), failures.NoGpuError("").remedy)
    detail = f"{gpu.name}, compute capability {gpu.capability}, driver {gpu.driver or '?'}, CUDA up to {gpu.cuda}"
    if generation_of(gpu.capability) is None:
        detail += " (unknown chip: metric names are passed as written)"
    return DoctorCheck(_DEVICE, "profile", "ok", detail)


def check_ncu() -> DoctorCheck:
    """ncu, new enough."""
    try:
        tool = ncu.find_ncu()
    except failures.NcuMissingError as error:
        return DoctorCheck("ncu", "profile", "missing", error.message, error.remedy)
    except NcubbleError as error:
        return DoctorCheck("ncu", "profile", "wrong", error.message, error.remedy)
    return DoctorCheck("ncu", "profile", "ok", f"{tool.release} at {tool.path}")


def check_counters() -> DoctorCheck:
    """Permission for the performance counters, by profiling one empty kernel."""
    name = "performance counters"
    log = NcuLog()
    options = ["--config-file", "off", "--clock-control", "none", "--metrics", "sm__cycles_active.max"]
    try:
        status = processes.stream([ncu.find_ncu().path, *options, *PROBE], os.environ, log.feed, _PROBE_TIMEOUT_S)
    except processes.TimedOutError:
        return DoctorCheck(name, "profile", "wrong", f"no answer within {_PROBE_TIMEOUT_S:g} s", "see `nvidia-smi`")
    log.close()
    problem = ncu.failure(log, status, KERNEL)
    if problem is None:
        return DoctorCheck(name, "profile", "ok", f"profiled {KERNEL}")
    return DoctorCheck(name, "profile", "wrong", problem.message, problem.remedy)


def _untried_counters(*needed: DoctorCheck) -> DoctorCheck:
    """Permission as reported by the system, if profiling is impossible."""
    names = ", ".join(check.name for check in needed if check.status != "ok")
    if (known := counter_permission()).refused:
        detail = f"not tried: needs {names}; counters would be refused: {known.reason}"
        return DoctorCheck("performance counters", "profile", "wrong", detail, known.remedy)
    return DoctorCheck("performance counters", "profile", "missing", f"not tried: needs {names}", f"first fix {names}")


def check_cxx() -> DoctorCheck:
    """The C++ compiler: the one that CXX names, else g++."""
    named = toolkit.named_cxx()
    remedy = "install g++ (Debian: apt install g++; conda: gxx), or name a compiler by CXX"
    check = check_compiler(named or "g++", remedy)
    if named and check.status != "ok":
        return replace(check, name="g++", detail=f"CXX={os.environ['CXX']}: {check.detail}")
    return replace(check, name="g++")


def check_compiler(program: str, remedy: str) -> DoctorCheck:
    """A compiler, and its version."""
    path = toolkit.cuda_tool(program)
    if not path:
        return DoctorCheck(program, "kernels", "missing", "not on PATH", remedy)
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorCheck(program, "kernels", "wrong", f"{path}: {error}", remedy)
    first = output.strip().partition("\n")[0].strip() or path
    lines = [line for line in output.splitlines() if "release" in line or "g++" in line]
    return DoctorCheck(program, "kernels", "ok", lines[0].strip() if lines else first)
