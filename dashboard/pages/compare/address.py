"""Addresses of the Compare page: ``/compare?launch=KEY/NUMBER&launch=…``, first A, the reference of
all others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import LAUNCH_ID, Address, flag, listed

MOST = 8
"""Maximum sides in a figure."""


@dataclass(frozen=True)
class CompareAddress(Address):
    """Ids of launches, without repetition; whether timelines are drawn on a common length.

    ``dropped`` has one entry for each text that is no id and each id beyond ``MOST``.
    """

    PATH: ClassVar[str] = "/compare"
    launches: tuple[str, ...] = listed("launch", lambda given: given if re.fullmatch(LAUNCH_ID, given) else None, MOST)
    relative: bool = flag("axis", "relative")
    dropped: tuple[str, ...] = ()
