"""What makes two launches the same kernel: their keys, and the coarser matches that are made with
parts of one."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ncubble.text.values import short_name

LONGEST_NAME = 300
_ABI = re.compile(r"\[abi:[^\]]*\]")
"""Numba's compilation tag: a counter of earlier compilations in the process."""


@dataclass(frozen=True)
class LaunchKey:
    """A launch by all that tells it from others; equal for repeats on one GPU model. A part that is
    empty is not known, or does not count in a coarser match.

    ``label``: the run's name for it. ``kernel``: the function. ``demangled``: the same with
    template arguments. ``shape``: the problem, as JSON. ``nvtx``: ranges around it. ``device``: GPU
    model.
    """

    label: str = ""
    kernel: str = ""
    demangled: str = ""
    shape: str = ""
    grid: str = ""
    block: str = ""
    nvtx: str = ""
    device: str = ""

    def only(self, *parts: str) -> LaunchKey:
        """A coarser key of the named parts."""
        return LaunchKey(**{part: getattr(self, part) for part in parts})

    @property
    def of_repeats(self) -> LaunchKey:
        """Equal for repeats on one GPU model."""
        return self.only("label", "demangled", "shape", "grid", "block", "nvtx", "device")


MATCHES = {
    "repeats on any GPU model": ("label", "demangled", "shape", "grid", "block", "nvtx"),
    "one kernel at one problem in runs of one label": ("label", "kernel", "shape"),
    "one instance at one problem and geometry": ("demangled", "shape", "grid", "block"),
    "one function and geometry": ("kernel", "grid", "block"),
    "one function with its template arguments": ("demangled",),
    "one function": ("kernel",),
}
"""Levels at which two launches match, with the equal parts of their keys, strictest first."""


@dataclass(frozen=True)
class KernelKey:
    """What a baseline is filed under: the part of a launch's identity that outlives a change of the
    kernel.

    A launch whose run says which kernel it is has name, parameters and shape (then tiles and grid
    may change without changing the key). Any other launch has its demangled name, grid and block.
    NVTX ranges are part of the key if any.
    """

    kernel: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    shape: Mapping[str, object] = field(default_factory=dict)
    grid: str = ""
    block: str = ""
    nvtx: str = ""

    @classmethod
    def of(cls, launch: LaunchKey, facts: Mapping[str, object], several: bool) -> KernelKey:
        """The key of a launch. ``facts``: what its run's manifest says of it, if anything.
        ``several``: the run holds it with several grids, which then tell its launches apart."""
        if not facts:
            name = _ABI.sub("", launch.demangled) or launch.kernel
            return cls(name, grid=launch.grid, block=launch.block, nvtx=launch.nvtx)
        geometry = {"grid": launch.grid, "block": launch.block} if several else {}
        parameters, shape = (_members(facts.get(name)) for name in ("parameters", "shape"))
        return cls(str(facts["name"]), parameters, shape, nvtx=launch.nvtx, **geometry)

    @property
    def canonical(self) -> str:
        """The key as one text, equal for equal keys."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=True)

    @property
    def label(self) -> str:
        """Short name for people, of LONGEST_NAME characters at most. Not unique: template arguments
        of foreign kernels are left out."""
        name = self.kernel if self.parameters or self.shape else base_name(self.kernel)
        facts = [f"{key}={value}" for part in (self.parameters, self.shape) for key, value in part.items()]
        launch = [f"{what} {text}" for what, text in (("grid", self.grid), ("block", self.block)) if text]
        name = short_name(name, LONGEST_NAME)
        return " ".join([name, *facts, *launch, *([f"[{self.nvtx}]"] if self.nvtx else [])])

    @property
    def slug(self) -> str:
        """File name for the key: readable, and unique by its hash."""
        return f"{slug(self.label)[:80].rstrip('-')}-{hashlib.sha256(self.canonical.encode()).hexdigest()[:8]}"


def slug(text: str) -> str:
    """Lower-case ASCII words joined by ``-``: safe as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def base_name(demangled: str) -> str:
    """``gemm`` of ``void ns::gemm<(int)4, float>(float const*)``: without return type, templates
    and arguments."""
    text, depth = "", 0
    for char in demangled.replace("(anonymous namespace)", "anonymous"):
        if char == "(" and depth == 0:
            break
        depth += char == "<"
        text += char if depth == 0 else ""
        depth -= char == ">"
    words = text.split()
    return (words[-1] if words else demangled).rsplit("::", 1)[-1] or demangled


def _members(value: object) -> dict[str, object]:
    """A manifest's ``parameters`` or ``shape``: an object, or anything else under one name."""
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return {} if value is None else {"value": value}


def telling_dims(names: Sequence[Hashable], shapes: Sequence[Iterable[str]]) -> list[str]:
    """For each launch the words of its shape (``m=4096``, …) that not all launches of its name
    have, joined by blanks.

    Empty for a name with one shape only. ``names`` and ``shapes`` have one element per launch.
    """
    words = [list(shape) for shape in shapes]
    alike: defaultdict[Hashable, list[set[str]]] = defaultdict(list)
    for name, shape in zip(names, words, strict=True):
        alike[name].append(set(shape))
    shared = {name: set.intersection(*sets) for name, sets in alike.items()}
    return [
        " ".join(word for word in shape if word not in shared[name]) for name, shape in zip(names, words, strict=True)
    ]
