"""What the validations measure: kernels to ablate, and sweeps of depth. As data; ``*/measure.py``
runs them.

Every subject says whether rules may be fitted to it (``dev``) or whether it was held out until they
were fixed (``test``); ``second`` is the set held out once more after that:
docs/validation/README.md.
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
    """A kernel with its parameters and shape. ``waves``: its grid is a CTA per tile, so that
    ``WHOLE_ROWS`` rows cut its tail."""

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
        """The subject as an entry of a plan (``batch.py``), with ``more``
        parameters."""
        return {"kernel": self.kernel, "parameters": {**self.parameters, **more}, "shape": dict(self.shape)}


DepthSweep = tuple[ValidationSubject, tuple[int, ...]]
"""A kernel without its parameter ``stages``, and the depths that fit."""


def variants(subject: ValidationSubject) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, plan entry) of the whole kernel and of all that can be left out of it, then of a shape
    without a tail.

    Raises:
        UsageError: the whole kernel does not exist with these parameters.
    """
    spec = find_spec(subject.kernel)
    make_case(spec, subject.parameters, subject.shape)
    for word in next(item for item in spec.parameters if item.name == "ablate").choices:
        entry = subject.entry(**({} if word == NONE else {"ablate": word}))
        try:
            make_case(spec, entry["parameters"], entry["shape"])
        except UsageError:  # nothing to remove: a plain copy has no wait
            continue
        yield str(word), entry
    if subject.waves and subject.shape["m"] == CUBE["m"]:
        yield TAIL, {**subject.entry(), "shape": {**subject.shape, "m": WHOLE_ROWS}}


def ablated() -> tuple[ValidationSubject, ...]:
    """The GEMMs of the ladder, from starved to busy; then the two held-out sets."""
    return (
        ValidationSubject("tensor_core_gemm", {"stages": 1, "copy": "plain"}),
        *(ValidationSubject("tensor_core_gemm", {"stages": stages}) for stages in (1, 2, 3, 4)),
        ValidationSubject("tensor_core_gemm", {"stages": 3, "vec": 4}),
        *(ValidationSubject("gemm_mma_swizzled", {"stages": stages}) for stages in (2, 4)),
        ValidationSubject("gemm_mma_swizzled", {"layout": "plain"}),
        *(ValidationSubject("gemm_tma", {"stages": stages}) for stages in (1, 2, 3)),
        *HELD_OUT,
        *SECOND_HELD_OUT,
    )


FLAT = {"m": 2048, "n": 8192, "k": 2048}
HELD_OUT = (
    ValidationSubject("tensor_core_gemm", {"stages": 2, "vec": 4}, split="test"),
    ValidationSubject("tensor_core_gemm", {"stages": 3}, FLAT, split="test"),
    ValidationSubject("gemm_mma_swizzled", {"stages": 3}, split="test"),
    ValidationSubject("gemm_mma_swizzled", {"stages": 4, "tile_n": 128, "tile_k": 32}, split="test"),
    ValidationSubject("gemm_mma_swizzled", {"stages": 2, "tile_n": 128, "tile_k": 64}, FLAT, split="test"),
    ValidationSubject("gemm_tma", {"stages": 4}, split="test"),
    ValidationSubject("gemm_tma", {"stages": 2}, FLAT, split="test"),
    ValidationSubject("gemm_ws", split="test", waves=False),
)
LONG, WIDE = {"m": 2048, "n": 2048, "k": 8192}, {"m": 8192, "n": 4096, "k": 1024}
# The rule for wgmma was added when the cases above had been seen.
SECOND_HELD_OUT = (
    *(ValidationSubject("async_pipeline", {"stages": stages}, split=SECOND) for stages in (2, 3, 4)),
    ValidationSubject("async_pipeline", {"stages": 3, "threads": 128}, split=SECOND),
    *(ValidationSubject("gemm_tma", {"stages": stages}, LONG, split=SECOND) for stages in (2, 3)),
    ValidationSubject("gemm_tma", {"stages": 1}, WIDE, split=SECOND),
    ValidationSubject("gemm_ws", {"tile_n": 128, "stages": 3}, split=SECOND, waves=False),
)


def depth_sweeps() -> tuple[DepthSweep, ...]:
    """Kernels without their parameter ``stages``, each with all of its depths that fit: sweeps on
    which predictions of depth are developed, and those they are tested on. Some have nothing to
    gain; others lose a resident CTA on the way.
    """
    heads = {"batch": 4, "heads": 16, "tokens": 4096, "dim": 128}
    small = {"m": 2048, "n": 2048}
    return (
        *(_sweep(kernel) for kernel in ("tensor_core_gemm", "gemm_tma")),
        _sweep("gemm_mma_swizzled", tile_n=256, tile_k=64),
        _sweep("gemm_mma_swizzled", tile_n=128, tile_k=32),
        *(_sweep("tensor_core_gemm", {**small, "k": k}, "test") for k in (1024, 8192)),
        _sweep("tensor_core_gemm", split="test", vec=4),
        _sweep("gemm_mma_swizzled", split="test", tile_n=128, tile_k=64),  # from 4 stages on one CTA per SM
        _sweep("gemm_mma_swizzled", {**CUBE, "k": 1024}, "test", tile_n=256, tile_k=32),
        _sweep("gemm_mma_swizzled", LONG, "test", tile_n=128, tile_k=32),
        *(
            _sweep("gemm_tma", shape, "test")
            for shape in (LONG, {**CUBE, "k": 1024}, {"m": 8192, "n": 8192, "k": 2048})
        ),
        _sweep("gemm_ws", split="test", tile_n=128),
        _sweep("async_pipeline", split="test", threads=128),
        *(_sweep("attention_fwd", heads, "test", path=path) for path in ("tma", "cp_async")),
    )


def second_sweeps() -> tuple[DepthSweep, ...]:
    """As ``depth_sweeps``, the second held-out set: the model was changed when those had been
    seen."""
    heads = {"batch": 4, "heads": 16, "tokens": 4096, "dim": 64}
    return (
        _sweep("gemm_tma", {"m": 6144, "n": 4096, "k": 2048}, SECOND),
        _sweep("gemm_tma", {"m": 3072, "n": 3072, "k": 4096}, SECOND),
        _sweep("gemm_ws", {"m": 8192, "n": 4096, "k": 2048}, SECOND, tile_n=256, cluster=1),
        _sweep("gemm_ws", split=SECOND, tile_n=128, schedule="pingpong"),
        _sweep("gemm_mma_swizzled", LONG, SECOND, tile_n=256, tile_k=64),
        _sweep("gemm_mma_swizzled", WIDE, SECOND, tile_n=128, tile_k=32),
        _sweep("tensor_core_gemm", {"m": 8192, "n": 2048, "k": 2048}, SECOND),
        *(_sweep("attention_fwd", heads, SECOND, path=path, causal=1) for path in ("tma", "cp_async")),
    )


def _sweep(kernel: str, shape: Mapping[str, int] = CUBE, split: Split = "dev", **parameters: Value) -> DepthSweep:
    spec = find_spec(kernel)
    subject, depths = ValidationSubject(kernel, parameters, shape, split), []
    for stages in next(item for item in spec.parameters if item.name == "stages").choices:
        with suppress(UsageError):  # more shared memory than a CTA may have
            make_case(spec, {**parameters, "stages": stages}, shape)
            depths.append(int(stages))
    return subject, tuple(depths)
