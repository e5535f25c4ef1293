"""GEMMs of CUTLASS's CollectiveBuilder (``cutlass.cu``): a set of bases that no rule was learned from.

CUTLASS lies below $NCUBBLE_LIBRARIES and is no part of this repository; it was read at ``SOURCE``. A
family is a problem, a base a configuration, one of each element type on all its problems: ``fair`` is
the tile, cluster and schedule of CUTLASS's own example for Hopper with as many stages as fit; ``bad`` has
two settings of it made worse, and of ``drawn0`` each is drawn. Both draws were fixed by a seed before
anything was compiled. Settings that cannot be built together are drawn again.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.changes.turn import Turn
from ncubble.analysis.changes.search import ROUNDS, Check, Knob, Refusal
from ncubble.analysis.changes.tried import Built, Settings
from ncubble.errors import MeasurementError

if TYPE_CHECKING:
    import torch

    Launch = Callable[[], torch.Tensor]

SOURCE = "NVIDIA/cutlass@7107b05535f8977f5ecb9d01ee203205b1fd9bc4"
BUILDS = ".builds"
"""The folder of built kernels, below that of the results."""
PREFIX = "cutlass_"
KERNEL = "device_kernel"
"""What CUTLASS calls its ``__global__`` function."""
ELEMENTS = {"bf16": ("cutlass::bfloat16_t", 2), "fp8": ("cutlass::float_e4m3_t", 1)}
PROBLEMS: dict[str, tuple[str, int, int, int]] = {
    f"{PREFIX}square": ("bf16", 4096, 4096, 4096),
    f"{PREFIX}skinny": ("bf16", 64, 8192, 8192),
    f"{PREFIX}deep": ("bf16", 512, 1024, 16384),
    f"{PREFIX}shallow": ("bf16", 8192, 8192, 512),
    f"{PREFIX}wave": ("bf16", 3072, 2560, 5120),
    f"{PREFIX}fp8_square": ("fp8", 4096, 4096, 8192),
    f"{PREFIX}fp8_skinny": ("fp8", 128, 7168, 4096),
}
"""Element type, m, n, k."""
ASSERTING = f"{PREFIX}square"
"""The problem with one base more: *fair* as a plain ``nvcc -O3`` builds it, with assertions."""
KINDS = {
    **{"STAGES": "stages", "TILE_M": "tile_m", "TILE_N": "tile_n", "TILE_K": "tile_k", "WARPS": "warps"},
    **{"CLUSTER": "cluster", "GROUP_M": "cta_order", "SPLIT_K": "ctas", "ASSERTS": "build"},
}
"""ASSERTS: whether it is built without -DNDEBUG. Calls of assertions make ptxas serialize wgmma (C7510)."""
RUNTIME = ("GROUP_M", "SPLIT_K")
COOPERATIVE = 12
"""WARPS of the schedule whose warpgroups share a tile: its scheduler alone divides k."""
SHARED_B = 227 * 1024
PER_ROUND = 3
FLUSHED_B = 256 << 20


def values(element: str) -> dict[str, tuple[int, ...]]:
    """What each setting may be; a row of TILE_K has 64, 128 or 256 bytes."""
    bytes_of = ELEMENTS[element][1]
    return {
        **{"STAGES": (2, 3, 4, 5, 6, 7, 8), "TILE_M": (64, 128, 256), "TILE_N": (64, 128, 256)},
        **{"TILE_K": tuple(row // bytes_of for row in (64, 128, 256)), "WARPS": (8, COOPERATIVE, 13)},
        **{"CLUSTER": (1, 2), "GROUP_M": (1, 2, 4, 8), "SPLIT_K": (1, 2, 4), "ASSERTS": (0,)},
    }


def refused(element: str, settings: Settings) -> str:
    """Why settings cannot be built; empty where they may be."""
    now = {key: int(value) for key, value in settings.items()}
    held = now["STAGES"] * (now["TILE_M"] + now["TILE_N"]) * now["TILE_K"] * ELEMENTS[element][1]
    if held > SHARED_B:
        return f"a ring of {held} bytes"
    if now["WARPS"] == COOPERATIVE and now["TILE_M"] < 128:
        return "two warpgroups share a tile of 128 rows or more"
    if now["WARPS"] != COOPERATIVE and (now["TILE_M"] > 128 or now["SPLIT_K"] > 1):
        return "one warpgroup has at most 128 rows, and k undivided"
    return "accumulators of more than 256 registers" if now["TILE_M"] * now["TILE_N"] > 128 * 256 else ""


def bases(name: str) -> dict[str, dict[str, int]]:
    """Settings of the bases of a problem."""
    element = PROBLEMS[name][0]
    row = 128 // ELEMENTS[element][1]
    fair = {
        **{"STAGES": 6, "TILE_M": 128, "TILE_N": 128, "TILE_K": row, "WARPS": COOPERATIVE},
        **{"CLUSTER": 2, "GROUP_M": 1, "SPLIT_K": 1, "ASSERTS": 0},
    }
    worse = {"STAGES": (2, 3), "TILE_M": (64,), "TILE_N": (64,), "TILE_K": (row // 2,), "WARPS": (8,), "CLUSTER": (1,)}
    draw = random.Random(f"cutlass {element} bad")  # noqa: S311
    made = {"fair": fair, "bad": fair, "drawn0": fair}
    while made["bad"] == fair or refused(element, made["bad"]):
        made["bad"] = fair | {key: draw.choice(worse[key]) for key in draw.sample(sorted(worse), 2)}
    draw = random.Random(f"cutlass {element} drawn0")  # noqa: S311
    while made["drawn0"] in (fair, made["bad"]) or refused(element, made["drawn0"]):
        made["drawn0"] = {key: draw.choice(several) for key, several in values(element).items()}
    return made | ({"asserting": {**fair, "ASSERTS": 1}} if name == ASSERTING else {})


@cache
def inputs(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, B (column-major) and the product by PyTorch, in bf16."""
    import torch

    element, m, n, k = PROBLEMS[name]
    generator = torch.Generator("cuda").manual_seed(7)
    a, b = (torch.randn(rows, k, device="cuda", generator=generator) for rows in (m, n))
    kind = torch.bfloat16 if element == "bf16" else torch.float8_e4m3fn
    a, b = a.to(kind), b.to(kind)
    return a, b, a.to(torch.bfloat16) @ b.to(torch.bfloat16).T


