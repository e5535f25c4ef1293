"""Whether this process may read the performance counters, as far as known without trying.

The driver refuses them with ERR_NVGPUCTRPERM where its module parameter ``RmProfilingAdminOnly`` is
1 (the default) and the process lacks CAP_SYS_ADMIN, which root in a container does not have by
itself (NVIDIA, "Permission issue with Performance Counters").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
