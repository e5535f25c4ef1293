"""What a regression changes in the machine code, without a GPU: compiled as the suite compiles it,
for sm_90a."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.regressions.plan import Regression
from benchmarks.regressions.tree import environment
from ncubble.errors import MeasurementError

COMPILE = """
import json, sys
from ncubble.kernels.build import build
from ncubble.kernels.build import disassemble
from ncubble.kernels.run.session import KernelRequest, parse_parameters, parse_shape

parameters, shape = json.loads(sys.argv[2]), json.loads(sys.argv[3])
case = KernelRequest(sys.argv[1], parameters, shape).case()
if case.spec.language == "numba":
    from numba import float32, int32, types
    from numba.cuda.compiler import compile_cuda, kernel_fixup
    from ncubble.kernels.run.launch import make_dispatcher

    dispatcher = make_dispatcher(case)
    arrays = [types.Array(float32, len(array.dims), "C") for array in case.spec.arrays]
    compiled = compile_cuda(
        dispatcher.py_func, types.void, (*arrays, *(int32 for _ in case.scalars())), lineinfo=True,
        cc=(9, 0, "a"), lto=dispatcher.targetoptions["lto"], nvvm_options={"opt": 3},
    )
    library, name = compiled.library, compiled.fndesc.llvm_func_name
    library._entry_name = name
    kernel_fixup(library.get_function(name), False)
    cubin = library.get_cubin(cc=(9, 0, "a"))
    told = {"sass": disassemble(cubin if isinstance(cubin, bytes) else cubin.code), "registers": 0, "spill_B": 0}
else:
    built = build(case, "sm_90a")
    used = built.resources
    told = {"sass": disassemble(built.cubin), "registers": used.registers, "spill_B": used.spill_B}
print(json.dumps({**told, "smem_B": case.smem}))
"""
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(?!!U?PT\s)!?U?P[0-9T]+\s+)?([A-Z][^;]*?)\s*;")


@dataclass(frozen=True)
class Code:
    """Instructions with operands, in order, and what the kernel uses; registers of a Numba kernel
    are not known: 0."""

    instructions: tuple[str, ...]
    registers: int
    spill_B: int  # noqa: N815
    smem_B: int  # noqa: N815

    def count(self, what: str) -> int:
        """A resource by its name, else the instructions that match the regular expression ``what``
        from their start."""
        if what in ("registers", "spill_B", "smem_B"):
            return int(getattr(self, what))
        return sum(1 for text in self.instructions if re.match(what, text))


def code_of(regression: Regression, tree: Path) -> Code:
    """Compiles the kernel of ``regression`` as ``tree`` has it; raises MeasurementError with the
    compiler's text."""
    chosen = json.dumps(dict(regression.parameters)), json.dumps(dict(regression.shape))
    argv = [sys.executable, "-P", "-c", COMPILE, regression.kernel, *chosen]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment(tree))
    if done.returncode:
        raise MeasurementError(f"{regression.name}: {done.stderr.strip()[-1500:]}", "mend the edit, or install nvcc")
    told = json.loads(done.stdout)
    found = tuple(_INSTRUCTION.findall(told.pop("sass")))
    return Code(found, **told)


def differences(before: Code, after: Code) -> dict[str, int]:
    """Opcodes that occur more or less often, and resources that differ: by how much."""
    one, other = (Counter(text.split()[0] for text in code.instructions) for code in (before, after))
    found = {name: other[name] - one[name] for name in sorted(one | other) if one[name] != other[name]}
    sizes = {name: after.count(name) - before.count(name) for name in ("registers", "spill_B", "smem_B")}
    return {**{name: by for name, by in sizes.items() if by}, **found}


def broken_facts(regression: Regression, before: Code, after: Code) -> list[str]:
    """In words, which of the regression's facts about machine code do not hold; empty if all do."""
    found = {what: after.count(what) - before.count(what) for what in regression.machine_code}
    facts = regression.machine_code.items()
    return [f"{regression.name}: {what}: {found[what]:+d}, not {by:+d}" for what, by in facts if found[what] != by]
