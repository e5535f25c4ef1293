"""What the validations measure: kernels to ablate, and sweeps of depth. As data; ``ncubble validate`` runs them.

Every subject says whether rules may be fitted to it (``dev``) or whether it was kept apart until they were fixed
(``test``), and ``second`` what was kept apart once more after that: docs/validation/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from ncubble.errors import UsageError
from ncubble.kernels.catalog.ablation import NONE
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value

Split = Literal["dev", "test", "second"]
SECOND: Split = "second"
CUBE = {"m": 4096, "n": 4096, "k": 4096}
# 33 rows of tiles: with 16 or 32 columns of them, whole waves of 132 SMs with one or two CTAs each.
WHOLE_ROWS = 4224
TAIL = "tail"


@dataclass(frozen=True)
class ValidationSubject:
    """A kernel with its parameters and shape. ``waves``: its grid is a CTA per tile, so that ``WHOLE_ROWS`` rows cut
    its tail."""

    kernel: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=lambda: CUBE)
    split: Split = "dev"
    waves: bool = True

    @property
    def name(self) -> str:
        """``KERNEL/CASE``, unique among the subjects."""
        settings = [f"{key}{value}" for key, value in self.parameters.items()]
        size = [] if self.shape == CUBE else ["x".join(str(extent) for extent in self.shape.values())]
        return f"{self.kernel}/{'-'.join([*settings, *size]) or 'default'}"

    def entry(self, **more: Value) -> dict[str, Any]:
        """The subject as an entry of a plan (``kernels/run/batch.py``), with ``more`` parameters."""
        return {"kernel": self.kernel, "parameters": {**self.parameters, **more}, "shape": dict(self.shape)}


def variants(subject: ValidationSubject) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, plan entry) of the whole kernel and of all that can be left out of it, then of a shape without a tail.

    Raises:
        UsageError: the whole kernel does not exist with these parameters.
    """
    spec = find_spec(subject.kernel)
    make_case(spec, subject.parameters, subject.shape)
    for word in next(item for item in spec.parameters if item.name == "ablate").choices:
        entry = subject.entry(**({} if word == NONE else {"ablate": word}))
        try:
            make_case(spec, entry["parameters"], entry["shape"])
        except UsageError:  # there is nothing to leave out: a plain copy has no wait
            continue
        yield str(word), entry
    if subject.waves and subject.shape["m"] == CUBE["m"]:
        yield TAIL, {**subject.entry(), "shape": {**subject.shape, "m": WHOLE_ROWS}}


def ablated() -> Iterator[ValidationSubject]:
    """The GEMMs of the ladder, from starved to busy."""
    yield ValidationSubject("tensor_core_gemm", {"stages": 1, "copy": "plain"})
    for stages in (1, 2, 3, 4):
        yield ValidationSubject("tensor_core_gemm", {"stages": stages})
    yield ValidationSubject("tensor_core_gemm", {"stages": 3, "vec": 4})
    for stages in (2, 4):
        yield ValidationSubject("gemm_mma_swizzled", {"stages": stages})
    yield ValidationSubject("gemm_mma_swizzled", {"layout": "plain"})
    for stages in (1, 2, 3):
        yield ValidationSubject("gemm_tma", {"stages": stages})
    yield from _kept_apart()


def _kept_apart() -> Iterator[ValidationSubject]:
    flat = {"m": 2048, "n": 8192, "k": 2048}
    yield ValidationSubject("tensor_core_gemm", {"stages": 2, "vec": 4}, split="test")
    yield ValidationSubject("tensor_core_gemm", {"stages": 3}, flat, split="test")
    yield ValidationSubject("gemm_mma_swizzled", {"stages": 3}, split="test")
    yield ValidationSubject("gemm_mma_swizzled", {"stages": 4, "tile_n": 128, "tile_k": 32}, split="test")
    yield ValidationSubject("gemm_mma_swizzled", {"stages": 2, "tile_n": 128, "tile_k": 64}, flat, split="test")
    yield ValidationSubject("gemm_tma", {"stages": 4}, split="test")
    yield ValidationSubject("gemm_tma", {"stages": 2}, flat, split="test")
    yield ValidationSubject("gemm_ws", split="test", waves=False)
    yield from _kept_apart_again()


