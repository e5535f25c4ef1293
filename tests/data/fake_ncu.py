"""Stands in for ncu: runs the program, prints what ncu prints, writes a report that only it can
read.

FAKE_NCU names what goes wrong (late: the program fails after its launches). The report is JSON: the
metrics asked for and the number of launches.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

MODE = os.environ.get("FAKE_NCU", "ok")
ABSENT = os.environ.get("FAKE_NCU_ABSENT", "").split(",")
FLAGS = ("--force-overwrite", "--nvtx", "--csv")


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def parse(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    while argv and argv[0].startswith("-"):
        name = argv.pop(0)
        options[name] = "" if name in FLAGS else argv.pop(0)
    return options, argv


def read_back(path: str) -> int:
    if MODE == "unreadable":
        say("==ERROR== Failed to open report")
        return 1
    report = json.loads(Path(path).read_text())
    names = ["ID", "Kernel Name", *(name for name in report["metrics"] if ":" not in name)]
    say(",".join(f'"{name}"' for name in names))
    say(",".join('""' for name in names))
    for index in range(report["launches"]):
        values = [str(index), "gemm", *("n/a" if name in ABSENT else "1" for name in names[2:])]
        say(",".join(f'"{value}"' for value in values))
    return 0


def fail() -> int | None:
    """What ncu prints and returns where the program is not to blame, or None."""
    if MODE == "permission":
        say("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
        say("==ERROR== The application returned an error code (1).")
        return 1
    if MODE == "nokernel":
        say("==PROF== Disconnected from process 7")
        say("==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. softmax\n2. void scale<float>(int)")
        return 0
    if MODE == "nolaunch":
        say("==WARNING== No kernels were profiled.")
        return 0
    if MODE == "replay":
        say('==PROF== Profiling "gemm" - 0: 0%....50%.... - 19 passes')
        say('==ERROR== Failed to profile "gemm" in process 7\n==ERROR== The application returned an error code (9).')
        return 9
    if MODE == "metric":
        say("==ERROR== Failed to find metric regex:^sm__nonsense(\\.(sum|min|max|avg))$")
        return 1
    return None


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        say("NVIDIA (R) Nsight Compute Command Line Profiler")
        say(f"Version {os.environ.get('FAKE_NCU_VERSION', '2025.3.1.0')} (build 1) (public-release)")
        return 0
    options, program = parse(sys.argv[1:])
    if "--import" in options:
        return read_back(options["--import"])
    say("==WARNING== Note: Running with unmodified GPU clocks. Results may be inconsistent.")
    say("==PROF== Connected to process 7 (/usr/bin/python3)")
    failed = subprocess.run(program, check=False).returncode
    if failed and MODE != "late":
        say(f"==ERROR== The application returned an error code ({failed}).")
        return failed
    if (status := fail()) is not None:
        return status
    launches = 2
    for index in range(launches):
        say(f'==PROF== Profiling "gemm" - {index}: 0%', end="")
        for piece in ("....50%", "....100%"):
            say(piece, end="")
        say(" - 10 passes")
    if MODE == "slow":
        say('==PROF== Profiling "gemm" - 2: 0%....', end="")
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], check=False)
        time.sleep(60)
    if failed:
        say(f"==ERROR== The application returned an error code ({failed}).")
    if "--export" not in options:
        return failed
    target = Path(options["--export"].replace("%%", "%") + ".ncu-rep")
    target.write_text(json.dumps({"metrics": options.get("--metrics", "").split(","), "launches": launches}))
    say(f"==PROF== Disconnected from process 7\n==PROF== Report: {target}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
