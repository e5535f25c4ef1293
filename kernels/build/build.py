"""Compiles a case to a cubin with nvcc, and caches it by everything that the cubin depends on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build.toolchain import compiler_version, find_tool, run_tool
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.defaults import PLANNED_SMS
from ncubble.store import cache_root, draft_of, make_private

FLAGS = ("-O3", "-std=c++17", "-lineinfo", "-Xptxas=-v")
HEADERS = Path(__file__).resolve().parents[1] / "cuda"
PROBED = ("-DBUBBLE_PROBE", "-DBUBBLE_PROBE_EXPORT")
"""Flags that enable the probe (``cuda/bubble_probe.cuh``) and keep its configuration symbol."""
DEBUG_HEADER = HEADERS / "debug.cuh"
DEBUG = ("-G", "-DDEBUG_PRINT")
"""Flags for the debugger, compute-sanitizer and ``cuda/debug.cuh``: no optimization, all variables,
the kernel's own prints and checks."""
ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # nvcc appends their contents to every command line
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class CompiledResources:
    """What the compiler said a kernel uses: registers and spilled bytes per thread, static shared
    memory per CTA."""

    registers: int
    smem_static_B: int  # noqa: N815 - a column name of the reports
    spill_B: int  # noqa: N815


@dataclass(frozen=True)
class Build:
    """A cubin with the facts of how it was made."""

    cubin: bytes
    resources: CompiledResources
    compiler: str
    flags: tuple[str, ...]
    sha256: str
    cached: bool


