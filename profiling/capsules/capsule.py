"""A capsule: one recorded launch of a program, with everything needed to replay it.

Files of its folder:

- ``launch.json``: function, grid, block, cluster, attributes, where each parameter stands, the
  memory regions (``base`` address, ``size``), the module's global variables
- ``kernel.cubin``, ``parameters.bin``, ``globals.bin`` (one variable behind the other)
- ``before-ADDRESS.bin``: a region as it was before the launch
- ``after-ADDRESS.bin``: its pages (64 KiB) that the launch changed, each behind its 64-bit offset
- ``complete``: empty, written last
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError

PAGE = 64 << 10
_OFFSET = struct.Struct("<Q")


@dataclass(frozen=True)
class Region:
    """An allocation reachable by the launch: address and size in bytes."""

    base: int
    size: int


@dataclass(frozen=True)
class Capsule:
    """The launch in ``folder``. ``facts``: the members of ``launch.json``."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Capsule:
        """Raise MeasurementError if it is not a capsule, or incomplete."""
        try:
            if not (folder / "complete").is_file():
                raise MeasurementError(f"{folder}: the recorded launch is incomplete", "record it again")
            facts = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
            if not isinstance(facts, dict):
                raise ValueError("launch.json is not a JSON object")
            return cls(folder, facts)
        except (OSError, ValueError) as error:
            raise MeasurementError(f"{folder}: no recorded launch ({error})", "record it again") from error

    @property
    def function(self) -> str:
        """Mangled name."""
        return str(self.facts["function"])

    @property
    def kernel(self) -> str:
        """Demangled name."""
        return str(self.facts["kernel"])

    @property
    def cubin(self) -> Path:
        """The launched machine code."""
        return self.folder / "kernel.cubin"

    @property
    def regions(self) -> list[Region]:
        """All memory reachable by the launch, by address."""
        return [Region(int(row["base"]), int(row["size"])) for row in self.facts["regions"]]

    @property
    def size(self) -> int:
        """Size of all regions."""
        return sum(region.size for region in self.regions)

    def before(self, region: Region) -> Path:
        """The file of a region's content before the launch."""
        return self.folder / f"before-{region.base:012x}.bin"

    def changes(self, region: Region) -> Iterator[tuple[int, bytes]]:
        """Offset and content of each page of a region changed by the launch."""
        with (self.folder / f"after-{region.base:012x}.bin").open("rb") as file:
            while head := file.read(_OFFSET.size):
                (offset,) = _OFFSET.unpack(head)
                yield offset, file.read(min(PAGE, region.size - offset))
