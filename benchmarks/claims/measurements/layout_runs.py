"""Which arrays a tensor map can describe, and where elements lie: boxes that TMA loaded, and WMMA
fragments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.measurements.tools import Lab, lab
from benchmarks.claims.registry import measurement
from benchmarks.harness.command import REPOSITORY
from ncubble.errors import MeasurementError
from ncubble.kernels.run.device import call_driver

ALIGNMENT, MAP_BYTES, MOST = 1024, 128, 16  # kAlignment, sizeof(TensorMap) and kMost of layouts.cu
BITWISE = {
    "UINT8": "u1",
    "UINT16": "u2",
    "UINT32": "u4",
    "INT32": "i4",
    "UINT64": "u8",
    "INT64": "i8",
    "FLOAT16": "f2",
    "BFLOAT16": "u2",
    "FLOAT32": "f4",
    "FLOAT64": "f8",
}
"""Types of cuda.h whose elements should arrive as they are, and NumPy's type of as many bytes."""
CONVERTED = ("FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ")
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Box:
    """A box of an array. All sizes are innermost first: ``dims``, ``box`` and ``at`` in elements,
    ``pitches`` in bytes for all dimensions but the first, ``steps`` the traversal strides."""

    dims: tuple[int, ...]
    pitches: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str = "FLOAT32"
    at: tuple[int, ...] = (0, 0, 0, 0, 0)
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    nan: bool = False
    size: int = field(default=4)

    @property
    def loaded(self) -> tuple[int, ...]:
        """Elements of the box that arrive: every ``steps``-th."""
        return tuple(-(-extent // step) for extent, step in zip(self.box, self._steps, strict=True))

    @property
    def nbytes(self) -> int:
        """Of shared memory."""
        return int(np.prod(self.loaded)) * self.size

    @property
    def _steps(self) -> tuple[int, ...]:
        return self.steps or (1,) * len(self.dims)

    def expected(self, memory: Bytes) -> Bytes:
        """What should lie in shared memory, by address arithmetic on ``memory``; 0 outside."""
        found = np.zeros((int(np.prod(self.loaded)), self.size), np.uint8)
        for row, index in enumerate(np.ndindex(self.loaded[::-1])):
            place = [a + i * s for a, i, s in zip(self.at, index[::-1], self._steps, strict=False)]
            if all(p < extent for p, extent in zip(place, self.dims, strict=True)):
                offset = place[0] * self.size + sum(p * s for p, s in zip(place[1:], self.pitches, strict=True))
                found[row] = memory[offset : offset + self.size]
        return swizzled(found.ravel(), self.swizzle)

    def encode(self, pointer: int) -> NDArray[np.uint64]:
        """The tensor map; raises MeasurementError where the driver refuses it."""
        from cuda.bindings import driver as d

        def of(kind: Any, values: Sequence[int]) -> list[Any]:
            return [kind(value) for value in values]

        names = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
        fill = "NAN_REQUEST_ZERO_FMA" if self.nan else "NONE"
        (made,) = call_driver(
            "cuTensorMapEncodeTiled",
            getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{self.dtype}"),
            len(self.dims),
            pointer,
            of(d.cuuint64_t, self.dims),
            of(d.cuuint64_t, self.pitches or (16,)),  # of one dimension nobody reads it, but it must be there
            of(d.cuuint32_t, self.box),
            of(d.cuuint32_t, self._steps),
            d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{names[self.swizzle]}"),
            d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            getattr(d.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
        )
        return np.array([int(word) for word in made.opaque], np.uint64)


def swizzled(data: Bytes, width: int) -> Bytes:
    """``data`` as a swizzle of ``width`` bytes (0, 32, 64, 128) lays it out: bits 4 and up of an
    address are XORed with those from bit 7 on."""
    if not width:
        return data
    piece = np.arange(len(data) // 16)
    moved = piece ^ ((piece >> 3) & (width // 16 - 1))
    out = np.empty_like(data).reshape(-1, 16)
    out[moved] = data.reshape(-1, 16)
    return out.ravel()


class Boxes:
    """Random bytes on the device, and boxes of them."""

    def __init__(self, bench: Lab, nbytes: int = 2**18) -> None:
        self._lab, self._kernel = bench, bench.kernel("layouts.cu", "load_box")
        self.memory = np.random.default_rng(0).standard_normal(nbytes // 4).astype(np.float32).view(np.uint8)
        self._source = bench.gpu.allocate(nbytes)
        self._out = bench.gpu.allocate(2**16)

    def load(self, box: Box, memory: Bytes | None = None) -> Bytes:
        """What TMA put into shared memory, of ``memory`` if not of the random bytes; raises
        MeasurementError where the map is refused."""
        place = self._lab.gpu.allocate(MAP_BYTES)  # a new one: a map that changes in place needs a proxy fence
        self._lab.gpu.upload(place, box.encode(self._source))
        self._lab.gpu.upload(self._source, self.memory if memory is None else memory)
        places = (np.int32(at) for at in (*box.at, 0, 0, 0, 0, 0)[:5])
        head = (place, np.int32(len(box.dims)), np.int32(box.nbytes))
        self._lab.launch(self._kernel, 1, 128, *head, *places, self._out, smem=ALIGNMENT + box.nbytes)
        return self._lab.read(self._out, box.nbytes, np.uint8)

    def takes(self, box: Box) -> bool:
        """Whether the driver makes a map of it."""
        try:
            box.encode(self._source)
        except MeasurementError:
            return False
        return True

    def right(self, box: Box) -> bool:
        """Whether the map is made, and the box arrives bit by bit as address arithmetic has it."""
        return self.takes(box) and np.array_equal(self.load(box), box.expected(self.memory))


FAULTING = {
    "inner step": Box((32, 32), (128,), (16, 8), steps=(2, 1)),
    "unaligned": Box((64, 32), (64,), (16, 8), "UINT8", (8, 4), size=1),
}
"""Boxes whose loads may fault: a fault ends all work of its process."""


def alone(name: str) -> str:
    """What comes of a box of FAULTING, in a process of its own: ``right``, ``wrong``, ``refused``
    by the driver, or ``faults``."""
    code = f"from {__name__} import tried; print(tried({name!r}))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, cwd=REPOSITORY, check=False)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else "faults"


def tried(name: str) -> str:
    """The same in this process; raises MeasurementError for a fault."""
    with lab() as bench:
        boxes, box = Boxes(bench), FAULTING[name]
        return "refused" if not boxes.takes(box) else "right" if boxes.right(box) else "wrong"


@measurement()
def tensor_maps() -> dict[str, Any]:
    """Boxes of random numbers by type, rank, swizzle, pitch and traversal stride, each held against
    address arithmetic."""
    with lab() as bench:
        boxes = Boxes(bench)
        kinds = [Box((64, 32), (64 * size,), (16, 8), kind, (16, 4), size=size) for kind, size in _sizes().items()]
        ranks = [Box((16, 8, 4, 4, 3)[:n], _dense(n), (8, 4, 2, 2, 2)[:n], at=(4, 2, 1, 1, 1)[:n]) for n in range(1, 6)]
        swizzles = [Box((64, 64), (256,), (width // 4 or 32, 16), swizzle=width) for width in (0, 32, 64, 128)]
        pitches = [Box((32, 16), (pitch,), (16, 8), at=(4, 2)) for pitch in (128, 144, 160, 272, 1008)]
        denormal, number = np.full(8192, 1, np.uint32), np.full(8192, 0x3FFFFFFF, np.uint32)
        flushed = boxes.load(Box((64, 32), (256,), (16, 8), "FLOAT32_FTZ"), denormal.view(np.uint8)).view(np.uint32)
        kept = int(boxes.load(Box((64, 32), (256,), (16, 8), "TFLOAT32"), number.view(np.uint8)).view(np.uint32)[0])
        outside = boxes.load(Box((20, 16), (128,), (16, 8), at=(16, 0), nan=True)).view(np.float32).reshape(8, 16)
        return {
            "types": len(kinds) + len(CONVERTED),
            "types_taken": sum(map(boxes.takes, kinds))
            + sum(boxes.takes(Box((64, 32), (256,), (16, 8), kind)) for kind in CONVERTED),
            "types_exact": sum(map(boxes.right, kinds)),
            "ftz_zero": not flushed.any(),
            "tf32_kept_bits": _kept_bits(kept),
            "ranks_right": sum(map(boxes.right, ranks)),
            "swizzles_right": sum(map(boxes.right, swizzles)),
            "pitches": len(pitches),
            "pitches_right": sum(map(boxes.right, pitches)),
            "pitch_8_right": boxes.right(Box((32, 16), (136,), (16, 8))),
            "windows_right": boxes.right(Box((32, 16), (16,), (16, 8), at=(4, 2))),
            "steps_right": boxes.right(Box((32, 32), (128,), (16, 16), steps=(1, 2), at=(4, 3))),
            "inner_step": alone("inner step"),
            "unaligned": alone("unaligned"),
            "columns_right": boxes.right(Box((1, 32, 16), (128, 16), (1, 8, 8))),
            "nan_outside": bool(np.isnan(outside[:, 4:]).all() and np.isfinite(outside[:, :4]).all()),
        }


def _sizes() -> dict[str, int]:
    return {kind: np.dtype(code).itemsize for kind, code in BITWISE.items()}


def _dense(rank: int) -> tuple[int, ...]:
    """Pitches in bytes of a dense float array of 16 x 8 x 4 x 4 x 3."""
    return (64, 512, 2048, 8192)[: rank - 1]


def _kept_bits(word: int) -> int:
    """Bits of the mantissa that are left of 0x3FFFFFFF (all ones): 23 if the number came through as
    it was; rounding up leaves none."""
    return (word & 0x7FFFFF).bit_count()


@measurement()
def fragment_maps() -> dict[str, Any]:
    """Which element of the matrix is element i of lane l, in five kinds of WMMA fragments of 16 x
    16."""
    with lab() as bench:
        kernel = bench.kernel("layouts.cu", "fragment_map")
        values = np.arange(256, dtype=np.float32).reshape(16, 16)
        sums, matrix, out = bench.gpu.allocate(1024), bench.gpu.allocate(512), bench.gpu.allocate(32 * MOST * 4)
        bench.gpu.upload(sums, values)
        maps = []
        for kind in range(5):
            bench.gpu.upload(matrix, np.ascontiguousarray(values.T if kind in (1, 3) else values).astype(np.float16))
            bench.gpu.upload(out, np.full(32 * MOST, -1.0, np.float32))
            bench.launch(kernel, 1, 32, np.int32(kind), matrix, sums, out)
            maps.append(bench.read(out, 32 * MOST, np.float32).astype(int).reshape(32, MOST))
        found = [set(one[one >= 0].tolist()) for one in maps]
        return {
            "kinds": len(maps),
            "maps": len({one.tobytes() for one in maps}),
            "held": float(np.mean([(one >= 0).sum() / 256 for one in maps[:4]])),
            "a_rows_columns_same": bool(np.array_equal(maps[0], maps[1])),
            "elements_found": min(map(len, found)),
        }
