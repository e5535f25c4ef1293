"""Errors of recordings, each with its message and remedy (exit code 3 unless stated otherwise), and
whether this process may read the performance counters, as far as known without trying.

The driver refuses them with ERR_NVGPUCTRPERM where its module parameter ``RmProfilingAdminOnly`` is
1 (the default) and the process lacks CAP_SYS_ADMIN, which root in a container does not have by
itself (NVIDIA, "Permission issue with Performance Counters").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ncubble.chips import Version
from ncubble.errors import MeasurementError, NcubbleError, UsageError

PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/run/secrets/kubernetes.io"))
PERMISSION_URL = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
_SYS_ADMIN = 21  # linux/capability.h
_OF_HOST = (
    "on the host, put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into "
    "/etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs, reboot"
)
_OF_CONTAINER = "start the container with --cap-add=SYS_ADMIN (Kubernetes: securityContext.capabilities)"


@dataclass(frozen=True)
class CounterPermission:
    """``admin_only``: the driver's ``RmProfilingAdminOnly``; ``sys_admin``: whether this process
    has CAP_SYS_ADMIN. None: unknown."""

    admin_only: bool | None
    sys_admin: bool | None
    in_container: bool

    @property
    def refused(self) -> bool:
        """Whether the counters are known to be refused without a try."""
        return self.admin_only is True and self.sys_admin is False

    @property
    def reason(self) -> str:
        """The known reason in words; empty if unknown."""
        known = [
            "RmProfilingAdminOnly is 1" if self.admin_only else "",
            "this process lacks CAP_SYS_ADMIN" if self.sys_admin is False else "",
            "it runs in a container" if self.in_container else "",
        ]
        return ", ".join(filter(None, known))

    @property
    def remedy(self) -> str:
        """How to get the permission, simplest way first."""
        if self.in_container:
            ways = [_OF_CONTAINER, f"or allow all users: {_OF_HOST}"]
        elif self.sys_admin is False:
            ways = ["run as root (sudo)", f"or allow all users: {_OF_HOST}"]
        else:
            ways = ["one of: run as root", f"in a container, {_OF_CONTAINER}", f"or allow all users: {_OF_HOST}"]
        return f"{'; '.join(ways)}. See {PERMISSION_URL}"


def counter_permission(
    parameters: Path = PARAMETERS, status: Path = STATUS, marks: tuple[Path, ...] = CONTAINER_MARKS
) -> CounterPermission:
    """Permission of this process, from the system."""
    admin_only = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", _text(parameters), re.MULTILINE)
    effective = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", _text(status), re.MULTILINE)
    return CounterPermission(
        admin_only=None if admin_only is None else admin_only[1] != "0",
        sys_admin=None if effective is None else bool(int(effective[1], 16) >> _SYS_ADMIN & 1),
        in_container=any(mark.exists() for mark in marks),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


ENVIRONMENT = "NCUBBLE_NCU"  # names the ncu executable to use
WITHOUT_COUNTERS = (
    "These work without counters: streams, trace, reports of both, ablate (in time), bench; `ncubble doctor` lists all"
)


class NcuMissingError(MeasurementError):
    """There is no ncu on this machine."""

    def __init__(self, searched: Sequence[str]) -> None:
        super().__init__(
            f"Nsight Compute's command line tool `ncu` was not found (looked in: {', '.join(searched)})",
            "install it (`conda install -c conda-forge nsight-compute`, or the CUDA toolkit) and put it on PATH, or "
            f"name the executable in {ENVIRONMENT}",
        )


class NcuTooOldError(MeasurementError):
    """ncu is too old for the metric sets."""

    def __init__(self, path: str, version: Version, needed: Version) -> None:
        super().__init__(
            f"{path} is version {version}; {needed} or newer is needed",
            f"install a newer Nsight Compute and put it first on PATH, or name it in {ENVIRONMENT}",
        )


class NcuUnusableError(MeasurementError):
    """ncu exists but does not report its version: not executable, for another platform, or another
    program of that name."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: is not usable as ncu ({why})", f"reinstall Nsight Compute, or set {ENVIRONMENT}")


class CounterPermissionError(MeasurementError):
    """ERR_NVGPUCTRPERM: the driver lets only administrators read the performance counters."""

    def __init__(self, known: CounterPermission | None = None) -> None:
        known = known or CounterPermission(None, None, False)
        reason = f": {known.reason}" if known.reason else ""
        super().__init__(
            f"no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM{reason})",
            f"{known.remedy}. {WITHOUT_COUNTERS}",
        )


