"""Makes one launch of the plan: ``python -m benchmarks.truth.programs NAME [--check]``.

The kernel runs once, on inputs of a fixed seed; a hash of the result is printed. ``--check`` holds the
result against a reference.
"""

from __future__ import annotations

import argparse
import hashlib
import sys

import torch

from benchmarks.truth import plan
from benchmarks.truth.calls import TOLERANCE, call_of

LOOSE = {"float8_e4m3fn": 0.1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--check", action="store_true", help="hold the result against a reference")
    given = parser.parse_args()
    launches = {launch.name: launch for family in plan.every_family() for launch in family.launches}
    launch = launches[given.name]
    call = call_of(launch.program, launch.options)
    if given.check:
        error, most = call.error(), LOOSE.get(launch.options.get("dtype", ""), TOLERANCE)
        sys.stdout.write(f"{given.name}: largest error {error:.4f} of the largest value\n")
        return int(not error <= most)
    result = call.run()
    torch.cuda.synchronize()
    bits = result.contiguous().view(torch.uint8).cpu().numpy().tobytes()
    sys.stdout.write(f"{hashlib.sha256(bits).hexdigest()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
