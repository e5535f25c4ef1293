"""A build-only check of kernels, without a GPU: everything that is missing or wrong at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ncubble.errors import NcubbleError
from ncubble.kernels.build import broken_promises, build, case_for, check_arch, disassemble, find_tool, opcodes
from ncubble.kernels.catalog.registry import catalog, find_spec, readable_specs
from ncubble.kernels.run.session import split
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import KernelSpec
from ncubble.toolkit import cxx

ARCH = "sm_90a"
HOST = "install g++ (Debian: apt install g++; conda: gxx), or name a compiler by CXX: nvcc needs one"


@dataclass(frozen=True)
class CompileCheck:
    """One kernel for ``arch``: registers, spilled bytes and shared memory where it was built, how
    often each of its ``opcodes`` stands in the machine code, and what is wrong; ``skipped`` says
    why nothing is built before a launch. ``warnings`` are ptxas's own words."""

    name: str
    arch: str
    resources: Mapping[str, int] | None = None
    problems: tuple[str, ...] = ()
    skipped: str = ""
    warnings: tuple[str, ...] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)


def chosen_specs(name: str | None, folder: Path | None, arch: str) -> tuple[list[KernelSpec], list[CompileCheck]]:
    """The spec called ``name``, or all of ``folder``, or else of the shipped catalog; and a check
    of each file of ``folder`` that fails. Raises UsageError where there is no such kernel or
    folder."""
    specs, failures = readable_specs(folder) if folder is not None else (list(catalog().values()), [])
    if name is not None:
        specs = [spec for spec in specs if spec.name == name] or ([] if failures else [find_spec(name, folder)])
    return specs, [CompileCheck(path.name, arch, problems=(_text(error),)) for path, error in failures]


def missing_tools(specs: Sequence[KernelSpec]) -> list[tuple[str, str]]:
    """Tools that building ``specs`` needs and that are not there, each with its remedy."""
    missing, of_cuda = [], any(spec.language == "cuda" for spec in specs)
    for name in ("nvcc", "nvdisasm") if of_cuda else ("nvdisasm",):
        try:
            find_tool(name)
        except NcubbleError as error:
            missing.append((name, error.remedy))
    if of_cuda and cxx() is None:
        missing.append(("a C++ compiler", HOST))
    return missing


def compile_check(
    spec: KernelSpec, settings: Sequence[str], arch: str, read: bool = True, out: Path | None = None
) -> CompileCheck:
    """A check of one kernel with these settings. ``read``: whether nvdisasm can read the machine
    code, which ``out``, a folder, gets as ``NAME.sass`` with source lines."""
    try:
        case = case_for(make_case(spec, *split(spec, settings)), arch)
        if spec.language not in ("cuda", "triton"):
            check_arch(case, arch)
            return CompileCheck(spec.name, arch, skipped=f"{spec.language} is only compiled at launch")
        built = build(case, arch)
        broken = broken_promises(case, arch, built) if read else []
        most, smem = spec.gates and spec.gates.max_smem_B, case.smem + built.resources.smem_static_B
        if most and smem > most:
            broken.append(f"{smem} bytes of shared memory; the spec's gates allow: {most}")
        counts = opcodes(disassemble(built.cubin)) if read else {}
        if out is not None and read:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{spec.name}.sass").write_text(disassemble(built.cubin, lines=True), encoding="utf-8")
    except NcubbleError as error:
        return CompileCheck(spec.name, arch, problems=(_text(error),))
    except OSError as error:
        return CompileCheck(spec.name, arch, problems=(f"--out {out}: cannot be written: {error}",))
    used = {**asdict(built.resources), "smem_dynamic_B": (built.launch.of(case) if built.launch else case).smem}
    return CompileCheck(spec.name, arch, used, tuple(broken), warnings=built.warnings, opcodes=dict(counts))


def _text(error: NcubbleError) -> str:
    return f"{error.message} ({error.remedy})" if error.remedy else error.message
