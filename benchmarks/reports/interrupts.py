"""Interrupt a check at many instants, and run it with little memory and on a full disk.

    python -m benchmarks.reports.interrupts [--count 100]

A check of a recording against its baseline gets SIGINT at instants that are spread over its time,
imports included; then it runs under limits of memory, and with its output on a full disk. Ends with
1 if any of these ends with a traceback or an exit code that says something else.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ncubble.recordings import REPEATS

BASELINES = Path(__file__).parents[2] / "baselines"
START = "from ncubble.cli.start import main; main()"
LIMITS_MB = (150, 250, 400, 600, 900, 1500)


def command(cache: str) -> tuple[list[str], dict[str, str]]:
    """The argv of a check, and its environment."""
    paths = [str(REPEATS / "tensor_core_gemm" / "stages1"), "--baseline", str(BASELINES), "--no-history"]
    return [sys.executable, "-c", START, "check", *paths], {**os.environ, "NCUBBLE_CACHE": cache}


def interrupted(after_s: float, cache: str) -> tuple[int, str]:
    """Exit code and stderr of a check that gets SIGINT then."""
    argv, env = command(cache)
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        return process.wait(60), process.stderr.read() if process.stderr else ""


def lasting_s(cache: str) -> float:
    """How long a check takes."""
    argv, env = command(cache)
    begun = time.monotonic()
    subprocess.run(argv, env=env, capture_output=True, check=False)
    return time.monotonic() - begun


def limited(memory_mb: int, cache: str) -> tuple[int, str]:
    """Exit code and stderr of a check that may have so much memory."""
    argv, env = command(cache)
    size = memory_mb << 20
    done = subprocess.run(
        argv,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )
    return done.returncode, done.stderr


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    count = parser.parse_args(argv).count
    counts: Counter[str] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        whole_s = min(lasting_s(f"{folder}/whole-{n}") for n in range(3))
        cases = [(f"interrupt {n}", interrupted(whole_s * n / count, f"{folder}/{n}")) for n in range(count)]
        cases += [(f"{size} MB", limited(size, f"{folder}/{size}-mb")) for size in LIMITS_MB]
    for name, (code, told) in cases:
        if "Traceback" in told and "ncubble" not in told:  # Python itself had not started
            counts["before the first line of ncubble"] += 1
            continue
        wrong = "Traceback" in told or code not in (0, 1, 3, 130, -signal.SIGINT)
        bad += wrong
        counts[f"{'bad: ' if wrong else ''}exit {code}"] += 1
        if wrong:
            print(f"{name}: exit {code}: {told[-600:]}")
    print(f"{len(cases)} checks: {dict(counts)}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
