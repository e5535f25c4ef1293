"""The address of the Open page, which has no parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import Address


@dataclass(frozen=True)
class OpenAddress(Address):
    """``/open``."""

    PATH: ClassVar[str] = "/open"
