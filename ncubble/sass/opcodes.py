"""Role of a SASS instruction in a pipelined kernel, from its mnemonic.

Roles: ``mma``, ``mma_wait`` (waits for asynchronous MMAs), ``copy`` (asynchronous global → shared),
``copy_wait`` (waits for such copies), ``load_global``, ``store_shared``, ``load_shared``,
``store_global``, ``local`` (spills), ``tensor_memory`` (LDTM, STTM), ``barrier``, ``other``.
``UTCBAR`` waits for nothing: it makes an mbarrier await the MMAs before it, which
``buffers.awaited`` follows. ``ACQBULK`` waits for the kernel before (programmatic dependent
launch). Mnemonics: CUDA Binary Utilities, instruction set reference for Volta to Blackwell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("WARPGROUP", "mma_wait"),
    ("LDGSTS", "copy"),
    ("LDGDEPBAR", "copy"),
    ("ARRIVES.LDGSTSBAR", "copy"),
    ("UTMALDG", "copy"),
    ("UTMAPF", "copy"),
    ("UBLKCP", "copy"),
    ("DEPBAR", "copy_wait"),
    ("SYNCS.PHASECHK", "copy_wait"),
    ("UTMASTG", "store_global"),
    ("UTMAREDG", "store_global"),
    ("UTMACMDFLUSH", "store_global"),
    ("LDSM", "load_shared"),
    ("LDTM", "tensor_memory"),
    ("STTM", "tensor_memory"),
    ("LDS", "load_shared"),
    ("STSM", "store_shared"),
    ("STS", "store_shared"),
    ("LDG", "load_global"),
    ("LDL", "local"),
    ("STL", "local"),
    ("STG", "store_global"),
    ("REDG", "store_global"),
    ("RED.", "store_global"),
    ("ATOMG", "store_global"),
    ("BAR", "barrier"),
    ("UCGABAR", "barrier"),
    ("WARPSYNC", "barrier"),
    ("ACQBULK", "barrier"),
    ("MEMBAR", "barrier"),
)
_MMA = (
    "HMMA",
    "IMMA",
    "DMMA",
    "BMMA",
    "QMMA",
    "OMMA",
    "HGMMA",
    "IGMMA",
    "QGMMA",
    "BGMMA",
    "UTCHMMA",
    "UTCIMMA",
    "UTCQMMA",
    "UTCOMMA",
)
_UNORDERED = re.compile(r"\b((RED|ATOM|UBLKRED)\S*\.ADD\S*\.B?F(16|32|64)|UTMAREDG\S*\.ADD)")
_WGMMA = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")


@lru_cache(maxsize=1 << 12)
def role(opcode: str) -> str:
    """The role of an opcode such as ``LDGSTS.E.BYPASS.128``."""
    stem = opcode.partition(".")[0]
    if stem in _MMA:
        return "mma"
    if stem in ("LD", "ST"):
        return "load_global" if stem == "LD" else "store_global"
    return next((name for prefix, name in _PREFIXES if opcode.startswith(prefix)), "other")


def is_wgmma(opcode: str) -> bool:
    """Whether an MMA is Hopper's, which reads its operands from shared memory."""
    return opcode.partition(".")[0] in _WGMMA


def is_asynchronous(opcode: str) -> bool:
    """Whether an MMA runs beside the warp that issued it: ``wgmma``, or ``tcgen05`` (10.x)."""
    return is_wgmma(opcode) or opcode.startswith("UTC")


def width_bytes(opcode: str) -> int:
    """Bytes a thread moves with one global or shared access: 4 unless the opcode says 128, 64, 16
    or 8 bits."""
    parts = opcode.split(".")[1:]
    if "128" in parts:
        return 16
    if "64" in parts:
        return 8
    return next((size for part, size in (("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)) if part in parts), 4)


def adds_in_any_order(sass: Iterable[str]) -> bool:
    """Whether floating-point sums in memory depend on the order of arrival, so that the last bits
    of results differ from launch to launch. Loops of compare-and-swap are not found, and the type
    of a tensor map's elements is not known."""
    return any(_UNORDERED.search(text) for text in sass)
