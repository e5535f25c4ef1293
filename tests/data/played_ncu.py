"""Stands in for ncu: runs the program and "profiles" the launches that it plays, into a report that
was recorded.

A program plays a launch by a line ``NAME`` in the file PLAYED_LAUNCHES. PLAYED_REPORT is the report
that ncu writes. PLAYED_FAILURE: ``permission``, or ``replay NAME`` for a kernel that cannot be
profiled.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

FLAGS = ("--force-overwrite", "--nvtx")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parse(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    while argv and argv[0].startswith("-"):
        name = argv.pop(0)
        options[name] = "" if name in FLAGS else argv.pop(0)
    return options, argv


def selected(played: list[str], options: dict[str, str]) -> list[str]:
    """The launches that the filters choose. A kernel id is taken apart as ncu does: one colon after
    the other."""
    if "--kernel-id" not in options:
        return [name for name in played if re.search(options.get("--kernel-name", "").removeprefix("regex:"), name)]
    context, stream, operator, pattern, number = options["--kernel-id"].split(":")
    assert (context, stream, operator, options["--kernel-name-base"]) == ("", "", "regex", "mangled")
    places = [(name, played[: place + 1].count(name)) for place, name in enumerate(played)]
    return [name for name, count in places if re.search(pattern, name) and re.fullmatch(number, str(count))]


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        say("Version 2025.3.1.0 (build 1)")
        return 0
    if "--import" in sys.argv:  # one launch, and of its metrics nothing
        say('"ID","Kernel Name"\n"",""\n"0","tensor_core_gemm"')
        return 0
    options, program = parse(sys.argv[1:])
    launches = Path(os.environ["PLAYED_LAUNCHES"])
    before = launches.read_text() if launches.exists() else ""
    failed = subprocess.run(program, check=False).returncode
    if "permission" in os.environ.get("PLAYED_FAILURE", ""):
        say("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
        return 1
    played = (launches.read_text() if launches.exists() else "").removeprefix(before).split()
    chosen = selected(played, options)
    if failed and not chosen:
        say(f"==ERROR== The application returned an error code ({failed}).")
        return failed
    if not chosen:
        listed = "".join(f"\n{number}. {name}" for number, name in enumerate(dict.fromkeys(played), 1))
        say("==WARNING== No kernels were profiled." + (f"\nAvailable Kernels:{listed}" if listed else ""))
        return 0
    for index, name in enumerate(chosen):
        if os.environ.get("PLAYED_FAILURE") == f"replay {name}":
            say(f'==ERROR== Failed to profile "{name}" in process 7')
            return 9
        say(f'==PROF== Profiling "{name}" - {index}: 0%....50%....100% - 4 passes')
    if failed:  # what was profiled until then is in the report
        say(f"==ERROR== The application returned an error code ({failed}).")
    shutil.copy(os.environ["PLAYED_REPORT"], options["--export"].replace("%%", "%") + ".ncu-rep")
    return failed


if __name__ == "__main__":
    sys.exit(main())
