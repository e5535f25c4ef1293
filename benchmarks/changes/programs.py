"""Launches families once.

    python -m benchmarks.changes.programs NAME[,NAME...] [KEY=VALUE ...] [--check]
    python -m benchmarks.changes.programs --launches FILE [--turn FILE]      # [[NAME, BASE, META], ...]
    python -m benchmarks.changes.programs NAME --draw

NAME may be ``all``. KEY=VALUE replaces a meta-parameter, num_stages and num_warps included. With
--check the result is compared to torch: exits 1 if an error exceeds 2 % of the largest value (10 % for
fp8). --draw prints the bases of a library's kernel. --launches lists in FILE.launched what was launched.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import cutlass
from .families import Call, Family, Meta
from .library import ENTRIES, Launch, load, prepare
from .second import BY_NAME
from .turn import Turn

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.02
TOLERANCE_FP8 = 0.1
DRAWS, TIMED = 3, 5
"""Tries to draw a bad base that gives the results of the fair one; launches that are timed roughly."""


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


def draw(name: str) -> None:
    """Launch a library's kernel, and print the changes of its bases as JSON lines: of the fair one, and of both where
    a bad one was found that gives the same results."""
    import torch

    from .plan import BAD, FAIR, worse_launch

    def made(launch: Launch) -> Any:
        tensors = launch.tensors()
        before = [tensor.clone() for tensor in tensors]

        def leave(values: Sequence[torch.Tensor]) -> None:
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)

        result = launch.run({})
        torch.cuda.synchronize()
        wanted = [tensor.clone() for tensor in tensors]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(TIMED):
            launch.run({})
        end.record()
        torch.cuda.synchronize()
        told = {"us": round(begin.elapsed_time(end) * 1e3 / TIMED, 1), "now": launch.now(), "grid": launch.tiles({})}
        print(json.dumps({**told, "bases": {FAIR: {}}}), flush=True)
        for number in range(DRAWS):
            bad = worse_launch(name, launch, number)
            leave(before)
            with suppress(Exception):  # a tile that does not fit
                launch.run(bad)
                torch.cuda.synchronize()
                if bad and all(map(_alike, tensors, wanted)):
                    print(json.dumps({**told, "bases": {BAD: bad, FAIR: {}}}), flush=True)
                    break
        leave(wanted)
        return result

    prepare(name)(made)


def _alike(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    import torch

    one, other = (torch.nan_to_num(part.float(), 0.0, 0.0, 0.0) for part in (found, wanted))
    return bool((one - other).abs().max() <= TOLERANCE * other.abs().max())


def launch_all(launches: list[tuple[str, str, dict[str, int]]], folder: Path, turn: Path | None = None) -> list[Any]:
    """Launch each once; inputs are made anew where the family changes. Returns what could be launched.

    ``turn``: others measure meanwhile. Inputs are made, and the fair base is launched once and checked,
    while they do not; launches of a wrong kernel, and what cannot be launched (a tile that does not fit),
    are left out. Of a library's kernel nothing is checked, and a profiler sees its launch alone. Kernels of
    CUTLASS lie built below ``folder``.
    """
    import torch

    made: list[Any] = []
    call: Any = None
    before, right = "", True
    torch.zeros(1, device="cuda")  # the context takes a second, and no turn
    for name, base, meta in launches:
        if name != before:
            call = None
            gc.collect()
            torch.cuda.empty_cache()
        if name != before and name in BY_NAME:
            family = BY_NAME[name]
            with Turn(turn) if turn else nullcontext():
                call = family.make()
                torch.cuda.synchronize()
            if turn:
                call.kernel.warmup(*call.args, grid=call.grid, **family.fair)
                with Turn(turn):
                    right = _right(family, call, family.fair)
                    torch.cuda.synchronize()
        before = name
        if name in BY_NAME and not right:
            print(f"{name}: wrong", file=sys.stderr)
            continue
        try:
            if name in ENTRIES:
                _launch_of_library(name, meta, turn)
            elif name in cutlass.PROBLEMS:
                cutlass.launch_once(name, meta, folder / cutlass.BUILDS)
            else:
                call.run(meta)
                torch.cuda.synchronize()
        except Exception as error:
            if turn is None and name not in ENTRIES:
                raise
            print(f"{name} {meta}: {error}", file=sys.stderr)
        else:
            made.append((name, base, meta))
    return made


def _launch_of_library(name: str, meta: Mapping[str, int], turn: Path | None) -> None:
    import torch

    runtime = torch.cuda.cudart()

    def alone(launch: Launch) -> Any:
        torch.cuda.synchronize()
        runtime.cudaProfilerStart()
        try:
            result = launch.run(meta)
            torch.cuda.synchronize()
        finally:
            runtime.cudaProfilerStop()
        return result

    load(name)
    with Turn(turn) if turn else nullcontext():
        call = prepare(name)
        torch.cuda.synchronize()
    call(alone)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes.programs", description="Launch families once.")
    parser.add_argument("names", metavar="NAME[,NAME...]", nargs="?", default="", help="families, or `all`")
    parser.add_argument("--launches", type=Path, help="a file of launches")
    parser.add_argument("--turn", type=Path, help="a file that is locked by whoever uses the GPU")
    parser.add_argument("changes", metavar="KEY=VALUE", nargs="*", help="meta-parameters to replace")
    parser.add_argument("--check", action="store_true", help="compare results to torch")
    parser.add_argument("--draw", action="store_true", help="print the bases of a library's kernel")
    options = parser.parse_intermixed_args(arguments)
    if options.launches:
        made = launch_all(
            json.loads(options.launches.read_text(encoding="utf-8")), options.launches.parent, options.turn
        )
        options.launches.with_suffix(".launched").write_text(json.dumps(made), encoding="utf-8")
        return 0
    if options.draw:
        draw(options.names)
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
