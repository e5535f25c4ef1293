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


class MachineError(MeasurementError):
    """It is about the machine: anything else would have failed there, too."""


class NcuUnusableError(MachineError):
    """ncu exists but is too old, or does not report its version: not executable, for another
    platform, or another program of that name."""


class NcuMissingError(NcuUnusableError):
    """There is no ncu on this machine."""


class CounterPermissionError(MachineError):
    """ERR_NVGPUCTRPERM: the driver lets only administrators read the performance counters."""

    def __init__(self, known: CounterPermission | None = None) -> None:
        known = known or CounterPermission(None, None, False)
        why = f": {known.reason}" if known.reason else ""
        message = f"no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM{why})"
        super().__init__(message, f"{known.remedy}. {WITHOUT_COUNTERS}")


class NoGpuError(MachineError):
    """No GPU or no driver: why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"no usable NVIDIA GPU: {why}",
            "run on a machine with an NVIDIA GPU and driver (`nvidia-smi` must list it); in a container, pass it "
            "through (docker run --gpus all). Recorded runs can be viewed without one: `ncubble report DIR`",
        )


class NcuRejectedError(UsageError):
    """ncu rejects the request: unknown option, section or metric. Exit code 2."""


class ProgramFailedError(MeasurementError):
    """The profiled program ended with an error."""

    def __init__(self, code: int, stderr_tail: Sequence[str]) -> None:
        tail = "\n".join(f"    {line}" for line in stderr_tail) or "    (nothing on stderr)"
        super().__init__(
            f"the profiled program ended with exit code {code}; its last output:\n{tail}",
            "run the program without the profiler first and fix its error",
        )
        self.code = code


class ReplayError(MeasurementError):
    """ncu could not profile a ``kernel`` that it had selected."""

    def __init__(self, kernel: str, detail: str) -> None:
        super().__init__(
            f"kernel {kernel!r} could not be profiled: {detail}",
            "ncu must save the memory that the kernel writes between passes: if memory is short, use a smaller shape "
            "or fewer sets; kernels that wait for each other cannot be replayed individually",
        )
        self.kernel = kernel


class NoKernelError(MeasurementError):
    """The program ran, but none of its kernels (``ran``) was selected."""

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


class NcuFailedError(MeasurementError):
    """Any other failure of ncu: exit code, and its words."""

    def __init__(self, code: int, words: str) -> None:
        remedy = "run `ncubble doctor --gpu` to see what is missing on this machine"
        super().__init__(f"ncu ended with exit code {code}: {words}", remedy)


class MetricUnavailableError(MeasurementError):
    """The report of a run was recorded, but metrics that the account needs have no value (n/a)."""

    def __init__(self, run: str, metrics: str) -> None:
        super().__init__(
            f"{run}: recorded, but these metrics have no value (n/a): {metrics}",
            "this GPU or ncu version does not have them (`ncu --query-metrics`), or another tool used "
            "the counters; account shares that need them are null",
        )


class DiskError(MachineError):
    """The run could not be written: where, why."""

    def __init__(self, where: str, why: str) -> None:
        remedy = "free disk space, or choose another place with --out"
        super().__init__(f"the run could not be written to {where}: {why}", remedy)


@contextmanager
def of_subject() -> Iterator[None]:
    """Errors of the block are about what is measured in it, but for those that any other subject
    would have met, too."""
    try:
        yield
    except NcubbleError as error:
        error.of_subject = not isinstance(error, MachineError | NcuRejectedError | NcuFailedError)
        raise