def _kept_apart_again() -> Iterator[ValidationSubject]:
    """The rule for wgmma was added when the cases above had been seen."""
    for stages in (2, 3, 4):
        yield ValidationSubject("async_pipeline", {"stages": stages}, split=SECOND)
    yield ValidationSubject("async_pipeline", {"stages": 3, "threads": 128}, split=SECOND)
    long, wide = {"m": 2048, "n": 2048, "k": 8192}, {"m": 8192, "n": 4096, "k": 1024}
    for stages in (2, 3):
        yield ValidationSubject("gemm_tma", {"stages": stages}, long, split=SECOND)
    yield ValidationSubject("gemm_tma", {"stages": 1}, wide, split=SECOND)
    yield ValidationSubject("gemm_ws", {"tile_n": 128, "stages": 3}, split=SECOND, waves=False)


def depth_sweeps() -> Iterator[tuple[ValidationSubject, tuple[int, ...]]]:
    """Kernels without their parameter ``stages``, each with all of its depths that fit: sweeps on which predictions of
    depth are developed, and those they are tested on. Some have nothing to gain; others lose a resident CTA on the way.
    """
    for kernel in ("tensor_core_gemm", "gemm_tma"):
        yield _sweep(kernel)
    yield _sweep("gemm_mma_swizzled", tile_n=256, tile_k=64)
    yield _sweep("gemm_mma_swizzled", tile_n=128, tile_k=32)
    small = {"m": 2048, "n": 2048}
    for k in (1024, 8192):
        yield _sweep("tensor_core_gemm", {**small, "k": k}, "test")
    yield _sweep("tensor_core_gemm", split="test", vec=4)
    yield _sweep("gemm_mma_swizzled", split="test", tile_n=128, tile_k=64)  # from 4 stages on one CTA per SM
    yield _sweep("gemm_mma_swizzled", {**CUBE, "k": 1024}, "test", tile_n=256, tile_k=32)
    yield _sweep("gemm_mma_swizzled", {**small, "k": 8192}, "test", tile_n=128, tile_k=32)
    for shape in ({**small, "k": 8192}, {**CUBE, "k": 1024}, {"m": 8192, "n": 8192, "k": 2048}):
        yield _sweep("gemm_tma", shape, "test")
    yield _sweep("gemm_ws", split="test", tile_n=128)
    yield _sweep("async_pipeline", split="test", threads=128)
    heads = {"batch": 4, "heads": 16, "tokens": 4096, "dim": 128}
    for path in ("tma", "cp_async"):
        yield _sweep("attention_fwd", heads, "test", path=path)


def second_sweeps() -> Iterator[tuple[ValidationSubject, tuple[int, ...]]]:
    """As ``depth_sweeps``, kept apart a second time: the model was mended when those had been seen."""
    for shape in ({"m": 6144, "n": 4096, "k": 2048}, {"m": 3072, "n": 3072, "k": 4096}):
        yield _sweep("gemm_tma", shape, SECOND)
    yield _sweep("gemm_ws", {"m": 8192, "n": 4096, "k": 2048}, SECOND, tile_n=256, cluster=1)
    yield _sweep("gemm_ws", split=SECOND, tile_n=128, schedule="pingpong")
    yield _sweep("gemm_mma_swizzled", {"m": 2048, "n": 2048, "k": 8192}, SECOND, tile_n=256, tile_k=64)
    yield _sweep("gemm_mma_swizzled", {"m": 8192, "n": 4096, "k": 1024}, SECOND, tile_n=128, tile_k=32)
    yield _sweep("tensor_core_gemm", {"m": 8192, "n": 2048, "k": 2048}, SECOND)
    heads = {"batch": 4, "heads": 16, "tokens": 4096, "dim": 64}
    for path in ("tma", "cp_async"):
        yield _sweep("attention_fwd", heads, SECOND, path=path, causal=1)


def _sweep(
    kernel: str, shape: Mapping[str, int] = CUBE, split: Split = "dev", **parameters: Value
) -> tuple[ValidationSubject, tuple[int, ...]]:
    spec = find_spec(kernel)
    subject, depths = ValidationSubject(kernel, parameters, shape, split), []
    for stages in next(item for item in spec.parameters if item.name == "stages").choices:
        with suppress(UsageError):  # more shared memory than a CTA may have
            make_case(spec, {**parameters, "stages": stages}, shape)
            depths.append(int(stages))
    return subject, tuple(depths)
