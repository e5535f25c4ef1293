"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.timelines.address import TimelinesAddress
from ncubble.dashboard.pages.timelines.callbacks import register
from ncubble.dashboard.pages.timelines.layout import layout

PAGE = Page("Timelines", TimelinesAddress, of_store=layout, register=register)
