"""Launches families once.

    python -m benchmarks.changes.programs NAME[,NAME...] [KEY=VALUE ...] [--check]
    python -m benchmarks.changes.programs NAME --bases         # the bases of the plan, one after the other
    python -m benchmarks.changes.programs NAME --drawn         # more bases, to learn from
    python -m benchmarks.changes.programs --launches FILE      # [[NAME, BASE, META], ...]

NAME may be ``all``. KEY=VALUE replaces a meta-parameter, num_stages and num_warps included. With
--check the result is compared to torch: exits 1 if an error exceeds 2 % of the largest value (10 % for
fp8).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import Any

from . import plan
from .families import BY_NAME, Family

TOLERANCE = 0.02
TOLERANCE_FP8 = 0.1


def _launch(family: Family, changes: dict[str, int], check: bool) -> bool:
    """Launch a family once; return whether its result is right, or True if it was not checked."""
    import torch

    unknown = sorted(changes.keys() - family.fair.keys())
    if unknown:
        raise SystemExit(f"{family.name} has no {', '.join(unknown)}; it has {', '.join(family.fair)}.")
    call = family.make()
    out = call.run({**family.fair, **changes})
    torch.cuda.synchronize()
    if not check:
        return True
    expected = call.expect().float()
    # NaN, of an element that was left out or computed wrongly, passes no comparison.
    error = ((out.float() - expected).abs().max() / expected.abs().max()).item()
    print(f"{family.name}: largest error {error:.2g} of the largest value", flush=True)
    return error <= (TOLERANCE_FP8 if "fp8" in family.name else TOLERANCE)


def launch_all(launches: list[tuple[str, str, dict[str, int]]], forgiving: bool = False) -> None:
    """Launch each once; inputs are made anew where the family changes. ``forgiving``: what cannot be
    launched (a tile that does not fit) is left out."""
    import torch

    call: Any = None
    before = ""
    for name, _, meta in launches:
        if name != before:
            call = None
            gc.collect()
            torch.cuda.empty_cache()
            call, before = BY_NAME[name].make(), name
        try:
            call.run(meta)
            torch.cuda.synchronize()
        except Exception as error:
            if not forgiving:
                raise
            print(f"{name} {meta}: {error}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes.programs", description="Launch families once.")
    parser.add_argument("names", metavar="NAME[,NAME...]", nargs="?", default="", help="families, or `all`")
    parser.add_argument("--bases", action="store_true", help="launch the bases of a family")
    parser.add_argument("--drawn", action="store_true", help="launch more bases of a family")
    parser.add_argument("--launches", type=Path, help="a file of launches")
    parser.add_argument("changes", metavar="KEY=VALUE", nargs="*", help="meta-parameters to replace")
    parser.add_argument("--check", action="store_true", help="compare results to torch")
    options = parser.parse_intermixed_args(arguments)
    if options.launches:
        launch_all(json.loads(options.launches.read_text(encoding="utf-8")))
        return 0
    if options.bases or options.drawn:
        family = BY_NAME[options.names]
        bases = plan.drawn(family) if options.drawn else plan.bases(family)
        launch_all([(options.names, base, meta) for base, meta in bases.items()], forgiving=True)
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
