"""``Chip``: properties of one chip, from ``chips.toml``, by compute capability. Values missing from
the file are None or empty; nothing is derived.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ncubble.errors import MeasurementError, UsageError


class Version(NamedTuple):
    """Major and minor number of a version or compute capability; the rest is ignored."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True)
class Product:
    """Product name of a chip, with its number of SMs, if known."""

    name: str
    sms: int | None = None


@dataclass(frozen=True)
class SmLimits:
    """Limits of an SM, and its allocation granularity of registers and shared memory (bytes)."""

    warps: int
    ctas: int
    smem_KiB: int  # noqa: N815 - a unit
    registers: int
    register_unit: int
    warp_unit: int
    reserved_smem_B: int  # noqa: N815 - a unit
    smem_unit_B: int  # noqa: N815 - a unit

    @property
    def smem(self) -> int:
        """Shared memory of an SM in bytes."""
        return self.smem_KiB * 1024

    @property
    def cta_smem(self) -> int:
        """Maximum shared memory of a CTA in bytes."""
        return self.smem - self.reserved_smem_B


@dataclass(frozen=True)
class CopyLatency:
    """Cycles of a tile's flight, at least and at most: after its bytes have passed an SM's port and
    its last copy was issued."""

    low: float
    high: float


@dataclass(frozen=True)
class Chip:
    """One chip. ``generation`` selects ncu's metric names on it (empty: as in the metric sets).

    ``flop_per_clock_sm`` holds dense FLOP per clock and SM by pipe (``fp32``, ``tensor_fp16``,
    ``tensor_fp8``, ``tensor_fp4``), ``mma_flop_per_clock_sm`` the rate reached by each kind of MMA
    instruction.
    """

    capability: Version
    generation: str = ""
    architecture: str = ""
    products: tuple[Product, ...] = ()
    limits: SmLimits | None = None
    flop_per_clock_sm: Mapping[str, float] = field(default_factory=dict)
    mma_flop_per_clock_sm: Mapping[str, float] = field(default_factory=dict)
    copy_latency: CopyLatency | None = None

    @property
    def fast_mma(self) -> str:
        """The MMA instruction that is faster than mma.sync: ``wgmma``, ``tcgen05``; empty if the
        chip has none, or its rates are not known."""
        rates = self.mma_flop_per_clock_sm
        best = max(rates, key=lambda name: rates[name], default="")
        return best if "mma.sync" in rates and best != "mma.sync" else ""

    @property
    def slow_mma_share(self) -> float:
        """Share of mma.sync time that the fast instruction saves; 0 without one."""
        rates = self.mma_flop_per_clock_sm
        return 1.0 - rates["mma.sync"] / rates[self.fast_mma] if self.fast_mma else 0.0


def parse_version(text: str) -> Version:
    """``"2025.3.1.0"`` → 2025.3, ``"9.0"`` → 9.0; raises UsageError for anything without two
    leading numbers."""
    match = re.match(r"\s*(\d+)\.(\d+)", text)
    if not match:
        raise UsageError(f"not a version: {text!r}", "use major.minor, for example 9.0")
    return Version(int(match[1]), int(match[2]))


@cache
def load_chips() -> Mapping[Version, Chip]:
    """The shipped records by compute capability. Raises UsageError where the file is malformed."""
    return parse_chips((files("ncubble") / "chips.toml").read_text(encoding="utf-8"))


def parse_chips(text: str) -> dict[Version, Chip]:
    """The records of a file like ``chips.toml``; raises UsageError naming what is wrong with it."""
    try:
        content = tomllib.loads(text)
        chips = [_chip(entry, content["limits"]) for entry in content["chips"]]
    except (KeyError, TypeError, ValueError) as error:  # no TOML, a missing or an unknown key
        raise UsageError(f"ncubble/chips.toml: {error}", "correct the file, or reinstall ncubble") from error
    return {chip.capability: chip for chip in chips}


def _chip(entry: Mapping[str, Any], shared: Mapping[str, Any]) -> Chip:
    """One record; ``shared`` are the limits that every chip has."""
    limits, latency = entry.get("limits"), entry.get("copy_latency")
    return Chip(
        **{
            **entry,
            "capability": parse_version(entry["capability"]),
            "products": tuple(Product(**product) for product in entry.get("products", ())),
            "limits": SmLimits(**{**shared, **limits}) if limits else None,
            "copy_latency": CopyLatency(**latency) if latency else None,
        }
    )


def chip_of(capability: Version | str | None) -> Chip | None:
    """The chip of a compute capability (``9.0`` as text or version), or None if unknown."""
    if isinstance(capability, str):
        match = re.fullmatch(r"(\d+)\.(\d+)", capability)
        capability = Version(int(match[1]), int(match[2])) if match else None
    return load_chips().get(capability) if capability else None


def generation_of(capability: Version | None) -> str | None:
    """The chip under whose names ncu counts, or None if unknown: then names are used as written."""
    chip = chip_of(capability)
    return chip.generation or None if chip else None


def generations() -> frozenset[str]:
    """All names of chips under which metrics are known."""
    return frozenset(chip.generation for chip in load_chips().values() if chip.generation)


def limits_of(capability: Version | str) -> SmLimits:
    """Limits of an SM of a chip; raises MeasurementError if they are not known."""
    chip = chip_of(capability)
    if chip is None or chip.limits is None:
        raise MeasurementError(
            f"the limits of an SM of compute capability {capability} are not known", "add it to ncubble/chips.toml"
        )
    return chip.limits


def largest_cta_smem() -> int:
    """Bytes of shared memory that a CTA may have on the chip that allows most."""
    return max(chip.limits.cta_smem for chip in load_chips().values() if chip.limits)


def sms_of(product: str) -> int:
    """SMs of a product, such as ``H200``; raises KeyError if their number is not known."""
    return {item.name: item.sms for chip in load_chips().values() for item in chip.products if item.sms}[product]