@dataclass
class CutlassBench:
    """Configurations of one problem, built by nvcc into ``folder`` and launched in this process."""

    name: str
    base: Settings
    folder: Path
    turn: Turn
    sm_mhz: int = 0
    most_rounds: int = ROUNDS
    knobs: Sequence[Knob] = field(init=False)

    def __post_init__(self) -> None:
        self.element, *self.shape = PROBLEMS[self.name]
        self.knobs = [Knob(key, KINDS[key], several) for key, several in values(self.element).items()]

    def library(self, settings: Settings) -> Path:
        """Where a configuration is built; what is said at run time names no file."""
        told = "-".join(f"{key}{value}" for key, value in settings.items() if key not in RUNTIME)
        return self.folder / f"{self.element}-{told}.so"

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """See ``Bench``: what ``build_all`` made."""
        return [self._built(one) for one in variants]

    def _built(self, settings: Settings) -> Built | Refusal:
        if why := refused(self.element, settings):
            return Refusal(why)
        log = self.library(settings).with_suffix(".log").read_text(encoding="utf-8")
        if not self.library(settings).is_file():
            return Refusal(next((line for line in log.splitlines() if "error" in line), "nvcc made nothing")[:200])
        registers = [int(found) for found in re.findall(r"Used (\d+) registers", log)]
        spilled = [int(found) for found in re.findall(r"(\d+) bytes spill stores", log)]
        shared = ctypes.CDLL(str(self.library(settings))).shared_bytes()
        return Built(max(registers, default=None), max(spilled, default=None), shared)

    def prepared(self, settings: Settings) -> Launch:
        """What launches a configuration; raises MeasurementError where CUTLASS refuses it."""
        import torch

        library = ctypes.CDLL(str(self.library(settings)))
        a, b, _ = inputs(self.name)
        d = torch.empty(a.shape[0], b.shape[0], dtype=torch.bfloat16, device="cuda")
        numbers = [*self.shape, *(int(settings[key]) for key in RUNTIME)]
        library.workspace.restype = ctypes.c_longlong
        if (size := library.workspace(*numbers)) < 0:
            raise MeasurementError(f"CUTLASS refuses {dict(settings)} of {self.name}", "leave it out")
        space = torch.empty(max(1, size), dtype=torch.uint8, device="cuda")
        tensors = a, b, d, space

        def launch() -> torch.Tensor:
            # A division of k counts in the workspace, so CUTLASS sets it anew before each launch.
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]  # which keep their memory
            if status := library.prepare(*pointers, *numbers) or library.launch(stream):
                raise MeasurementError(f"CUTLASS gives status {status} for {dict(settings)}", "leave it out")
            return d

        return launch

    def check(self, settings: Settings) -> Check | Refusal:
        """See ``Bench``: against PyTorch's product."""
        import torch

        with self.turn:
            wanted = inputs(self.name)[2].float()
            try:
                found = self.prepared(settings)().float()
                torch.cuda.synchronize()
            except MeasurementError as error:
                return Refusal(error.message)
        return Check(float((found - wanted).abs().max() / wanted.abs().max()))

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """See ``Bench``: single launches, L2 cleared before each."""
        import torch

        times: list[list[float]] = [[] for _ in variants]
        with self.turn:
            launches = [self.prepared(one) for one in variants]
            flush = torch.empty(FLUSHED_B, dtype=torch.uint8, device="cuda")
            for _ in range(rounds):
                for launch, own in zip(launches, times, strict=True):
                    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(PER_ROUND)]
                    for first, last in marks:
                        flush.zero_()
                        first.record()
                        launch()
                        last.record()
                    torch.cuda.synchronize()
                    own.append(1e3 * median(first.elapsed_time(last) for first, last in marks))
        return times


