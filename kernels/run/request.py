"""What to do with which kernel, as a command line names it: name, parameters, shape, folder of own
kernels, seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import MIN_ITERATIONS
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import Value

MAX_DIGITS = 19  # maximum digits of a size: beyond any 64-bit integer
T = TypeVar("T")


@dataclass(frozen=True)
class KernelRequest:
    """What to do with which kernel. ``iterations`` 0 times nothing; ``launches`` counts the
    launches before that.

    ``verify``: compare with the reference, if the parameters compute anything that has one.
    ``against``: time the library's call of the spec's ``peer`` beside it. ``debug``: build without
    optimization and with the kernel's debug prints and checks; times would mean nothing. ``nvtx``:
    put NVTX ranges around the phases.
    """

    name: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)
    catalog: Path | None = None
    seed: int | None = None
    launches: int = 1
    verify: bool = True
    iterations: int = MIN_ITERATIONS
    against: bool = False
    debug: bool = False
    nvtx: bool = False

    def __post_init__(self) -> None:
        if self.launches < 1:
            raise UsageError(f"--launches {self.launches} is not positive", "use 1 or more")
        if self.iterations < 0:
            raise UsageError(
                f"--iterations {self.iterations} is negative", "use 100 or more, or --once to time nothing"
            )
        if self.debug and self.iterations:
            raise UsageError(
                "--debug builds code without optimization, whose times are meaningless",
                "use `ncubble verify` instead",
            )
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative", "use 0 or more")

    @classmethod
    def parse(
        cls, name: str, parameters: Sequence[str] | None, shape: Sequence[str] | str | None, *rest: Any, **more: Any
    ) -> KernelRequest:
        """The request of a command line: ``parameters`` as ``NAME=VALUE``, ``shape`` as
        ``M=…,N=…``, once or repeated.

        ``rest`` and ``more`` are further members. Raises UsageError.
        """
        sizes = [shape] if isinstance(shape, str) else shape
        return cls(name, parse_parameters(parameters or ()), parse_shape(sizes or ()), *rest, **more)

    def case(self) -> Case:
        """The checked case; raises UsageError."""
        return make_case(find_spec(self.name, self.catalog), self.parameters, self.shape)


def parse_parameters(texts: Sequence[str]) -> dict[str, Value]:
    """``["stages=3"]`` as ``{"stages": "3"}``; raises UsageError for anything that is no
    ``name=value``."""
    parameters: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"-p {text!r} is not name=value", "for example -p stages=3")
        _add(parameters, name.strip(), value.strip(), "-p")
    return parameters


def parse_shape(texts: Sequence[str]) -> dict[str, int]:
    """``["m=4096,n=64"]`` as ``{"m": 4096, "n": 64}``; raises UsageError for anything that is no
    ``name=integer``."""
    shape: dict[str, int] = {}
    for part in ",".join(texts).split(","):
        if not part.strip():
            continue
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value.isascii() or not value.isdigit():
            raise UsageError(f"--shape {part!r} is not name=integer", "for example --shape m=4096,n=4096,k=4096")
        if len(value) > MAX_DIGITS:
            raise UsageError(f"--shape {name}={value[:MAX_DIGITS]}… has {len(value)} digits", "use a smaller size")
        _add(shape, name, int(value), "--shape")
    return shape


def _add(values: dict[str, T], name: str, value: T, option: str) -> None:
    if values.setdefault(name, value) != value:
        raise UsageError(f"{option}: {name} is both {values[name]} and {value}", "give it only once")
