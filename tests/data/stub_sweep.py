"""Stands in for ``ncubble.api.sweep_child``: "measures" by copying a recorded run, or does
what goes wrong.

STUB_PLAN is a JSON object that gives the behaviour at sizes ``n`` of the shape; all others are
measured. STUB_LOG is a file that gets a line for each job that was begun. STUB_RUN is the run
directory that is copied.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from ncubble.api import sweep_child
from ncubble.errors import UsageError
from ncubble.profiling import failures
from ncubble.profiling.sweeps.store import Machine
from ncubble.profiling.sweeps.worker import PROBE, RUN

STICKY = "ncubble.kernels: the kernel failed on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS"


def probe() -> dict:
    if why := os.environ.get("STUB_WHY_NOT"):
        raise failures.NoGpuError(why)
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    tools = {"ncu": "2025.3.1", "nvcc": "13.0"}
    return asdict(Machine("NVIDIA H200", gpu, "9.0", "580", tools=tools, gpus=tuple(gpu.split(","))))


def misbehave(what: str) -> None:
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what in ("hang", "stubborn"):  # and so does a process in a session of its own
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        if what == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if what == "slow":
        subprocess.run(["sleep", "600"], start_new_session=True, check=False)
    if what == "worker":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    if what == "sticky":
        raise failures.ProgramFailedError(3, [STICKY])
    if what == "refused":
        raise UsageError("saxpy needs more shared memory than this GPU has", "use fewer stages")
    if what == "permission":
        raise failures.CounterPermissionError


def work(order: dict, folder: Path) -> dict:
    if order.get(PROBE):
        return probe()
    size = dict(item.split("=") for item in order["settings"])["n"]
    with Path(os.environ["STUB_LOG"]).open("a") as log:
        log.write(f"{size} {os.getpid()} {os.getppid()}\n")
    plan = json.loads(Path(os.environ["STUB_PLAN"]).read_text())
    what = plan.get(size, "ok")
    if what.startswith("wait"):
        time.sleep(float(what.removeprefix("wait")))
    misbehave(what)
    shutil.copytree(os.environ["STUB_RUN"], folder / RUN)
    return {"state": "ok", "error": "", "remedy": "", "exit_code": 0}


if __name__ == "__main__":
    sys.exit(sweep_child.main(work=work))
