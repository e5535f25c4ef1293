"""Compiles a case to a cubin with nvcc, caches it by everything that the cubin depends on, reads
the machine code in it, and identifies code by its sources."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ncubble.chips import Version, load_chips
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.spec.case import PLANNED_SMS, Case, make_case
from ncubble.kernels.spec.spec import PYTHON, Value
from ncubble.kernels.triton import TritonLaunch, TritonSource
from ncubble.sass.elf import parameter_sizes, sections
from ncubble.store import cache_root, draft_of, make_private
from ncubble.text.remedies import extras_command
from ncubble.toolkit import cuda_tool

TIMEOUT_S = 600.0
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
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(?!!U?PT\s)!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)")
_SERIALIZED = re.compile(r"\((C751\d)\)(.*)")
_CODE = (".text", ".nv.constant", ".nv.global", ".nv.info", ".nv.shared", ".rodata")
"""Sections of a cubin that affect a launch. Others hold names, line numbers and paths."""
_PACKAGE = "ncubble.kernels."
SMALLER = 2
"""Most parameters that are made smaller where the defaults do not fit an architecture."""
BARRIERS_B = 1024
"""Kept free beside dynamic shared memory: static barriers take so much where it is aligned so."""
_SMS = 132  # an arbitrary number: shows changes of the rule for persistent grids


def find_tool(name: str) -> Path:
    """Path of CUDA's command-line tool ``name``: on PATH, under CUDA_HOME, or in the CUDA wheels of
    PyPI; raises MeasurementError saying how to get it."""
    if tool := cuda_tool(name):
        return Path(tool)
    message = f"{name} was not found on PATH, under CUDA_HOME or in the CUDA wheels"
    raise MeasurementError(message, f"install the CUDA toolkit, set CUDA_HOME, or: {extras_command('nvcc')}")


def run_tool(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end and returns what it said; raises MeasurementError when it cannot be
    started or hangs."""
    words = [str(part) for part in argv]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        message = f"{argv[0]} did not finish within {TIMEOUT_S:.0f} s"
        raise MeasurementError(message, "check for a hanging compiler") from error
    except OSError as error:
        raise MeasurementError(f"{argv[0]} could not be started: {error}", "check its installation") from error


@functools.cache
def compiler_version(nvcc: Path) -> str:
    """The last lines of ``nvcc --version``: release and build, which tell two compilers apart."""
    lines = run_tool([nvcc, "--version"]).stdout.strip().splitlines()
    return " ".join(line.strip() for line in lines[-2:])


@dataclass(frozen=True)
class CompiledResources:
    """What the compiler said a kernel uses: registers and spilled bytes per thread, static shared
    memory per CTA."""

    registers: int
    smem_static_B: int  # noqa: N815 - a column name of the reports
    spill_B: int  # noqa: N815


@dataclass(frozen=True)
class Build:
    """A cubin with the facts of how it was made; ``warnings``: what ptxas said of its wgmma;
    ``launch``: how Triton's code is launched."""

    cubin: bytes
    resources: CompiledResources
    compiler: str
    flags: tuple[str, ...]
    sha256: str
    cached: bool
    warnings: tuple[str, ...] = ()
    launch: TritonLaunch | None = None


_NOTES = msgspec.json.Decoder(Build)
"""Made once: two threads that are the first to convert one type end the process."""


