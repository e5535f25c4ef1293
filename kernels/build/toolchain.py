"""Finds CUDA command-line tools: on PATH, under CUDA_HOME, or in the CUDA wheels from PyPI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.text.remedies import extras_command

TIMEOUT_S = 600.0


def find_tool(name: str) -> Path:
    """Path of the tool ``name``; raises MeasurementError saying where it was looked for and how to
    get it."""
    for folder in _folders():
        if tool := shutil.which(name, path=str(folder)):
            return Path(tool)
    raise MeasurementError(f"{name} was not found on PATH, under CUDA_HOME or in the CUDA wheels", tools_remedy())


def tools_remedy() -> str:
    """How to get the tools of CUDA."""
    return f"install the CUDA toolkit, set CUDA_HOME, or: {extras_command('nvcc')}"


def _folders() -> Iterator[str | Path]:
    yield os.environ.get("PATH", os.defpath)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value) / "bin"
    yield from wheel_folders()


def wheel_folders() -> Iterator[Path]:
    """``bin`` folders of the CUDA wheels, newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        yield from sorted(Path(root).glob("cu[0-9]*/bin"), reverse=True)


def run_tool(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end and returns what it said; raises MeasurementError when it cannot be
    started or hangs."""
    try:
        return subprocess.run(
            [str(part) for part in argv], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(
            f"{argv[0]} did not finish within {TIMEOUT_S:.0f} s", "check for a hanging compiler"
        ) from error
    except OSError as error:
        raise MeasurementError(f"{argv[0]} could not be started: {error}", "check its installation") from error


@cache
def compiler_version(nvcc: Path) -> str:
    """The last lines of ``nvcc --version``: release and build, which tell two compilers apart."""
    lines = run_tool([nvcc, "--version"]).stdout.strip().splitlines()
    return " ".join(line.strip() for line in lines[-2:])
