"""Builds libraries that the CUDA driver loads into a program (CUDA_INJECTION64_PATH), with the
system's C++ compiler, once per CUPTI."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ncubble import toolkit
from ncubble.errors import MeasurementError
from ncubble.store import FILE, cache_root, draft_of, make_private
from ncubble.text.remedies import pip_command

FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Cupti:
    """Where CUPTI lies: its headers, those of CUDA (cuda.h), and its library."""

    headers: Path
    cuda_headers: Path
    library: Path


def injection(source: Path) -> Path:
    """The library of ``source`` for CUDA_INJECTION64_PATH, from the cache where it was built
    before.

    Raises MeasurementError where there is no C++ compiler or no CUPTI, or where it does not
    compile.
    """
    compiler = toolkit.cxx()
    if compiler is None:
        raise MeasurementError(
            "no C++ compiler was found, which is needed to build the recorder library", "install g++"
        )
    cupti = find_cupti()
    digest = hashlib.sha256(source.read_bytes())
    for part in (compiler, *FLAGS, *map(str, (cupti.headers, cupti.cuda_headers, cupti.library))):
        digest.update(b"\0" + part.encode())
    digest.update(str(cupti.library.stat().st_mtime_ns).encode())
    target = cache_root() / "streams" / f"{source.stem}-{digest.hexdigest()[:24]}.so"
    if not target.is_file():
        _build(compiler, source, cupti, target)
    return target


def find_cupti() -> Cupti:
    """CUPTI of the CUDA toolkit, else of the wheels from PyPI; raises MeasurementError where there
    is none."""
    for headers, libraries in _places():
        candidates = sorted(libraries.glob("libcupti.so.[0-9]*")) or sorted(libraries.glob("libcupti.so"))
        if not (headers / "cupti_activity.h").is_file() or not candidates:
            continue
        for cuda_headers in (headers, *(other for other, _ in _places())):
            if (cuda_headers / "cuda.h").is_file():
                return Cupti(headers, cuda_headers, candidates[0])
    raise MeasurementError("CUPTI was not found, neither under CUDA_HOME nor in the CUDA wheels", _remedy())


def _toolkits() -> Iterator[Path]:
    yield from toolkit.cuda_homes()
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")


def _places() -> Iterator[tuple[Path, Path]]:
    """Folders of headers and of libraries that may hold CUPTI."""
    for home in _toolkits():
        extras = home / "extras" / "CUPTI"
        yield from ((extras / "include", extras / "lib64"), (home / "include", home / "lib64"))
        targets = home / "targets" / "x86_64-linux"
        yield targets / "include", targets / "lib"
    for folder in toolkit.cuda_wheels():
        yield folder / "include", folder / "lib"


def _build(compiler: str, source: Path, cupti: Cupti, target: Path) -> None:
    """Compiles beside the target and renames: two builders of the same library write the same."""
    includes = [f"-I{cupti.headers}", f"-I{cupti.cuda_headers}"]
    linked = [str(cupti.library), f"-Wl,-rpath,{cupti.library.parent}"]
    try:
        make_private(target.parent)
        with draft_of(target) as draft:
            argv = [compiler, *FLAGS, "-o", str(draft), str(source), *includes, *linked]
            _compile(argv)
            draft.chmod(FILE)
    except OSError as error:
        remedy = "set NCUBBLE_CACHE to a writable folder"
        raise MeasurementError(f"{target.parent}: cannot store the compiled library: {error}", remedy) from error


def _compile(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasurementError(f"{argv[0]} could not be run: {error}", "check the C++ compiler") from error
    if done.returncode:
        raise MeasurementError(f"{argv[0]} could not build the recorder:\n{done.stderr.strip()}", _remedy())


def _remedy() -> str:
    wheels = pip_command("nvidia-cuda-cupti", "nvidia-cuda-runtime")
    return f"install the CUDA toolkit and set CUDA_HOME, or: {wheels}"
