"""Compiles kernels, caches cubins by what they depend on, and reads the machine code in them."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.spec.case import PLANNED_SMS, Case, make_case
from ncubble.sass.elf import sections as read_sections
from ncubble.store import cache_root, draft_of, make_private
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


FLAGS = ("-O3", "-std=c++17", "-lineinfo", "-Xptxas=-v")
HEADERS = Path(__file__).resolve().parent / "cuda"
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


_CODE = (".text", ".nv.constant", ".nv.global", ".nv.info", ".nv.shared", ".rodata")
"""Sections of a cubin that affect a launch. Others hold names, line numbers and paths."""


def code_hash(cubin: bytes) -> str:
    """SHA-256 over those sections of ``cubin`` (ELF, 64 bits, little-endian) that a launch depends
    on.

    The cubin itself is another one wherever its source lies in another folder: line information
    holds the path. Raises UsageError for what is no cubin.
    """
    digest = hashlib.sha256()
    contents = sorted((name, data) for name, data in sections(cubin) if name.startswith(_CODE))
    for name, data in contents:
        digest.update(f"{name.split('.')[1]} {len(data)}\0".encode() + data)
    if not any(name.startswith(".text") for name, _ in contents):
        raise UsageError("the cubin has no code", "build the kernel again")
    return digest.hexdigest()


def sections(elf: bytes) -> list[tuple[str, bytes]]:
    """Name and content of each section of an ELF file; raises UsageError for what is none."""
    try:
        return [(part.name, elf[part.offset : part.offset + part.size]) for part in read_sections(elf)]
    except ValueError as error:
        raise UsageError(f"not an ELF file of 64 bits ({error})", "build the kernel again") from error


_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(?!!U?PT\s)!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)")


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """SASS of ``cubin`` as nvdisasm prints it, with its source ``lines`` if wanted; raises
    MeasurementError if it is no cubin or the tool is missing."""
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = run_tool([find_tool("nvdisasm"), "-c", *(["-g"] if lines else []), path])
    if done.returncode:
        raise MeasurementError(f"nvdisasm refused the cubin: {done.stderr.strip()}", "build the kernel again")
    return done.stdout


def opcodes(sass: str) -> Counter[str]:
    """How often each opcode, modifiers included, stands in ``sass``.

    Instructions that are never executed (``@!PT``) are left out: the assembler puts such LDS before
    LDGSTS.
    """
    return Counter(_INSTRUCTION.findall(sass))


def occurs(prefix: str, counts: Counter[str]) -> bool:
    """Whether an opcode is ``prefix`` or continues it after a dot: ``LDGSTS`` covers ``LDGSTS.E``,
    ``LDG`` does not."""
    return any(opcode == prefix or opcode.startswith(f"{prefix}.") for opcode in counts)


def broken_promises(case: Case, arch: str, built: Build) -> list[str]:
    """What the machine code of ``case`` breaks of its spec's promises, in words; empty if
    nothing."""
    counts = opcodes(disassemble(built.cubin))
    broken = []
    for prefix, wanted in case.spec.sass(arch, case.parameters).items():
        if occurs(prefix, counts) != wanted:
            broken.append(f"{case.label} ({arch}): {prefix} {'is missing' if wanted else 'must not occur'}")
    if built.resources.spill_B:
        broken.append(f"{case.label} ({arch}): {built.resources.spill_B} bytes of registers are spilled per thread")
    return broken


_PACKAGE, _FOLDER = "ncubble.kernels", Path(__file__).resolve().parent
_SMS = 132  # an arbitrary number: shows changes of the rule for persistent grids


def code_digest(case: Case) -> str:
    """SHA-256 in hexadecimal; raises UsageError where a source cannot be read."""
    digest = hashlib.sha256()
    for part in (case.spec.entry, *FLAGS, *case.defines, *_rules(case)):
        digest.update(part.encode() + b"\0")
    try:
        for path in _sources(case):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError as error:
        raise UsageError(f"{case.label}: a source cannot be read: {error}", "fix its permissions") from error
    return digest.hexdigest()


def _rules(case: Case) -> Iterator[str]:
    """What the spec says of the launch, evaluated."""
    sizes = (case.grid, case.block, case.cluster, case.grid_on(_SMS), case.smem, case.launches)
    yield repr(sizes)
    yield repr([(type(value).__name__, float(value)) for value in case.scalars(0, _SMS)])
    for item in case.tensor_maps:
        box = tuple(item.box(case.shape, case.parameters))
        yield repr((item.array, item.swizzle, box, case.mapped_extent(item)))


def _sources(case: Case) -> list[Path]:
    """Every file that is compiled or driven, each once."""
    pending = [case.spec.path]
    if case.spec.program:
        pending.append(case.spec.folder / case.spec.program)
    sources: list[Path] = []
    for path in pending:
        more = reachable(path, _imported) if path.suffix == ".py" else source_files(path)
        sources += [source for source in more if source not in sources]
    return sources


def _imported(source: Path) -> Iterator[Path]:
    """What a Python file imports from beside it or from this package."""
    for name in _imports(source):
        if path := _module(name, source.parent):
            yield path


def _imports(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # running it reports the error
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(name: str, folder: Path) -> Path | None:
    """The file of the module ``name``, if it lies in this package or beside its importer."""
    inside = name.removeprefix(f"{_PACKAGE}.") if name.startswith(f"{_PACKAGE}.") else ""
    for root, dotted in ((_FOLDER, inside), (folder, name)):
        path = root / f"{dotted.replace('.', '/')}.py"
        if dotted and path.is_file():
            return path.resolve()
    return None
