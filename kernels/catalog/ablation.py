"""Kernels with one cause of lost time removed: what was lost is what vanishes (measured by
``make validate``).

A variant is named by the parts that it leaves out, joined by ``_``. The sources take them one by
one, as macros ``WITHOUT_<PART>`` (``kernels/cuda/ablate.cuh``). A variant without ``copy`` has
nothing to wait for: it is without ``wait``, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ncubble.kernels.spec.spec import Parameter, Parameters, Shape

PARTS = ("wait", "copy", "sync", "smem", "epilogue")
NONE, ALL = "none", "all"
# Each part, each combination of parts that overlap in the main loop, and everything.
LOOP = ("wait_sync", "wait_smem", "sync_smem", "wait_sync_smem", "copy_sync", "copy_smem", "copy_sync_smem")
VARIANTS = (*PARTS, *LOOP, ALL)


def ablate(*variants: str) -> Parameter:
    """The parameter of a kernel that can be built as each of ``variants``, and whole by default."""
    text = "parts to leave out; the result is then wrong, only the time is meaningful"
    return Parameter("ablate", NONE, (NONE, *variants), text, tacit=True, problem=True)


def removed(parameters: Parameters) -> frozenset[str]:
    """Which of ``PARTS`` the chosen variant leaves out."""
    variant = str(parameters["ablate"])
    parts = set(PARTS) if variant == ALL else set(variant.split("_")) - {NONE}
    return frozenset(parts | {"wait"} if "copy" in parts else parts)


def keeps(part: str) -> Callable[[Parameters], bool]:
    """Whether a variant has ``part``, for instructions that come with it."""
    return lambda parameters: part not in removed(parameters)


def defines(shape: Shape, parameters: Parameters) -> dict[str, int]:
    """``WITHOUT_<PART>``: 1 for each part that is left out. A whole kernel is built as if there
    were no variants."""
    return {f"WITHOUT_{part.upper()}": 1 for part in PARTS if part in removed(parameters)}


def unverified(parameters: Parameters) -> str | None:
    """Why the result of a variant cannot be held against a reference; None for the whole kernel."""
    if not removed(parameters):
        return None
    return f"ablate={parameters['ablate']} computes nothing useful; only its time is meaningful"
