"""``python -m ncubble.cli.commands.tune.worker``: measures configurations of a kernel for a search.
If it hangs, or a faulting kernel takes its GPU, the search survives. Not meant to be called
directly.

A request is a JSON object: ``kernel``, ``catalog``, ``shape`` and ``seed`` as in every other, what to ``do``, and for
what else but ``device`` the ``parameters`` of the configurations and ``iterations``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from ncubble.errors import NcubbleError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.tune import Trials
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.processes import answer_requests


def answer(request: dict[str, Any], progress: Callable[[], None]) -> Mapping[str, Any]:
    """The device, a trial, or times in turns; ``error`` and ``remedy`` on failure."""
    try:
        if request["do"] == "device":
            return {"device": asdict(_gpu().facts)}
        spec = find_spec(request["kernel"], Path(request["catalog"]) if request["catalog"] else None)
        cases = [make_case(spec, parameters, request["shape"]) for parameters in request["parameters"]]
        if request["do"] == "measure":
            return {"trial": _trials(request["seed"]).measure(cases[0], request["iterations"]).to_json()}
        return {"p50_us": _trials(request["seed"]).in_turns(cases, request["iterations"])}
    except NcubbleError as error:
        return {"error": error.message, "remedy": error.remedy}


@cache
def _gpu() -> Gpu:
    return Gpu.open()


@cache
def _trials(seed: int) -> Trials:
    return Trials(_gpu(), seed)


if __name__ == "__main__":
    answer_requests(answer)
    sys.exit(0)
