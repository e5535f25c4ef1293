"""Compiles Triton kernels for a named architecture: no GPU and no driver is needed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import LAUNCH, SMS, Scalar, dtype_of, valued
from ncubble.text.remedies import extras_command, known_names

WARP = 32
OPTIONS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion")
ALIGNED = 16
"""Triton compiles for pointers and integers that are multiples of it."""
UNKNOWN = 2  # neither 1 nor aligned
FLOATS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8e4nv"}


@dataclass(frozen=True)
class TritonLaunch:
    """What Triton decided of the launch: ``threads`` of a CTA, dynamic shared memory per CTA,
    ``scratch_B`` of global memory per CTA, and the ``scalars`` that it did not compile in."""

    threads: int
    smem_B: int  # noqa: N815 - a key of the cache's notes
    scratch_B: int  # noqa: N815
    scalars: tuple[int, ...]

    def of(self, case: Case, scratch: int = 0) -> Case:
        """``case`` as it is launched, ``scratch`` being the address of the global memory."""
        kept = tuple(case.spec.scalars[index] for index in self.scalars)
        # The last two arguments of every Triton kernel: global memory for it and for its profiler.
        hidden = (Scalar("global_scratch", "uint64", scratch), Scalar("profile_scratch", "uint64", 0))
        spec = replace(case.spec, scalars=kept + hidden, block=(self.threads,), smem=self.smem_B)
        return replace(case, spec=spec)


@dataclass(frozen=True)
class TritonSource:
    """A Triton function of the file ``path`` with the types and the compile-time values that a case
    gives its arguments. ``options`` are Triton's own, ``flags`` they and the values as
    ``NAME=value``; ``compiler`` is Triton's version; ``scalars`` are the numbers of those that are
    passed at launch."""

    path: Path
    ast: Any  # triton.compiler.ASTSource
    options: Mapping[str, Any]
    scalars: tuple[int, ...]
    flags: tuple[str, ...]
    compiler: str

    @classmethod
    def of(cls, case: Case) -> TritonSource:
        """Raises UsageError where function and spec do not fit, MeasurementError without Triton."""
        try:
            import triton
            from triton.compiler import ASTSource
            from triton.runtime.jit import JITFunction
        except Exception as error:  # a library that does not fit raises more than ImportError
            raise MeasurementError(f"Triton cannot be imported: {error}", extras_command("triton")) from error
        spec, name = case.spec, case.spec.entry
        function: Any = getattr(load_module(spec.path), name, None)
        while not isinstance(function, JITFunction) and hasattr(function, "fn"):
            function = function.fn  # the spec's parameters take the place of triton.autotune
        if not isinstance(function, JITFunction):
            message = f"{spec.path}: {name!r} is no @triton.jit function"
            raise UsageError(message, "set function= to the name of one, and unset TRITON_INTERPRET")
        named = {**valued(spec.defines, case.shape, case.parameters), **case.parameters}
        options = {key: value for key, value in named.items() if key not in function.arg_names}
        if unknown := [key for key in options if key not in OPTIONS]:
            message = f"{case.label}: {unknown[0]!r} is no argument of {name} and no option that specs can set"
            raise UsageError(message, known_names(unknown[0], [*function.arg_names, *OPTIONS], "there are"))
        constants = {
            argument.name: named.get(argument.name, argument.default)
            for argument in function.params
            if argument.name in named or argument.has_default
        }
        rest = [argument for argument in function.params if argument.name not in constants]
        passed = [(f"*{_type(item.dtype)}", 0) for item in spec.arrays]
        for item, value in zip(spec.scalars, case.scalars(), strict=True):
            known = item not in (LAUNCH, SMS) and isinstance(value, np.integer)
            passed.append((_type(value.dtype.name), int(value) if known else UNKNOWN))
        if len(rest) != len(passed) or any(argument.is_constexpr for argument in rest):
            missing = ", ".join(f"{item.name}{': tl.constexpr' if item.is_constexpr else ''}" for item in rest)
            given = ", ".join(item if isinstance(item, str) else item.name for item in (*spec.arrays, *spec.scalars))
            message = f"{case.label}: {name} needs ({missing}), its arrays and scalars are ({given})"
            remedy = "declare arrays and scalars in its order, and a parameter or a define for each tl.constexpr"
            raise UsageError(message, remedy)
        types: dict[str, str] = {}
        attributes = {}
        for argument, (kind, number) in zip(rest, passed, strict=True):  # as Triton's own launch specializes
            if number == 1 and not argument.do_not_specialize:
                constants[argument.name] = 1
                continue
            types[argument.name] = kind
            if not (number % ALIGNED or argument.do_not_specialize or argument.do_not_specialize_on_alignment):
                attributes[(argument.num,)] = [["tt.divisibility", ALIGNED]]
        signature = {key: types.get(key, "constexpr") for key in function.arg_names}
        scalars = tuple(index for index, argument in enumerate(rest[len(spec.arrays) :]) if argument.name in types)
        flags = tuple(f"{key}={value}" for key, value in (constants | options).items())
        source = ASTSource(function, signature, constants, attributes)
        return cls(spec.path, source, options, scalars, flags, f"Triton {triton.__version__}")

    @property
    def key(self) -> str:
        """What the code depends on, but for the architecture, as a hash."""
        settings = sorted(item for item in os.environ.items() if item[0].startswith("TRITON_"))
        # Line information contains the path.
        parts = (self.compiler, self.ast.hash(), self.flags, settings, self.path.resolve())
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def compile(self, arch: int) -> tuple[bytes, str, TritonLaunch]:
        """The cubin for an architecture such as 90, ptxas's text, and the launch; raises
        MeasurementError where Triton refuses."""
        import triton
        from triton.backends.compiler import GPUTarget

        said, knobs = io.StringIO(), triton.knobs
        # Triton warns where its default is not asked for by name.
        options = {"enable_fp_fusion": knobs.language.default_fp_fusion, **self.options}
        try:
            with knobs.nvidia.scope(), knobs.compilation.scope(), contextlib.redirect_stdout(said):
                knobs.nvidia.dump_ptxas_log = knobs.compilation.always_compile = True
                made = triton.compile(self.ast, target=GPUTarget("cuda", arch, WARP), options=options)
        except Exception as error:  # Triton's, MLIR's and ptxas's errors share no type
            raise MeasurementError(f"Triton could not compile {self.path}:\n{error}", "fix the source") from error
        told = made.metadata
        launch = TritonLaunch(WARP * told.num_warps, told.shared, told.global_scratch_size, self.scalars)
        return made.asm["cubin"], said.getvalue(), launch


def _type(dtype: str) -> str:
    """Triton's name of a NumPy type: ``fp32``, ``i32``, ``u8``."""
    return FLOATS.get(dtype) or f"{'iu'[dtype_of(dtype).kind == 'u']}{8 * dtype_of(dtype).itemsize}"
