"""Addresses of the Program page: ``/program?run=ID&device=N&by=cause``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncubble.analysis.program.tree import VIEWS
from ncubble.dashboard.pages.address_codec import Address, choice, matching, number


@dataclass(frozen=True)
class ProgramAddress(Address):
    """A recorded program by the id of its run, one of its devices by its place, and what the figure
    shows first."""

    PATH: ClassVar[str] = "/program"
    LONGEST: ClassVar[int] = 1024
    run: str = matching("run", "[0-9a-f]{16}")
    device: int | None = number("device", digits=4)
    by: str = choice("by", VIEWS)
