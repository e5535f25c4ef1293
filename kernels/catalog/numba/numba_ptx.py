"""PTX instructions as device functions of Numba-CUDA kernels, for what Numba has no words for.

``instruction(text, takes, gives)`` is a function that a kernel calls like any other. Its operands in ``text`` are
``$0``, ``$1``, …: first the registers that it gives, then those that it takes. It becomes that one instruction, and the
kernel keeps its line information. A linked CUDA C++ function would take that away: Numba and NVRTC mark their debug
information in ways that the linker does not join ("'Debug Info Version': IDs have conflicting behaviors").

LLVM: https://llvm.org/docs/LangRef.html#inline-assembler-expressions
"""

# mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import float32, int64, uint32
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

LETTERS = {float32: "f", uint32: "r", int64: "l"}  # of PTX registers, as constraints name them


def instruction(text: str, takes: Sequence[Any] = (), gives: Sequence[Any] = (), into: bool = False) -> Any:
    """A device function of the types ``takes``, cast as needed, that returns a tuple of ``gives``, one value, or None.

    ``into``: the last ``len(gives)`` of what it takes lie in the registers of what it gives, and it does nothing but
    compute. All others are taken to touch memory: the compiler keeps their order.
    """
    result = types.void if not gives else gives[0] if len(gives) == 1 else types.Tuple(gives)
    tied = len(gives) if into else 0
    inputs = [LETTERS[kind] for kind in takes[: len(takes) - tied]] + [str(index) for index in range(tied)]
    constraints = [f"={LETTERS[kind]}" for kind in gives] + inputs + ([] if into else ["~{memory}"])

    def lower(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[0]) if takes else []
        outputs = [context.get_value_type(kind) for kind in gives]
        output = ir.LiteralStructType(outputs) if len(gives) > 1 else outputs[0] if gives else ir.VoidType()
        kind = ir.FunctionType(output, [value.type for value in values])
        found = builder.call(ir.InlineAsm(kind, text, ",".join(constraints), side_effect=not into), values)
        if not gives:
            return context.get_dummy_value()
        if len(gives) == 1:
            return found
        return context.make_tuple(builder, signature.return_type, cgutils.unpack_tuple(builder, found))

    def typed(typing_context, *operands):
        return result(types.Tuple(takes)), lower

    return intrinsic(typed)
