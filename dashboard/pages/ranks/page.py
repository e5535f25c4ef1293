"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.ranks.address import RanksAddress
from ncubble.dashboard.pages.ranks.layout import layout

PAGE = Page("Ranks", RanksAddress, of_store=layout)