def arch_for(major: int, minor: int) -> str:
    """nvcc's name of the architecture, with its specific features where there are any: (9, 0) gives
    ``sm_90a``."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _number(arch: str) -> int:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None:
        raise UsageError(f"{arch!r} is not an architecture", "use nvcc's form: sm_80, sm_90a, …")
    return int(match[1])


def check_arch(case: Case, arch: str) -> None:
    """Raises UsageError unless the chosen parameters exist for ``arch``, as nvcc calls it."""
    number, settings = _number(arch), "".join(f" {name}={value}" for name, value in case.settings.items())
    if case.only_arch is not None and number != case.only_arch:
        message = f"{case.spec.name}{settings} exists only for sm_{case.only_arch}a, this is {arch}"
        raise UsageError(message, f"use a GPU of compute capability {case.only_arch / 10}")
    if number < case.min_arch:
        message = f"{case.spec.name}{settings} needs sm_{case.min_arch} or later, this is {arch}"
        raise UsageError(message, "use a newer GPU")
    check_smem(case, 0, arch, smem_of(arch))


def smem_of(arch: str) -> int | None:
    """Bytes of shared memory that a CTA may have on ``arch``; None where that is not known."""
    chip = load_chips().get(Version(*divmod(_number(arch), 10)))
    return chip.limits.cta_smem if chip and chip.limits else None


def check_smem(case: Case, static: int, where: str, limit: int | None) -> None:
    """Raises UsageError if a CTA, with its ``static`` bytes, needs more shared memory than
    ``limit``, that of ``where``."""
    if limit is not None and case.smem + static > limit:
        message = f"{case.label}: {case.smem + static} bytes of shared memory per CTA, {where} has {limit}"
        raise UsageError(message, "use fewer stages or a smaller tile")


def case_for(case: Case, arch: str, sms: int = PLANNED_SMS) -> Case:
    """``case`` with the defaults of ``arch`` and of a device of ``sms`` SMs
    (``KernelSpec.defaults``): where the usual ones do not exist for it, those of
    ``Parameter.elsewhere``, whatever was given; where they take more shared memory than a CTA of it
    has, the nearest smaller ones (``_fitting``). What was given stays."""
    given = {name: case.parameters[name] for name in case.given}
    usual = Case(case.spec, {item.name: item.default for item in case.spec.parameters}, case.shape)
    if usual.only_arch not in (None, _number(arch)) or usual.min_arch > _number(arch):
        others = {item.name: item.elsewhere for item in case.spec.parameters if item.elsewhere is not None}
        given = {**others, **given}
    made = make_case(case.spec, given, case.shape, sms)
    exists = made.only_arch in (None, _number(arch)) and made.min_arch <= _number(arch)
    return _fitting(made, case.given, smem_of(arch), sms) if exists else made


def _fitting(case: Case, given: Container[str], limit: int | None, sms: int) -> Case:
    """``case``, if a CTA has so much shared memory; else with smaller values of what was not
    ``given``: of as few parameters as suffice, with as much memory as there is, later parameters
    first. ``case`` itself where none fit."""
    if limit is None or case.smem + BARRIERS_B <= limit:
        return case
    free = [item for item in case.spec.parameters if item.name not in given and not item.problem]
    for count in range(1, SMALLER + 1):
        fitting: list[Case] = []
        for items in itertools.combinations(free, count):
            smaller = [
                [value for value in item.choices if _smaller(value, case.parameters[item.name])] for item in items
            ]
            for values in itertools.product(*smaller):
                chosen = {**case.parameters, **dict(zip((item.name for item in items), values, strict=True))}
                try:
                    made = make_case(case.spec, chosen, case.shape, sms)
                except UsageError:  # the spec requires other combinations
                    continue
                if made.smem + BARRIERS_B <= limit:
                    fitting.append(replace(made, given=case.given))
        if fitting:
            most = max(one.smem for one in fitting)
            return [one for one in fitting if one.smem == most][-1]
    return case


def _smaller(value: Value, than: Value) -> bool:
    return isinstance(value, int) and isinstance(than, int) and value < than


def build(case: Case, arch: str, more: tuple[str, ...] = ()) -> Build:
    """The cubin of ``case`` for ``arch`` (such as ``sm_90a``), from the cache if nothing changed;
    ``more`` are flags.

    Raises:
        MeasurementError: no compiler, it refused the source (its text is in the message), or the
            cache cannot be written.
        UsageError: the kernel needs a newer architecture, or its function another spec.
    """
    check_arch(case, arch)
    compiled: Callable[[], tuple[bytes, str, TritonLaunch | None]]
    if case.spec.language == "triton":
        source = TritonSource.of(case)
        version, effective, key = source.compiler, source.flags, f"{source.key}-{arch}"
        compiled = functools.partial(source.compile, _number(arch))
    else:
        nvcc = find_tool("nvcc")
        flags = (*FLAGS, f"-arch={arch}", *case.flags, *more)
        effective = (*flags, *(f"{name}={value}" for name in ENVIRONMENT if (value := os.environ.get(name))))
        version = compiler_version(nvcc)
        key, compiled = _key(case, effective, version), functools.partial(_compile, case, nvcc, flags)
    built = _load(key)
    if built is None:
        cubin, said, launch = compiled()
        digest, used = hashlib.sha256(cubin).hexdigest(), parse_resources(said, case.spec.entry)
        built = Build(cubin, used, version, effective, digest, False, wgmma_warnings(said), launch)
        _store(key, built)
    if case.spec.language == "cuda":
        _check_arguments(case, built.cubin)
    check_smem(built.launch.of(case) if built.launch else case, built.resources.smem_static_B, arch, smem_of(arch))
    return built


def _check_arguments(case: Case, cubin: bytes) -> None:
    """Raises UsageError where the arguments that a launch passes are not those of the kernel, by
    their number and bytes."""
    spec = case.spec
    given = {f"map of {item.array}": 128 for item in case.tensor_maps} | {item.name: 8 for item in spec.arrays}
    names = (item if isinstance(item, str) else item.name for item in spec.scalars)
    given |= {name: value.nbytes for name, value in zip(names, case.scalars(), strict=True)}
    taken = parameter_sizes(cubin, spec.entry)
    if taken != list(given.values()):
        passed = ", ".join(f"{name} {size}" for name, size in given.items())
        message = f"{case.label}: {spec.entry} takes arguments of {taken} bytes, its spec passes {passed}"
        raise UsageError(message, "declare tensor_maps, arrays and scalars in the order and types of its arguments")


def _compile(case: Case, nvcc: Path, flags: tuple[str, ...]) -> tuple[bytes, str, None]:
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder:
        target = Path(folder) / "kernel.cubin"
        done = run_tool([nvcc, *flags, f"-I{HEADERS}", "-cubin", "-o", target, case.spec.path])
        if done.returncode or not target.is_file():
            message = f"nvcc could not compile {case.spec.path}:\n{(done.stderr or done.stdout).strip()}"
            raise MeasurementError(message, "fix the source or the compiler installation")
        return target.read_bytes(), done.stderr + done.stdout, None


def wgmma_warnings(text: str) -> tuple[str, ...]:
    """What ptxas says of wgmma that it serializes, or puts waits around (C7510 to C7519), once for
    each number: ``ptxas C7511: …``."""
    told = {number: words.strip() for number, words in reversed(_SERIALIZED.findall(text))}
    return tuple(f"ptxas {number}: {told[number]}" for number in sorted(told))


def parse_resources(text: str, function: str) -> CompiledResources:
    """Resources of ``function`` from the output of ``ptxas -v``; raises MeasurementError if it is
    not there."""
    _, *parts = re.split(r"Compiling entry function '([^']+)'", text)
    functions = dict(zip(parts[::2], parts[1::2], strict=True))
    if function not in functions:
        names = ", ".join(functions) or "none"
        message = f'the source has no extern "C" __global__ function {function!r}; it has: {names}'
        raise MeasurementError(message, "set KernelSpec.function to one of them")

    def number(pattern: str) -> int:
        match = re.search(pattern, functions[function])
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


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return cache_root() / "cubins"


def _load(key: str) -> Build | None:
    """The cached build, or None: absent, or not what was written (the hash in the note must
    agree)."""
    cubin, note = cache_folder() / f"{key}.cubin", cache_folder() / f"{key}.json"
    try:
        data, found = cubin.read_bytes(), _NOTES.decode(note.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return replace(found, cubin=data, cached=True) if found.sha256 == hashlib.sha256(data).hexdigest() else None


def _store(key: str, built: Build) -> None:
    note = msgspec.json.encode(replace(built, cubin=b""))
    try:
        make_private(cache_folder())
        for suffix, data in (("cubin", built.cubin), ("json", note)):
            with draft_of(cache_folder() / f"{key}.{suffix}") as draft:  # two builders of the same key may race
                draft.write_bytes(data)
    except OSError as error:
        remedy = "set NCUBBLE_CACHE to a writable folder"
        raise MeasurementError(f"{cache_folder()}: cannot store the compiled kernel: {error}", remedy) from error


def source_files(source: Path) -> list[Path]:
    """``source`` and every file beside it or in ``HEADERS`` that it includes, at any depth, in the
    order found."""
    return _reachable(source, _included)


def includes(case: Case, header: Path) -> bool:
    """Whether the CUDA C++ of ``case`` includes ``header``, at any depth."""
    return case.spec.language not in PYTHON and header.resolve() in {
        path.resolve() for path in source_files(case.spec.path)
    }


def _reachable(first: Path, named: Callable[[Path], Iterable[Path]]) -> list[Path]:
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


def code_hash(cubin: bytes) -> str:
    """SHA-256 over those sections of ``cubin`` (ELF, 64 bits, little-endian) that a launch depends
    on.

    The cubin itself is another one wherever its source lies in another folder: line information
    holds the path. Raises UsageError for what is no cubin.
    """
    try:
        parts = sorted((part.name, cubin[part.offset : part.offset + part.size]) for part in sections(cubin))
    except ValueError as error:
        raise UsageError(f"not an ELF file of 64 bits ({error})", "build the kernel again") from error
    digest = hashlib.sha256()
    for name, data in parts:
        if name.startswith(_CODE):
            digest.update(f"{name.split('.')[1]} {len(data)}\0".encode() + data)
    if not any(name.startswith(".text") for name, _ in parts):
        raise UsageError("the cubin has no code", "build the kernel again")
    return digest.hexdigest()


@functools.lru_cache
def disassemble(cubin: bytes, lines: bool = False) -> str:
    """SASS of ``cubin`` as nvdisasm prints it, with its source ``lines`` if wanted; raises
    MeasurementError if it is no cubin or the tool is missing."""
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder:
        (path := Path(folder) / "kernel.cubin").write_bytes(cubin)
        done = run_tool([find_tool("nvdisasm"), "-c", "-ndf", *(["-g"] if lines else []), path])
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
    broken = [
        f"{case.label} ({arch}): {prefix} {'is missing' if wanted else 'must not occur'}"
        for prefix, wanted in case.sass(arch).items()
        if occurs(prefix, counts) != wanted
    ]
    if built.resources.spill_B:
        broken.append(f"{case.label} ({arch}): {built.resources.spill_B} bytes of registers are spilled per thread")
    return broken


def code_digest(case: Case) -> str:
    """What a case is made of, as SHA-256 in hexadecimal: equal digests, equal code, on whatever
    machine and at whatever path it lies.

    ``cubin_sha256`` of a build says the same of machine code, but only after building. This needs
    no compiler: it covers the sources with all that they include or import from this package, the
    compiler's flags and what the spec derives from parameters and shape. The compiler itself is not
    part of it. Raises UsageError where a source cannot be read.
    """
    digest = hashlib.sha256()
    for part in (case.spec.entry, *FLAGS, *case.defines, *case.spec.flags(case.parameters), *_launch_rules(case)):
        digest.update(part.encode() + b"\0")
    try:
        for path in _sources(case):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError as error:
        raise UsageError(f"{case.label}: a source cannot be read: {error}", "fix its permissions") from error
    return digest.hexdigest()


def _launch_rules(case: Case) -> Iterator[str]:
    """What the spec says of the launch, evaluated."""
    yield repr((case.grid, case.block, case.cluster, case.grid_on(_SMS), case.smem, case.launches))
    yield repr([(type(value).__name__, float(value)) for value in case.scalars(0, _SMS)])
    for item in case.tensor_maps:
        yield repr((item.array, item.swizzle, case.box(item), case.mapped_extent(item)))


def _sources(case: Case) -> list[Path]:
    """Every file that is compiled or driven, each once."""
    programs = [case.spec.folder / case.spec.program] if case.spec.program else []
    sources: list[Path] = []
    for path in (case.spec.path, *programs):
        more = _reachable(path, _imported) if path.suffix == ".py" else source_files(path)
        sources += [source for source in more if source not in sources]
    return sources


def _imported(source: Path) -> Iterator[Path]:
    """What a Python file imports from beside it or from this package."""
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):  # running it reports the error
        return
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        inside = name.removeprefix(_PACKAGE) if name.startswith(_PACKAGE) else ""
        for root, dotted in ((HEADERS.parent, inside), (source.parent, name)):
            path = root / f"{dotted.replace('.', '/')}.py"
            if dotted and path.is_file():
                yield path.resolve()
                break
