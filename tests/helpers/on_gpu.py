"""Kernels on a real GPU: run, verified, and compiled all at once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelOutcome, KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import Case, make_case

Settings = Mapping[str, Any]
WAITING = Path(__file__).resolve().parents[1] / "gpu/waiting_program.cu"


def compiled(source: Path, folder: Path) -> str:
    """The program of a CUDA source; skips the test where there is no nvcc."""
    if (nvcc := shutil.which("nvcc")) is None:
        pytest.skip("no nvcc on PATH")
    binary = str(folder / source.stem)
    subprocess.run([nvcc, "-O3", "-arch=native", "-lineinfo", str(source), "-o", binary], check=True, timeout=200)
    return binary


def verified(
    name: str, parameters: Settings | None = None, shape: Settings | None = None, **more: Any
) -> KernelOutcome:
    """What came of a run on fresh inputs, which was right; timed where ``iterations`` are given."""
    outcome = execute(KernelRequest(name, parameters or {}, shape or {}, **{"iterations": 0, **more}))
    assert outcome.verification is not None
    assert outcome.verification.passed, f"{outcome.case.label}: {outcome.verification.describe()}"
    return outcome


def p50_us(name: str, parameters: Settings | None = None, shape: Settings | None = None) -> float:
    """The median time of a kernel that is right."""
    timing = verified(name, parameters, shape, iterations=100).timing
    assert timing is not None
    return timing.p50_us


def compile_all(settings: Iterable[tuple[Any, ...]]) -> None:
    """Builds kernels (name, parameters, shape) for this GPU: one after the other they would take
    longer than their tests."""
    cases = [make_case(find_spec(name), *more) for name, *more in settings]
    with closing(Gpu.open()) as gpu, ThreadPoolExecutor() as pool:
        list(pool.map(lambda case: build(case, gpu.arch), cases))


def launched(
    case: Case, seed: int, change: Callable[[dict[str, Any]], None] = lambda inputs: None, launches: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs, as ``change`` leaves them, and the results of the last of several launches on them,
    each of which was right."""
    with closing(Gpu.open()) as gpu:
        prepared = prepare(case, gpu)
        inputs = draw_inputs(prepared.case, seed)
        change(inputs)
        prepared.upload(inputs)
        for _ in range(launches):
            prepared.poison()
            prepared.run()
            outputs, overrun = prepared.outputs()
            outcome = verify(prepared.case, inputs, outputs, seed, overrun)
            assert outcome.passed, outcome.describe()
        return inputs, outputs
