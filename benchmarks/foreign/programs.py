"""Runs launches in one process, each once inside an NVTX range of its name: the program that is
profiled.

    ncubble profile --nvtx measured/ -- python -m benchmarks.foreign.programs triton --what base
    python -m benchmarks.foreign.programs library --what all --check

Nothing outside the range ``measured/NAME`` is to be profiled: there, inputs are made and each
launch runs once before. One that fails is named on stderr, and the others run. The facts file gets
a member ``launches``, in their order. ``--check`` profiles nothing: it runs each launch, holds it
against a reference, counts its kernels, and prints one JSON object a line: ``name``, ``kernels``
(null: not known), ``error`` (empty: all is well).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.foreign import facts, plan
from benchmarks.foreign.experiment import Launch

RANGE = "measured"
NO_KERNELS = ("Memcpy", "Memset", "Context Sync", "Stream Sync", "Event Sync", "Activity Buffer")
"""How the names of the GPU's other events begin in PyTorch's profiler."""


def chosen(family: str, only: str, what: str, of: str = "first") -> Iterator[Launch]:
    """The launches of the set ``of`` whose experiment's name ``only`` matches, of one family or
    (empty) of all."""
    for experiment in plan.SETS[of]():
        if family in ("", experiment.family) and re.search(only, experiment.name):
            yield experiment.base
            if what == "all":
                yield from (launch for _, launch in experiment.changed())


@contextmanager
def measured(name: str) -> Iterator[None]:
    """The NVTX ranges in which a launch is profiled."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(RANGE)
    torch.cuda.nvtx.range_push(name)
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_pop()


def measure(launches: Iterable[Launch]) -> list[Launch]:
    """Launch each once in its NVTX range; gives those that ran."""
    import torch

    from benchmarks.foreign.calls import build

    ran = []
    for launch in launches:
        try:
            call = build(launch)
            call.run()
            with measured(launch.name):
                call.run()
        except Exception as error:  # one launch must not cost the others
            print(f"FAILED {launch.name}: {brief(error)}", file=sys.stderr, flush=True)
            continue
        ran.append(launch)
        del call
        torch.cuda.empty_cache()
    return ran


def check(launches: Iterable[Launch]) -> Iterator[dict[str, Any]]:
    """What ``--check`` prints, for one launch after the other, until an error leaves the GPU
    unusable."""
    import torch

    from benchmarks.foreign.calls import TOLERANCE, build

    for launch in launches:
        found: dict[str, Any] = {"name": launch.name, "kernels": None, "error": ""}
        try:
            call = build(launch)
            error = call.error()
            if not error <= TOLERANCE:
                found["error"] = f"wrong result: largest error {error:.3g} of the largest value"
            if facts.FUNCTIONS.get(launch.program) is None:
                found["kernels"] = kernels(call.run)
            torch.cuda.synchronize()
            del call
            torch.cuda.empty_cache()
        except Exception as error:
            found["error"] = brief(error)
        yield found
        if found["error"] and not usable():
            return


def usable() -> bool:
    """Whether the GPU still takes work: some errors stay with their process."""
    import torch

    try:
        torch.ones(1, device="cuda").sum().item()
    except Exception:
        return False
    return True


def kernels(run: Any) -> list[str] | None:
    """Names of the kernels that one call launches; None where they cannot be told."""
    import torch

    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as told:
            run()
            torch.cuda.synchronize()
        events = [event for event in told.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    except Exception:
        return None
    return [event.name for event in events if not event.name.startswith(NO_KERNELS)] or None


def brief(error: Exception) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0][:300]}"


def write_facts(label: str, ran: Sequence[Launch], several: Mapping[str, int]) -> None:
    """Write the facts file where one is asked for; a launch of several kernels is listed as
    often."""
    if path := os.environ.get("NCUBBLE_FACTS"):
        kernel = {"name": label, "parameters": {}, "shape": {}}
        listed = [facts.of(launch) for launch in ran for _ in range(several.get(launch.name, 1))]
        Path(path).write_text(json.dumps({"kernel": kernel, "launches": listed}))


def serve(label: str, launches: Sequence[Launch], given: argparse.Namespace) -> int:
    """Check or measure ``launches``, less what is left out; 1 where any failed its check, or none
    ran."""
    wanted = [
        launch
        for launch in launches
        if launch.name not in given.without and (not given.launches or launch.name in given.launches)
    ]
    if not given.check:
        ran = measure(wanted)
        write_facts(label, ran, given.several)
        return 0 if ran else 1
    failed = False
    for found in check(wanted):
        print(json.dumps(found), flush=True)
        failed |= bool(found["error"])
    return int(failed)


def options(text: str) -> argparse.ArgumentParser:
    """The options that every program of launches takes."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="profile nothing, see above")
    parser.add_argument("--launches", type=_names, default=[], metavar="NAME,…", help="these only")
    parser.add_argument("--without", type=_names, default=[], metavar="NAME,…", help="not these")
    parser.add_argument("--several", type=_counts, default={}, metavar="NAME=N,…", help="kernels per call, if not one")
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, _, count in (pair.partition("=") for pair in _names(text))}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("family", choices=plan.FAMILIES)
    parser.add_argument("--only", default="", metavar="REGEX", help="over the experiments' names")
    parser.add_argument("--what", choices=["base", "all"], default="all")
    parser.add_argument("--set", choices=plan.SETS, default="first", dest="of", help="which experiments")
    given = parser.parse_args()
    return serve(f"foreign_{given.family}", list(chosen(given.family, given.only, given.what, given.of)), given)


if __name__ == "__main__":
    sys.exit(main())
