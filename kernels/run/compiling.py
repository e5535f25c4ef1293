"""A build-only check of kernels, without a GPU: everything that is missing or wrong at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ncubble.errors import NcubbleError
from ncubble.kernels.build import broken_promises, build, case_for, find_tool
from ncubble.kernels.catalog.registry import catalog, find_spec, readable_specs
from ncubble.kernels.run.session import split
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import KernelSpec
from ncubble.toolkit import cxx

ARCH = "sm_90a"
TOOLS = ("nvcc", "nvdisasm")
HOST = "install g++ (Debian: apt install g++; conda: gxx), or name a compiler by CXX: nvcc needs one"


@dataclass(frozen=True)
class CompileCheck:
    """One kernel for ``arch``: registers, spilled bytes and static shared memory where it was
    built, and what is wrong; ``skipped`` says why nothing is built before a launch. ``warnings``
    are ptxas's own words."""

    name: str
    arch: str
    resources: Mapping[str, int] | None = None
    problems: tuple[str, ...] = ()
    skipped: str = ""
    warnings: tuple[str, ...] = ()


def missing_tools() -> list[tuple[str, str]]:
    """Tools that a build needs and that are not there, each with its remedy."""
    missing = []
    for name in TOOLS:
        try:
            find_tool(name)
        except NcubbleError as error:
            missing.append((name, error.remedy))
    if cxx() is None:
        missing.append(("a C++ compiler", HOST))
    return missing


def compile_checks(
    name: str | None, folder: Path | None, settings: Sequence[str], arch: str, promises: bool = True
) -> Iterator[CompileCheck]:
    """A check of kernel ``name`` with these settings; without a name, of every kernel of
    ``folder``, or else of the shipped catalog, at its defaults. What a file of ``folder`` fails
    with is a check of that file. ``promises``: whether machine code is read, by nvdisasm. Raises
    UsageError where there is no such kernel or folder."""
    specs, failures = readable_specs(folder) if folder is not None else (list(catalog().values()), [])
    yield from (CompileCheck(path.name, arch, problems=(_text(error),)) for path, error in failures)
    if name is not None:
        specs = [spec for spec in specs if spec.name == name] or ([] if failures else [find_spec(name, folder)])
    for spec in specs:
        yield _checked(spec, settings, arch, promises)


def _checked(spec: KernelSpec, settings: Sequence[str], arch: str, promises: bool) -> CompileCheck:
    if spec.language != "cuda":
        return CompileCheck(spec.name, arch, skipped=f"{spec.language} is only compiled at launch")
    try:
        case = case_for(make_case(spec, *split(spec, settings)), arch)
        built = build(case, arch)
        broken = broken_promises(case, arch, built) if promises else []
        most, smem = spec.gates and spec.gates.max_smem_B, case.smem + built.resources.smem_static_B
        if most and smem > most:
            broken.append(f"{smem} bytes of shared memory; the spec's gates allow: {most}")
    except NcubbleError as error:
        return CompileCheck(spec.name, arch, problems=(_text(error),))
    return CompileCheck(spec.name, arch, asdict(built.resources), tuple(broken), warnings=built.warnings)


def _text(error: NcubbleError) -> str:
    return f"{error.message} ({error.remedy})" if error.remedy else error.message