class NoGpuError(MeasurementError):
    """No GPU or no driver."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"no usable NVIDIA GPU: {why}",
            "run on a machine with an NVIDIA GPU and driver (`nvidia-smi` must list it); in a container, pass it "
            "through (docker run --gpus all). Recorded runs can be viewed without one: `ncubble report DIR`",
        )


class ProfilerBusyError(MeasurementError):
    """Another tool uses the counters."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"another tool is reading the GPU's counters: {detail}",
            "stop the other profiler (DCGM: `dcgmi profiling --pause`; also other ncu, nsys, CUPTI users) and retry",
        )


class LockFileError(MeasurementError):
    """ncu's lock file belongs to another user."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"ncu cannot take its lock: {detail}",
            (
                "another user's ncu left /tmp/nsight-compute-lock behind: ask them to remove it, or set "
                "TMPDIR to a folder of your own, provided nobody else profiles this GPU meanwhile"
            ),
        )


class NcuRejectedError(UsageError):
    """ncu rejects the request: unknown option, section or metric. Exit code 2."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"ncu refused the request: {detail}",
            "`ncu --query-metrics` and `ncu --list-sections` show what this version supports; check --set and --metric",
        )


class ProgramFailedError(MeasurementError):
    """The profiled program ended with an error."""

    def __init__(self, code: int | None, stderr_tail: Sequence[str], hint: str = "") -> None:
        tail = "\n".join(f"    {line}" for line in stderr_tail) or "    (nothing on stderr)"
        ended = f"with exit code {code}" if code is not None else "abnormally"
        super().__init__(
            f"the profiled program ended {ended}; its last output:\n{tail}",
            hint or "run the program without the profiler first and fix its error",
        )
        self.code = code


class LaunchFaultError(MeasurementError):
    """A kernel failed on the GPU while being profiled: a bad address, a trap. ncu then kills the
    program."""

    def __init__(self, kernel: str, detail: str) -> None:
        super().__init__(
            f"kernel {kernel!r} failed on the GPU while it was profiled: {detail}",
            "run the program under compute-sanitizer; if it passes there, the kernel cannot be replayed",
        )


class ReplayError(MeasurementError):
    """ncu could not profile a kernel that it had selected."""

    def __init__(self, kernel: str, detail: str) -> None:
        self.kernel = kernel
        super().__init__(
            f"kernel {kernel!r} could not be profiled: {detail}",
            (
                "ncu must save the memory that the kernel writes between passes: if memory is short, use a "
                "smaller shape or fewer sets; kernels that wait for each other cannot be replayed "
                "individually"
            ),
        )


class NoKernelError(MeasurementError):
    """The program ran, but none of its kernels was selected."""

    def __init__(self, wanted: str, ran: Sequence[str]) -> None:
        if ran:
            listed = "\n".join(f"    {name}" for name in ran)
            message = f"no kernel matched {wanted}; kernels that ran:\n{listed}"
            remedy = (
                "correct --kernel (a regular expression, searched in the demangled name; with ^ or $, in the base "
                "name), --nvtx, --skip or --count"
            )
        else:
            message = f"no kernel matched {wanted}: the program launched no kernel"
            remedy = "check that the program uses the GPU and that its kernel launches succeed"
        super().__init__(message, remedy)
        self.ran = tuple(ran)


class TimeLimitError(MeasurementError):
    """The run exceeded its time limit and was stopped."""

    def __init__(self, seconds: float, launches: int) -> None:
        super().__init__(
            f"time limit of {seconds:g} s reached after {launches} profiled launches; nothing was kept",
            "raise --timeout, or profile less: --count 1, a smaller shape, fewer sets",
        )


class NcuFailedError(MeasurementError):
    """Any other failure of ncu."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(
            f"ncu ended with exit code {code}: {detail or 'no output'}",
            "run `ncubble doctor --gpu` to see what is missing on this machine",
        )


class MetricUnavailableError(MeasurementError):
    """The report was recorded, but metrics that the account needs have no value (n/a)."""

    def __init__(self, run: str, names: Sequence[str]) -> None:
        super().__init__(
            f"{run}: recorded, but these metrics have no value (n/a): {', '.join(names)}",
            (
                "this GPU or ncu version does not have them (`ncu --query-metrics`), or another tool used "
                "the counters; account shares that need them are null"
            ),
        )


class DiskError(MeasurementError):
    """The run could not be written."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"the run could not be written to {path}: {why}",
            "free disk space, or choose another place with --out",
        )


OF_THE_MACHINE = (
    NcuMissingError,
    NcuTooOldError,
    NcuUnusableError,
    CounterPermissionError,
    NoGpuError,
    ProfilerBusyError,
    LockFileError,
    NcuRejectedError,
    NcuFailedError,
    DiskError,
)
"""Failures that any other subject would have met, too."""


@contextmanager
def of_subject() -> Iterator[None]:
    """Errors of the block are about what is measured in it, but for those of the machine."""
    try:
        yield
    except NcubbleError as error:
        error.of_subject = not isinstance(error, OF_THE_MACHINE)
        raise
