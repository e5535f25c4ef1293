"""Prints the catalog: every kernel with shape, idea, parameters and requirements."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncubble.chips import Version, chip_of
from ncubble.cli.terminal import TIED, printable, tied
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from ncubble.kernels.spec.spec import KernelSpec, Parameter, Parameters, Value

INDENT = "  "
WIDEST = 120  # columns; longer lines are hard to read
OLDEST = 80  # Ampere: what every kernel needs, so that it is not said
PEERS = {"matmul": "cuBLAS", "sdpa": "cuDNN", "softmax": "torch.softmax", "copy": "a device copy"}


def kernel_lines(specs: Iterable[KernelSpec], width: int) -> Iterator[Text]:
    """A block of lines per spec, at most ``width`` columns wide unless a single item is wider."""
    from rich.text import Text

    for spec in specs:
        sizes = " ".join(f"{dim.name}={dim.default}" for dim in spec.dims)
        yield Text.assemble((printable(spec.name), "bold cyan"), f"  {printable(sizes)}")
        yield from map(Text, _wrapped(printable(spec.idea), width))
        items = (f"{item.name}={item.allowed} ({_default(item)})" for item in spec.parameters)
        tied = "  ".join(_tied(printable(item), width) for item in items)
        yield from (Text(line, style="dim") for line in _wrapped(tied, width))
        remarks = f"{TIED}· ".join(_tied(printable(note), width) for note in notes(spec))
        yield from (Text(line, style="green") for line in _wrapped(remarks, width))


def _default(item: Parameter) -> str:
    """The default, and the default for GPUs that lack its requirements, if any."""
    return str(item.default) if item.elsewhere is None else f"{item.default}, elsewhere {item.elsewhere}"


def notes(spec: KernelSpec) -> list[str]:
    """Requirements beyond Ampere, the library to compare with, and whether the kernel has gates."""
    remarks = [need.words for need in architectures(spec)]
    if spec.peer:
        remarks.append(f"bench --library: {PEERS.get(spec.peer, spec.peer)}")
    if spec.gates is not None:
        remarks.append("verify --gates")
    return remarks


@dataclass(frozen=True)
class ArchitectureNeed:
    """What a kernel needs beyond Ampere: compute capability ``arch`` (90 is 9.0), or ``only`` that
    one; ``parameter`` is the one whose ``values`` need it (None: all of the kernel does)."""

    parameter: str | None
    values: tuple[Value, ...]
    arch: int
    only: bool

    @property
    def words(self) -> str:
        """For people."""
        need = f"{_architecture(self.arch)} {'only' if self.only else 'or later'}"
        return f"{self.parameter}={', '.join(map(str, self.values))}: {need}" if self.parameter else need


def architectures(spec: KernelSpec) -> list[ArchitectureNeed]:
    """GPU generations that ``spec`` needs; per value if a parameter decides, with the others at
    their defaults.

    Raises:
        UsageError: the spec's own rule fails.
    """
    defaults = {item.name: item.default for item in spec.parameters}
    needs: list[ArchitectureNeed] = []
    for item in spec.parameters:
        values: dict[tuple[int, bool], list[Value]] = {}
        for value in item.choices:
            values.setdefault(_generation(spec, defaults | {item.name: value}), []).append(value)
        if len(values) > 1:
            needs += [
                ArchitectureNeed(item.name, tuple(those), arch, only)
                for (arch, only), those in values.items()
                if only or arch > OLDEST
            ]
    arch, only = _generation(spec, defaults)
    return needs or ([ArchitectureNeed(None, (), arch, only)] if only or arch > OLDEST else [])


def _generation(spec: KernelSpec, parameters: Parameters) -> tuple[int, bool]:
    """The oldest architecture that these parameters can be built for, or the only one."""
    from ncubble.kernels.spec.case import Case

    case = Case(spec, parameters, {})
    try:
        only, least = case.only_arch, case.min_arch
        return (int(least), False) if only is None else (int(only), True)
    except Exception as error:  # the spec is the user's code
        raise UsageError(f"spec of {spec.name!r}: arch_of: {type(error).__name__}: {error}", "fix the spec") from error


def _architecture(number: int) -> str:
    """``Hopper`` for 90; nvcc's name where no other is known."""
    chip = chip_of(Version(*divmod(number, 10)))
    return chip.architecture if chip and chip.architecture else f"sm_{number}"


def _tied(item: str, width: int) -> str:
    """``item`` so that it stays in one line, if it fits one."""
    return tied(item) if len(INDENT) + len(item) <= min(width, WIDEST) else item


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        text,
        min(width, WIDEST),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(TIED, " ") for line in lines]
