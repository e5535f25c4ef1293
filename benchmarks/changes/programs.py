"""Launches families once.

    python -m benchmarks.changes.programs NAME[,NAME...] [KEY=VALUE ...] [--check]
    python -m benchmarks.changes.programs --launches FILE [--turn FILE]      # [[NAME, BASE, META], ...]

NAME may be ``all``. KEY=VALUE replaces a meta-parameter, num_stages and num_warps included. With
--check the result is compared to torch: exits 1 if an error exceeds 2 % of the largest value (10 % for
fp8).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .families import Call, Family, Meta
from .second import BY_NAME
from .turn import Turn

TOLERANCE = 0.02
TOLERANCE_FP8 = 0.1


def _launch(family: Family, changes: dict[str, int], check: bool) -> bool:
    """Launch a family once; return whether its result is right, or True if it was not checked."""
    import torch

    unknown = sorted(changes.keys() - family.fair.keys())
    if unknown:
        raise SystemExit(f"{family.name} has no {', '.join(unknown)}; it has {', '.join(family.fair)}.")
    call = family.make()
    if check:
        return _right(family, call, {**family.fair, **changes})
    call.run({**family.fair, **changes})
    torch.cuda.synchronize()
    return True


def _right(family: Family, call: Call, meta: Meta) -> bool:
    """Whether a launch gives the result that torch does."""
    out = call.run(meta)
    expected = call.expect().float()
    # NaN, of an element that was left out or computed wrongly, passes no comparison.
    error = ((out.float() - expected).abs().max() / expected.abs().max()).item()
    print(f"{family.name}: largest error {error:.2g} of the largest value", flush=True)
    return error <= (TOLERANCE_FP8 if "fp8" in family.name else TOLERANCE)


def launch_all(launches: list[tuple[str, str, dict[str, int]]], turn: Path | None = None) -> None:
    """Launch each once; inputs are made anew where the family changes.

    ``turn``: others measure meanwhile. Inputs are made, and the fair base is launched once and checked,
    while they do not; launches of a wrong kernel, and what cannot be launched (a tile that does not fit),
    are left out.
    """
    import torch

    call: Any = None
    before, right = "", True
    for name, _, meta in launches:
        if name != before:
            call = None
            gc.collect()
            torch.cuda.empty_cache()
            family, before = BY_NAME[name], name
            torch.zeros(1, device="cuda")  # the context takes a second, and no turn
            with Turn(turn) if turn else nullcontext():
                call = family.make()
                torch.cuda.synchronize()
            if turn:
                call.kernel.warmup(*call.args, grid=call.grid, **family.fair)
                with Turn(turn):
                    right = _right(family, call, family.fair)
                    torch.cuda.synchronize()
        if not right:
            print(f"{name}: wrong", file=sys.stderr)
            continue
        try:
            call.run(meta)
            torch.cuda.synchronize()
        except Exception as error:
            if turn is None:
                raise
            print(f"{name} {meta}: {error}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes.programs", description="Launch families once.")
    parser.add_argument("names", metavar="NAME[,NAME...]", nargs="?", default="", help="families, or `all`")
    parser.add_argument("--launches", type=Path, help="a file of launches")
    parser.add_argument("--turn", type=Path, help="a file that is locked by whoever uses the GPU")
    parser.add_argument("changes", metavar="KEY=VALUE", nargs="*", help="meta-parameters to replace")
    parser.add_argument("--check", action="store_true", help="compare results to torch")
    options = parser.parse_intermixed_args(arguments)
    if options.launches:
        launch_all(json.loads(options.launches.read_text(encoding="utf-8")), options.turn)
        return 0
    names = list(BY_NAME) if options.names == "all" else options.names.split(",")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; families are {', '.join(BY_NAME)}")
    try:
        changes = {key: int(value) for key, value in (change.split("=") for change in options.changes)}
    except ValueError:
        parser.error(f"expected KEY=VALUE with a whole number: {' '.join(options.changes)}")
    wrong = []
    for name in names:
        if not _launch(BY_NAME[name], changes, options.check):
            wrong.append(name)
        # Inputs of all families together would not fit.
        gc.collect()
        if len(names) > 1:
            import torch

            torch.cuda.empty_cache()
    if wrong:
        print(f"wrong: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
