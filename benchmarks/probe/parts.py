"""What of a mark costs what: the header of the probe with one part of it changed at a time, on a
GPU.

    python -m benchmarks.probe.parts OUT [--cases "gemm_tma stages=3" …]     (OUT gets parts.json)

Every row is a build of its own, measured as by ``probe/cost.py`` in turns with the kernel without a
probe. A changed header records nothing that could be read. Written down before anything was
measured:

- ``fixed``: every mark of a warp goes to one place. If this costs what ``whole`` does, the stores
  cost as instructions; if it costs what ``unstored`` does, their bytes do, on the way to L2.
- ``unstored``: no store. What is left of ``on`` over ``idle`` is then what the predicate lets
  through.
- ``unread``: the clock is not read; 0 is stored.
- ``empty``: the place goes on, nothing else: what stays over the kernel without a probe is the
  schedule, since no volatile instruction moves over a mark.
- ``streamed``: stores with ``.cs`` (evict first).

Predicted: in gemm_tma stages=3 most of what ``on`` has over ``idle`` goes away with the store, and
not with its place; in async_pipeline stages=2 ``empty`` keeps most of the cost.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ncubble.kernels.build import HEADERS, PROBED, Build, build
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import load_built, prepare
from ncubble.kernels.run.probe import HEADER, ProbeRecorder, measure_cost, total_warps
from ncubble.kernels.run.session import KernelRequest
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case

CASES = (
    "gemm_tma stages=3",
    "tensor_core_gemm stages=2",
    "async_pipeline stages=2",
    "warp_specialized roles=specialized slots=4",
)
STORE = '"@on st.global.v2.b32 [place], {clock, %2};\\n\\t"'
CLOCK = '"mov.u32 clock, %%clock;\\n\\t"'
FORWARD = "low_ = min(low_ + static_cast<unsigned>(sizeof(Mark)), last_);"
CHANGES: dict[str, dict[str, str]] = {
    "whole": {},
    "streamed": {STORE: STORE.replace("st.global", "st.global.cs")},
    "fixed": {FORWARD: ""},
    "unread": {CLOCK: '"mov.u32 clock, 0;\\n\\t"'},
    "unstored": {STORE: ""},
    "empty": {STORE: "", CLOCK: ""},
}


def changed(change: str, folder: Path) -> Path:
    """The sources of all kernels, with the header changed so."""
    target = folder / change
    shutil.copytree(HEADERS, target)
    text = HEADER.read_text(encoding="utf-8")
    for old, new in CHANGES[change].items():
        if text.count(old) != 1:
            raise SystemExit(f"{HEADER}: {old} is there {text.count(old)} times, not once: bring CHANGES up to date")
        text = text.replace(old, new)
    (target / HEADER.name).write_text(text, encoding="utf-8")
    return target


def built(place: tuple[Case, Path], arch: str) -> Build:
    case, sources = place
    return build(replace(case, spec=replace(case.spec, folder=sources)), arch, PROBED)


def measure(case: Case, gpu: Gpu, builds: dict[str, Build]) -> dict[str, Any]:
    """The cost of every build, in percent of the kernel without a probe."""
    plain = prepare(case, gpu)
    plain.upload(draw_inputs(case, 1))
    found = {}
    for change, one in builds.items():
        kernel, run = load_built(one, case, gpu, plain.pointers)
        recorder = ProbeRecorder(gpu, kernel, total_warps(case, gpu.facts.sm_count), 2049, launches=case.launches)
        found[change] = {**asdict(measure_cost(gpu, plain.run, run, recorder)), "registers": one.resources.registers}
    gpu.free()
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="What of a mark costs what")
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", nargs="+", default=CASES)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    cases = {text: KernelRequest.parse(name, more).case() for text in given.cases for name, *more in [text.split()]}
    gpu = Gpu.open()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        sources = {change: changed(change, Path(folder)) for change in CHANGES}
        places = [(case, place) for case in cases.values() for place in sources.values()]
        done = iter(list(pool.map(partial(built, arch=gpu.arch), places)))
        builds = {text: {change: next(done) for change in CHANGES} for text in cases}
    rows = {}
    for text, case in cases.items():
        rows[text] = measure(case, gpu, builds[text])
        for change, one in rows[text].items():
            print(
                f"{text:<44} {change:<9} idle {one['idle_pct']:+5.1f} %  one SM {one['chosen_pct']:+5.1f} %  "
                f"on {one['on_pct']:+5.1f} %  {one['registers']} registers",
                flush=True,
            )
        (given.out / "parts.json").write_text(json.dumps(rows, indent=1) + "\n")
    gpu.close()


if __name__ == "__main__":
    main(sys.argv[1:])