def arch_for(major: int, minor: int) -> str:
    """nvcc's name of the architecture, with its specific features where there are any: (9, 0) gives
    ``sm_90a``."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def build(case: Case, arch: str, more: tuple[str, ...] = ()) -> Build:
    """The cubin of ``case`` for ``arch`` (such as ``sm_90a``), from the cache if nothing changed;
    ``more`` are flags.

    Raises:
        MeasurementError: no nvcc, it refused the source (its text is in the message), or the cache
            cannot be written.
        UsageError: the kernel needs a newer architecture.
    """
    check_arch(case, arch)
    nvcc = find_tool("nvcc")
    flags = (*FLAGS, f"-arch={arch}", *(f"-D{define}" for define in case.defines), *more)
    effective = (*flags, *(f"{name}={value}" for name in ENVIRONMENT if (value := os.environ.get(name))))
    version = compiler_version(nvcc)
    key = _key(case, effective, version)
    cached = _load(key)
    cubin, resources = cached or _compile(case, nvcc, flags)
    if not cached:
        _store(key, cubin, resources)
    return Build(cubin, resources, version, effective, hashlib.sha256(cubin).hexdigest(), cached is not None)


def check_arch(case: Case, arch: str) -> None:
    """Raises UsageError unless the chosen parameters exist for ``arch``, as nvcc calls it."""
    number, settings = _number(arch), "".join(f" {name}={value}" for name, value in case.settings.items())
    if case.only_arch is not None and number != case.only_arch:
        message = f"{case.spec.name}{settings} exists only for sm_{case.only_arch}a, this is {arch}"
        raise UsageError(message, f"use a GPU of compute capability {case.only_arch / 10}")
    if number < case.min_arch:
        message = f"{case.spec.name}{settings} needs sm_{case.min_arch} or later, this is {arch}"
        raise UsageError(message, "use a newer GPU")


def prints_when_debugged(case: Case) -> bool:
    """Whether a debug build of ``case`` prints or checks anything: its source includes
    ``debug.cuh``."""
    own = source_files(case.spec.path) if case.spec.language in ("cuda", "host") else []
    return DEBUG_HEADER.resolve() in {path.resolve() for path in own}


def case_for(case: Case, arch: str, sms: int = PLANNED_SMS) -> Case:
    """``case`` with the defaults of ``arch`` and of a device of ``sms`` SMs
    (``KernelSpec.defaults``): where the usual ones do not exist for it, those of
    ``Parameter.elsewhere``, whatever was given. What was given stays."""
    given = {name: case.parameters[name] for name in case.given}
    usual = Case(case.spec, {item.name: item.default for item in case.spec.parameters}, case.shape)
    if usual.only_arch in (None, _number(arch)) and usual.min_arch <= _number(arch):
        return make_case(case.spec, given, case.shape, sms)
    others = {item.name: item.elsewhere for item in case.spec.parameters if item.elsewhere is not None}
    return make_case(case.spec, {**others, **given}, case.shape, sms)


def _number(arch: str) -> int:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None:
        raise UsageError(f"{arch!r} is not an architecture", "use nvcc's form: sm_80, sm_90a, …")
    return int(match[1])


def _compile(case: Case, nvcc: Path, flags: tuple[str, ...]) -> tuple[bytes, CompiledResources]:
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder:
        target = Path(folder) / "kernel.cubin"
        done = run_tool([nvcc, *flags, f"-I{HEADERS}", "-cubin", "-o", target, case.spec.path])
        if done.returncode or not target.is_file():
            text = (done.stderr or done.stdout).strip()
            raise MeasurementError(
                f"nvcc could not compile {case.spec.path}:\n{text}", "fix the source or the compiler installation"
            )
        return target.read_bytes(), parse_resources(done.stderr + done.stdout, case.spec.entry)


def parse_resources(text: str, function: str) -> CompiledResources:
    """Resources of ``function`` from the output of ``ptxas -v``; raises MeasurementError if it is
    not there."""
    start = text.find(f"Compiling entry function '{function}'")
    if start < 0:
        names = re.findall(r"Compiling entry function '([^']+)'", text)
        message = f'the source has no extern "C" __global__ function {function!r}; it has: {", ".join(names) or "none"}'
        raise MeasurementError(message, "set KernelSpec.function to one of them")
    end = text.find("Compiling entry function", start + 1)
    part = text[start : end if end > 0 else len(text)]

    def number(pattern: str) -> int:
        match = re.search(pattern, part)
        return int(match[1]) if match else 0

    spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return CompiledResources(number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), spilled)


def _key(case: Case, flags: tuple[str, ...], version: str) -> str:
    digest = hashlib.sha256()
    for part in (version, case.spec.entry, *flags):
        digest.update(part.encode() + b"\0")
    # Full paths: line information contains them, and profilers read the source from there.
    for path in source_files(case.spec.path):
        digest.update(os.fsencode(path.resolve()) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def source_files(source: Path) -> list[Path]:
    """``source`` and every file beside it or in ``HEADERS`` that it includes, at any depth, in the
    order found."""
    return reachable(source, _included)


def reachable(first: Path, named: Callable[[Path], Iterable[Path]]) -> list[Path]:
    """``first``, the files that ``named`` says it names, those that these name, and so on: each
    once, nearest first."""
    files: list[Path] = []
    pending = [first]
    while pending:
        path = pending.pop(0)
        if path not in files:
            files.append(path)
            pending += named(path)
    return files


def _included(path: Path) -> Iterator[Path]:
    for name in _INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
        candidates = (path.parent / name, HEADERS / name)
        yield from [candidate.resolve() for candidate in candidates if candidate.is_file()][:1]


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return cache_root() / "cubins"


def _load(key: str) -> tuple[bytes, CompiledResources] | None:
    """The cached cubin, or None: absent, or not what was written (the hash in the note must
    agree)."""
    cubin, note = cache_folder() / f"{key}.cubin", cache_folder() / f"{key}.json"
    try:
        data, facts = cubin.read_bytes(), json.loads(note.read_text(encoding="utf-8"))
        if facts.pop("sha256") != hashlib.sha256(data).hexdigest():
            return None
        return data, CompiledResources(**facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _store(key: str, cubin: bytes, resources: CompiledResources) -> None:
    note = json.dumps({"sha256": hashlib.sha256(cubin).hexdigest(), **asdict(resources)})
    try:
        make_private(cache_folder())
        for suffix, data in (("cubin", cubin), ("json", note.encode())):
            with draft_of(cache_folder() / f"{key}.{suffix}") as draft:  # two builders of the same key may race
                draft.write_bytes(data)
    except OSError as error:
        remedy = "set NCUBBLE_CACHE to a writable folder"
        raise MeasurementError(f"{cache_folder()}: cannot store the compiled kernel: {error}", remedy) from error
