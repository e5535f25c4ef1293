"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.pages.compare.callbacks import register
from ncubble.dashboard.pages.compare.layout import layout
from ncubble.dashboard.pages.page import Page

PAGE = Page("Compare", CompareAddress, of_store=layout, register=register)
