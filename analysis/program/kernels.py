"""Kernels of a program, and short names that tell them all apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from ncubble.analysis.report.launch_key import base_name
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders.raw import NAME_MOST

MOST_WORDS, MOST_TRIED = 3, 16
COMMUNICATION, BY_TENSOR, OTHER = "communication", "tensor kernels by name", "other kernels"
_TENSOR = re.compile(
    r"tensorop|tensor\d+x\d+|warpgroupsize|[gwhi]mma|nvjet|[his](884|1688|16816|8816|16832)|flash_(fwd|bwd)|fmha", re.I
)
"""In names of kernels of CUTLASS, cuBLAS, cuDNN and FlashAttention that use the tensor pipe."""
_PLAIN = frozenset(["bool", "char", "const", "double", "float", "int", "long", "short", "signed", "unsigned", "void"])
_WORDS = re.compile(r"[A-Za-z_]\w*|-?\d+")
_SCOPES = re.compile(r"(?:[A-Za-z_]\w*|\(anonymous namespace\)|\})::")


@dataclass(frozen=True)
class ProgramKernel:
    """A kernel as launches of a program tell it apart: by name and geometry.

    ``symbol``: the mangled name, or ``name`` where it is not mangled. ``grid`` and ``block`` are
    empty where the recording does not tell them. ``shared_B``: dynamic shared memory; in a trace,
    where ``registers`` are known, all shared memory.
    """

    name: str
    symbol: str
    grid: str = ""
    block: str = ""
    shared_B: int = 0  # noqa: N815
    registers: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether the recorder kept only the beginning of its name."""
        return len(self.symbol) >= NAME_MOST

    @property
    def communicates(self) -> bool:
        """Whether it waits for kernels of other GPUs: replayed alone it would never end."""
        return not Filters().chooses(self.name, self.function)

    @property
    def sort(self) -> str:
        """What it is most likely, as far as its name tells."""
        return COMMUNICATION if self.communicates else BY_TENSOR if _TENSOR.search(self.name) else OTHER

    @cached_property
    def function(self) -> str:
        """Its function, without template arguments, parameters and namespaces."""
        return base_name(self.name)


def kernel_names(kernels: Iterable[ProgramKernel]) -> dict[ProgramKernel, str]:
    """The function of each kernel. Template arguments are added where kernels of one function
    differ in them, and block or shared memory where grids are equal, too: name and grid tell all
    apart."""
    all_kernels = tuple(dict.fromkeys(kernels))
    by_function: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for one in all_kernels:
        by_function[one.function][one.name] = None
    arguments = {
        name: text
        for function, names in by_function.items()
        for name, text in zip(names, telling_arguments(function, list(names)), strict=True)
    }
    named = {one: f"{one.function}{arguments[one.name]}" for one in all_kernels}
    for word, what in (("block", lambda one: one.block), ("shared", lambda one: f"{one.shared_B} B")):
        groups: defaultdict[tuple[str, str], list[ProgramKernel]] = defaultdict(list)
        for one, name in named.items():
            groups[name, one.grid].append(one)
        for (name, _), those in groups.items():
            if len({what(one) for one in those}) > 1:
                named |= {one: f"{name} {word} {what(one)}" for one in those}
    return named


def telling_arguments(function: str, names: Sequence[str]) -> list[str]:
    """For each demangled name of ``function`` the template arguments by which it differs from the
    others, ``<Sqrt>``: up to three identifiers that no other name has together, else all words at
    the places where not all names have the same one. Empty for a single name."""
    if len(names) < 2:
        return [""] * len(names)
    words = [_words(function, name) for name in names]
    told = []
    for mine in words:
        others = [set(other) for other in words if other is not mine]
        told.append(", ".join(_own(mine, others) or _at_places(mine, words)))
    return [f"<{text}>" if text else "" for text in told]


def _own(mine: Sequence[str], others: Sequence[set[str]]) -> list[str]:
    """The fewest identifiers that none of ``others`` has together, in their order. The last ones
    first: they name the operation in libraries' kernels, where the first ones describe storage.
    Plain types say least."""
    identifiers = [word for word in dict.fromkeys(reversed(mine)) if not word.lstrip("-").isdigit()]
    identifiers.sort(key=_PLAIN.__contains__)
    for count in range(1, MOST_WORDS + 1):
        for chosen in combinations(identifiers[:MOST_TRIED], count):
            if not any(other.issuperset(chosen) for other in others):
                return sorted(chosen, key=mine.index)
    return []


def _words(function: str, name: str) -> list[str]:
    """Identifiers without their scopes, and numbers, of the template arguments of ``function``."""
    start = name.find(f"{function}<")
    if start < 0:
        return []
    depth, text = 0, ""
    for char in _SCOPES.sub("", name[start + len(function) :].replace("->", "")):
        depth += (char == "<") - (char == ">")
        if depth == 0:
            break
        text += char
    return _WORDS.findall(text)


def _at_places(mine: Sequence[str], words: Sequence[Sequence[str]]) -> list[str]:
    """The words of ``mine`` at places where not all have the same one."""
    if any(len(other) != len(mine) for other in words):
        common = set.intersection(*map(set, words))
        return [word for word in mine if word not in common] or list(mine)
    return [word for place, word in enumerate(mine) if len({other[place] for other in words}) > 1]