def build_all(names: Sequence[str], folder: Path) -> None:
    """Compile the bases of problems and all single changes of them, as many at a time as there are cores."""
    wanted: dict[Path, Settings] = {}
    for name, base in ((problem, base) for problem in names for base in bases(problem).values()):
        bench = CutlassBench(name, base, folder, Turn(folder / ".turn"))
        changed = [{**base, knob.name: value} for knob in bench.knobs for value in knob.values]
        wanted |= {bench.library(one): one for one in changed if not refused(bench.element, one)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_compile, wanted, wanted.values()))


def _compile(library: Path, settings: Settings) -> None:
    log = library.with_suffix(".log")
    if log.is_file():
        return
    root = Path(os.environ["NCUBBLE_LIBRARIES"]) / "cutlass"
    element = ELEMENTS[library.name.partition("-")[0]][0]
    argv = ["nvcc", "-std=c++17", "-O3", "-arch=sm_90a", "-shared", "-Xcompiler", "-fPIC,-fno-gnu-unique"]
    argv += ["--expt-relaxed-constexpr", "-Xptxas", "-v", f"-I{root}/include", f"-I{root}/tools/util/include"]
    argv += [f"-DELEMENT={element}", *(f"-D{key}={value}" for key, value in settings.items() if key not in RUNTIME)]
    argv += [] if settings["ASSERTS"] else ["-DNDEBUG"]
    source = Path(__file__).with_suffix(".cu")
    done = subprocess.run([*argv, "-o", str(library), str(source)], capture_output=True, text=True, check=False)
    log.write_text(done.stdout + done.stderr, encoding="utf-8")


def launch_once(name: str, settings: Settings, folder: Path) -> None:
    """For a profiler: one launch of a base that was built into ``folder``."""
    import torch

    CutlassBench(name, settings, folder, Turn(folder / ".turn")).prepared(settings)()
    torch.cuda.synchronize()
