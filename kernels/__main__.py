"""``python -m ncubble.kernels NAME``: build, launch, verify and time one kernel. Also the program
that is profiled."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ncubble.errors import NcubbleError
from ncubble.kernels.run.session import KernelRequest, describe, execute


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ncubble.kernels", description=__doc__)
    add = parser.add_argument
    add("name", help="a kernel of the catalog")
    add("-p", "--shape", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="parameter or size")
    add("--once", action="store_true", help="profile mode: exactly --launches launches, no warm-up, no timing")
    add("--launches", type=int, default=1, metavar="N", help="launches before verification (default 1)")
    add("--iterations", type=int, default=100, metavar="N", help="timed launches after verification (default 100)")
    add("--no-verify", dest="verify", action="store_false", help="do not compare with the reference")
    add("--seed", type=int, metavar="S", help="seed of the inputs (default: a fresh one, printed)")
    add("--catalog", type=Path, metavar="DIR", help="folder with your own specs; its Python files are executed")
    add("--debug", action="store_true", help="with --once: build for the debugger, with the kernel's debug prints")
    add("--ranges", action="store_true", help="put NVTX ranges around verification, warm-up and timing")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        request = KernelRequest.parse(
            arguments.name,
            arguments.settings,
            arguments.catalog,
            seed=arguments.seed,
            launches=arguments.launches,
            verify=arguments.verify,
            iterations=0 if arguments.once else arguments.iterations,
            debug=arguments.debug,
            nvtx=arguments.ranges,
        )
        outcome = execute(request)
        text = json.dumps(outcome.to_json(), indent=1) if arguments.json else "\n".join(describe(outcome))
        sys.stdout.write(text + "\n")
        outcome.require()
    except NcubbleError as error:
        sys.stderr.write(f"ncubble.kernels: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
