"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.overview.address import OverviewAddress
from ncubble.dashboard.pages.overview.callbacks import register
from ncubble.dashboard.pages.overview.layout import layout
from ncubble.dashboard.pages.page import Page

PAGE = Page("Launches", OverviewAddress, of_store=layout, register=register, table_first=True)
