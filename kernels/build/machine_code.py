"""What the machine code holds: opcodes of a cubin, and whether they are what the spec promises."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.kernels.build.build import Build
from ncubble.kernels.build.toolchain import find_tool, run_tool
from ncubble.kernels.spec.case import Case

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


def check(case: Case, arch: str, built: Build) -> list[str]:
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
