"""Addresses of the Checks page: ``/checks?kernel=…&gpu=…&metric=…&axis=order&q=…``, all of them
optional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncubble.analysis.history.checked import NAME
from ncubble.dashboard.pages.address_codec import Address, flag, matching, parameter

LONGEST_SEARCH = 100


@dataclass(frozen=True)
class ChecksAddress(Address):
    """``kernel`` and ``gpu`` are names as in ``analysis.history.checked``. ``even`` draws checks in
    order at even distances instead of by time."""

    PATH: ClassVar[str] = "/checks"
    LONGEST: ClassVar[int] = 2048
    kernel: str = matching("kernel", NAME)
    gpu: str = matching("gpu", NAME)
    metric: str = matching("metric", r"[a-z][a-z0-9_]{0,63}")
    even: bool = flag("axis", "order")
    search: str = parameter("q", "", lambda given: given[:LONGEST_SEARCH].strip())
