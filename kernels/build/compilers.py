"""Installed versions of nvcc, and the environment in which each of them is the one that is used."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build.toolchain import compiler_version, wheel_folders

PREFIX = "nvcc:"
"""Prefix of a compiler range, to distinguish it from a range of commits: ``nvcc:12.8..13.0``."""
_ROOTS = ("/usr/local/cuda*/bin", "/opt/cuda*/bin", "/opt/nvidia/hpc_sdk/*/*/cuda/*/bin")
_CONDA = ("CONDA_PREFIX", "MAMBA_ROOT_PREFIX")
_CONDA_ROOTS = ("miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba")
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")


@dataclass(frozen=True, order=True)
class NvccRelease:
    """One nvcc: its version, such as (12, 8, 93), and its path."""

    version: tuple[int, ...]
    nvcc: Path

    @property
    def text(self) -> str:
        """The version as nvcc writes it."""
        return ".".join(map(str, self.version))

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What is to be added to ``environ`` so that this nvcc is used: by name from PATH, and by
        CUDA_HOME, CUDA_PATH, CUDACXX (CMake) and NVCC (make)."""
        home = str(self.nvcc.parent.parent)
        path = os.pathsep.join(part for part in (str(self.nvcc.parent), environ.get("PATH", os.defpath)) if part)
        return {"PATH": path, "CUDA_HOME": home, "CUDA_PATH": home, "CUDACXX": str(self.nvcc), "NVCC": str(self.nvcc)}


def releases(named: Sequence[Path] = ()) -> list[NvccRelease]:
    """All nvcc that can be started, by version, one for each: ``named`` ones (an nvcc, its ``bin``
    or the toolkit) before those of PATH, CUDA_HOME, /usr/local, /opt, the CUDA wheels of this
    environment, and conda. Raises UsageError for a named one that is none."""
    kept: dict[tuple[int, ...], NvccRelease] = {}
    for path in named:
        nvcc = next((item for item in (path, path / "nvcc", path / "bin" / "nvcc") if _is_program(item)), None)
        release = release_of(nvcc) if nvcc else None
        if release is None:
            raise UsageError(f"--nvcc {path}: not an nvcc that reports its version", "name an nvcc, or its toolkit")
        kept.setdefault(release.version, release)
    for nvcc in _installed():
        if (release := release_of(nvcc)) is not None:
            kept.setdefault(release.version, release)
    return sorted(kept.values())


def release_of(nvcc: Path) -> NvccRelease | None:
    """``nvcc`` with its version; None where it does not tell one."""
    try:
        match = _VERSION.search(compiler_version(nvcc.absolute()))
    except MeasurementError:
        return None
    return NvccRelease(tuple(map(int, match[1].split("."))), nvcc.absolute()) if match else None


def releases_between(known: Sequence[NvccRelease], good: str, bad: str) -> list[NvccRelease]:
    """Those from ``good`` to ``bad``, each the beginning of a version (12, 12.8, 12.8.93): from the
    oldest that fits ``good`` to the newest that fits ``bad``, or backwards where BAD is the older
    one. Raises UsageError where an end is not installed, or both are the same."""
    listed = ", ".join(release.text for release in known) or "none"
    ends = []
    for name in (good, bad):
        if not re.fullmatch(r"\d+(\.\d+)*", name):
            raise UsageError(f"--bisect {PREFIX}{good}..{bad}: {name!r} is not a version", "write nvcc:12.8..13.0")
        parts = tuple(map(int, name.split(".")))
        fitting = [release for release in known if release.version[: len(parts)] == parts]
        if not fitting:
            remedy = f"installed: {listed}; add others with --nvcc PATH"
            raise UsageError(f"--bisect {PREFIX}{good}..{bad}: nvcc {name} was not found", remedy)
        ends.append(fitting)
    first, last = ends[0][0], ends[1][-1]
    if last < first:  # reversed range: finds the upgrade that helped
        first, last = ends[0][-1], ends[1][0]
    if first == last:
        raise UsageError(f"--bisect {PREFIX}{good}..{bad}: both are {first.text}", f"installed: {listed}")
    low, high = sorted((first, last))
    between = [release for release in known if low <= release <= high]
    return between if first < last else between[::-1]


def _installed() -> Iterator[Path]:
    for folder in _folders():
        if _is_program(folder / "nvcc"):
            yield folder / "nvcc"


def _folders() -> Iterator[Path]:
    if tool := shutil.which("nvcc"):
        yield Path(tool).parent
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value) / "bin"
    for pattern in _ROOTS:
        yield from sorted(Path("/").glob(pattern[1:]))
    yield from wheel_folders()
    for root in _conda_roots():
        yield root / "bin"
        yield from sorted(root.glob("envs/*/bin"))


def _conda_roots() -> Iterator[Path]:
    for variable in _CONDA:
        if value := os.environ.get(variable):
            yield Path(value)
    try:
        yield from (Path.home() / name for name in _CONDA_ROOTS)
    except RuntimeError:  # a user without a home
        return


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
