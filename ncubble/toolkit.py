"""Where this machine has CUDA's tools, headers and libraries, and a C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

_LAUNCHERS = ("ccache", "distcc", "sccache")


def cuda_homes() -> Iterator[Path]:
    """Folders of the CUDA toolkits that the environment names."""
    yield from (Path(value) for name in ("CUDA_HOME", "CUDA_PATH") if (value := os.environ.get(name)))


def cuda_wheels() -> Iterator[Path]:
    """Folders of CUDA's wheels from PyPI, the newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        yield from sorted(Path(root).glob("cu[0-9]*"), reverse=True)
        yield from (Path(root) / name for name in ("cuda_cupti", "cuda_runtime"))


def cuda_tool(name: str) -> str | None:
    """Path of a command-line tool of CUDA: on PATH, in a toolkit, in the wheels, or in Triton's."""
    folders = [folder / "bin" for places in (cuda_homes(), cuda_wheels()) for folder in places]
    triton = importlib.util.find_spec("triton")
    folders += [Path(triton.origin).with_name("backends") / "nvidia" / "bin"] if triton and triton.origin else []
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)) or os.devnull)


def named_cxx() -> str:
    """The compiler that CXX names, as conda does, which has no plain ``g++``; else empty."""
    words = shlex.split(os.environ.get("CXX") or "")
    return next((word for word in words if Path(word).name not in _LAUNCHERS), "")


def cxx() -> str | None:
    """Path of the C++ compiler: the one that CXX names, else g++, else c++."""
    return next(filter(None, map(shutil.which, filter(None, (named_cxx(), "g++", "c++")))), None)
